/* Planning: stall and bytes beside greedy on the recorded traces, and time against size. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>

#include "bench.h"

static td_error err;

static const char *const names[] = {"a_mlp",         "b_resnet18",    "c_gpt4",       "c_gpt4_step2",     "e_lstm",
                                    "h_gpt4_ckpt_nonreentrant", "i_earlyexit_A", "i_earlyexit_B", "j_gpt4_seq128", "j_gpt4_seq64",
                                    "l_gpt4_adam_loop", "l_mlp_adam_foreach", "n_gpt24_acc8", "x_double_backward"};

static td_trace *load(const char *folder, const char *name, td_trace_info *info)
{
  char in[600];
  td_tape *tape;
  td_trace *trace = NULL;
  const char *path = bench_file("plan.tape");
  snprintf(in, sizeof in, "%s/%s.json.zst", folder, name);
  if (td_import(in, path, NULL, NULL, &err) || td_tape_open(&tape, path, &err)) return NULL;
  if (td_tape_info(tape, TD_NEWEST, info, &err) || td_tape_load_trace(tape, TD_NEWEST, &trace, &err)) trace = NULL;
  td_tape_close(tape);
  return trace;
}

/* ---- schedules ------------------------------------------------------------------------------------------------ */

/* One planner on one case: shares of the step; bytes both ways. */
typedef struct outcome {
  bool met;
  double stall, bound, bytes;
} outcome;

static outcome plan_case(const td_trace *trace, const td_trace_info *info, uint64_t budget, const char *planner, bool early)
{
  /* Copying out what must leave, but at least a fifth of the peak, takes a quarter of the step. */
  uint64_t least = info->peak_bytes / 5, must = info->peak_bytes - budget;
  double rate = (double)(must > least ? must : least) / (0.25 * (double)info->compute_ns / 1e9);
  td_plan_options options = {
      .budget_bytes = budget, .planner = planner, .early = early, .d2h_bytes_per_s = rate, .h2d_bytes_per_s = rate};
  td_plan_report report;
  td_schedule *schedule = NULL;
  if (td_plan(trace, &options, &schedule, &report, &err)) return (outcome){0};
  td_schedule_destroy(schedule);
  return (outcome){.met = true,
                   .stall = (double)report.predicted_stall_ns / (double)info->compute_ns,
                   .bound = (double)report.bound_stall_ns / (double)info->compute_ns,
                   .bytes = (double)(report.d2h_bytes + report.h2d_bytes)};
}

/* Of all cases, by what they are judged by. */
typedef struct figures {
  double excess[64], moved[64]; /* stall above its bound; bytes by the linear program's */
  size_t n, cases;
} figures;

static void note(figures *f, const outcome *o, double least_bytes)
{
  f->cases++;
  if (!o->met) return;
  f->excess[f->n] = o->stall - o->bound;
  f->moved[f->n++] = least_bytes > 0 ? o->bytes / least_bytes : 0;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
  qsort(values, n, sizeof *values, by_value);
  return n ? (values[(n - 1) / 2] + values[n / 2]) / 2 : 0;
}

static double mean(const double *values, size_t n)
{
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += values[i];
  return n ? sum / (double)n : 0;
}

static double share_up_to(const double *values, size_t n, double most)
{
  size_t within = 0;
  for (size_t i = 0; i < n; i++) within += values[i] <= most;
  return n ? (double)within / (double)n : 0;
}

static void show_figures(figures *ours, figures *theirs, const char *rule)
{
  char row[80];
  snprintf(row, sizeof row, "budgets met of %zu at or above the floor%s", ours->cases, rule);
  bench_row(row, "cases", (double)ours->n, (double)theirs->n, "greedy");
  snprintf(row, sizeof row, "stall above its bound, median%s", rule);
  bench_row(row, "%step", 100 * median(ours->excess, ours->n), 100 * median(theirs->excess, theirs->n), "greedy; asked 0.2");
  snprintf(row, sizeof row, "stall above its bound, mean%s", rule);
  bench_row(row, "%step", 100 * mean(ours->excess, ours->n), 100 * mean(theirs->excess, theirs->n), "greedy; asked 3");
  if (!bench_knows_bytes()) return;
  snprintf(row, sizeof row, "bytes by the LP bound, median%s", rule);
  bench_row(row, "times", median(ours->moved, ours->n), median(theirs->moved, theirs->n), "greedy; asked 1.01");
  snprintf(row, sizeof row, "cases within 1.1 of the LP bound%s", rule);
  bench_row(row, "share", share_up_to(ours->moved, ours->n, 1.1), share_up_to(theirs->moved, theirs->n, 1.1), "greedy; asked 0.9");
}

static void bench_case(const td_trace *trace, const td_trace_info *info, const char *name, int percent, figures *f)
{
  uint64_t budget = info->peak_bytes / 100 * (uint64_t)percent;
  if (budget < info->floor_bytes) return;
  double least = bench_fewest_bytes(trace, budget, false), least_early = bench_fewest_bytes(trace, budget, true);
  outcome o = plan_case(trace, info, budget, "timed", false), e = plan_case(trace, info, budget, "timed", true);
  outcome g = plan_case(trace, info, budget, "greedy", true);
  char row[80];
  note(&f[0], &o, least);
  note(&f[1], &e, least_early);
  note(&f[2], &g, least_early);
  snprintf(row, sizeof row, "stall, %s at %d%%", name, percent);
  bench_row(row, "%step", 100 * o.stall, 100 * o.bound, "its bound");
  snprintf(row, sizeof row, "stall, %s at %d%%, --early", name, percent);
  if (g.met) bench_row(row, "%step", 100 * e.stall, 100 * g.stall, "greedy");
  snprintf(row, sizeof row, "bytes moved, %s at %d%%", name, percent);
  if (least > 0) bench_row(row, "MiB", o.bytes / 0x1p20, least / 0x1p20, "LP bound");
  snprintf(row, sizeof row, "bytes moved, %s at %d%%, --early", name, percent);
  if (g.met) bench_row(row, "MiB", e.bytes / 0x1p20, g.bytes / 0x1p20, "greedy");
}

static void bench_schedules(const char *folder)
{
  static figures f[3]; /* ours with frees, ours and greedy's with --early */
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    td_trace_info info;
    td_trace *trace = load(folder, names[i], &info);
    for (int percent = 80; trace && percent >= 60; percent -= 20) bench_case(trace, &info, names[i], percent, f);
    td_trace_destroy(trace);
  }
  show_figures(&f[0], &f[2], "");
  show_figures(&f[1], &f[2], ", --early");
}

/* ---- time ----------------------------------------------------------------------------------------------------- */

/* Layers forward and backward, in micro-batches of 5,000 ops: half of the ops keep an activation for the backward pass. */
static td_trace *made(uint64_t n_ops)
{
  enum { BATCH = 5000 };
  td_trace *trace = calloc(1, sizeof *trace);
  td_op *ops = calloc(n_ops + 1, sizeof *ops);
  td_access *accesses = calloc(3 * n_ops, sizeof *accesses);
  td_storage_info *storages = calloc(n_ops, sizeof *storages);
  uint32_t *activations = calloc(n_ops, sizeof *activations);
  td_name *name = malloc(sizeof *name);
  *name = (td_name){"op", 2};
  uint64_t n = 0;
  for (uint64_t i = 0; i < n_ops; i++) {
    uint64_t at = i % BATCH, batch = i - at;
    ops[i] = (td_op){.dur_ns = 20000 + (i * 7919) % 10000, .leaves = 1, .first_access = n};
    storages[i] = (td_storage_info){
        .sid = i, .bytes = 4096 << (i % 7), .activation = true, .freed_before_op = at < BATCH / 2 ? batch + BATCH - at : i + 2};
    if (storages[i].freed_before_op > n_ops) storages[i].freed_before_op = n_ops;
    activations[i] = (uint32_t)i;
    if (at) accesses[n++] = (td_access){.storage = (uint32_t)i - 1, .kind = TD_READ};
    if (at >= BATCH / 2 && BATCH - 1 - at + batch != i - 1)
      accesses[n++] = (td_access){.storage = (uint32_t)(batch + BATCH - 1 - at), .kind = TD_READ};
    accesses[n++] = (td_access){.storage = (uint32_t)i, .kind = TD_WRITE};
  }
  ops[n_ops].first_access = n;
  *trace = (td_trace){.n_ops = n_ops, .n_accesses = n, .n_names = 1, .n_storages = (uint32_t)n_ops, .n_activations = (uint32_t)n_ops,
                      .complete = true, .has_frees = true, .ops = ops, .accesses = accesses, .names = name, .storages = storages,
                      .activations = activations};
  return trace;
}

/* Processor time, since planning has one thread and others may use the machine. */
static double plan_time(const td_trace *trace, const char *planner)
{
  td_simulation *plain;
  td_schedule *schedule = NULL;
  if (td_simulate(trace, NULL, false, &plain, &err)) return -1;
  td_plan_options options = {.budget_bytes = plain->peak_bytes / 2, .planner = planner, .d2h_bytes_per_s = 4e9, .h2d_bytes_per_s = 4e9};
  td_simulation_destroy(plain);
  uint64_t begun = bench_cpu_ns();
  if (td_plan(trace, &options, &schedule, NULL, &err)) fprintf(stderr, "bench: %s\n", err.message);
  td_schedule_destroy(schedule);
  return (double)(bench_cpu_ns() - begun);
}

/* The large recorded step at half of its peak; since its retained storages alone are more than that, they are taken as freed after
 * their last access. */
static void bench_recorded(const char *folder)
{
  td_trace_info info;
  td_trace *trace = load(folder, "n_gpt24_acc8", &info);
  if (!trace) return;
  for (uint32_t i = 0; i < trace->n_retained; i++) ((td_storage_info *)trace->storages)[trace->retained[i]].retained = false;
  trace->n_retained = 0;
  bench_row("plan n_gpt24_acc8 at 50%", "ms", plan_time(trace, "timed") / 1e6, plan_time(trace, "greedy") / 1e6, "greedy; asked 100");
  td_trace_destroy(trace);
}

/* Every size has a trace of its own; TD_BENCH_LARGE adds 10 million ops. */
static void bench_growth(void)
{
  static const uint64_t sizes[] = {10000, 93000, 1000000, 10000000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes - !getenv("TD_BENCH_LARGE"); i++) {
    td_trace *trace = made(sizes[i]);
    char row[80];
    snprintf(row, sizeof row, "plan %llu ops at 50%%", (unsigned long long)sizes[i]);
    bench_row(row, "ms", plan_time(trace, "timed") / 1e6, plan_time(trace, "greedy") / 1e6,
              sizes[i] == 93000 ? "greedy; asked 300" : sizes[i] == 10000000 ? "greedy; asked 60000" : "greedy");
    td_trace_destroy(trace);
  }
}

void bench_plan(void)
{
  if (bench_traces()) bench_schedules(bench_traces());
  if (bench_traces()) bench_recorded(bench_traces());
  bench_growth();
}
