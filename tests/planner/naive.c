/* The simulator against a second one that is written differently: every byte that is ever taken is an interval in a list, and what is
 * taken at some moment is found by walking all of it. */
#include <criterion/criterion.h>

#include "planner/script.h"

typedef struct interval {
  uint32_t storage;
  bool host;
  uint64_t from, to, bytes; /* to: NEVER while it is held */
} interval;

#define NEVER UINT64_MAX

typedef struct naive {
  const td_trace *trace;
  const td_schedule *schedule;
  interval list[20000];
  size_t n;
  uint64_t now, engine[2], d2h_end[1000], h2d_end[1000];
  int64_t on_device[1000], on_host[1000]; /* the interval, or -1 */
  bool current[1000];
  uint64_t stall, peak, host_peak, bytes[2];
  size_t faults;
} naive;

static uint64_t taken(const naive *s, bool host)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < s->n; i++)
    if (s->list[i].host == host && s->list[i].from <= s->now && s->list[i].to > s->now) sum += s->list[i].bytes;
  return sum;
}

static uint64_t max3(uint64_t a, uint64_t b, uint64_t c)
{
  return a > b ? (a > c ? a : c) : (b > c ? b : c);
}

static int64_t take(naive *s, uint32_t storage, bool host)
{
  uint64_t bytes = s->trace->storages[storage].bytes;
  s->list[s->n] = (interval){.storage = storage, .host = host, .from = s->now, .to = NEVER, .bytes = bytes};
  uint64_t *peak = host ? &s->host_peak : &s->peak;
  int64_t at = (int64_t)s->n++;
  if (taken(s, host) > *peak) *peak = taken(s, host);
  return at;
}

static void take_device(naive *s, uint32_t storage)
{
  uint64_t bytes = s->trace->storages[storage].bytes;
  while (bytes && taken(s, false) + bytes > s->schedule->memory_limit_bytes) {
    uint64_t next = NEVER;
    for (size_t i = 0; i < s->n; i++)
      if (!s->list[i].host && s->list[i].bytes && s->list[i].to > s->now && s->list[i].to < next) next = s->list[i].to;
    if (next == NEVER) {
      s->faults++;
      break;
    }
    s->stall += next - s->now;
    s->now = next;
  }
  s->on_device[storage] = take(s, storage, false);
}

static void drop(naive *s, uint32_t storage, bool host)
{
  int64_t *at = host ? &s->on_host[storage] : &s->on_device[storage];
  s->list[*at].to = max3(s->now, s->d2h_end[storage], s->h2d_end[storage]);
  *at = -1;
  if (host) s->current[storage] = false;
}

/* When the storage is not needed any more, and whether it goes by itself then. */
static uint64_t needed_until(const naive *s, uint32_t storage, bool *goes)
{
  const td_storage_info *info = &s->trace->storages[storage];
  uint64_t last = 0;
  for (uint64_t op = 0; op < s->trace->n_ops; op++)
    for (uint64_t i = s->trace->ops[op].first_access; i < s->trace->ops[op + 1].first_access; i++)
      if (s->trace->accesses[i].storage == storage) last = op + 1;
  *goes = !s->schedule->early && !info->retained && info->freed_before_op != TD_NEVER;
  return info->retained ? s->trace->n_ops + 1 : *goes ? info->freed_before_op : last;
}

static void play_action(naive *s, const td_action *a)
{
  uint32_t storage = UINT32_MAX;
  bool goes;
  for (uint32_t i = 0; i < s->trace->n_storages; i++)
    if (s->trace->storages[i].sid == a->sid && s->trace->storages[i].activation) storage = i;
  if (storage == UINT32_MAX || (a->phase == TD_PRE) != (a->kind == TD_COPY_H2D) || (a->op == s->trace->n_ops && a->phase == TD_POST)) {
    s->faults++;
    return;
  }
  bool device = s->on_device[storage] >= 0, host = s->on_host[storage] >= 0, needed = needed_until(s, storage, &goes) > a->op + 1;
  uint64_t bytes = s->trace->storages[storage].bytes;
  switch (a->kind) {
  case TD_COPY_D2H:
    if (!device) s->faults++;
    else if (!host || !s->current[storage]) {
      if (!host) s->on_host[storage] = take(s, storage, true);
      s->current[storage] = true;
      s->engine[0] = s->d2h_end[storage] = max3(s->engine[0], s->now, max3(s->h2d_end[storage], s->d2h_end[storage], 0)) + bytes;
      s->bytes[0] += bytes;
    }
    break;
  case TD_COPY_H2D:
    if (device) break;
    if (!host) {
      s->faults++;
      break;
    }
    take_device(s, storage);
    s->engine[1] = s->h2d_end[storage] = max3(s->engine[1], s->now, s->d2h_end[storage]) + bytes;
    s->bytes[1] += bytes;
    break;
  case TD_RELEASE_DEVICE:
    if (!device) break;
    if (needed && !(host && s->current[storage])) s->faults++;
    drop(s, storage, false);
    break;
  default:
    if (!host) break;
    if (needed && !device) s->faults++;
    drop(s, storage, true);
  }
}

static void wait_for(naive *s, uint64_t ns)
{
  if (ns <= s->now) return;
  s->stall += ns - s->now;
  s->now = ns;
}

static void play(naive *s)
{
  const td_trace *trace = s->trace;
  for (uint32_t i = 0; i < trace->n_storages; i++) s->on_device[i] = s->on_host[i] = -1;
  for (uint64_t op = 0; op <= trace->n_ops; op++) {
    bool goes;
    for (uint32_t i = 0; i < trace->n_storages; i++) {
      if (needed_until(s, i, &goes) != op || !goes) continue;
      if (s->on_device[i] >= 0) drop(s, i, false);
      if (s->on_host[i] >= 0) drop(s, i, true);
    }
    for (size_t i = 0; i < s->schedule->n_actions; i++)
      if (s->schedule->actions[i].op == op && s->schedule->actions[i].phase == TD_PRE) play_action(s, &s->schedule->actions[i]);
    if (op == trace->n_ops) break;
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
      uint32_t storage = trace->accesses[i].storage;
      bool new = true;
      for (uint64_t k = 0; k < trace->ops[op].first_access; k++) new &= trace->accesses[k].storage != storage;
      if (s->on_device[storage] < 0 && !new) s->faults++;
      if (s->on_device[storage] < 0) take_device(s, storage);
    }
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      wait_for(s, s->h2d_end[trace->accesses[i].storage]);
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      if (trace->accesses[i].kind == TD_WRITE) s->current[trace->accesses[i].storage] = false;
    s->now += trace->ops[op].dur_ns;
    for (size_t i = 0; i < s->schedule->n_actions; i++)
      if (s->schedule->actions[i].op == op && s->schedule->actions[i].phase == TD_POST) play_action(s, &s->schedule->actions[i]);
  }
  for (uint32_t i = 0; i < trace->n_retained; i++) {
    if (s->on_device[trace->retained[i]] < 0) s->faults++;
    wait_for(s, s->h2d_end[trace->retained[i]]);
  }
}

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
  for (int round = 0; round < 3000; round++) {
    td_trace *trace = script_random_trace(&state);
    td_schedule *schedule = NULL;
    td_simulation *simulation;
    td_plan_options options = {.budget_bytes = 1 + script_below(&state, 6000), .planner = script_below(&state, 2) ? "greedy" : NULL,
                               .early = script_below(&state, 2), .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
    if (!td_plan(trace, &options, &schedule, NULL, &err)) {
      if (script_below(&state, 2)) spoil(schedule, trace->n_ops, &state);
      naive *s = calloc(1, sizeof *s);
      s->trace = trace;
      s->schedule = schedule;
      play(s);
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
  cr_expect_gt(ok, 300);
  cr_expect_gt(faulty, 200);
}
