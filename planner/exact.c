/* The exact planner, for small traces: every schedule that could be the best is tried.
 *
 * The step is gone through in order. Before an op, any of the storages that are away may be asked back, in any order; after it, any
 * that were not written since may be copied out, in any order, and those with a host copy that begin a gap may go. The simulator plays
 * what there is so far: a branch ends where it has a fault, or stalls and moves no less than the best schedule known. The default
 * planner's schedule is the first that is known. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/timed.h"

#define EFFORT_WORK 10000000 /* ops played, for each effort and one more, before it gives up */

typedef enum gap_state { UNTOUCHED, AWAY, OVER } gap_state;

typedef struct exact {
  td_timed timed;
  td_schedule *schedule; /* what there is so far */
  size_t capacity;
  gap_state *states;     /* by gap */
  uint64_t *copied_after; /* by version, its first gap: TD_NEVER while it is not */
  td_action *best;
  size_t n_best;
  uint64_t best_stall_ns, work;
  double best_traffic;
  td_status status;
  td_error *err;
} exact;

static void before(exact *e, uint64_t op);
static void after(exact *e, uint64_t op);

static bool emit(exact *e, uint64_t op, td_phase phase, td_action_kind kind, uint32_t storage)
{
  td_schedule *s = e->schedule;
  if (!e->status && !TD_GROW(s->actions, e->capacity, s->n_actions + 1)) e->status = td_fail_nomem(e->err);
  if (e->status) return false;
  s->actions[s->n_actions++] =
      (td_action){.op = op, .sid = e->timed.trace->storages[storage].sid, .phase = (uint8_t)phase, .kind = (uint8_t)kind};
  return true;
}

/* Plays up to op number `op`. True if this may still become better than the best; keeps it if it is whole. */
static bool play(exact *e, uint64_t op)
{
  td_simulation *s;
  uint64_t most = ((uint64_t)e->timed.options->effort + 1) * EFFORT_WORK;
  if (e->work > most)
    e->status = td_fail(e->err, TD_E_ARG, "the trace is too large for the planner exact: it gave up after %llu ops played; take "
                        "timed, or more effort", (unsigned long long)most);
  if (!e->status) e->status = td_play(e->timed.liveness, e->schedule, op + 1, false, &s, e->err);
  if (e->status) return false;
  e->work += op + 10;
  double traffic = td_traffic(e->schedule, s, e->timed.options);
  uint64_t stall_ns = s->stall_ns;
  bool better = s->ok && (stall_ns < e->best_stall_ns || (stall_ns == e->best_stall_ns && traffic < e->best_traffic));
  td_simulation_destroy(s);
  if (!better || op < e->timed.trace->n_ops) return better;
  size_t n = e->schedule->n_actions;
  td_action *copy = malloc((n + 1) * sizeof *copy);
  if (!copy) {
    e->status = td_fail_nomem(e->err);
    return false;
  }
  if (n) memcpy(copy, e->schedule->actions, n * sizeof *copy);
  free(e->best);
  e->best = copy;
  e->n_best = n;
  e->best_stall_ns = stall_ns;
  e->best_traffic = traffic;
  return true;
}

/* ---- before an op --------------------------------------------------------------------------------------------- */

static void before(exact *e, uint64_t op)
{
  bool must = false;
  size_t n = e->schedule->n_actions;
  for (size_t i = 0; i < e->timed.n_gaps && !e->status; i++) {
    const td_gap *g = &e->timed.gaps[i];
    if (e->states[i] != AWAY || !g->returns) continue;
    must |= g->to == op;
    if (!emit(e, op, TD_PRE, TD_COPY_H2D, g->storage)) return;
    e->states[i] = OVER;
    before(e, op);
    e->states[i] = AWAY;
    e->schedule->n_actions = n;
  }
  if (!must && play(e, op) && op < e->timed.trace->n_ops) after(e, op);
}

/* ---- after an op ---------------------------------------------------------------------------------------------- */

/* A storage goes for good after its last access, if the framework does not free it. */
static bool emit_ends(exact *e, uint64_t op)
{
  const td_trace *trace = e->timed.trace;
  for (uint64_t k = trace->ops[op].first_access; k < trace->ops[op + 1].first_access; k++) {
    uint32_t i = trace->accesses[k].storage;
    size_t n;
    const td_use *uses = td_uses_of(e->timed.liveness, i, &n);
    if (!n || uses[n - 1].op != op || trace->storages[i].retained || e->timed.liveness->freed[i]) continue;
    if (!emit(e, op, TD_POST, TD_RELEASE_DEVICE, i) || !emit(e, op, TD_POST, TD_RELEASE_HOST, i)) return false;
  }
  return true;
}

/* Gap number `first` and those after it stay, or go if they can. */
static void release(exact *e, uint64_t op, size_t first)
{
  size_t n = e->schedule->n_actions;
  for (size_t i = first; i < e->timed.n_gaps && !e->status; i++) {
    const td_gap *g = &e->timed.gaps[i];
    uint64_t copied = e->copied_after[g->version];
    if (e->states[i] != UNTOUCHED || copied == TD_NEVER || op + 2 > g->to || op != (copied > g->from ? copied : g->from)) continue;
    if (!emit(e, op, TD_POST, TD_RELEASE_DEVICE, g->storage)) return;
    e->states[i] = AWAY;
    release(e, op, i + 1);
    e->states[i] = UNTOUCHED;
    e->schedule->n_actions = n;
  }
  if (!e->status && emit_ends(e, op)) before(e, op + 1);
  e->schedule->n_actions = n;
}

static bool is_away(const exact *e, size_t gap)
{
  size_t version = e->timed.gaps[gap].version;
  for (size_t i = version; i < e->timed.n_gaps && e->timed.gaps[i].version == version; i++)
    if (e->states[i] == AWAY) return true;
  return false;
}

/* The last gap of a version that could still be used. */
static uint64_t end_of(const exact *e, size_t version)
{
  uint64_t end = 0;
  for (size_t i = version; i < e->timed.n_gaps && e->timed.gaps[i].version == version; i++) end = e->timed.gaps[i].to;
  return end;
}

static void after(exact *e, uint64_t op)
{
  size_t n = e->schedule->n_actions;
  for (size_t i = 0; i < e->timed.n_gaps && !e->status; i++) {
    const td_gap *g = &e->timed.gaps[i];
    if (g->version != i || e->copied_after[i] != TD_NEVER || g->written > op || op + 2 > end_of(e, i) || is_away(e, i)) continue;
    if (!emit(e, op, TD_POST, TD_COPY_D2H, g->storage)) return;
    e->copied_after[i] = op;
    after(e, op);
    e->copied_after[i] = TD_NEVER;
    e->schedule->n_actions = n;
  }
  if (!e->status) release(e, op, 0);
}

/* ---- the planner ---------------------------------------------------------------------------------------------- */

static td_status begin(exact *e, const td_liveness *liveness, const td_plan_options *options, td_error *err)
{
  td_simulation *s;
  td_status status = td_timed_init(&e->timed, liveness, options, err);
  size_t n = e->timed.n_gaps;
  e->states = calloc(n + 1, sizeof *e->states);
  e->copied_after = malloc((n + 1) * sizeof *e->copied_after);
  if (!status && (!e->states || !e->copied_after)) status = td_fail_nomem(err);
  if (!status) status = td_play(liveness, e->schedule, TD_NEVER, false, &s, err);
  if (status) return status;
  for (size_t i = 0; i < n; i++) e->copied_after[i] = TD_NEVER;
  e->best_stall_ns = s->stall_ns;
  e->best_traffic = td_traffic(e->schedule, s, options);
  td_simulation_destroy(s);
  e->best = e->schedule->actions;
  e->n_best = e->schedule->n_actions;
  e->schedule->actions = NULL;
  e->schedule->n_actions = 0;
  return TD_OK;
}

static td_status plan(const td_liveness *liveness, const td_plan_options *options, td_schedule *schedule,
                      td_plan_report *report, td_error *err)
{
  if (options->host_bytes != UINT64_MAX) return td_fail(err, TD_E_ARG, "the planner exact knows no host limit; take timed");
  td_status status = td_timed_planner.plan(liveness, options, schedule, report, err);
  if (status || options->budget_bytes > INT64_MAX / 4) return status;
  exact e = {.schedule = schedule, .err = err};
  status = begin(&e, liveness, options, err);
  if (!status) {
    before(&e, 0);
    status = e.status;
    free(schedule->actions);
    schedule->actions = e.best;
    schedule->n_actions = e.n_best;
  }
  free(e.states);
  free(e.copied_after);
  td_timed_finish(&e.timed);
  return status;
}

const td_planner td_exact_planner = {.name = "exact", .plan = plan};
