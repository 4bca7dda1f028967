/* What a plan tells of itself, and options of the link and of what moves: the stored schedule is as predicted. */
#include <criterion/criterion.h>

#include "planner/script.h"

static td_error err;

static td_schedule *plan(const td_trace *trace, td_plan_options options, td_plan_report *report)
{
  td_schedule *schedule = NULL;
  cr_assert_eq(td_plan(trace, &options, &schedule, report, &err), TD_OK, "%s", err.message);
  return schedule;
}

static uint64_t stall_of(const td_trace *trace, const td_schedule *schedule)
{
  td_simulation *s;
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_assert(s->ok);
  uint64_t stall_ns = s->stall_ns;
  td_simulation_destroy(s);
  return stall_ns;
}

/* Out 100 + 500 from 1000, in 200 + 500 before 7000. */
Test(link, a_copy_takes_its_latency_and_its_bytes)
{
  td_trace *trace = TRACE(8, "1 500 W0 R7", "2 500 W1 R6");
  td_plan_report report;
  td_schedule *schedule = plan(trace, (td_plan_options){.budget_bytes = 500, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9,
                                                        .d2h_latency_ns = 100, .h2d_latency_ns = 200}, &report);
  cr_expect_eq(report.predicted_stall_ns, 600 + 700, "%d", (int)report.predicted_stall_ns);
  cr_expect_str_eq(schedule->extra, "\"d2h_latency_ns\": 100, \"h2d_latency_ns\": 200");
  cr_expect_eq(stall_of(trace, schedule), report.predicted_stall_ns);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

/* 10 small ones, or one large one of the same length: the copies of the small ones would take 20 times the latency. */
Test(link, small_storages_stay_where_latency_costs_more)
{
  td_trace *trace = TRACE(40, "1 100 W0 R39", "2 100 W0 R39", "3 100 W0 R39", "4 100 W0 R39", "5 100 W0 R39", "6 100 W0 R39", "7 100 W0 R39",
                          "8 100 W0 R39", "9 100 W0 R39", "10 100 W0 R39", "11 1000 W1 R38", "12 1000 W15 R16");
  td_plan_options options = {.budget_bytes = 2000, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  for (int latency = 0; latency <= 800; latency += 800) {
    options.d2h_latency_ns = options.h2d_latency_ns = (uint64_t)latency;
    td_schedule *schedule = plan(trace, options, NULL);
    size_t copies = 0;
    for (size_t i = 0; i < schedule->n_actions; i++) copies += schedule->actions[i].kind == TD_COPY_D2H;
    cr_expect_eq(copies, latency ? 1 : 10, "%zu copies", copies);
    td_schedule_destroy(schedule);
  }
  options.d2h_latency_ns = UINT64_MAX;
  td_schedule *schedule = NULL;
  cr_expect_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_E_ARG);
  td_trace_destroy(trace);
}

/* What a schedule says further may be anything. */
Test(link, members_that_make_no_sense_are_none)
{
  static const char *const texts[] = {"", "\"d2h_latency_ns\": -5", "\"d2h_latency_ns\": \"5\"", "\"d2h_latency_ns\": 1e300", "{", "\"moves\": 7",
                                      "\"h2d_latency_ns\": null, \"moves\": \"some\""};
  td_trace *trace = TRACE(8, "1 500 W0 R7", "2 500 W3 R4");
  td_schedule *schedule = plan(trace, (td_plan_options){.budget_bytes = 500, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9}, NULL);
  cr_expect_null(schedule->extra);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    schedule->extra = strdup(texts[i]);
    cr_expect_eq(stall_of(trace, schedule), 0, "%s", texts[i]);
    free(schedule->extra);
  }
  schedule->extra = NULL;
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

/* x2 lies unused from op 1 to 8, and makes room for 1. */
Test(found, storages_leave_and_are_back_at_the_end)
{
  td_trace *trace = TRACE(9, "x2 600 R0", "x3 100 R1 R7", "1 600 W3 R4");
  td_plan_report report;
  td_plan_options options = {.budget_bytes = 700, .move_found = true, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  td_schedule *schedule = plan(trace, options, &report);
  char *text = script_of(schedule);
  cr_expect_str_eq(text, "post 0 D2H 2, post 0 RELEASE_DEVICE 2, post 4 RELEASE_DEVICE 1, pre 8 H2D 2");
  cr_expect_str_eq(schedule->extra, "\"moves\": \"all\"");
  cr_expect_eq(stall_of(trace, schedule), 0);
  cr_expect_eq(report.floor_bytes, 700);
  cr_expect_eq(report.predicted_peak_bytes, 700);
  free(text);
  td_schedule_destroy(schedule);
  options.budget_bytes = 699;
  cr_expect_eq(td_plan(trace, &options, &schedule, &report, &err), TD_E_BUDGET);
  cr_expect_eq(report.min_budget_bytes, 700);
  options.move_found = false;
  cr_expect_eq(td_plan(trace, &options, &schedule, &report, &err), TD_OK);
  cr_expect_eq(report.predicted_peak_bytes, 600);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

/* A schedule that leaves one of them away is at fault; one that says nothing of them may not touch them. */
Test(found, the_simulator_knows_of_them)
{
  td_trace *trace = TRACE(9, "x2 600 R0", "1 600 W3 R4");
  td_schedule *schedule = script_schedule(1300, "post 0 D2H 2, post 0 RELEASE_DEVICE 2, post 4 RELEASE_DEVICE 1");
  td_simulation *s;
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_expect_eq(s->n_faults, 2);
  cr_expect_str_eq(s->faults[0].what, "no activation of the trace");
  td_simulation_destroy(s);
  schedule->extra = strdup("\"moves\": \"all\"");
  cr_assert_eq(td_simulate(trace, schedule, false, &s, &err), TD_OK);
  cr_expect_eq(s->n_faults, 1);
  cr_expect_str_eq(s->faults[0].what, "retained, but away at the end of the step");
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(found, all_random_budgets_from_the_floor_are_met)
{
  uint32_t state = 8;
  for (int round = 0; round < 100; round++) {
    td_trace *trace = script_random_trace(&state);
    for (uint32_t i = 0; i < trace->n_storages; i++) { /* every third is found */
      td_storage_info *storage = (td_storage_info *)&trace->storages[i];
      if (i % 3 == 0 && !storage->retained) storage->activation = false;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < trace->n_activations; i++)
      if (trace->storages[trace->activations[i]].activation) ((uint32_t *)trace->activations)[n++] = trace->activations[i];
    trace->n_activations = n;
    td_plan_report report = {0};
    td_schedule *schedule = NULL;
    td_plan_options options = {.move_found = true, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
    td_status status = td_plan(trace, &options, &schedule, &report, &err);
    if (status == TD_E_BUDGET) {
      cr_assert_eq(report.min_budget_bytes, report.floor_bytes, "round %d", round);
      options.budget_bytes = report.floor_bytes + script_below(&state, 500);
      schedule = plan(trace, options, &report);
    }
    cr_assert_eq(stall_of(trace, schedule), report.predicted_stall_ns, "round %d", round);
    td_schedule_destroy(schedule);
    td_trace_destroy(trace);
  }
}

/* Ops 0 to 2 access 900 at the most; 1000 are retained. */
Test(certificate, the_floor_is_named)
{
  td_trace *trace = TRACE(4, "1 400 W0 R2", "2 500 W1 R2");
  td_plan_report report;
  td_schedule_destroy(plan(trace, (td_plan_options){.budget_bytes = 900}, &report));
  cr_expect_eq(report.floor_bytes, 900);
  cr_expect_eq(report.floor_op, 2);
  td_trace_destroy(trace);
  trace = TRACE(4, "1 400 retained W0", "2 600 retained W1", "3 100 W2 R3");
  td_schedule_destroy(plan(trace, (td_plan_options){.budget_bytes = 1000}, &report));
  cr_expect_eq(report.floor_bytes, 1000);
  cr_expect_eq(report.floor_op, 4);
  td_trace_destroy(trace);
}

/* Out by 3000, begun at 1000, and in from 4000 to 7000: the copy out has 2000 ns, and takes 5000. */
Test(certificate, the_speed_at_which_the_stall_vanishes)
{
  td_trace *trace = TRACE(8, "1 500 W0 R7", "2 500 W3 R4");
  td_plan_report report;
  double times = -1;
  td_schedule *schedule = plan(trace, (td_plan_options){.budget_bytes = 500, .d2h_bytes_per_s = 1e8, .h2d_bytes_per_s = 1e9}, &report);
  cr_expect_eq(report.predicted_stall_ns, 3000);
  cr_assert_eq(td_plan_speedup(trace, schedule, &times, &err), TD_OK);
  cr_expect(times > 2.45 && times < 2.55, "%g", times);
  schedule->d2h_bytes_per_s *= times;
  schedule->h2d_bytes_per_s *= times;
  cr_expect_leq(stall_of(trace, schedule), 8);
  cr_assert_eq(td_plan_speedup(trace, schedule, &times, &err), TD_OK);
  cr_expect_eq(times, 1);
  schedule->extra = strdup("\"d2h_latency_ns\": 5000");
  cr_assert_eq(td_plan_speedup(trace, schedule, &times, &err), TD_OK);
  cr_expect_eq(times, 0);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

Test(certificate, the_same_input_gives_the_same_schedule)
{
  uint32_t state = 12;
  for (int round = 0; round < 20; round++) {
    td_trace *trace = script_random_trace(&state);
    td_plan_options options = {.budget_bytes = 4000, .effort = 2, .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
    td_schedule *a = NULL, *b = NULL;
    if (!td_plan(trace, &options, &a, NULL, &err)) {
      cr_assert_eq(td_plan(trace, &options, &b, NULL, &err), TD_OK);
      char *x = script_of(a), *y = script_of(b);
      cr_expect_str_eq(x, y);
      free(x);
      free(y);
    }
    td_schedule_destroy(a);
    td_schedule_destroy(b);
    td_trace_destroy(trace);
  }
}

Test(certificate, exact_says_when_it_cannot)
{
  static char text[24][64];
  const char *lines[25] = {0};
  for (int i = 0; i < 24; i++) {
    snprintf(text[i], sizeof text[i], "%d %d W%d R%d", i, 100 + i, i, 60 - i);
    lines[i] = text[i];
  }
  td_trace *trace = script_trace(64, 1000, lines);
  td_schedule *schedule = NULL;
  td_plan_options options = {.budget_bytes = 1000, .planner = "exact", .d2h_bytes_per_s = 1e8, .h2d_bytes_per_s = 1e8};
  cr_expect_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_E_ARG);
  cr_expect(strstr(err.message, "too large"), "%s", err.message);
  options.host_limited = true;
  cr_expect_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_E_ARG);
  cr_expect_null(schedule);
  td_trace_destroy(trace);
}
