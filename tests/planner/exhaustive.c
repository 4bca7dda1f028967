/* The planners against a search through every schedule of tiny traces, each played by the second simulator. */
#include <criterion/criterion.h>

#include "planner/naive.h"

#define STORAGES_MAX 3
#define COMBINATIONS_MAX 4000

static td_error err;

/* One stretch in which a storage may be away: `to` is the op that needs it again, n_ops the end, or where it is freed. */
typedef struct stretch {
  uint32_t storage;
  uint64_t written, from, to;
  bool returns;
} stretch;

/* What is done with one stretch. */
typedef struct choice {
  bool away;
  uint64_t out, release, in;
} choice;

typedef struct everything {
  const td_trace *trace;
  stretch list[64];
  choice chosen[64];
  size_t n, tried;
  td_schedule schedule; /* limits and actions */
  td_action actions[256];
  naive *naive;
  uint64_t stall, bytes; /* of the best */
  bool found, too_many;
} everything;

static void list_stretches(everything *e)
{
  const td_trace *trace = e->trace;
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    uint64_t last = TD_NEVER, written = 0;
    for (uint64_t op = 0; op < trace->n_ops; op++) {
      for (uint64_t k = trace->ops[op].first_access; k < trace->ops[op + 1].first_access; k++) {
        if (trace->accesses[k].storage != i) continue;
        if (last != TD_NEVER) e->list[e->n++] = (stretch){i, written, last, op, true};
        if (last == TD_NEVER || trace->accesses[k].kind == TD_WRITE) written = op;
        last = op;
      }
    }
    const td_storage_info *info = &trace->storages[i];
    if (last == TD_NEVER) continue;
    if (info->retained) e->list[e->n++] = (stretch){i, written, last, trace->n_ops, true};
    else if (info->freed_before_op != TD_NEVER && !e->schedule.early) e->list[e->n++] = (stretch){i, written, last, info->freed_before_op, false};
  }
}

static void add(everything *e, uint64_t op, td_phase phase, td_action_kind kind, uint32_t storage)
{
  e->actions[e->schedule.n_actions++] = (td_action){op, e->trace->storages[storage].sid, (uint8_t)phase, (uint8_t)kind};
}

/* The order of storages in which copies of one kind and place are queued. */
static const int orders[6][STORAGES_MAX] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
static const int *order_of[2];

static int by_place(const void *a, const void *b)
{
  const td_action *x = a, *y = b;
  if (x->op != y->op) return x->op < y->op ? -1 : 1;
  if (x->phase != y->phase) return (int)x->phase - (int)y->phase;
  if (x->kind != y->kind) return (int)x->kind - (int)y->kind;
  const int *order = order_of[x->kind == TD_COPY_H2D];
  return order[x->sid] - order[y->sid];
}

static void try_actions(everything *e)
{
  qsort(e->actions, e->schedule.n_actions, sizeof *e->actions, by_place);
  naive_play(e->naive);
  const naive *s = e->naive;
  uint64_t bytes = s->bytes[0] + s->bytes[1];
  if (s->faults || s->peak > e->schedule.memory_limit_bytes) return;
  if (!e->found || s->stall < e->stall || (s->stall == e->stall && bytes < e->bytes)) {
    e->stall = s->stall;
    e->bytes = bytes;
  }
  e->found = true;
}

static bool collide(const everything *e, td_action_kind kind)
{
  for (size_t i = 0; i < e->schedule.n_actions; i++)
    for (size_t k = 0; k < i; k++)
      if (e->actions[i].kind == kind && e->actions[k].kind == kind && e->actions[i].op == e->actions[k].op) return true;
  return false;
}

static void try_choices(everything *e)
{
  const td_trace *trace = e->trace;
  e->schedule.n_actions = 0;
  for (size_t i = 0; i < e->n; i++) {
    const stretch *s = &e->list[i];
    const choice *c = &e->chosen[i];
    if (c->away) {
      add(e, c->out, TD_POST, TD_COPY_D2H, s->storage); /* nothing if there is a current copy */
      add(e, c->release, TD_POST, TD_RELEASE_DEVICE, s->storage);
      if (s->returns) add(e, c->in, TD_PRE, TD_COPY_H2D, s->storage);
    }
  }
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    uint64_t last = TD_NEVER;
    for (uint64_t op = 0; op < trace->n_ops; op++)
      for (uint64_t k = trace->ops[op].first_access; k < trace->ops[op + 1].first_access; k++)
        if (trace->accesses[k].storage == i) last = op;
    bool goes = trace->storages[i].freed_before_op != TD_NEVER && !e->schedule.early;
    if (last != TD_NEVER && !trace->storages[i].retained && !goes) add(e, last, TD_POST, TD_RELEASE_DEVICE, i);
  }
  int n_out = collide(e, TD_COPY_D2H) ? 6 : 1, n_in = collide(e, TD_COPY_H2D) ? 6 : 1;
  for (int i = 0; i < n_out; i++) {
    for (int k = 0; k < n_in; k++) {
      order_of[0] = orders[i];
      order_of[1] = orders[k];
      try_actions(e);
    }
  }
}

static void choose(everything *e, size_t i)
{
  if (e->too_many) return;
  if (i == e->n) {
    e->too_many = ++e->tried > COMBINATIONS_MAX;
    try_choices(e);
    return;
  }
  const stretch *s = &e->list[i];
  e->chosen[i] = (choice){0};
  choose(e, i + 1);
  for (uint64_t out = s->written; out + 2 <= s->to; out++) {
    for (uint64_t release = out > s->from ? out : s->from; release + 2 <= s->to; release++) {
      for (uint64_t in = s->returns ? release + 1 : s->to; in <= s->to; in++) {
        e->chosen[i] = (choice){true, out, release, in};
        choose(e, i + 1);
      }
    }
  }
}

/* The best of all schedules: least stall, then fewest bytes. */
static void search(everything *e, const td_trace *trace, uint64_t budget, bool early)
{
  static naive simulator;
  *e = (everything){.trace = trace, .schedule = {.memory_limit_bytes = budget, .early = early}, .naive = &simulator};
  e->schedule.actions = e->actions;
  simulator.trace = trace;
  simulator.schedule = &e->schedule;
  list_stretches(e);
  choose(e, 0);
}

static td_trace *tiny_trace(uint32_t *state)
{
  static char text[STORAGES_MAX][256];
  const char *lines[STORAGES_MAX + 1] = {0};
  uint32_t n_ops = 3 + script_below(state, 4), n = 1 + script_below(state, STORAGES_MAX), frees = script_below(state, 2);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t first = script_below(state, n_ops - 1), last = first;
    int length = snprintf(text[i], sizeof text[i], "%u %u", i, 100 * (1 + script_below(state, 15)));
    char uses[200] = "";
    int used = 0;
    for (uint32_t op = first; op < n_ops; op += 1 + script_below(state, 5)) {
      used += snprintf(uses + used, sizeof uses - (size_t)used, " %c%u", op == first || !script_below(state, 4) ? 'W' : 'R', op);
      last = op;
    }
    if (!script_below(state, 4)) length += snprintf(text[i] + length, sizeof text[i] - (size_t)length, " retained");
    else if (frees)
      length += snprintf(text[i] + length, sizeof text[i] - (size_t)length, " freed=%u", last + 1 + script_below(state, n_ops - last));
    snprintf(text[i] + length, sizeof text[i] - (size_t)length, "%s", uses);
    lines[i] = text[i];
  }
  return script_trace(n_ops, 1000, lines);
}

static void compare(const td_trace *trace, const everything *e, const char *planner, int round)
{
  td_schedule *schedule = NULL;
  td_plan_report report = {0};
  td_plan_options options = {.budget_bytes = e->schedule.memory_limit_bytes, .planner = planner, .early = e->schedule.early,
                             .d2h_bytes_per_s = 1e9, .h2d_bytes_per_s = 1e9};
  td_status status = td_plan(trace, &options, &schedule, &report, &err);
  cr_assert_eq(status, e->found ? TD_OK : TD_E_BUDGET, "round %d, %s: %d", round, planner, (int)status);
  if (status) {
    cr_assert_gt(report.min_budget_bytes, options.budget_bytes, "round %d", round);
    return;
  }
  naive *again = e->naive;
  again->schedule = schedule;
  naive_play(again);
  cr_assert_eq(again->faults, 0, "round %d, %s: unsafe", round, planner);
  cr_assert_leq(again->peak, options.budget_bytes, "round %d, %s", round, planner);
  uint64_t bytes = report.d2h_bytes + report.h2d_bytes;
  cr_assert_eq(report.predicted_stall_ns, again->stall);
  cr_assert_geq(report.predicted_stall_ns, e->stall, "round %d, %s: stall %d, least %d", round, planner,
                (int)report.predicted_stall_ns, (int)e->stall);
  if (strcmp(planner, "exact") == 0) {
    cr_assert_eq(report.predicted_stall_ns, e->stall, "round %d: stall %d, least %d", round, (int)report.predicted_stall_ns, (int)e->stall);
    cr_assert_eq(bytes, e->bytes, "round %d: bytes %d, least %d", round, (int)bytes, (int)e->bytes);
  }
  td_schedule_destroy(schedule);
}

/* No unsafe schedule, no budget refused that some schedule meets, and the exact planner's is the best there is. 10,000 traces in
 * ./run soak. */
Test(exhaustive, no_schedule_is_missed, .timeout = 3000)
{
  static everything e;
  uint32_t state = 99;
  int rounds = getenv("TD_SOAK") ? 10000 : 400, met = 0, stalled = 0;
  for (int round = 0; round < rounds;) {
    td_trace *trace = tiny_trace(&state);
    uint64_t most = 0;
    for (uint32_t i = 0; i < trace->n_storages; i++) most += trace->storages[i].bytes;
    search(&e, trace, most / 2 + script_below(&state, (uint32_t)most / 2 + 100), script_below(&state, 2));
    if (!e.too_many) {
      compare(trace, &e, "timed", round);
      compare(trace, &e, "exact", round);
      round++;
      met += e.found;
      stalled += e.found && e.stall;
    }
    td_trace_destroy(trace);
  }
  cr_expect_gt(met, rounds / 4);
  cr_expect_gt(stalled, rounds / 20);
}
