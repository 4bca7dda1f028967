#include "format/storages.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"

void td_storage_table_finish(td_storage_table *table)
{
  free(table->at);
  free(table->by_small_sid);
  td_map_finish(&table->by_large_sid);
  free(table->activations.at);
  free(table->retained.at);
  *table = (td_storage_table){0};
}

/* Makes room for small SIDs, as many as there are storages and some; those that the map held stay there. */
static bool grow_small(td_storage_table *table, uint64_t sid)
{
  if (sid < table->n_small || sid > 2 * table->count + 1024) return true;
  size_t capacity = table->n_small;
  if (!TD_GROW(table->by_small_sid, capacity, (size_t)sid + 1)) return false;
  for (size_t i = table->n_small; i < capacity; i++) table->by_small_sid[i] = td_map_get(&table->by_large_sid, i);
  table->n_small = capacity;
  return true;
}

static bool set_index(td_storage_table *table, uint64_t sid, uint32_t index)
{
  if (!grow_small(table, sid)) return false;
  if (sid >= table->n_small) return td_map_put(&table->by_large_sid, sid, index);
  table->by_small_sid[sid] = index;
  return true;
}

bool td_storage_put(td_storage_table *table, uint64_t sid, uint64_t bytes, uint64_t freed_before_op)
{
  uint32_t index = td_storage_index(table, sid);
  if (index == TD_MAP_NONE) {
    if (table->count >= TD_MAP_NONE || !TD_GROW(table->at, table->capacity, table->count + 1) ||
        !set_index(table, sid, (uint32_t)table->count))
      return false;
    index = (uint32_t)table->count++;
    table->at[index] = (td_storage_info){.sid = sid};
  }
  table->at[index].bytes = bytes;
  table->at[index].freed_before_op = freed_before_op;
  return true;
}

static td_status list(td_storage_list *list, uint32_t index, td_error *err)
{
  if (!TD_GROW(list->at, list->capacity, list->count + 1)) return td_fail_nomem(err);
  list->at[list->count++] = index;
  return TD_OK;
}

td_status td_storage_list_activation(td_storage_table *table, uint32_t index, td_error *err)
{
  td_storage_info *storage = &table->at[index];
  if (storage->activation)
    return td_fail(err, TD_E_INPUT, "SID %llu is twice among the activations", (unsigned long long)storage->sid);
  storage->activation = true;
  return list(&table->activations, index, err);
}

td_status td_storage_list_retained(td_storage_table *table, uint32_t index, td_error *err)
{
  td_storage_info *storage = &table->at[index];
  if (storage->retained)
    return td_fail(err, TD_E_INPUT, "SID %llu is twice among the retained", (unsigned long long)storage->sid);
  storage->retained = true;
  return list(&table->retained, index, err);
}

td_status td_storage_table_check(const td_storage_table *table, uint64_t n_ops, td_error *err)
{
  for (size_t i = 0; i < table->count; i++) {
    const td_storage_info *storage = &table->at[i];
    unsigned long long sid = storage->sid, freed = storage->freed_before_op;
    if (storage->retained && !storage->activation)
      return td_fail(err, TD_E_INPUT, "SID %llu is retained, but no activation", sid);
    if (storage->freed_before_op == TD_NEVER) continue;
    if (!storage->activation) return td_fail(err, TD_E_INPUT, "SID %llu has a free, but is no activation", sid);
    if (storage->retained) return td_fail(err, TD_E_INPUT, "SID %llu is retained and has a free", sid);
    if (freed > n_ops)
      return td_fail(err, TD_E_INPUT, "SID %llu is freed before op %llu, but there are %llu ops", sid, freed,
                     (unsigned long long)n_ops);
  }
  return TD_OK;
}
