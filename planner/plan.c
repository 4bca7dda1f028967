/* From a trace and a budget to a schedule that the simulator has passed. */
#include <tapedeck/planner.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "base/fail.h"
#include "planner/extras.h"
#include "planner/planners.h"

static const td_planner *const planners[] = {&td_timed_planner, &td_greedy_planner, &td_exact_planner}; /* the default first */

#define N_PLANNERS (sizeof planners / sizeof *planners)

static const char *const planner_names[N_PLANNERS + 1] = {"timed", "greedy", "exact"};

const char *const *td_planner_names(void)
{
  return planner_names;
}

static const td_planner *find_planner(const char *name)
{
  for (size_t i = 0; i < N_PLANNERS; i++)
    if (!name || strcmp(name, planners[i]->name) == 0) return planners[i];
  return NULL;
}

double td_traffic(const td_schedule *schedule, const td_simulation *simulation, const td_plan_options *options)
{
  double latency[2] = {(double)options->d2h_latency_ns * options->d2h_bytes_per_s / 1e9,
                       (double)options->h2d_latency_ns * options->h2d_bytes_per_s / 1e9};
  double traffic = (double)simulation->d2h_bytes + (double)simulation->h2d_bytes;
  for (size_t i = 0; i < schedule->n_actions; i++)
    if (schedule->actions[i].kind <= TD_COPY_H2D) traffic += latency[schedule->actions[i].kind];
  return traffic;
}

static td_status check_rate(double *rate, td_error *err)
{
  if (!(*rate >= 0)) return td_fail(err, TD_E_ARG, "a link speed of %g bytes a second", *rate);
  if (*rate == 0) *rate = TD_DEFAULT_BYTES_PER_S;
  return TD_OK;
}

static td_status check_latency(uint64_t ns, td_error *err)
{
  return ns < (uint64_t)1 << 53 ? TD_OK : td_fail(err, TD_E_ARG, "a latency of %llu ns", (unsigned long long)ns);
}

static td_extras extras_of(const td_plan_options *options)
{
  return (td_extras){.latency_ns = {[TD_COPY_D2H] = options->d2h_latency_ns, [TD_COPY_H2D] = options->h2d_latency_ns},
                     .align_bytes = options->align_bytes,
                     .moves_found = options->move_found};
}

static td_status describe(td_schedule *schedule, const td_planner *planner, const td_plan_options *options, td_error *err)
{
  schedule->planner = strdup(planner->name);
  schedule->memory_limit_bytes = options->budget_bytes;
  schedule->host_limit_bytes = options->host_bytes;
  schedule->d2h_bytes_per_s = options->d2h_bytes_per_s;
  schedule->h2d_bytes_per_s = options->h2d_bytes_per_s;
  schedule->early = options->early;
  td_extras extras = extras_of(options);
  return td_extras_write(&extras, &schedule->extra) && schedule->planner ? TD_OK : td_fail_nomem(err);
}

static td_status say_host(const td_plan_options *options, const td_plan_report *report, td_error *err)
{
  char budget[24], host[24], min[24];
  td_format_size(options->budget_bytes, budget, sizeof budget);
  td_format_size(options->host_bytes, host, sizeof host);
  td_format_size(report->min_budget_bytes, min, sizeof min);
  return td_fail(err, TD_E_BUDGET, "a budget of %s cannot be met with %s on the host: the smallest known to work is %llu bytes (%s)",
                 budget, host, (unsigned long long)report->min_budget_bytes, min);
}

static td_status say_budget(const td_trace *trace, const td_plan_options *options, const td_plan_report *report, td_error *err)
{
  char budget[24], min[24], op[160];
  if (options->host_bytes != UINT64_MAX) return say_host(options, report, err);
  td_format_size(options->budget_bytes, budget, sizeof budget);
  td_format_size(report->min_budget_bytes, min, sizeof min);
  if (report->min_budget_op < trace->n_ops)
    snprintf(op, sizeof op, "op %llu (%.100s)", (unsigned long long)report->min_budget_op,
             trace->names[trace->ops[report->min_budget_op].name].bytes);
  else
    snprintf(op, sizeof op, "the end of the step");
  return td_fail(err, TD_E_BUDGET, "a budget of %s cannot be met: the smallest that can is %llu bytes (%s), set by %s", budget,
                 (unsigned long long)report->min_budget_bytes, min, op);
}

/* What the simulator cannot pass is never handed out. */
static td_status confirm(const td_liveness *liveness, const td_schedule *schedule, td_plan_report *report, td_error *err)
{
  td_simulation *simulation;
  td_status status = td_play(liveness, schedule, TD_NEVER, false, &simulation, err);
  if (status) return status;
  if (!simulation->ok)
    status = td_fail(err, TD_E_STATE, "the planner %s made a schedule with a fault at op %llu, SID %llu: %s",
                     schedule->planner, (unsigned long long)simulation->faults[0].op,
                     (unsigned long long)simulation->faults[0].sid, simulation->faults[0].what);
  report->predicted_peak_bytes = simulation->peak_bytes;
  report->predicted_stall_ns = simulation->stall_ns;
  report->predicted_host_peak_bytes = simulation->host_peak_bytes;
  report->d2h_bytes = simulation->d2h_bytes;
  report->h2d_bytes = simulation->h2d_bytes;
  td_simulation_destroy(simulation);
  return status;
}

static td_status mark_kept(td_liveness *liveness, const td_plan_options *options, td_error *err)
{
  for (size_t i = 0; i < options->n_keep; i++) {
    uint32_t storage = td_map_get(&liveness->by_sid, options->keep[i]);
    if (storage == TD_MAP_NONE)
      return td_fail(err, TD_E_NOT_FOUND, "SID %llu is to be kept, but is no activation", (unsigned long long)options->keep[i]);
    liveness->stays[storage] = true;
  }
  return TD_OK;
}

static td_status make(const td_trace *trace, const td_planner *planner, const td_plan_options *options, td_schedule *schedule,
                      td_plan_report *report, td_error *err)
{
  td_liveness liveness;
  td_status status = td_liveness_init(&liveness, trace, options->early, err);
  if (!status) status = mark_kept(&liveness, options, err);
  if (!status) status = td_bounds(&liveness, options, report, err);
  if (!status) status = describe(schedule, planner, options, err);
  if (!status) status = planner->plan(&liveness, options, schedule, report, err);
  if (!status) status = confirm(&liveness, schedule, report, err);
  td_liveness_finish(&liveness);
  return status == TD_E_BUDGET ? say_budget(trace, options, report, err) : status;
}

td_status td_plan(const td_trace *trace, const td_plan_options *options, td_schedule **out, td_plan_report *report,
                  td_error *err)
{
  td_plan_options filled = *options;
  td_plan_report own = {0};
  const td_planner *planner = find_planner(options->planner);
  if (!planner)
    return td_fail(err, TD_E_NOT_FOUND, "no planner is called '%s'; there are %s, %s and %s", options->planner,
                   planner_names[0], planner_names[1], planner_names[2]);
  td_status status = check_rate(&filled.d2h_bytes_per_s, err);
  if (!status) status = check_rate(&filled.h2d_bytes_per_s, err);
  if (!status) status = check_latency(filled.d2h_latency_ns, err);
  if (!status) status = check_latency(filled.h2d_latency_ns, err);
  if (!status && !trace->complete)
    status = td_fail(err, TD_E_INPUT, "the recording is unfinished, so what the end of the step needs is not known");
  if (status) return status;
  if (!filled.host_limited) filled.host_bytes = UINT64_MAX;
  if (planner->always_early) filled.early = true;
  td_schedule *schedule = calloc(1, sizeof *schedule);
  if (!schedule) return td_fail_nomem(err);
  td_seen seen;
  td_extras extras = extras_of(&filled);
  status = td_seen_init(&seen, trace, &extras, err);
  if (!status) status = make(&seen.trace, planner, &filled, schedule, &own, err);
  td_seen_finish(&seen);
  if (report && (!status || status == TD_E_BUDGET)) *report = own;
  if (status)
    td_schedule_destroy(schedule);
  else
    *out = schedule;
  return status;
}
