/* The default planner: every budget at or above the floor, and copies that hide. */
#include <criterion/criterion.h>

#include "planner/script.h"

static td_error err;

/* Plans at 1 byte a nanosecond each way, ops of 1,000 ns; compares actions and stall. */
static void expect(td_trace *trace, uint64_t budget, uint64_t stall_ns, const char *actions)
{
  td_schedule *schedule;
  td_plan_report report;
  td_plan_options options = {.budget_bytes = budget, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  cr_assert_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK, "%s", err.message);
  char *text = script_of(schedule);
  cr_expect_str_eq(text, actions);
  cr_expect_str_eq(schedule->planner, "timed");
  cr_expect_not(schedule->early);
  cr_expect_eq(report.predicted_stall_ns, stall_ns, "%llu", (unsigned long long)report.predicted_stall_ns);
  cr_expect_leq(report.predicted_peak_bytes, budget);
  free(text);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(timed, a_copy_in_starts_in_time)
{
  expect(TRACE(8, "1 500 W0 R7", "2 500 W3 R4"), 500, 0,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 4 RELEASE_DEVICE 2, pre 6 H2D 1, post 7 RELEASE_DEVICE 1, "
         "post 7 RELEASE_HOST 1");
}

/* Between 2's two accesses there is no room for 1 before op 5. */
Test(timed, a_copy_in_starts_no_earlier_than_there_is_room)
{
  expect(TRACE(7, "1 900 W0 R6", "2 900 W2 R5"), 900, 900,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 5 RELEASE_DEVICE 2, pre 6 H2D 1, post 6 RELEASE_DEVICE 1, "
         "post 6 RELEASE_HOST 1");
}

/* 1 has the longer gap, but its copies take all of it: 2 is free in time. */
Test(timed, a_gap_counts_by_the_time_that_is_left_of_it)
{
  expect(TRACE(12, "1 5000 W0 R11", "2 1000 W1 R10", "3 1000 W4 R6"), 6000, 0,
         "post 1 D2H 2, post 1 RELEASE_DEVICE 2, post 6 RELEASE_DEVICE 3, pre 9 H2D 2, post 10 RELEASE_DEVICE 2, "
         "post 10 RELEASE_HOST 2, post 11 RELEASE_DEVICE 1");
}

/* What is held after its last access leaves for good; what is retained comes back for the end. */
Test(timed, held_and_retained_storages_may_leave)
{
  expect(TRACE(8, "1 500 freed=8 W0", "2 500 freed=6 W3 R4"), 500, 0, "post 0 D2H 1, post 0 RELEASE_DEVICE 1");
  expect(TRACE(8, "1 500 retained W0", "2 500 freed=5 W3 R4"), 500, 0,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 7 H2D 1");
}

Test(timed, one_copy_out_serves_several_gaps)
{
  expect(TRACE(16, "1 500 W0 R7 R15", "2 500 W3 R4", "3 500 W11 R12"), 500, 0,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 4 RELEASE_DEVICE 2, pre 6 H2D 1, post 7 RELEASE_DEVICE 1, "
         "post 12 RELEASE_DEVICE 3, pre 14 H2D 1, post 15 RELEASE_DEVICE 1, post 15 RELEASE_HOST 1");
}

/* 1 was chosen first and is not needed once 2, which was needed anyway, is away. */
Test(timed, what_can_stay_stays)
{
  td_trace *trace = TRACE(30, "1 100 W0 R29", "2 1000 W1 R28", "3 1000 W10 R12");
  td_schedule *schedule;
  td_plan_report report;
  td_plan_options options = {.budget_bytes = 1100, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  cr_assert_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK, "%s", err.message);
  cr_expect_eq(report.d2h_bytes, 1000);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

/* The larger of what one op accesses and what is retained. */
static uint64_t floor_of(const td_trace *trace)
{
  uint64_t floor = 0, retained = 0;
  for (uint64_t op = 0; op < trace->n_ops; op++) {
    uint64_t bytes = 0;
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      bytes += trace->storages[trace->accesses[i].storage].bytes;
    if (bytes > floor) floor = bytes;
  }
  for (uint32_t i = 0; i < trace->n_retained; i++) retained += trace->storages[trace->retained[i]].bytes;
  return retained > floor ? retained : floor;
}

static td_status plan(const td_trace *trace, uint64_t budget, bool early, uint64_t host, const char *planner, td_plan_report *report)
{
  td_schedule *schedule = NULL;
  td_plan_options options = {.budget_bytes = budget, .planner = planner, .early = early, .host_bytes = host,
                             .host_limited = host > 0, .d2h_bytes_per_s = 2e9, .h2d_bytes_per_s = 1e9};
  td_status status = td_plan(trace, &options, &schedule, report, &err);
  td_schedule_destroy(schedule);
  return status;
}

Test(timed, every_budget_from_the_floor_is_met_and_none_below)
{
  uint32_t state = 5;
  for (int round = 0; round < (getenv("TD_SOAK") ? 10000 : 500); round++) {
    td_trace *trace = script_random_trace(&state);
    uint64_t floor = floor_of(trace), budget = floor + script_below(&state, 3) * script_below(&state, 2000);
    bool early = script_below(&state, 2);
    td_plan_report report = {0};
    cr_assert_eq(plan(trace, budget, early, 0, NULL, &report), TD_OK, "round %d: %s", round, err.message);
    cr_assert_leq(report.predicted_peak_bytes, budget);
    if (floor) {
      cr_assert_eq(plan(trace, floor - 1, early, 0, NULL, &report), TD_E_BUDGET);
      cr_assert_eq(report.min_budget_bytes, floor, "round %d", round);
    }
    td_trace_destroy(trace);
  }
}

Test(timed, a_host_limit_is_kept)
{
  uint32_t state = 77;
  int met = 0;
  for (int round = 0; round < 500; round++) {
    td_trace *trace = script_random_trace(&state);
    uint64_t budget = floor_of(trace) + script_below(&state, 3000), host = 1 + script_below(&state, 2000);
    td_plan_report report = {0};
    td_status status = plan(trace, budget, false, host, NULL, &report);
    cr_assert(status == TD_OK || status == TD_E_BUDGET, "round %d: %s", round, err.message);
    if (!status) {
      met++;
      cr_assert_leq(report.predicted_host_peak_bytes, host, "round %d", round);
    } else {
      cr_assert_eq(plan(trace, report.min_budget_bytes, false, host, NULL, &report), TD_OK, "round %d", round);
    }
    td_trace_destroy(trace);
  }
  cr_expect_gt(met, 125);
}

/* ---- options -------------------------------------------------------------------------------------------------- */

Test(timed, sizes_are_rounded_as_the_device_rounds_them)
{
  td_trace *trace = TRACE(8, "1 500 W0 R7", "2 500 W3 R4");
  td_schedule *schedule = NULL;
  td_plan_report report;
  td_plan_options options = {.budget_bytes = 511, .align_bytes = 512};
  cr_expect_eq(td_plan(trace, &options, &schedule, &report, &err), TD_E_BUDGET);
  cr_expect_eq(report.min_budget_bytes, 512);
  options.budget_bytes = 512;
  cr_expect_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK);
  cr_expect_eq(report.d2h_bytes, 512);
  td_simulation *s;
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_expect_eq(s->peak_bytes, 512);
  cr_expect_eq(s->stall_ns, report.predicted_stall_ns);
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(timed, what_is_to_be_kept_stays)
{
  td_trace *trace = TRACE(12, "1 500 W0 R11", "2 400 W1 R10", "3 500 W5 R6", "x4 9 R0");
  td_schedule *schedule = NULL;
  uint64_t keep[] = {1}, wrong[] = {4};
  td_plan_options options = {.budget_bytes = 1000, .keep = keep, .n_keep = 1, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  cr_assert_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_OK, "%s", err.message);
  for (size_t i = 0; i < schedule->n_actions; i++)
    cr_expect(schedule->actions[i].sid != 1 || schedule->actions[i].op == 11, "1 leaves after op %d", (int)schedule->actions[i].op);
  td_schedule_destroy(schedule);
  options.keep = wrong;
  cr_expect_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_E_NOT_FOUND);
  td_trace_destroy(trace);
}

/* During op 3 there are 1000 bytes, 500 over the budget: out from 1000 at the earliest, back before 8000. */
Test(timed, bounds_are_told)
{
  td_trace *trace = TRACE(8, "1 500 W0 R7", "2 500 W3 R4");
  td_schedule *schedule;
  td_plan_report report = {0};
  td_plan_options options = {.budget_bytes = 500, .d2h_bytes_per_s = 1e8, .h2d_bytes_per_s = 1e8};
  cr_assert_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK);
  cr_expect_eq(report.bound_stall_ns, 5000 - 3000 + 5000 - 4000, "%d", (int)report.bound_stall_ns);
  cr_expect_eq(report.bound_d2h_bytes, 500);
  cr_expect_eq(report.bound_h2d_bytes, 500);
  cr_expect_geq(report.predicted_stall_ns, report.bound_stall_ns);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

/* No schedule stalls less than the bound, nor moves fewer bytes. */
Test(timed, no_schedule_betters_the_bounds)
{
  uint32_t state = 31;
  for (int round = 0; round < 500; round++) {
    td_trace *trace = script_random_trace(&state);
    td_plan_report report = {0};
    if (!plan(trace, floor_of(trace) + script_below(&state, 2000), false, 0, script_below(&state, 2) ? "greedy" : NULL, &report)) {
      cr_assert_geq(report.predicted_stall_ns, report.bound_stall_ns, "round %d: %d < %d", round, (int)report.predicted_stall_ns,
                    (int)report.bound_stall_ns);
      cr_assert_geq(report.d2h_bytes, report.bound_d2h_bytes, "round %d", round);
      cr_assert_geq(report.h2d_bytes, report.bound_h2d_bytes, "round %d", round);
    }
    td_trace_destroy(trace);
  }
}
