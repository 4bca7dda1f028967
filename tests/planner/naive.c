/* The simulator against a second one. */
#include <criterion/criterion.h>

#include "planner/naive.h"

/* Leaves out, doubles, moves or exchanges some actions, so that faults of all kinds come up. */
static void spoil(td_schedule *schedule, uint64_t n_ops, uint32_t *state)
{
  for (uint32_t n = script_below(state, 4); n && schedule->n_actions > 1; n--) {
    td_action *a = &schedule->actions[script_below(state, (uint32_t)schedule->n_actions)];
    switch (script_below(state, 4)) {
    case 0: *a = schedule->actions[--schedule->n_actions]; break;
    case 1: a->op = script_below(state, (uint32_t)n_ops); break;
    case 2: a->kind = (uint8_t)script_below(state, 4); break;
    default: a->sid = script_below(state, 30); break;
    }
  }
}

/* The stays on the device make up its bytes at every point. */
static void check_stays(const td_trace *trace, const td_simulation *s)
{
  for (uint64_t op = 0; op <= trace->n_ops; op++) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < s->n_stays; i++)
      if (s->stays[i].first <= op && op < s->stays[i].end) bytes += trace->storages[s->stays[i].storage].bytes;
    cr_assert_eq(bytes, s->timeline[op].device_bytes, "op %d: %d bytes, %d", (int)op, (int)bytes, (int)s->timeline[op].device_bytes);
  }
}

Test(simulate, agrees_with_another_simulator)
{
  uint32_t state = 4711;
  int ok = 0, faulty = 0;
  td_error err;
  for (int round = 0; round < (getenv("TD_SOAK") ? 10000 : 1000); round++) {
    td_trace *trace = script_random_trace(&state);
    td_schedule *schedule = NULL;
    td_simulation *simulation;
    td_plan_options options = {.budget_bytes = 1 + script_below(&state, 6000), .planner = script_below(&state, 2) ? "greedy" : NULL,
                               .early = script_below(&state, 2), .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9,
                               .d2h_latency_ns = script_below(&state, 2) * script_below(&state, 200),
                               .h2d_latency_ns = script_below(&state, 2) * script_below(&state, 200)};
    if (!td_plan(trace, &options, &schedule, NULL, &err)) {
      if (script_below(&state, 2)) spoil(schedule, trace->n_ops, &state);
      naive *s = calloc(1, sizeof *s);
      s->trace = trace;
      s->schedule = schedule;
      s->latency[0] = options.d2h_latency_ns;
      s->latency[1] = options.h2d_latency_ns;
      naive_play(s);
      cr_assert_eq(td_simulate(trace, schedule, true, &simulation, &err), TD_OK);
      check_stays(trace, simulation);
      cr_assert_eq(simulation->n_faults, s->faults, "round %d: %zu faults, %zu", round, simulation->n_faults, s->faults);
      cr_assert_eq(simulation->stall_ns, s->stall, "round %d: stall %d, %d", round, (int)simulation->stall_ns, (int)s->stall);
      cr_assert_eq(simulation->peak_bytes, s->peak, "round %d: peak %d, %d", round, (int)simulation->peak_bytes, (int)s->peak);
      cr_assert_eq(simulation->host_peak_bytes, s->host_peak, "round %d", round);
      cr_assert_eq(simulation->d2h_bytes, s->bytes[0], "round %d", round);
      cr_assert_eq(simulation->h2d_bytes, s->bytes[1], "round %d", round);
      if (simulation->ok) ok++;
      else faulty++;
      td_simulation_destroy(simulation);
      free(s);
    }
    td_schedule_destroy(schedule);
    td_trace_destroy(trace);
  }
  cr_expect_gt(ok, 100);
  cr_expect_gt(faulty, 60);
}
