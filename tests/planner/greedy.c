/* The greedy planner: which gaps it takes, and what it makes of them. */
#include <criterion/criterion.h>

#include "planner/script.h"

static td_error err;

/* Plans and compares the actions; frees both. */
static void expect(td_trace *trace, uint64_t budget, const char *actions)
{
  td_schedule *schedule;
  td_plan_report report;
  td_plan_options options = {.budget_bytes = budget, .planner = "greedy", .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  cr_assert_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK, "%s", err.message);
  char *text = script_of(schedule);
  cr_expect_str_eq(text, actions);
  cr_expect(schedule->early);
  if (budget != UINT64_MAX) cr_expect_leq(report.predicted_peak_bytes, budget);
  free(text);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

static void expect_too_small(td_trace *trace, uint64_t budget, uint64_t min, uint64_t op)
{
  td_schedule *schedule = NULL;
  td_plan_report report = {0};
  cr_expect_eq(td_plan(trace, &(td_plan_options){.budget_bytes = budget, .planner = "greedy"}, &schedule, &report, &err), TD_E_BUDGET);
  cr_expect_eq(report.min_budget_bytes, min, "%llu", (unsigned long long)report.min_budget_bytes);
  cr_expect_eq(report.min_budget_op, op, "%llu", (unsigned long long)report.min_budget_op);
  cr_expect_null(schedule);
  char number[32];
  snprintf(number, sizeof number, "%llu bytes", (unsigned long long)min);
  cr_expect_not_null(strstr(err.message, number), "%s", err.message);
  td_trace_destroy(trace);
}

/* 13 */
Test(greedy, no_ops_no_limit_no_sizes_no_actions)
{
  expect(TRACE(0, "x1 4"), 0, "");
  expect(TRACE(6, "1 100 W0 R5", "2 100 W2 R3"), UINT64_MAX, "");
  expect(TRACE(6, "1 0 W0 R5", "2 0 W2 R3"), 0, "");
}

/* 13 */
Test(greedy, what_fits_is_not_copied)
{
  expect(TRACE(6, "1 100 W0 R5", "2 100 W2 R3"), 200, "post 3 RELEASE_DEVICE 2, post 5 RELEASE_DEVICE 1");
}

/* 13, and fault d: a budget that cannot be met is an error, not silence. */
Test(greedy, a_single_access_above_the_limit_cannot_be_met)
{
  expect_too_small(TRACE(6, "1 100 W0 R5"), 99, 100, 0);
}

/* 14 */
Test(greedy, a_gap_over_the_limit)
{
  expect(TRACE(6, "1 100 W0 R5", "2 100 W2 R3"), 100,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 3 RELEASE_DEVICE 2, pre 5 H2D 1, post 5 RELEASE_DEVICE 1, "
         "post 5 RELEASE_HOST 1");
}

/* 15 */
Test(greedy, the_copy_out_is_at_the_last_write)
{
  expect(TRACE(6, "1 100 W0 R1 R4", "2 100 W2 R3"), 100,
         "post 0 D2H 1, post 1 RELEASE_DEVICE 1, post 3 RELEASE_DEVICE 2, pre 4 H2D 1, post 4 RELEASE_DEVICE 1, "
         "post 4 RELEASE_HOST 1");
}

/* 16 */
Test(greedy, the_longest_gap_goes_first_then_the_larger_then_the_earlier)
{
  /* 1 has the longest gap, though it is the smallest */
  expect(TRACE(9, "1 50 W0 R8", "2 100 W1 R7", "3 50 W3 R4"), 150,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 4 RELEASE_DEVICE 3, post 7 RELEASE_DEVICE 2, pre 8 H2D 1, "
         "post 8 RELEASE_DEVICE 1, post 8 RELEASE_HOST 1");
  /* as long: 2 is the larger */
  expect(TRACE(9, "1 50 W0 R7", "2 60 W1 R8", "3 50 W3 R4"), 110,
         "post 1 D2H 2, post 1 RELEASE_DEVICE 2, post 4 RELEASE_DEVICE 3, post 7 RELEASE_DEVICE 1, pre 8 H2D 2, "
         "post 8 RELEASE_DEVICE 2, post 8 RELEASE_HOST 2");
  /* as long and as large: 1 is released earlier */
  expect(TRACE(9, "2 50 W1 R8", "1 50 W0 R7", "3 50 W3 R4"), 100,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 4 RELEASE_DEVICE 3, pre 7 H2D 1, post 7 RELEASE_DEVICE 1, "
         "post 7 RELEASE_HOST 1, post 8 RELEASE_DEVICE 2");
}

/* 16: the longest gap lies where nothing is over the limit. */
Test(greedy, a_gap_is_taken_only_where_something_is_over)
{
  expect(TRACE(20, "1 100 W0 R10", "2 60 W12 R16", "3 60 W13 R14"), 100,
         "post 10 RELEASE_DEVICE 1, post 12 D2H 2, post 12 RELEASE_DEVICE 2, post 14 RELEASE_DEVICE 3, pre 16 H2D 2, "
         "post 16 RELEASE_DEVICE 2, post 16 RELEASE_HOST 2");
}

/* 16: no op lies between 0 and 1. */
Test(greedy, a_gap_without_an_op_in_it_does_not_count)
{
  expect_too_small(TRACE(2, "1 100 W0 R1", "2 100 W1"), 150, 200, 1);
}

/* 18, and fault b: what is retained counts to the end. */
Test(greedy, a_retained_storage_may_leave_between_accesses_but_not_after_the_last)
{
  expect(TRACE(7, "1 100 retained W0 R5", "2 100 W2 R3"), 100,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 3 RELEASE_DEVICE 2, pre 5 H2D 1, post 5 RELEASE_HOST 1");
  expect_too_small(TRACE(7, "1 100 retained W0", "2 100 W5 R6"), 150, 200, 5);
}

/* Fault e: two gaps after one write copy out once. A write between them makes two versions. */
Test(greedy, one_copy_out_a_version)
{
  expect(TRACE(9, "1 100 W0 R4 R8", "2 100 W2 R3", "3 100 W6 R7"), 100,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 3 RELEASE_DEVICE 2, pre 4 H2D 1, post 4 RELEASE_DEVICE 1, "
         "post 7 RELEASE_DEVICE 3, pre 8 H2D 1, post 8 RELEASE_DEVICE 1, post 8 RELEASE_HOST 1");
  expect(TRACE(9, "1 100 W0 W4 R8", "2 100 W2 R3", "3 100 W6 R7"), 100,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 3 RELEASE_DEVICE 2, pre 4 H2D 1, post 4 D2H 1, "
         "post 4 RELEASE_DEVICE 1, post 7 RELEASE_DEVICE 3, pre 8 H2D 1, post 8 RELEASE_DEVICE 1, post 8 RELEASE_HOST 1");
}

/* 19 */
Test(greedy, ops_that_touch_nothing_may_lie_between)
{
  expect(TRACE(1000001, "1 100 W10 R1000000", "2 100 W500 R7000"), 100,
         "post 10 D2H 1, post 10 RELEASE_DEVICE 1, post 7000 RELEASE_DEVICE 2, pre 1000000 H2D 1, "
         "post 1000000 RELEASE_DEVICE 1, post 1000000 RELEASE_HOST 1");
}

/* Fault d: the host limit is met when planning. */
Test(greedy, the_host_limit_is_planned_for)
{
  td_trace *trace = TRACE(9, "1 100 W0 R8", "2 60 W1 R7", "3 60 W3 R4");
  td_schedule *schedule = NULL;
  td_plan_report report;
  td_plan_options options = {.budget_bytes = 160, .planner = "greedy", .host_bytes = 60, .host_limited = true};
  cr_assert_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK, "%s", err.message);
  cr_expect_eq(report.predicted_host_peak_bytes, 60);
  td_schedule_destroy(schedule);
  options.budget_bytes = 159;
  cr_expect_eq(td_plan(trace, &options, &schedule, &report, &err), TD_E_BUDGET);
  cr_expect_eq(report.min_budget_bytes, 160);
  td_trace_destroy(trace);
}

Test(greedy, wrong_options_are_refused)
{
  td_trace *trace = TRACE(2, "1 100 W0 R1");
  td_schedule *schedule = NULL;
  cr_expect_eq(td_plan(trace, &(td_plan_options){.budget_bytes = 100, .planner = "best"}, &schedule, NULL, &err),
               TD_E_NOT_FOUND);
  cr_expect_eq(td_plan(trace, &(td_plan_options){.budget_bytes = 100, .planner = "greedy", .d2h_bytes_per_s = -1}, &schedule, NULL, &err), TD_E_ARG);
  trace->complete = false;
  cr_expect_eq(td_plan(trace, &(td_plan_options){.budget_bytes = 100}, &schedule, NULL, &err), TD_E_INPUT);
  cr_expect_null(schedule);
  cr_expect_str_eq(td_planner_names()[1], "greedy");
  td_trace_destroy(trace);
}

Test(greedy, sizes_that_overflow_are_refused)
{
  td_trace *trace = TRACE(2, "1 18446744073709551615 W0 R1", "2 18446744073709551615 W1");
  td_schedule *schedule = NULL;
  cr_expect_eq(td_plan(trace, &(td_plan_options){.budget_bytes = 100}, &schedule, NULL, &err), TD_E_INPUT);
  td_trace_destroy(trace);
}

/* ---- random traces -------------------------------------------------------------------------------------------- */

static bool fits(const td_trace *trace, uint64_t budget, uint64_t host, uint64_t *min)
{
  td_schedule *schedule = NULL;
  td_plan_report report = {0};
  td_plan_options options = {.budget_bytes = budget, .planner = "greedy", .host_bytes = host, .host_limited = host > 0,
                             .d2h_bytes_per_s = 2e9, .h2d_bytes_per_s = 1e9};
  td_status status = td_plan(trace, &options, &schedule, &report, &err);
  td_schedule_destroy(schedule);
  cr_assert(status == TD_OK || status == TD_E_BUDGET, "%s", err.message); /* a fault in the simulator is TD_E_STATE */
  if (!status) cr_assert_leq(report.predicted_peak_bytes, budget);
  if (!status && host) cr_assert_leq(report.predicted_host_peak_bytes, host);
  *min = report.min_budget_bytes;
  return !status;
}

/* Whatever the trace: the schedule passes the simulator inside the budget, or the budget that is told works. */
Test(greedy, random_traces_are_met_or_the_smallest_budget_is_told)
{
  int met = 0, missed = 0;
  for (uint32_t state = 1; met + missed < 3000;) {
    td_trace *trace = script_random_trace(&state);
    td_simulation *plain;
    cr_assert_eq(td_simulate(trace, NULL, false, &plain, &err), TD_OK);
    uint64_t budget = plain->peak_bytes * (30 + script_below(&state, 70)) / 100;
    uint64_t host = script_below(&state, 3) ? 0 : 1 + script_below(&state, 3000), min, other;
    td_simulation_destroy(plain);
    if (fits(trace, budget, host, &min)) {
      met++;
    } else {
      missed++;
      cr_assert_gt(min, budget);
      cr_assert(fits(trace, min, host, &other), "seed %u: %llu does not work", state, (unsigned long long)min);
      if (!host) cr_assert(!fits(trace, min - 1, host, &other));
    }
    td_trace_destroy(trace);
  }
  cr_expect_gt(met, 300);
  cr_expect_gt(missed, 300);
}
