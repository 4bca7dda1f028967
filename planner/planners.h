/* What a planner is to td_plan: one row of a const table. */
#ifndef TD_PLANNER_PLANNERS_H
#define TD_PLANNER_PLANNERS_H

#include <tapedeck/planner.h>

#include "planner/liveness.h"

typedef struct td_planner {
  const char *name;
  bool always_early; /* its schedules are judged with the last access as the end of a storage */
  /* Fills schedule->actions. TD_E_BUDGET: report has the smallest budget that works and the op that sets it. The options
   * have all defaults filled in; host_bytes is UINT64_MAX for none. */
  td_status (*plan)(const td_liveness *liveness, const td_plan_options *options, td_schedule *schedule,
                    td_plan_report *report, td_error *err);
} td_planner;

/* What no schedule can better: fills the bounds of the report. */
td_status td_bounds(const td_liveness *liveness, const td_plan_options *options, td_plan_report *report, td_error *err);

/* td_simulate, where the liveness is known: it is of the same trace, and as early as the schedule. Only the first `ops` ops are
 * played, without what stands after the last of them; TD_NEVER: the whole step. */
td_status td_play(const td_liveness *liveness, const td_schedule *schedule, uint64_t ops, bool timeline, td_simulation **out,
                  td_error *err);

/* Bytes both ways; a copy's latency counts as the bytes that it could have moved. */
double td_traffic(const td_schedule *schedule, const td_simulation *simulation, const td_plan_options *options);

extern const td_planner td_timed_planner, td_greedy_planner, td_exact_planner;

#endif
