/* The default planner: copies that are hidden behind the compute, and no more bytes than must move.
 *
 * Time is the step's own, without stalls. A gap is a stretch in which a storage could be away: between two accesses, after the
 * last access until it is freed (it never comes back), or until the end of the step (retained: it comes back). Its relief is the
 * ops from the end of the copy out to the beginning of the copy in, both at their earliest and latest. gaps.c lists them, select.c
 * takes those that are needed, copies.c queues their copies, emit.c writes the actions.
 *
 * Safety does not depend on time: with every taken gap away for all of its length no op is over the budget, and a copy in starts
 * earlier only where there is room. So time may be anything: several margins on the copies are tried, and improvement tries other
 * orders and moments, some at random; the simulator says which is best. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "planner/timed.h"

/* The best schedule so far. */
typedef struct best {
  td_action *actions;
  size_t n_actions;
  td_gap *gaps;
  uint64_t *start; /* of each op, its stalls included */
  uint64_t stall_ns;
  double traffic;
} best;

typedef struct search {
  td_timed timed;
  td_schedule *schedule;
  const td_plan_report *report; /* has the bounds */
  best best;
  uint64_t step_ns; /* without stalls */
  uint64_t work;    /* for improvement */
  bool improves; /* there is enough of it to begin, and something to choose */
  uint64_t random;
} search;

/* Stalls are told apart by ten-thousandths of the step, so that no bytes are spent on less. */
static uint64_t grade_of(const search *s, uint64_t stall_ns)
{
  uint64_t grade_ns = s->step_ns / 10000;
  return grade_ns ? stall_ns / grade_ns : stall_ns;
}

static bool is_better(const search *s, const td_simulation *simulation, double traffic)
{
  uint64_t grade = grade_of(s, simulation->stall_ns), best = grade_of(s, s->best.stall_ns);
  if (!s->best.actions || grade != best) return !s->best.actions || grade < best;
  return traffic < s->best.traffic || (traffic == s->best.traffic && simulation->stall_ns < s->best.stall_ns);
}

static void keep(search *s, const td_simulation *simulation, double traffic)
{
  best *b = &s->best;
  free(b->actions);
  b->actions = s->schedule->actions;
  b->n_actions = s->schedule->n_actions;
  s->schedule->actions = NULL;
  b->stall_ns = simulation->stall_ns;
  b->traffic = traffic;
}

/* Where improvement goes on from. */
static void keep_choices(search *s, const td_simulation *simulation)
{
  best *b = &s->best;
  memcpy(b->gaps, s->timed.gaps, s->timed.n_gaps * sizeof *b->gaps);
  for (uint64_t op = 0; op <= s->timed.trace->n_ops; op++) b->start[op] = simulation->timeline[op].start_ns;
}

/* Makes the schedule of the taken gaps, and keeps it if it stalls less than the best so far, or as little and moves fewer bytes.
 * Improvement goes on from one that is as good, too. */
static td_status judge(search *s, td_error *err)
{
  td_simulation *simulation;
  td_status status = td_timed_emit(&s->timed, s->schedule, err);
  if (!status) status = td_play(s->timed.liveness, s->schedule, TD_NEVER, s->improves, &simulation, err);
  if (status) return status;
  double traffic = td_traffic(s->schedule, simulation, s->timed.options);
  if (simulation->ok && is_better(s, simulation, traffic)) keep(s, simulation, traffic);
  if (simulation->ok && s->improves && grade_of(s, simulation->stall_ns) == grade_of(s, s->best.stall_ns) && traffic <= s->best.traffic)
    keep_choices(s, simulation);
  td_simulation_destroy(simulation);
  return TD_OK;
}

/* Work is counted in ops and gaps that are gone through, not in time: the same input gives the same schedule. */
#define EFFORT_WORK 100000
#define CONSTRUCTION_WORK 16000000

static uint64_t work_of(const td_timed *t)
{
  return t->trace->n_ops + t->n_gaps + 200;
}

/* ---- improvement ---------------------------------------------------------------------------------------------- */

static uint64_t below(search *s, uint64_t n)
{
  s->random ^= s->random << 13;
  s->random ^= s->random >> 7;
  s->random ^= s->random << 17;
  return n ? s->random % n : 0;
}

static const double margins[] = {1, 1.15, 1.4, 2, 3, 5};
#define N_MARGINS (sizeof margins / sizeof *margins)

/* A gap that is taken, or one that is not, from a random place on. */
static td_gap *any_gap(search *s, bool taken)
{
  td_timed *t = &s->timed;
  size_t at = (size_t)below(s, t->n_gaps);
  for (size_t k = 0; k < t->n_gaps && t->gaps[at].taken != taken; k++) at = at + 1 < t->n_gaps ? at + 1 : 0;
  return &t->gaps[at];
}

/* Some gaps go before all others, or last, and the rest is selected anew. */
static td_status try_others(search *s, td_error *err)
{
  td_timed *t = &s->timed;
  if (below(s, 4)) any_gap(s, false)->bias = below(s, 2) ? TD_FORCED : 1;
  if (below(s, 4)) any_gap(s, true)->bias = below(s, 2) ? 0 : 1;
  if (!td_timed_select(t, margins[below(s, N_MARGINS)])) return TD_OK;
  td_status status = td_timed_queue(t, 1 + (double)below(s, 6) / 10, err);
  return status ? status : judge(s, err);
}

/* Some copies begin at other moments. */
static td_status try_moments(search *s, td_error *err)
{
  for (uint64_t i = 1 + below(s, 3); i--;) {
    td_gap *g = any_gap(s, true);
    if (below(s, 2)) g->fetch = g->from + 1 + below(s, g->to - g->from);
    else g->copied_after = g->written + below(s, g->to - g->written);
  }
  return judge(s, err);
}

static bool cannot_improve(const search *s)
{
  return s->best.stall_ns <= s->report->bound_stall_ns &&
         s->best.traffic <= (double)s->report->bound_d2h_bytes + (double)s->report->bound_h2d_bytes;
}

static td_status improve(search *s, td_error *err)
{
  td_timed *t = &s->timed;
  uint64_t cost = work_of(t);
  td_status status = TD_OK;
  uint64_t *clock = malloc(((size_t)t->trace->n_ops + 1) * sizeof *clock);
  if (!clock) return td_fail_nomem(err);
  memcpy(clock, t->start, ((size_t)t->trace->n_ops + 1) * sizeof *clock);
  if (!t->options->effort && s->best.stall_ns <= s->report->bound_stall_ns) s->work = 0;
  for (uint64_t left = s->work; left >= cost && !status && !cannot_improve(s); left -= cost) {
    memcpy(t->gaps, s->best.gaps, t->n_gaps * sizeof *t->gaps);
    memcpy(t->start, below(s, 2) ? s->best.start : clock, ((size_t)t->trace->n_ops + 1) * sizeof *clock);
    status = below(s, 2) ? try_others(s, err) : try_moments(s, err);
  }
  free(clock);
  return status;
}

/* ---- the planner ---------------------------------------------------------------------------------------------- */

static td_status try_margin(search *s, double margin, bool *met, td_error *err)
{
  if (!td_timed_select(&s->timed, margin)) return TD_OK;
  *met = true;
  td_status status = td_timed_queue(&s->timed, margin < 1.5 ? margin : 1.5, err);
  return status ? status : judge(s, err);
}

/* Margins on the copies, the least first, until nothing stalls or enough was done; if all stall, the same with what never returns
 * before all else. */
static td_status construct(search *s, bool *met, td_error *err)
{
  td_status status = TD_OK;
  uint64_t work = 0, cost = work_of(&s->timed);
  for (size_t i = 0; i < 2 * N_MARGINS && !status; i++, work += cost) {
    if (i > 1 && s->best.actions && (!s->best.stall_ns || work > CONSTRUCTION_WORK)) break;
    for (size_t k = 0; k < s->timed.n_gaps && i == N_MARGINS; k++)
      if (!s->timed.gaps[k].returns) s->timed.gaps[k].bias = TD_FORCED;
    status = try_margin(s, margins[i % N_MARGINS], met, err);
  }
  return status;
}

static td_status cannot(search *s, const td_liveness *liveness, td_plan_options *options, td_plan_report *report, td_error *err)
{
  td_timed_finish(&s->timed);
  options->budget_bytes = 0;
  td_status status = td_timed_init(&s->timed, liveness, options, err);
  if (status) return status;
  report->min_budget_bytes = td_timed_smallest_budget(&s->timed, options, &report->min_budget_op);
  return TD_E_BUDGET;
}

static td_status begin(search *s, const td_liveness *liveness, const td_plan_options *options, td_error *err)
{
  td_status status = td_timed_init(&s->timed, liveness, options, err);
  if (status) return status;
  s->step_ns = s->timed.start[liveness->trace->n_ops];
  s->work = ((uint64_t)options->effort + 1) * EFFORT_WORK;
  s->improves = s->timed.n_gaps && s->work >= work_of(&s->timed);
  if (!s->improves) return TD_OK;
  s->best.gaps = malloc(s->timed.n_gaps * sizeof *s->best.gaps);
  s->best.start = malloc(((size_t)liveness->trace->n_ops + 1) * sizeof *s->best.start);
  return s->best.gaps && s->best.start ? TD_OK : td_fail_nomem(err);
}

static td_status plan(const td_liveness *liveness, const td_plan_options *options, td_schedule *schedule,
                      td_plan_report *report, td_error *err)
{
  td_plan_options bounded = *options;
  if (bounded.budget_bytes > INT64_MAX / 4) bounded.budget_bytes = INT64_MAX / 4; /* more than all activations have */
  search s = {.schedule = schedule, .report = report, .random = 88172645463325252};
  bool met = false;
  td_status status = begin(&s, liveness, &bounded, err);
  if (!status) status = construct(&s, &met, err);
  if (!status && s.improves && s.best.actions) status = improve(&s, err);
  if (!status && !met) status = cannot(&s, liveness, &bounded, report, err);
  free(schedule->actions);
  schedule->actions = s.best.actions;
  schedule->n_actions = s.best.n_actions;
  if (!status && !s.best.actions) status = td_fail(err, TD_E_STATE, "no schedule passes the simulator");
  free(s.best.gaps);
  free(s.best.start);
  td_timed_finish(&s.timed);
  return status;
}

const td_planner td_timed_planner = {.name = "timed", .plan = plan};
