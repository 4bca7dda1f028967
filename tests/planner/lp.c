/* Bytes moved against a linear and an integer program that another solver solves. */
#include <criterion/criterion.h>

#include "planner/lp.h"
#include "planner/script.h"

static td_error err;

/* 2 leaves for 1000 bytes and comes back; half of it would do for the linear program. */
Test(lp, parts_are_fewer_than_wholes)
{
  td_trace *trace = TRACE(8, "1 1000 W0 R7", "2 1000 W3 R4");
  cr_expect_float_eq(lp_bytes(trace, 1500, false, false, 10), 1000, 1e-3);
  cr_expect_float_eq(lp_bytes(trace, 1500, false, true, 10), 2000, 1e-3);
  td_trace_destroy(trace);
}

/* A copy out serves several gaps, one that never returns needs no copy in. */
Test(lp, copies_are_shared_and_spared)
{
  td_trace *trace = TRACE(12, "1 1000 W0 R5 R11", "2 1000 W2 R3", "3 1000 W7 R8");
  cr_expect_float_eq(lp_bytes(trace, 1000, false, true, 10), 3000, 1e-3);
  td_trace_destroy(trace);
  trace = TRACE(12, "1 1000 freed=11 W0", "2 1000 W2 R3");
  cr_expect_float_eq(lp_bytes(trace, 1000, false, true, 10), 1000, 1e-3);
  td_trace_destroy(trace);
}

Test(lp, no_schedule_moves_less_and_the_planner_hardly_more)
{
  uint32_t state = 2024;
  double least = 0, moved = 0;
  for (int round = 0; round < (getenv("TD_SOAK") ? 3000 : 150); round++) {
    td_trace *trace = script_random_trace(&state);
    for (uint64_t op = 0; op < trace->n_ops; op++) ((td_op *)trace->ops)[op].dur_ns = 1000000; /* copies take next to nothing */
    td_schedule *schedule = NULL;
    td_plan_report report;
    td_plan_options options = {.budget_bytes = 2000 + script_below(&state, 4000), .early = script_below(&state, 2), .effort = 1,
                               .d2h_bytes_per_s = 1e15, .h2d_bytes_per_s = 1e15};
    if (!td_plan(trace, &options, &schedule, &report, &err)) {
      double parts = lp_bytes(trace, options.budget_bytes, options.early, false, 10);
      double wholes = lp_bytes(trace, options.budget_bytes, options.early, true, 10);
      double bytes = (double)report.d2h_bytes + (double)report.h2d_bytes;
      cr_assert_geq(parts, 0);
      cr_assert_geq(parts, (double)report.bound_d2h_bytes + (double)report.bound_h2d_bytes - 1e-3, "round %d", round);
      cr_assert_geq(bytes, parts - 1e-3, "round %d", round);
      if (wholes >= 0) {
        cr_assert_geq(bytes, wholes - 1e-3, "round %d: %g bytes, least %g", round, bytes, wholes);
        least += wholes;
        moved += bytes;
      }
    }
    td_schedule_destroy(schedule);
    td_trace_destroy(trace);
  }
  cr_expect_gt(least, 0);
  cr_expect_lt(moved, 1.05 * least, "%g times", moved / least);
}
