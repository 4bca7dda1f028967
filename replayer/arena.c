#include "replayer/arena.h"

#include <stdlib.h>

#include "base/fail.h"
#include "runtime/host_pool.h"

#define BOUNDLESS ((uint64_t)1 << 60) /* bytes, none of which are touched */
#define START ((char *)64)

static td_status nowhere_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  (void)device, (void)bytes, (void)err;
  *out = START;
  return TD_OK;
}

static void nowhere_free(td_device *device, void *memory, size_t bytes)
{
  (void)device, (void)memory, (void)bytes;
}

/* Memory that is only counted. */
static const td_device_ops nowhere_ops = {.name = "nowhere", .host_alloc = nowhere_alloc, .host_free = nowhere_free};

typedef struct walk {
  const td_plan_arrays *plan;
  td_host_pool *pool;
  char **place; /* of each storage's host copy; NULL: none */
  uint64_t high;
  bool endless; /* more than any machine has: nothing is reserved, and the copies will say so */
} walk;

static td_status copy_out(walk *w, uint32_t storage, td_error *err)
{
  if (w->place[storage]) return TD_OK; /* a stale copy's bytes are used again */
  void *place;
  uint64_t bytes = w->plan->storages[storage].bytes;
  if (!td_host_pool_fits(w->pool, bytes)) w->endless = true;
  if (w->endless) return TD_OK;
  td_status status = td_host_pool_alloc(w->pool, bytes, &place, err);
  if (status) return status;
  w->place[storage] = place;
  uint64_t end = (uint64_t)(w->place[storage] - START) + td_host_pool_rounded(bytes);
  if (end > w->high) w->high = end;
  return TD_OK;
}

static void give_back(walk *w, uint32_t storage)
{
  if (!w->place[storage]) return;
  td_host_pool_free(w->pool, w->place[storage], w->plan->storages[storage].bytes);
  w->place[storage] = NULL;
}

/* A storage and the op before which it goes. */
typedef struct free_at {
  uint64_t op;
  uint32_t storage;
} free_at;

static int by_op(const void *a, const void *b)
{
  const free_at *x = a, *y = b;
  return x->op != y->op ? (x->op > y->op) - (x->op < y->op) : (x->storage > y->storage) - (x->storage < y->storage);
}

/* The frees of what is copied out. */
static size_t list_frees(const td_plan_arrays *plan, free_at *frees)
{
  size_t n = 0;
  for (uint32_t i = 0; i < plan->n_actions; i++) {
    const td_storage_info *storage = &plan->storages[plan->actions[i].storage];
    if (plan->actions[i].kind == TD_COPY_D2H && storage->freed_before_op != TD_NEVER)
      frees[n++] = (free_at){.op = storage->freed_before_op, .storage = plan->actions[i].storage};
  }
  if (n) qsort(frees, n, sizeof *frees, by_op);
  return n;
}

static td_status walk_plan(walk *w, const free_at *frees, size_t n_frees, td_error *err)
{
  size_t freed = 0;
  td_status status = TD_OK;
  for (uint64_t op = 0; op <= w->plan->n_ops && !status; op++) {
    for (; freed < n_frees && frees[freed].op <= op; freed++) give_back(w, frees[freed].storage);
    for (uint32_t i = w->plan->ops[op].first_action; i < w->plan->ops[op + 1].first_action && !status; i++) {
      const td_planned_action *action = &w->plan->actions[i];
      if (action->kind == TD_COPY_D2H) status = copy_out(w, action->storage, err);
      if (action->kind == TD_RELEASE_HOST) give_back(w, action->storage);
    }
  }
  return status;
}

td_status td_arena_bytes(const td_plan_arrays *plan, uint64_t *bytes, td_error *err)
{
  if (!plan->n_actions) {
    *bytes = 0;
    return TD_OK;
  }
  td_device nowhere = {.ops = &nowhere_ops};
  walk w = {.plan = plan, .place = calloc((size_t)plan->n_storages + 1, sizeof *w.place)};
  free_at *frees = calloc((size_t)plan->n_actions, sizeof *frees);
  td_status status = w.place && frees ? td_host_pool_create(&w.pool, &nowhere, err) : td_fail_nomem(err);
  if (!status) status = td_host_pool_reserve(w.pool, BOUNDLESS, err);
  if (!status) status = walk_plan(&w, frees, list_frees(plan, frees), err);
  if (!status) *bytes = w.endless ? 0 : w.high;
  td_host_pool_destroy(w.pool);
  free(w.place);
  free(frees);
  return status;
}
