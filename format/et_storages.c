#include "format/et_storages.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"

void td_et_storages_finish(td_et_storages *storages)
{
  free(storages->at);
  td_map_finish(&storages->current);
}

td_et_storage *td_et_storages_get(const td_et_storages *storages, uint64_t id)
{
  uint32_t index = td_map_get(&storages->current, id);
  return index == TD_MAP_NONE ? NULL : &storages->at[index];
}

/* The id stays legible at the SID's end: the second generation of 17 is 1017 where ids go up to 999. */
static bool sid_of(const td_et_storages *storages, uint64_t id, uint64_t generation, uint64_t *sid)
{
  uint64_t base = 1;
  while (generation && base <= storages->largest_id)
    if (__builtin_mul_overflow(base, 10, &base)) return false;
  return !__builtin_mul_overflow(base, generation, sid) && !__builtin_add_overflow(*sid, id, sid);
}

/* A storage not seen before, or a new generation of the id. */
static td_status begin(td_et_storages *storages, uint64_t id, uint64_t op, bool activation, td_et_storage **out, td_error *err)
{
  const td_et_storage *before = td_et_storages_get(storages, id);
  td_et_storage new = {.generation = before ? before->generation + 1 : 0, .born_in = op, .activation = activation};
  if (!sid_of(storages, id, new.generation, &new.sid))
    return td_fail(err, TD_E_INPUT, "storage id %llu is reused, and ids are too large to tell its storages apart",
                   (unsigned long long)id);
  if (storages->count >= TD_MAP_NONE || !TD_GROW(storages->at, storages->capacity, storages->count + 1) ||
      !td_map_put(&storages->current, id, (uint32_t)storages->count))
    return td_fail_nomem(err);
  storages->added += new.generation > 0;
  storages->split += new.generation == 1;
  storages->at[storages->count] = new;
  *out = &storages->at[storages->count++];
  return TD_OK;
}

/* Views are made by ops, so what ends beyond everything that was seen of a storage made in the trace lies in another one, which
 * came to be where the trace does not look, as inside an operator. */
static bool is_reused(const td_et_storages *storages, const td_et_storage *storage, const td_et_tensor *input, uint64_t op)
{
  return !storages->keep_ids && storage->activation && storage->input_of != op && input->bytes > storage->bytes;
}

td_status td_et_storages_input(td_et_storages *storages, const td_et_tensor *input, uint64_t op, td_et_storage **out, td_error *err)
{
  td_et_storage *storage = td_et_storages_get(storages, input->storage);
  if (!storage || is_reused(storages, storage, input, op)) {
    td_status status = begin(storages, input->storage, op, false, &storage, err);
    if (status) return status;
  }
  storage->input_of = op;
  if (input->bytes > storage->bytes) storage->bytes = input->bytes;
  *out = storage;
  return TD_OK;
}

/* Where the outputs end that lie in storages which are not among the inputs, all outputs of the op together. */
static td_status measure_fresh(td_et_storages *storages, const td_et_tensor *outputs, size_t n, uint64_t op, td_error *err)
{
  td_status status = TD_OK;
  for (size_t i = 0; i < n && !status; i++) {
    td_et_storage *storage = td_et_storages_get(storages, outputs[i].storage);
    if (!storage) {
      status = begin(storages, outputs[i].storage, op, true, &storage, err);
    } else if (storage->fresh_in != op) {
      storage->fresh_in = op;
      storage->fresh_bytes = outputs[i].bytes;
    } else if (outputs[i].bytes > storage->fresh_bytes) {
      storage->fresh_bytes = outputs[i].bytes;
    }
  }
  return status;
}

td_status td_et_storages_outputs(td_et_storages *storages, const td_et_tensor *outputs, size_t n, uint64_t op, bool allocates,
                                 td_error *err)
{
  td_status status = measure_fresh(storages, outputs, n, op, err);
  for (size_t i = 0; i < n && !status; i++) {
    td_et_storage *storage = td_et_storages_get(storages, outputs[i].storage);
    bool fresh = storage->input_of != op && storage->born_in != op;
    if (fresh && !storages->keep_ids && (allocates || storage->fresh_bytes != storage->bytes))
      status = begin(storages, outputs[i].storage, op, true, &storage, err);
    if (!status && outputs[i].bytes > storage->bytes) storage->bytes = outputs[i].bytes;
  }
  return status;
}
