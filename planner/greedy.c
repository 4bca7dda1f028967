/* The greedy planner: the selection order of HyperParallel's hyper_offload, kept for comparison.
 *
 * A gap is what lies between two accesses of a storage. The longest gap in ops is tried first, then the larger storage, then
 * the earlier release; a gap is taken if some op inside it is over the budget. Each taken gap copies out after the last write
 * before it, and in at the op that ends it. Unlike the original it counts retained storages to the end, bounds the host's
 * bytes, copies each version out once, and knows when it cannot succeed.
 *
 * Usage only falls while gaps are taken, so a gap that was passed over never becomes useful: if an op is over the budget at
 * the end, every gap that covers it was taken. So without a host limit the smallest budget is the peak with all gaps taken. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/planners.h"
#include "planner/segtree.h"

typedef struct gap {
  uint64_t from, to; /* ops that access the storage, none between them */
  uint64_t bytes;
  size_t use; /* number of the use at `from` */
  uint32_t storage;
} gap;

typedef struct greedy {
  const td_liveness *liveness;
  const td_trace *trace;
  gap *gaps; /* in the order in which they are tried */
  size_t n_gaps, gaps_capacity;
  bool *taken;          /* by number of a use: the gap after it */
  uint64_t *host_from;  /* by storage: the op after which it first has a host copy; TD_NEVER */
  td_segtree device, host;
} greedy;

/* ---- gaps ----------------------------------------------------------------------------------------------------- */

static int by_preference(const void *a, const void *b)
{
  const gap *x = a, *y = b;
  uint64_t length_x = x->to - x->from, length_y = y->to - y->from;
  if (length_x != length_y) return length_x > length_y ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static td_status list_gaps(greedy *g, td_error *err)
{
  for (uint32_t i = 0; i < g->trace->n_storages; i++) {
    size_t n;
    const td_use *uses = td_uses_of(g->liveness, i, &n);
    uint64_t bytes = g->trace->storages[i].bytes;
    for (size_t k = 0; k + 1 < n && bytes && !g->liveness->stays[i]; k++) {
      if (uses[k + 1].op - uses[k].op < 2) continue;
      if (!TD_GROW(g->gaps, g->gaps_capacity, g->n_gaps + 1)) return td_fail_nomem(err);
      g->gaps[g->n_gaps++] = (gap){.from = uses[k].op,
                                   .to = uses[k + 1].op,
                                   .bytes = bytes,
                                   .use = g->liveness->first_use[i] + k,
                                   .storage = i};
    }
  }
  if (g->n_gaps) qsort(g->gaps, g->n_gaps, sizeof *g->gaps, by_preference);
  return TD_OK;
}

/* The last write at or before the use that starts the gap; the first use where there is none. */
static uint64_t last_write(const greedy *g, const gap *gap)
{
  size_t use = gap->use, first = g->liveness->first_use[gap->storage];
  while (use > first && !g->liveness->uses[use].writes) use--;
  return g->liveness->uses[use].op;
}

static uint64_t last_use(const greedy *g, uint32_t storage)
{
  size_t n;
  const td_use *uses = td_uses_of(g->liveness, storage, &n);
  return uses[n - 1].op;
}

/* ---- selection ------------------------------------------------------------------------------------------------ */

/* Forgets what was selected: every activation is on the device from its first use until it ends. */
static void start_over(greedy *g)
{
  td_segtree_clear(&g->device);
  td_segtree_clear(&g->host);
  memset(g->taken, 0, (g->liveness->first_use[g->trace->n_storages] + 1) * sizeof *g->taken);
  for (uint32_t i = 0; i < g->trace->n_storages; i++) {
    size_t n;
    const td_use *uses = td_uses_of(g->liveness, i, &n);
    g->host_from[i] = TD_NEVER;
    if (n)
      td_segtree_add(&g->device, (size_t)uses[0].op, (size_t)g->liveness->end[i], (int64_t)g->trace->storages[i].bytes);
  }
}

/* The host copy stands from the last write before the gap to the last access; two gaps of one storage share it. */
static bool take_host(greedy *g, const gap *gap, uint64_t host_limit)
{
  uint64_t from = last_write(g, gap), known = g->host_from[gap->storage];
  uint64_t to = known == TD_NEVER ? last_use(g, gap->storage) + 1 : known;
  if (from >= to) return true;
  if (gap->bytes > host_limit ||
      td_segtree_max(&g->host, (size_t)from, (size_t)to) > (int64_t)(host_limit < INT64_MAX ? host_limit - gap->bytes : INT64_MAX))
    return false;
  td_segtree_add(&g->host, (size_t)from, (size_t)to, (int64_t)gap->bytes);
  g->host_from[gap->storage] = from;
  return true;
}

static uint64_t usage(const greedy *g)
{
  return (uint64_t)g->device.most[1];
}

static bool select_gaps(greedy *g, uint64_t budget, uint64_t host_limit)
{
  start_over(g);
  for (size_t i = 0; i < g->n_gaps && usage(g) > budget; i++) {
    const gap *gap = &g->gaps[i];
    int64_t most = td_segtree_max(&g->device, (size_t)gap->from + 1, (size_t)gap->to);
    if (most < 0 || (uint64_t)most <= budget || !take_host(g, gap, host_limit)) continue;
    td_segtree_add(&g->device, (size_t)gap->from + 1, (size_t)gap->to, -(int64_t)gap->bytes);
    g->taken[gap->use] = true;
  }
  return usage(g) <= budget;
}

/* With a host limit, a larger budget may select other gaps and fail; what is returned is known to work. */
static uint64_t smallest_budget(greedy *g, uint64_t budget, uint64_t host_limit)
{
  select_gaps(g, 0, host_limit);
  uint64_t low = usage(g);
  if (select_gaps(g, low, host_limit)) return low;
  start_over(g);
  uint64_t high = usage(g); /* works without a copy */
  low = budget;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (select_gaps(g, middle, host_limit)) high = middle;
    else low = middle;
  }
  return high;
}

/* ---- actions -------------------------------------------------------------------------------------------------- */

static bool emit(td_schedule *schedule, size_t *capacity, uint64_t op, td_phase phase, td_action_kind kind, uint64_t sid)
{
  if (!TD_GROW(schedule->actions, *capacity, schedule->n_actions + 1)) return false;
  schedule->actions[schedule->n_actions++] = (td_action){.op = op, .sid = sid, .phase = (uint8_t)phase, .kind = (uint8_t)kind};
  return true;
}

static bool emit_storage(const greedy *g, uint32_t storage, td_schedule *schedule, size_t *capacity)
{
  size_t n, first = g->liveness->first_use[storage];
  const td_use *uses = td_uses_of(g->liveness, storage, &n);
  const td_storage_info *info = &g->trace->storages[storage];
  bool fits = true, copied = false, ever = false;
  uint64_t written = n ? uses[0].op : 0;
  for (size_t k = 0; k < n; k++) {
    if (uses[k].writes) {
      written = uses[k].op;
      copied = false;
    }
    if (!g->taken[first + k]) continue;
    if (!copied) fits &= emit(schedule, capacity, written, TD_POST, TD_COPY_D2H, info->sid);
    fits &= emit(schedule, capacity, uses[k].op, TD_POST, TD_RELEASE_DEVICE, info->sid);
    fits &= emit(schedule, capacity, uses[k + 1].op, TD_PRE, TD_COPY_H2D, info->sid);
    copied = ever = true;
  }
  if (!n || !info->bytes) return fits;
  if (!info->retained) fits &= emit(schedule, capacity, uses[n - 1].op, TD_POST, TD_RELEASE_DEVICE, info->sid);
  if (ever) fits &= emit(schedule, capacity, uses[n - 1].op, TD_POST, TD_RELEASE_HOST, info->sid);
  return fits;
}

static int by_place(const void *a, const void *b)
{
  const td_action *x = a, *y = b;
  if (x->op != y->op) return x->op < y->op ? -1 : 1;
  if (x->phase != y->phase) return (int)x->phase - (int)y->phase;
  if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
  return (x->sid > y->sid) - (x->sid < y->sid);
}

static td_status emit_all(const greedy *g, td_schedule *schedule, td_error *err)
{
  size_t capacity = 0;
  for (uint32_t i = 0; i < g->trace->n_storages; i++)
    if (!emit_storage(g, i, schedule, &capacity)) return td_fail_nomem(err);
  if (schedule->n_actions) qsort(schedule->actions, schedule->n_actions, sizeof *schedule->actions, by_place);
  return TD_OK;
}

/* ---- the planner ---------------------------------------------------------------------------------------------- */

static td_status prepare(greedy *g, td_error *err)
{
  size_t n_uses = g->liveness->first_use[g->trace->n_storages], positions = (size_t)g->trace->n_ops + 1;
  g->taken = malloc((n_uses + 1) * sizeof *g->taken);
  g->host_from = malloc(((size_t)g->trace->n_storages + 1) * sizeof *g->host_from);
  bool fits = td_segtree_init(&g->device, positions);
  fits = td_segtree_init(&g->host, positions) && fits;
  if (!fits || !g->taken || !g->host_from) return td_fail_nomem(err);
  return list_gaps(g, err);
}

static td_status plan(const td_liveness *liveness, const td_plan_options *options, td_schedule *schedule,
                      td_plan_report *report, td_error *err)
{
  greedy g = {.liveness = liveness, .trace = liveness->trace};
  td_status status = options->budget_bytes == UINT64_MAX ? TD_OK : prepare(&g, err);
  if (!status && options->budget_bytes != UINT64_MAX) {
    if (select_gaps(&g, options->budget_bytes, options->host_bytes)) {
      status = emit_all(&g, schedule, err);
    } else {
      report->min_budget_op = td_segtree_argmax(&g.device);
      report->min_budget_bytes = smallest_budget(&g, options->budget_bytes, options->host_bytes);
      status = TD_E_BUDGET;
    }
  }
  free(g.gaps);
  free(g.taken);
  free(g.host_from);
  td_segtree_finish(&g.device);
  td_segtree_finish(&g.host);
  return status;
}

const td_planner td_greedy_planner = {.name = "greedy", .always_early = true, .plan = plan};
