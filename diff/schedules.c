/* Compares two schedules of one step, storage by storage. */
#include <tapedeck/diff.h>

#include <stdlib.h>

#include "base/fail.h"
#include "base/map.h"

/* One schedule, its actions gathered by storage of trace A. */
typedef struct gathered {
  const td_schedule *schedule;
  uint32_t *storage; /* by action; TD_NO_STORAGE: of no storage of the trace */
  size_t *first;     /* by storage, n_storages + 1 entries: where its actions begin in `order` */
  size_t *order;     /* action numbers by storage, in their order */
} gathered;

static void finish(gathered *g)
{
  free(g->storage);
  free(g->first);
  free(g->order);
}

/* SID -> storage of A, by way of B where the schedule is of B. */
static bool map_sids(td_map *map, const td_trace *a, const td_trace *b, const td_diff *traces)
{
  for (uint32_t i = 0; i < a->n_storages; i++) {
    if (b && traces->partner[i] == TD_NO_STORAGE) continue;
    if (!td_map_put(map, b ? b->storages[traces->partner[i]].sid : a->storages[i].sid, i)) return false;
  }
  return true;
}

static bool gather(gathered *g, const td_schedule *schedule, const td_map *sids, uint32_t n_storages)
{
  size_t n = schedule->n_actions;
  *g = (gathered){.schedule = schedule,
                  .storage = malloc((n + 1) * sizeof *g->storage),
                  .first = calloc((size_t)n_storages + 2, sizeof *g->first),
                  .order = malloc((n + 1) * sizeof *g->order)};
  if (!g->storage || !g->first || !g->order) return false;
  for (size_t i = 0; i < n; i++) {
    g->storage[i] = td_map_get(sids, schedule->actions[i].sid);
    if (g->storage[i] != TD_MAP_NONE) g->first[g->storage[i] + 2]++;
  }
  for (uint32_t i = 2; i < n_storages + 2; i++) g->first[i] += g->first[i - 1];
  for (size_t i = 0; i < n; i++)
    if (g->storage[i] != TD_MAP_NONE) g->order[g->first[g->storage[i] + 1]++] = i;
  return true;
}

static bool same_action(const td_action *a, const td_action *b)
{
  return a->op == b->op && a->phase == b->phase && a->kind == b->kind;
}

static td_moves moves_of(const gathered *g, uint32_t storage)
{
  td_moves moves = {TD_NO_OP, TD_NO_OP, TD_NO_OP, 0};
  for (size_t i = g->first[storage]; i < g->first[storage + 1]; i++) {
    const td_action *action = &g->schedule->actions[g->order[i]];
    if (action->kind == TD_COPY_D2H && !moves.times++) moves.out = action->op;
    if (action->kind == TD_RELEASE_DEVICE && moves.away == TD_NO_OP) moves.away = action->op;
    if (action->kind == TD_COPY_H2D && moves.back == TD_NO_OP) moves.back = action->op;
  }
  return moves;
}

/* The actions of one storage that both schedules have. */
static uint64_t count_common(const gathered *a, const gathered *b, uint32_t storage)
{
  uint64_t common = 0;
  for (size_t i = a->first[storage], k = b->first[storage]; i < a->first[storage + 1] && k < b->first[storage + 1];) {
    const td_action *x = &a->schedule->actions[a->order[i]], *y = &b->schedule->actions[b->order[k]];
    if (same_action(x, y)) common++, i++, k++;
    else if (x->op < y->op || (x->op == y->op && x->phase < y->phase)) i++;
    else k++;
  }
  return common;
}

static void compare_storage(td_schedule_diff *out, const gathered *a, const gathered *b, uint32_t storage)
{
  uint64_t n = a->first[storage + 1] - a->first[storage], m = b->first[storage + 1] - b->first[storage];
  uint64_t common = count_common(a, b, storage);
  td_moved moved = {storage, moves_of(a, storage), moves_of(b, storage)};
  bool both = moved.a.times && moved.b.times, alike = n == m && common == n;
  out->common += common;
  out->moved_a += moved.a.times > 0;
  out->moved_b += moved.b.times > 0;
  out->moved_both += both;
  out->alike += both && alike;
  if (!alike) out->moved[out->n_moved++] = moved;
}

static bool same_order(const gathered *a, const gathered *b)
{
  size_t n = a->schedule->n_actions;
  if (b->schedule->n_actions != n) return false;
  for (size_t i = 0; i < n; i++)
    if (a->storage[i] != b->storage[i] || !same_action(&a->schedule->actions[i], &b->schedule->actions[i])) return false;
  return true;
}

static const td_storage_info *sorting;

static int largest_first(const void *a, const void *b)
{
  const td_moved *x = a, *y = b;
  uint64_t p = sorting[x->storage].bytes, q = sorting[y->storage].bytes;
  if (p != q) return p > q ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static td_status compare(const td_trace *trace, const gathered *a, const gathered *b, td_schedule_diff *out, td_error *err)
{
  out->moved = malloc(((size_t)trace->n_storages + 1) * sizeof *out->moved);
  if (!out->moved) return td_fail_nomem(err);
  for (uint32_t i = 0; i < trace->n_storages; i++) compare_storage(out, a, b, i);
  out->only_a = a->schedule->n_actions - out->common;
  out->only_b = b->schedule->n_actions - out->common;
  out->same = same_order(a, b);
  sorting = trace->storages;
  if (out->n_moved) qsort(out->moved, out->n_moved, sizeof *out->moved, largest_first);
  return TD_OK;
}

td_status td_diff_schedules(const td_trace *a, const td_trace *b, const td_diff *traces, const td_schedule *of_a,
                            const td_schedule *of_b, td_schedule_diff **out, td_error *err)
{
  if (!traces->same) return td_fail(err, TD_E_ARG, "the schedules are of steps that differ");
  td_map sids_a = {0}, sids_b = {0};
  gathered in_a = {0}, in_b = {0};
  td_schedule_diff *diff = calloc(1, sizeof *diff);
  bool fits = diff && map_sids(&sids_a, a, NULL, traces) && map_sids(&sids_b, a, b, traces) &&
              gather(&in_a, of_a, &sids_a, a->n_storages) && gather(&in_b, of_b, &sids_b, a->n_storages);
  td_status status = fits ? compare(a, &in_a, &in_b, diff, err) : td_fail_nomem(err);
  td_map_finish(&sids_a);
  td_map_finish(&sids_b);
  finish(&in_a);
  finish(&in_b);
  if (status) td_schedule_diff_destroy(diff);
  else *out = diff;
  return status;
}

void td_schedule_diff_destroy(td_schedule_diff *diff)
{
  if (!diff) return;
  free(diff->moved);
  free(diff);
}
