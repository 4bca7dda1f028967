#include "planner/liveness.h"

#include <stdlib.h>

#include "base/fail.h"

#define BYTES_MAX ((uint64_t)1 << 60)

void td_liveness_finish(td_liveness *liveness)
{
  free(liveness->uses);
  free(liveness->first_use);
  free(liveness->end);
  free(liveness->freed);
  free(liveness->stays);
  td_map_finish(&liveness->by_sid);
  *liveness = (td_liveness){0};
}

/* Visits each (op, storage) pair once, in order of ops: counts them in `next`, or puts them in place. */
static void walk(td_liveness *l, uint64_t *stamp, size_t *next, bool place)
{
  const td_trace *trace = l->trace;
  for (uint64_t op = 0; op < trace->n_ops; op++) {
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
      uint32_t storage = trace->accesses[i].storage;
      if (!trace->storages[storage].activation) continue;
      bool again = stamp[storage] == op + 1;
      if (!again) next[storage]++;
      stamp[storage] = op + 1;
      if (!place) continue;
      td_use *use = &l->uses[next[storage] - 1];
      *use = (td_use){.op = op, .writes = (again && use->writes) || trace->accesses[i].kind == TD_WRITE};
    }
  }
}

static td_status gather_uses(td_liveness *l, uint64_t *stamp, size_t *next, td_error *err)
{
  uint32_t n = l->trace->n_storages;
  walk(l, stamp, next, false);
  for (uint32_t i = 0; i < n; i++) {
    l->first_use[i + 1] = l->first_use[i] + next[i];
    next[i] = l->first_use[i];
    stamp[i] = 0;
  }
  l->uses = malloc((l->first_use[n] + 1) * sizeof *l->uses);
  if (!l->uses) return td_fail_nomem(err);
  walk(l, stamp, next, true);
  return TD_OK;
}

static void find_ends(td_liveness *l, bool early)
{
  for (uint32_t i = 0; i < l->trace->n_storages; i++) {
    const td_storage_info *storage = &l->trace->storages[i];
    size_t n;
    const td_use *uses = td_uses_of(l, i, &n);
    l->end[i] = n ? uses[n - 1].op + 1 : 0;
    if (storage->retained) {
      l->end[i] = l->trace->n_ops + 1;
    } else if (!early && storage->freed_before_op != TD_NEVER) {
      if (storage->freed_before_op > l->end[i]) l->end[i] = storage->freed_before_op;
      l->freed[i] = true;
    }
  }
}

static td_status check_bytes(const td_trace *trace, td_error *err)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < trace->n_activations; i++) {
    uint64_t bytes = trace->storages[trace->activations[i]].bytes;
    if (bytes > BYTES_MAX || sum > BYTES_MAX - bytes)
      return td_fail(err, TD_E_INPUT, "the activations have more than 2^60 bytes together");
    sum += bytes;
  }
  return TD_OK;
}

td_status td_liveness_init(td_liveness *l, const td_trace *trace, bool early, td_error *err)
{
  size_t n = trace->n_storages;
  *l = (td_liveness){.trace = trace,
                     .first_use = calloc(n + 1, sizeof *l->first_use),
                     .end = calloc(n + 1, sizeof *l->end),
                     .freed = calloc(n + 1, sizeof *l->freed),
                     .stays = calloc(n + 1, sizeof *l->stays)};
  uint64_t *stamp = calloc(n + 1, sizeof *stamp);
  size_t *next = calloc(n + 1, sizeof *next);
  bool fits = l->first_use && l->end && l->freed && l->stays && stamp && next;
  for (uint32_t i = 0; i < trace->n_activations && fits; i++)
    fits = td_map_put(&l->by_sid, trace->storages[trace->activations[i]].sid, trace->activations[i]);
  td_status status = fits ? check_bytes(trace, err) : td_fail_nomem(err);
  if (!status) status = gather_uses(l, stamp, next, err);
  if (!status) find_ends(l, early);
  free(stamp);
  free(next);
  return status;
}
