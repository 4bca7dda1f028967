/* The machine model, sentence by sentence. A byte takes a nanosecond each way, an op 1,000. */
#include <criterion/criterion.h>

#include "planner/script.h"

static td_error err;

static td_simulation *play(td_trace *trace, uint64_t limit, const char *actions)
{
  td_simulation *simulation;
  td_schedule *schedule = script_schedule(limit, actions);
  cr_assert_eq(td_simulate(trace, schedule, true, &simulation, &err), TD_OK, "%s", err.message);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return simulation;
}

/* No faults, and the stall and peak given. */
static void expect(td_trace *trace, uint64_t limit, const char *actions, uint64_t stall_ns, uint64_t peak)
{
  td_simulation *s = play(trace, limit, actions);
  cr_expect(s->ok, "op %d: %s", s->faults ? (int)s->faults[0].op : 0, s->faults ? s->faults[0].what : "");
  cr_expect_eq(s->stall_ns, stall_ns, "stall %llu", (unsigned long long)s->stall_ns);
  cr_expect_eq(s->peak_bytes, peak, "peak %llu", (unsigned long long)s->peak_bytes);
  td_simulation_destroy(s);
}

static void expect_fault(td_trace *trace, uint64_t limit, const char *actions, uint64_t op, uint64_t sid, const char *what)
{
  td_simulation *s = play(trace, limit, actions);
  cr_expect(!s->ok);
  cr_assert_gt(s->n_faults, 0, "%s: no fault", actions);
  cr_expect_eq(s->faults[0].op, op, "op %llu: %s", (unsigned long long)s->faults[0].op, s->faults[0].what);
  cr_expect_eq(s->faults[0].sid, sid);
  cr_expect_not_null(strstr(s->faults[0].what, what), "%s", s->faults[0].what);
  td_simulation_destroy(s);
}

#define FREELY UINT64_MAX

Test(simulate, without_a_schedule_storages_go_when_they_are_not_needed)
{
  td_trace *trace = TRACE(6, "1 100 W0 R2", "2 50 W1 freed=5", "3 10 retained W0", "x4 1000 R0 R5");
  td_simulation *s;
  cr_assert_eq(td_simulate(trace, NULL, true, &s, &err), TD_OK);
  cr_expect(s->ok);
  const uint64_t bytes[] = {110, 160, 160, 60, 60, 10, 10};
  for (int op = 0; op <= 6; op++) cr_expect_eq(s->timeline[op].device_bytes, bytes[op], "op %d", op);
  cr_expect_eq(s->peak_bytes, 160);
  cr_expect_eq(s->compute_ns, 6000);
  cr_expect_eq(s->stall_ns, 0);
  td_simulation_destroy(s);
  td_trace_destroy(trace);
}

/* Copied out from 1000 to 1500, in from 5000 to 5500: op 5 waits. */
Test(simulate, an_op_waits_for_the_copy_in_that_it_needs)
{
  expect(TRACE(6, "1 500 freed=6 W0 R5"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 5 H2D 1", 500, 500);
  /* issued an op earlier it is in time */
  expect(TRACE(6, "1 500 freed=6 W0 R5"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 4 H2D 1", 0, 500);
}

/* 1 leaves from 1000 to 3500, though op 1 needs its place at 1000. */
Test(simulate, an_allocation_waits_for_bytes_that_are_being_given_back)
{
  expect(TRACE(8, "1 2500 freed=8 W0 R7", "2 2500 freed=3 W1 R2"), 2500,
         "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 6 H2D 1", 2500 + 1500, 2500);
}

Test(simulate, if_no_bytes_are_coming_it_is_over_the_budget)
{
  expect_fault(TRACE(3, "1 100 freed=3 W0", "2 100 freed=3 W1"), 150, "", 1, 2, "over the budget");
}

/* Two copies out in one direction, one after the other: 1 from 1000 to 3000, 2 from 3000 to 5000; op 2 needs both places. */
Test(simulate, a_copy_engine_is_first_in_first_out)
{
  expect(TRACE(9, "1 2000 freed=9 W0 R8", "2 2000 freed=9 W0 R8", "3 4000 freed=3 W2"), 4000,
         "post 0 D2H 1, post 0 D2H 2, post 0 RELEASE_DEVICE 1, post 0 RELEASE_DEVICE 2, pre 7 H2D 1, pre 7 H2D 2",
         3000 + 3000, 4000);
}

/* 2 leaves from 1000 to 3000; from 3000 to 5000 it comes in while 1 leaves. */
Test(simulate, the_directions_do_not_wait_for_each_other)
{
  expect(TRACE(9, "1 2000 freed=9 W1 R8", "2 2000 freed=9 W0 R2"), FREELY,
         "post 0 D2H 2, post 0 RELEASE_DEVICE 2, post 1 D2H 1, pre 2 H2D 2", 3000, 6000);
}

/* Out from 1000 to 3000; in again asked for at 2000, starts at 3000. The bytes are twice on the device meanwhile. */
Test(simulate, a_copy_in_waits_for_its_own_copy_out)
{
  expect(TRACE(9, "1 2000 freed=9 W0 R2"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 2 H2D 1", 3000, 4000);
}

Test(simulate, a_freed_storage_goes_without_an_action_device_and_host)
{
  td_simulation *s = play(TRACE(5, "1 100 freed=3 W0 R1", "2 100 freed=5 W3"), 100, "post 0 D2H 1");
  cr_expect(s->ok);
  cr_expect_eq(s->timeline[2].host_bytes, 100);
  cr_expect_eq(s->timeline[3].host_bytes, 0);
  td_simulation_destroy(s);
}

Test(simulate, where_there_is_no_free_nothing_goes_by_itself)
{
  expect_fault(TRACE(4, "1 100 W0 R1", "2 100 W3"), 100, "", 3, 2, "over the budget");
  expect(TRACE(4, "1 100 W0 R1", "2 100 W3"), 100, "post 1 RELEASE_DEVICE 1", 0, 100);
}

Test(simulate, needed_until_it_is_freed_though_nothing_reads_it)
{
  expect_fault(TRACE(6, "1 100 freed=5 W0 R1"), FREELY, "post 1 RELEASE_DEVICE 1", 1, 1, "released while it is needed");
  expect(TRACE(6, "1 100 freed=5 W0 R1"), FREELY, "post 4 RELEASE_DEVICE 1", 0, 100);
  /* evicted after its last access and freed while away: it never comes back */
  expect(TRACE(6, "1 100 freed=5 W0 R1"), FREELY, "post 1 D2H 1, post 1 RELEASE_DEVICE 1", 0, 100);
}

Test(simulate, early_takes_the_last_access_as_the_end)
{
  td_trace *trace = TRACE(6, "1 100 freed=5 W0 R1");
  td_schedule *schedule = script_schedule(FREELY, "post 1 RELEASE_DEVICE 1");
  td_simulation *s;
  schedule->early = true;
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_expect(s->ok);
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(simulate, a_write_makes_a_host_copy_stale)
{
  expect_fault(TRACE(6, "1 100 freed=6 W0 W2 R5"), FREELY, "post 0 D2H 1, post 2 RELEASE_DEVICE 1, pre 5 H2D 1", 2, 1,
               "no current host copy");
  expect(TRACE(6, "1 100 freed=6 W0 W2 R5"), FREELY, "post 0 D2H 1, post 2 D2H 1, post 2 RELEASE_DEVICE 1, pre 4 H2D 1", 0,
         100);
}

Test(simulate, a_current_host_copy_is_not_taken_again)
{
  td_simulation *s = play(TRACE(9, "1 100 freed=9 W0 R4 R8"), FREELY,
                          "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 3 H2D 1, post 4 D2H 1, post 4 RELEASE_DEVICE 1, "
                          "pre 7 H2D 1");
  cr_expect(s->ok);
  cr_expect_eq(s->d2h_bytes, 100);
  cr_expect_eq(s->h2d_bytes, 200);
  cr_expect_eq(s->n_transfers, 3);
  cr_expect_eq(s->transfers[1].kind, TD_COPY_H2D);
  cr_expect_eq(s->transfers[1].start_ns, 3000);
  cr_expect_eq(s->transfers[1].end_ns, 3100);
  td_simulation_destroy(s);
}

/* Out until 2500, so taken at point 2 as well; back for op 5, at point 4, since its copy in is issued before op 4. */
Test(simulate, a_stay_lasts_until_the_copy_out_has_ended)
{
  td_simulation *s = play(TRACE(6, "1 1500 freed=6 W0 R5"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 4 H2D 1");
  cr_assert_eq(s->n_stays, 2);
  cr_expect_eq(s->stays[0].first, 0);
  cr_expect_eq(s->stays[0].end, 3);
  cr_expect_eq(s->stays[1].first, 4);
  cr_expect_eq(s->stays[1].end, 6);
  td_simulation_destroy(s);
}

Test(simulate, the_only_copy_is_not_released_while_needed)
{
  expect_fault(TRACE(6, "1 100 freed=6 W0 R5"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 2 RELEASE_HOST 1", 2, 1,
               "its only copy");
}

Test(simulate, use_while_away_is_a_fault)
{
  expect_fault(TRACE(6, "1 100 freed=6 W0 R5"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1", 5, 1, "used while it is away");
}

/* Back at 6000, for the end of the step at 6000: stalls 500. */
Test(simulate, what_is_retained_is_back_when_the_step_ends)
{
  const char *out = "post 0 D2H 1, post 0 RELEASE_DEVICE 1";
  expect_fault(TRACE(6, "1 500 retained W0"), FREELY, out, 6, 1, "retained, but away");
  expect(TRACE(6, "1 500 retained W0"), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 6 H2D 1", 500, 500);
}

Test(simulate, releases_of_what_is_not_there_do_nothing)
{
  expect(TRACE(3, "1 100 freed=3 W1"), FREELY, "post 0 RELEASE_DEVICE 1, post 0 RELEASE_HOST 1, post 1 RELEASE_HOST 1", 0, 100);
}

Test(simulate, host_bytes_are_held_while_a_copy_reads_them)
{
  /* in from 3000 to 5000; the host copy is released at 4000, op 3 having waited until 5000 */
  td_simulation *s = play(TRACE(6, "1 2000 freed=6 W0 R5", "2 10 freed=6 W3"), FREELY,
                          "post 0 D2H 1, post 0 RELEASE_DEVICE 1, pre 3 H2D 1, post 3 RELEASE_HOST 1");
  cr_expect(s->ok);
  cr_expect_eq(s->timeline[4].host_bytes, 2000); /* at 4000 */
  cr_expect_eq(s->timeline[5].host_bytes, 0);    /* at 5000 */
  cr_expect_eq(s->host_peak_bytes, 2000);
  td_simulation_destroy(s);
}

Test(simulate, the_host_limit_is_a_limit)
{
  td_trace *trace = TRACE(6, "1 100 freed=6 W0 R5");
  td_schedule *schedule = script_schedule(FREELY, "post 0 D2H 1");
  td_simulation *s;
  schedule->host_limit_bytes = 99;
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_expect_eq(s->n_faults, 1);
  cr_expect_str_eq(s->faults[0].what, "over the host limit");
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(simulate, actions_that_cannot_be_are_faults)
{
  const char *one = "1 100 freed=3 W0 R2";
  expect_fault(TRACE(3, one), FREELY, "post 1 D2H 9", 1, 9, "no activation");
  expect_fault(TRACE(3, one, "x2 5 R0"), FREELY, "post 1 D2H 2", 1, 2, "no activation");
  expect_fault(TRACE(3, one), FREELY, "post 1 H2D 1", 1, 1, "copies in stand before an op");
  expect_fault(TRACE(3, one), FREELY, "pre 1 D2H 1", 1, 1, "only copies in stand before an op");
  expect_fault(TRACE(3, one), FREELY, "post 3 D2H 1", 3, 1, "after the end");
  expect_fault(TRACE(3, one), FREELY, "pre 4 H2D 1", 4, 1, "has not got");
  expect_fault(TRACE(3, one), FREELY, "post 0 D2H 1, post 0 RELEASE_DEVICE 1, post 0 D2H 1", 0, 1, "not on the device");
}

/* 18446744073709551615 ns twice: time stands still rather than starting over. */
Test(simulate, times_do_not_overflow)
{
  td_trace *trace = script_trace(2, UINT64_MAX, (const char *const[]){"1 100 retained W0 R1", NULL});
  td_simulation *s;
  cr_assert_eq(td_simulate(trace, NULL, true, &s, &err), TD_OK);
  cr_expect_eq(s->compute_ns, UINT64_MAX);
  cr_expect_eq(s->timeline[2].start_ns, UINT64_MAX);
  td_simulation_destroy(s);
  td_trace_destroy(trace);
}

Test(simulate, actions_out_of_order_are_played_where_they_belong)
{
  expect(TRACE(6, "1 500 freed=6 W0 R5"), FREELY, "pre 4 H2D 1, post 0 D2H 1, post 0 RELEASE_DEVICE 1", 0, 500);
}
