/* Recorded steps played for real: as they were, and changed in every way, under every policy. */
#include <criterion/criterion.h>

#include <glob.h>
#include <malloc.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/replayer.h>

#include "play.h"
#include "temp_dir.h"
#include "virtual_device.h"

static temp_dir dir;
static td_error err;

static void create(void)
{
  dir = temp_dir_create();
}

static void destroy(void)
{
  temp_dir_remove(&dir);
}

TestSuite(traces, .init = create, .fini = destroy, .timeout = 600);

#define OK(call) cr_assert_eq((call), TD_OK, "%s", err.message)

/* ---- tapes ---------------------------------------------------------------------------------------------------- */

/* A trace with a schedule for a budget between its floor and its peak. */
typedef struct planned {
  char tape[400];
  td_trace *trace;
  uint64_t budget;
  td_plan_report report;
  double d2h, h2d;
} planned;

/* `slack`: how far above the floor, in hundredths of the way to the peak. Copies of all that is over the budget take a quarter of the step. */
static planned plan(const char *json, const char *name, unsigned slack)
{
  planned p = {0};
  td_tape *tape;
  td_trace_info info;
  td_schedule *schedule;
  snprintf(p.tape, sizeof p.tape, "%s", temp_file(&dir, name));
  OK(td_import(json, p.tape, &(td_import_options){.zstd_level = 1}, NULL, &err));
  OK(td_tape_open(&tape, p.tape, &err));
  OK(td_tape_info(tape, TD_NEWEST, &info, &err));
  OK(td_tape_load_trace(tape, TD_NEWEST, &p.trace, &err));
  td_tape_close(tape);
  p.budget = info.floor_bytes + (info.peak_bytes - info.floor_bytes) * slack / 100;
  uint64_t over = info.peak_bytes - p.budget > info.peak_bytes / 5 ? info.peak_bytes - p.budget : info.peak_bytes / 5;
  p.d2h = p.h2d = (double)over / ((double)(info.compute_ns ? info.compute_ns : 1) / 4e9) + 1;
  td_plan_options options = {.budget_bytes = p.budget, .d2h_bytes_per_s = p.d2h, .h2d_bytes_per_s = p.h2d};
  OK(td_plan(p.trace, &options, &schedule, &p.report, &err));
  OK(td_tape_add_schedule(p.tape, TD_NEWEST, schedule, &err));
  td_schedule_destroy(schedule);
  return p;
}

static uint64_t bytes_touched(const td_trace *trace)
{
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < trace->n_accesses; i++)
    if (trace->storages[trace->accesses[i].storage].activation) bytes += trace->storages[trace->accesses[i].storage].bytes;
  return bytes;
}

/* The fixtures, and the recorded traces where they are; the large ones in a soak only. */
static void for_each_trace(void (*f)(planned *p, const char *name), unsigned slack, uint64_t most_bytes)
{
  static const char *const patterns[] = {TD_FIXTURES "/four_layers.json", TD_SHARED "/traces/*.json.zst"};
  glob_t found;
  for (int i = 0; i < 2; i++) {
    if (glob(patterns[i], 0, NULL, &found)) continue;
    for (size_t k = 0; k < found.gl_pathc; k++) {
      planned p = plan(found.gl_pathv[k], "step.tape", slack);
      if (bytes_touched(p.trace) < most_bytes || getenv("TD_SOAK")) f(&p, strrchr(found.gl_pathv[k], '/') + 1);
      td_trace_destroy(p.trace);
    }
    globfree(&found);
  }
}

/* ---- playing -------------------------------------------------------------------------------------------------- */

typedef struct outcome {
  td_status status;
  td_step_stats stats;
  uint64_t wrong_bytes;
} outcome;

static outcome play_on_host(const char *tape, int64_t number, const td_trace *step, uint64_t capacity, td_policy policy)
{
  td_device *device;
  play p = {.trace = step, .on_host = true};
  outcome result;
  OK(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = capacity}, &err));
  OK(td_replayer_create(&p.deck, &(td_replayer_options){.path = tape, .trace = number, .device = device, .policy = policy}, &err));
  cr_assert(play_init(&p));
  result.status = play_step(&p);
  err = p.error;
  td_deck_stats(p.deck, &result.stats);
  result.wrong_bytes = p.wrong_bytes;
  play_finish(&p);
  td_deck_destroy(p.deck);
  cr_expect_eq(device->ops->used_bytes(device), 0, "everything is given back");
  td_device_close(device);
  return result;
}

static void plays_inside_the_budget(planned *p, const char *name)
{
  outcome o = play_on_host(p->tape, TD_NEWEST, p->trace, p->budget, TD_STRICT);
  cr_expect_eq(o.status, TD_OK, "%s: %s", name, err.message);
  cr_expect_eq(o.wrong_bytes, 0, "%s", name);
  cr_expect_leq(o.stats.peak_bytes, p->budget, "%s", name);
  cr_expect_eq(o.stats.demand_faults, 0, "%s: the schedule foresaw everything", name);
  cr_expect_eq(o.stats.d2h_bytes, p->report.d2h_bytes, "%s", name);
  cr_expect_eq(o.stats.h2d_bytes, p->report.h2d_bytes, "%s", name);
}

Test(traces, a_step_stays_inside_its_budget)
{
  for_each_trace(plays_inside_the_budget, 30, 300000000);
  for_each_trace(plays_inside_the_budget, 0, 300000000);
}

/* ---- on the model's own clock --------------------------------------------------------------------------------- */

static void compute(void *context, uint64_t ns)
{
  ((virtual_device *)context)->now_ns += (double)ns;
}

static void is_as_predicted(planned *p, const char *name)
{
  virtual_device v = {.device = {.ops = &virtual_device_ops}, .bytes_per_s = {p->d2h, p->h2d}};
  play played = {.trace = p->trace, .on_host = true, .compute = compute, .context = &v};
  td_step_stats stats;
  double compute_ns = 0;
  OK(td_replayer_create(&played.deck, &(td_replayer_options){.path = p->tape,
                                                                .device = &v.device,
                                                                .limit_bytes = TD_LIMIT_OF_SCHEDULE,
                                                                .policy = TD_STRICT},
                        &err));
  cr_assert(play_init(&played));
  cr_assert_eq(play_step(&played), TD_OK, "%s: %s", name, played.error.message);
  td_deck_stats(played.deck, &stats);
  for (uint64_t op = 0; op < p->trace->n_ops; op++) compute_ns += (double)p->trace->ops[op].dur_ns;
  cr_expect_eq(stats.peak_bytes, p->report.predicted_peak_bytes, "%s: peak %llu, predicted %llu", name,
               (unsigned long long)stats.peak_bytes, (unsigned long long)p->report.predicted_peak_bytes);
  double stall = v.now_ns - compute_ns, predicted = (double)p->report.predicted_stall_ns;
  cr_expect(stall < predicted * 1.001 + 1000 && stall > predicted * 0.999 - 1000, "%s: stall %.0f ns, predicted %.0f", name, stall,
            predicted);
  cr_expect_eq(played.wrong_bytes, 0, "%s", name);
  play_finish(&played);
  td_deck_destroy(played.deck);
  virtual_finish(&v);
}

Test(traces, on_the_model_s_clock_peak_and_stall_are_the_predicted_ones)
{
  for_each_trace(is_as_predicted, 30, 300000000);
  for_each_trace(is_as_predicted, 0, 300000000);
}

/* A copy that is asked for by the op that needs it: the first step waits for it, those that follow less and less, where there is room. */
Test(traces, late_copies_begin_earlier_in_the_next_step)
{
  static const td_action actions[] = {{1, 10, TD_POST, TD_COPY_D2H}, {1, 10, TD_POST, TD_RELEASE_DEVICE}, {8, 10, TD_PRE, TD_COPY_H2D}};
  planned p = plan(TD_FIXTURES "/four_layers.json", "step.tape", 100);
  td_schedule *schedule = calloc(1, sizeof *schedule);
  *schedule = (td_schedule){.planner = strdup("by hand"), .memory_limit_bytes = p.budget, .host_limit_bytes = UINT64_MAX};
  schedule->n_actions = sizeof actions / sizeof *actions;
  schedule->actions = malloc(sizeof actions);
  memcpy(schedule->actions, actions, sizeof actions);
  OK(td_tape_add_schedule(p.tape, TD_NEWEST, schedule, &err));
  virtual_device v = {.device = {.ops = &virtual_device_ops}, .bytes_per_s = {p.d2h, p.h2d}};
  play played = {.trace = p.trace, .on_host = true, .compute = compute, .context = &v};
  OK(td_replayer_create(&played.deck, &(td_replayer_options){.path = p.tape, .device = &v.device, .limit_bytes = p.budget}, &err));
  cr_assert(play_init(&played));
  double took[6];
  uint64_t late[6];
  for (int i = 0; i < 6; i++) {
    double began = v.now_ns;
    size_t n;
    td_step_stats stats;
    cr_assert_eq(play_step(&played), TD_OK, "%s", played.error.message);
    took[i] = v.now_ns - began;
    td_deck_stats(played.deck, &stats);
    late[i] = stats.late_prefetches;
    const td_wait *waits = td_deck_waits(played.deck, &n);
    cr_expect_eq(n, stats.late_prefetches + stats.demand_faults);
    for (size_t k = 0; k < n; k++) cr_expect(waits[k].op >= 0 && waits[k].bytes > 0 && waits[k].waited_ns > 0);
    cr_expect_leq(stats.peak_bytes, p.budget);
  }
  cr_expect_gt(late[0], 0);
  cr_expect_lt(late[5], late[0]);
  cr_expect_lt(took[5], took[0]);
  for (int i = 1; i < 6; i++) cr_expect_leq(took[i], took[i - 1]);
  cr_expect_eq(played.wrong_bytes, 0);
  play_finish(&played);
  td_deck_destroy(played.deck);
  td_schedule_destroy(schedule);
  td_trace_destroy(p.trace);
  virtual_finish(&v);
}

/* ---- steps that are not the recorded one ---------------------------------------------------------------------- */

typedef enum mutation { DROPPED, DOUBLED, SWAPPED, RENAMED, LEAVES, SHORT, LONG, N_MUTATIONS } mutation;

static const char *const mutation_names[] = {"dropped", "doubled", "swapped", "renamed", "leaves", "short", "long"};

/* The recorded ops in another order; op numbers of the trace. */
static size_t order(const td_trace *trace, mutation mutation, uint64_t at, uint64_t *ops)
{
  size_t n = 0;
  for (uint64_t op = 0; op < trace->n_ops; op++) {
    if (mutation == SHORT && op >= at) break;
    if (mutation == DROPPED && op == at) continue;
    uint64_t which = op;
    if (mutation == SWAPPED && op == at && op + 1 < trace->n_ops) which = op + 1;
    if (mutation == SWAPPED && op == at + 1) which = op - 1;
    ops[n++] = which;
    if (mutation == DOUBLED && op == at) ops[n++] = op;
  }
  for (uint64_t op = 0; mutation == LONG && op < 3; op++) ops[n++] = at + op < trace->n_ops ? at + op : at;
  return n;
}

/* A step of these ops, in arrays of its own. */
typedef struct step {
  td_trace trace;
  td_op *ops;
  td_access *accesses;
  td_output_binding *outputs;
  td_storage_info *storages;
  td_name *names;
  uint32_t *retained;
} step;

static void append(step *s, const td_trace *from, uint64_t op)
{
  td_op *to = &s->ops[s->trace.n_ops++];
  *to = from->ops[op];
  to->first_access = s->trace.n_accesses;
  to->first_output = s->trace.n_outputs;
  for (uint64_t i = from->ops[op].first_access; i < from->ops[op + 1].first_access; i++)
    s->accesses[s->trace.n_accesses++] = from->accesses[i];
  for (uint64_t i = from->ops[op].first_output; i < from->ops[op + 1].first_output; i++)
    s->outputs[s->trace.n_outputs++] = from->outputs[i];
  to[1] = (td_op){.first_access = s->trace.n_accesses, .first_output = s->trace.n_outputs};
}

/* Frees come before the first op behind them that is still there. */
static void move_frees(step *s, const td_trace *from, const uint64_t *ops, size_t n)
{
  for (uint32_t i = 0; i < from->n_storages; i++) {
    uint64_t *freed = &s->storages[i].freed_before_op, place = 0;
    if (*freed == TD_NEVER) continue;
    for (size_t k = 0; k < n; k++)
      if (ops[k] < *freed) place = k + 1;
    *freed = place;
  }
}

static step mutate(const td_trace *from, mutation mutation, uint64_t at)
{
  uint64_t *ops = malloc((from->n_ops + 8) * sizeof *ops), most = 0;
  size_t n = order(from, mutation, at, ops);
  for (uint64_t op = 0; op < from->n_ops; op++) {
    uint64_t n_accesses = from->ops[op + 1].first_access - from->ops[op].first_access;
    uint64_t n_outputs = from->ops[op + 1].first_output - from->ops[op].first_output;
    if (n_accesses + n_outputs > most) most = n_accesses + n_outputs;
  }
  step s = {.trace = *from};
  s.ops = calloc(n + 2, sizeof *s.ops);
  s.accesses = calloc(from->n_accesses + 4 * most + 1, sizeof *s.accesses);
  s.outputs = calloc(from->n_outputs + 4 * most + 1, sizeof *s.outputs);
  s.storages = calloc(from->n_storages + 1, sizeof *s.storages);
  s.names = calloc(from->n_names + 2, sizeof *s.names);
  memcpy(s.storages, from->storages, from->n_storages * sizeof *s.storages);
  memcpy(s.names, from->names, from->n_names * sizeof *s.names);
  s.names[from->n_names] = (td_name){"an op that was not recorded", 27};
  s.trace.n_ops = s.trace.n_accesses = s.trace.n_outputs = 0;
  for (size_t i = 0; i < n; i++) append(&s, from, ops[i]);
  move_frees(&s, from, ops, n);
  if (mutation == RENAMED) s.ops[at].name = from->n_names;
  if (mutation == LEAVES) s.ops[at].leaves += 2;
  s.trace.ops = s.ops;
  s.trace.accesses = s.accesses;
  s.trace.outputs = s.outputs;
  s.trace.storages = s.storages;
  s.trace.names = s.names;
  free(ops);
  return s;
}

static void step_finish(step *s)
{
  free(s->ops);
  free(s->accesses);
  free(s->outputs);
  free(s->storages);
  free(s->names);
}

/* An op twice in a row, or two that are alike swapped, is no difference that could be told. */
static bool is_the_same(const td_trace *trace, mutation mutation, uint64_t at)
{
  if (mutation != SWAPPED) return false;
  const td_op *a = &trace->ops[at], *b = &trace->ops[at + 1 < trace->n_ops ? at + 1 : at];
  return a->name == b->name && a->leaves == b->leaves;
}

static void survives(planned *p, const char *name, mutation mutation, uint64_t at)
{
  step s = mutate(p->trace, mutation, at);
  for (td_policy policy = TD_RESYNC; policy <= TD_RERECORD; policy++) {
    outcome o = play_on_host(p->tape, TD_NEWEST, &s.trace, p->budget, policy);
    const char *what = mutation_names[mutation];
    if (policy == TD_STRICT) {
      /* What it meets before it can tell may be a storage that is not where it should be. */
      cr_expect(o.status != TD_OK || is_the_same(p->trace, mutation, at), "%s, %s at %d: not noticed", name, what, (int)at);
      continue;
    }
    cr_expect_eq(o.status, TD_OK, "%s, %s at %d, policy %d: %s", name, what, (int)at, policy, err.message);
    cr_expect_eq(o.wrong_bytes, 0, "%s, %s at %d, policy %d", name, what, (int)at, policy);
    cr_expect(o.stats.diverged_ops || is_the_same(p->trace, mutation, at), "%s, %s at %d, policy %d", name, what, (int)at, policy);
    cr_expect_leq(o.stats.peak_bytes, p->budget);
  }
  step_finish(&s);
}

static void survives_all(planned *p, const char *name)
{
  unsigned places = getenv("TD_SOAK") ? 16 : p->trace->n_ops < 200 ? 3 : 1;
  for (mutation mutation = 0; mutation < N_MUTATIONS; mutation++)
    for (unsigned i = 0; i < places; i++) survives(p, name, mutation, (2 * i + 1) * p->trace->n_ops / (2 * places));
}

Test(traces, changed_steps_keep_every_byte_under_every_policy)
{
  for_each_trace(survives_all, 30, 40000000);
}

/* ---- many steps ----------------------------------------------------------------------------------------------- */

/* Bytes that the process has allocated. AddressSanitizer keeps count where it is there, else the allocator does. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static size_t allocated_bytes(void)
{
  if (__sanitizer_get_current_allocated_bytes) return __sanitizer_get_current_allocated_bytes();
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* Whole steps, ones that leave the trace, and aborted ones by turns: nothing is left behind, however many there were. */
Test(traces, steps_leave_no_byte_behind)
{
  int rounds = getenv("TD_SOAK") ? 2500 : 75;
  planned p = plan(TD_FIXTURES "/four_layers.json", "step.tape", 30);
  step changed = mutate(p.trace, DROPPED, 4);
  td_device *device;
  td_deck *deck;
  size_t before = 0;
  OK(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = p.budget}, &err));
  OK(td_replayer_create(&deck, &(td_replayer_options){.path = p.tape, .device = device}, &err));
  play whole = {.deck = deck, .trace = p.trace, .on_host = true}, other = {.deck = deck, .trace = &changed.trace, .on_host = true};
  cr_assert(play_init(&whole) && play_init(&other));
  for (int i = 0; i < rounds; i++) { /* four steps each */
    cr_assert_eq(play_step(&whole), TD_OK);
    cr_assert_eq(play_step(&other), TD_OK);
    cr_assert_eq(play_step(&whole), TD_OK);
    cr_assert_eq(td_step_begin(deck), TD_OK);
    td_storage storage;
    cr_assert_eq(td_storage_alloc(deck, 1000, &storage), TD_OK);
    cr_assert_eq(td_step_abort(deck), TD_OK);
    cr_assert_eq(device->ops->used_bytes(device), 0);
    if (i == rounds / 3) before = allocated_bytes();
  }
  cr_expect_leq(allocated_bytes(), before + 4096, "%zu bytes more", allocated_bytes() - before);
  cr_expect_eq(whole.wrong_bytes + other.wrong_bytes, 0);
  play_finish(&whole);
  play_finish(&other);
  step_finish(&changed);
  td_trace_destroy(p.trace);
  td_deck_destroy(deck);
  td_device_close(device);
}

/* ---- steps with variants -------------------------------------------------------------------------------------- */

static uint64_t floor_of(const char *tape)
{
  td_tape *open;
  td_trace_info info;
  OK(td_tape_open(&open, tape, &err));
  OK(td_tape_info(open, TD_NEWEST, &info, &err));
  td_tape_close(open);
  return info.floor_bytes;
}

static bool there(const char *path)
{
  return access(path, R_OK) == 0;
}

/* One of two recorded branches is replayed while the other runs; then the tape has both. */
static void branches(const char *a_json, const char *b_json)
{
  if (!there(a_json) || !there(b_json)) return;
  planned both[2] = {plan(a_json, "a.tape", 30), plan(b_json, "b.tape", 30)};
  for (int i = 0; i < 2; i++) {
    const planned *guide = &both[i], *run = &both[!i];
    uint64_t floor = floor_of(run->tape), capacity = floor > guide->budget ? floor : guide->budget;
    for (td_policy policy = TD_RESYNC; policy <= TD_RERECORD; policy++) {
      outcome o = play_on_host(guide->tape, TD_NEWEST, run->trace, capacity, policy);
      cr_expect_eq(o.status, policy == TD_STRICT ? TD_E_DIVERGED : TD_OK, "%s", err.message);
      cr_expect_eq(o.wrong_bytes, 0);
    }
  }
  const char *merged = temp_file(&dir, "both.tape"), *const tapes[] = {both[0].tape, both[1].tape};
  OK(td_merge(tapes, 2, merged, &err));
  for (int i = 0; i < 2; i++) {
    outcome o = play_on_host(merged, TD_EVERY, both[i].trace, both[i].budget, TD_RESYNC);
    cr_expect_eq(o.status, TD_OK, "%s", err.message);
    cr_expect_eq(o.wrong_bytes, 0);
    cr_expect_eq(o.stats.diverged_ops, 0, "variant %d", i);
    cr_expect_eq(o.stats.trace, i + 1);
    td_trace_destroy(both[i].trace);
  }
}

Test(traces, branches_and_lengths_are_variants)
{
  branches(TD_SHARED "/traces/i_earlyexit_A.json.zst", TD_SHARED "/traces/i_earlyexit_B.json.zst");
  branches(TD_SHARED "/traces/j_gpt4_seq64.json.zst", TD_SHARED "/traces/j_gpt4_seq128.json.zst");
}
