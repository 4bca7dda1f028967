#include "play.h"

#include <stdlib.h>
#include <string.h>

/* ---- the pattern ---------------------------------------------------------------------------------------------- */

/* Word number `i` of a version; the multipliers are those of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t word(uint64_t sid, uint64_t version, uint64_t i)
{
  uint64_t x = (sid + 1) * 0xbf58476d1ce4e5b9u + version * 0x94d049bb133111ebu + i * 0x9e3779b97f4a7c15u;
  return x ^ x >> 31;
}

static void fill(uint8_t *at, uint64_t bytes, uint64_t sid, uint64_t version)
{
  for (uint64_t i = 0; i < bytes / 8; i++) {
    uint64_t value = word(sid, version, i);
    memcpy(at + 8 * i, &value, 8);
  }
  uint64_t last = word(sid, version, bytes / 8);
  if (bytes % 8) memcpy(at + bytes / 8 * 8, &last, (size_t)(bytes % 8));
}

/* The whole words at once, since nearly always all are right. */
static bool is_right(const uint8_t *at, uint64_t bytes, uint64_t sid, uint64_t version)
{
  uint64_t wrong = 0, last = word(sid, version, bytes / 8);
  for (uint64_t i = 0; i < bytes / 8; i++) {
    uint64_t found;
    memcpy(&found, at + 8 * i, 8);
    wrong |= found ^ word(sid, version, i);
  }
  return !wrong && (bytes % 8 == 0 || memcmp(at + bytes / 8 * 8, &last, (size_t)(bytes % 8)) == 0);
}

static uint64_t count_wrong(const uint8_t *at, uint64_t bytes, uint64_t sid, uint64_t version)
{
  uint64_t wrong = 0;
  if (is_right(at, bytes, sid, version)) return 0;
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t value = word(sid, version, i / 8);
    size_t n = bytes - i < 8 ? (size_t)(bytes - i) : 8;
    if (memcmp(at + i, &value, n) == 0) continue;
    for (size_t k = 0; k < n; k++) wrong += at[i + k] != (uint8_t)(value >> (8 * k));
  }
  return wrong;
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

static td_status check(play *p, uint64_t op, uint32_t number)
{
  const td_storage_info *storage = &p->trace->storages[number];
  const uint8_t *at = p->on_host ? td_data(p->deck, p->storage[number]) : p->scratch;
  td_status status = p->on_host ? TD_OK : td_fetch(p->deck, p->storage[number], p->scratch, storage->bytes);
  if (status) return status;
  uint64_t wrong = !storage->bytes ? 0 : at ? count_wrong(at, storage->bytes, storage->sid, p->version[number]) : storage->bytes;
  if (wrong && !p->wrong_bytes) {
    p->first_wrong_op = op;
    p->first_wrong_sid = storage->sid;
  }
  p->wrong_bytes += wrong;
  p->checked_bytes += storage->bytes;
  return TD_OK;
}

static td_status write_pattern(play *p, uint32_t number)
{
  const td_storage_info *storage = &p->trace->storages[number];
  uint8_t *at = p->on_host ? td_data(p->deck, p->storage[number]) : p->scratch;
  if (!at) return TD_OK;
  fill(at, storage->bytes, storage->sid, ++p->version[number]);
  return p->on_host ? TD_OK : td_store(p->deck, p->storage[number], at, storage->bytes);
}

/* What the op would compute: it reads everything, then writes. */
static td_status touch(play *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  td_status status = TD_OK;
  for (int kind = TD_READ; kind <= TD_WRITE; kind++) {
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access && !status; i++) {
      uint32_t number = trace->accesses[i].storage;
      if (!trace->storages[number].activation || (int)trace->accesses[i].kind != kind) continue;
      if (kind == TD_WRITE) status = write_pattern(p, number);
      else if (p->version[number]) status = check(p, op, number);
    }
  }
  return status;
}

/* ---- the step ------------------------------------------------------------------------------------------------- */

static td_status name_accesses(play *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  td_status status = TD_OK;
  for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access && !status; i++) {
    uint32_t number = trace->accesses[i].storage;
    if (p->storage[number].id == 0 && trace->storages[number].activation)
      status = td_storage_alloc(p->deck, trace->storages[number].bytes, &p->storage[number]);
    if (!status)
      status = trace->accesses[i].kind == TD_READ ? td_read(p->deck, p->storage[number]) : td_write(p->deck, p->storage[number]);
  }
  return status;
}

static td_status name_outputs(play *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  td_status status = td_leaves(p->deck, trace->ops[op].leaves);
  for (uint64_t i = trace->ops[op].first_output; i < trace->ops[op + 1].first_output && !status; i++) {
    uint32_t number = trace->outputs[i].storage;
    if (p->storage[number].id == 0) status = td_storage_alloc(p->deck, trace->storages[number].bytes, &p->storage[number]);
    if (!status) status = td_output(p->deck, trace->outputs[i].leaf, p->storage[number]);
  }
  return status;
}

static td_status play_op(play *p, uint64_t op)
{
  const td_name *name = &p->trace->names[p->trace->ops[op].name];
  td_status status = td_op_begin_n(p->deck, name->bytes, name->length);
  if (!status) status = name_accesses(p, op);
  if (!status) status = name_outputs(p, op);
  if (!status) status = td_op_run(p->deck);
  if (!status && p->started) p->started(p->context);
  if (!status) status = touch(p, op);
  if (status) return status;
  if (p->compute) p->compute(p->context, p->trace->ops[op].dur_ns);
  return td_op_end(p->deck, TD_MEASURE);
}

static td_status play_frees(play *p, uint64_t op)
{
  td_status status = TD_OK;
  for (; p->next_free < p->n_frees && p->end[p->frees[p->next_free]] <= op && !status; p->next_free++) {
    uint32_t number = p->frees[p->next_free];
    if (p->storage[number].id) status = td_storage_freed(p->deck, p->storage[number]);
  }
  return status;
}

static td_status born(play *p)
{
  td_status status = TD_OK;
  for (uint32_t i = 0; i < p->trace->n_storages && !status; i++)
    if (!p->trace->storages[i].activation) status = td_storage_born(p->deck, 0, p->trace->storages[i].bytes, &p->storage[i]);
  return status;
}

/* What is retained must be whole at the end, wherever it is. */
static td_status check_retained(play *p)
{
  td_status status = TD_OK;
  for (uint32_t i = 0; i < p->trace->n_retained && !status; i++) {
    uint32_t number = p->trace->retained[i];
    if (p->storage[number].id && p->version[number]) status = check(p, p->trace->n_ops, number);
  }
  return status;
}

/* What the step leaves, and what it found. */
static void forget(play *p)
{
  for (uint32_t i = 0; i < p->trace->n_storages; i++) {
    const td_storage_info *storage = &p->trace->storages[i];
    if (p->storage[i].id && (!storage->activation || storage->retained)) td_storage_freed(p->deck, p->storage[i]);
  }
}

static td_status run_ops(play *p)
{
  td_status status = TD_OK;
  for (uint64_t op = 0; op < p->trace->n_ops && !status; op++) {
    status = play_frees(p, op);
    if (!status) status = play_op(p, op);
  }
  return status ? status : play_frees(p, p->trace->n_ops);
}

td_status play_step(play *p)
{
  memset(p->storage, 0, ((size_t)p->trace->n_storages + 1) * sizeof *p->storage);
  memset(p->version, 0, ((size_t)p->trace->n_storages + 1) * sizeof *p->version);
  p->next_free = 0;
  td_status status = born(p);
  if (!status) status = td_step_begin(p->deck);
  if (!status) status = run_ops(p);
  if (status) {
    p->error = *td_deck_error(p->deck);
    if (td_in_step(p->deck)) td_step_abort(p->deck);
    forget(p);
    return status;
  }
  status = td_step_end(p->deck);
  p->error = *td_deck_error(p->deck);
  td_status checked = check_retained(p);
  forget(p);
  return status ? status : checked;
}

/* ---- preparing ------------------------------------------------------------------------------------------------ */

static int by_end(const void *a, const void *b, void *ends)
{
  uint64_t x = ((const uint64_t *)ends)[*(const uint32_t *)a], y = ((const uint64_t *)ends)[*(const uint32_t *)b];
  return (x > y) - (x < y);
}

/* A storage goes when the framework freed it; where the trace does not say, after its last access. */
static void list_frees(play *p)
{
  const td_trace *trace = p->trace;
  for (uint64_t op = 0; op < trace->n_ops; op++)
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      p->end[trace->accesses[i].storage] = op + 1;
  for (uint32_t i = 0; i < trace->n_activations; i++) {
    const td_storage_info *storage = &trace->storages[trace->activations[i]];
    if (storage->retained) continue;
    if (storage->freed_before_op != TD_NEVER && storage->freed_before_op > p->end[trace->activations[i]])
      p->end[trace->activations[i]] = storage->freed_before_op;
    p->frees[p->n_frees++] = trace->activations[i];
  }
  if (p->n_frees) qsort_r(p->frees, p->n_frees, sizeof *p->frees, by_end, p->end);
}

bool play_init(play *p)
{
  size_t n = (size_t)p->trace->n_storages + 1;
  uint64_t largest = 1;
  for (uint32_t i = 0; i < p->trace->n_activations && !p->on_host; i++) {
    uint64_t bytes = p->trace->storages[p->trace->activations[i]].bytes;
    if (bytes > largest) largest = bytes;
  }
  p->storage = calloc(n, sizeof *p->storage);
  p->version = calloc(n, sizeof *p->version);
  p->end = calloc(n, sizeof *p->end);
  p->frees = calloc(n, sizeof *p->frees);
  p->scratch = malloc(largest);
  if (!p->storage || !p->version || !p->end || !p->frees || !p->scratch) return false;
  list_frees(p);
  return true;
}

void play_finish(play *p)
{
  free(p->storage);
  free(p->version);
  free(p->end);
  free(p->frees);
  free(p->scratch);
}
