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

/* Stall as a share of the step; bytes both ways in *bytes. -1: the budget is not met. */
static double stall_of(const td_trace *trace, const td_trace_info *info, uint64_t budget, const char *planner, bool early, double *bytes)
{
  /* Copying out what must leave, but at least a fifth of the peak, takes a quarter of the step. */
  uint64_t least = info->peak_bytes / 5, must = info->peak_bytes - budget;
  double rate = (double)(must > least ? must : least) / (0.25 * (double)info->compute_ns / 1e9);
  td_plan_options options = {
      .budget_bytes = budget, .planner = planner, .early = early, .d2h_bytes_per_s = rate, .h2d_bytes_per_s = rate};
  td_plan_report report;
  td_schedule *schedule = NULL;
  if (td_plan(trace, &options, &schedule, &report, &err)) return -1;
  td_schedule_destroy(schedule);
  *bytes = (double)(report.d2h_bytes + report.h2d_bytes);
  return (double)report.predicted_stall_ns / (double)info->compute_ns;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void bench_stall(const char *folder)
{
  double ours[64], theirs[64], mean = 0, their_mean = 0;
  size_t n = 0, met = 0, their_n = 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    td_trace_info info;
    td_trace *trace = load(folder, names[i], &info);
    for (int percent = 80; trace && percent >= 60; percent -= 20) {
      uint64_t budget = info.peak_bytes / 100 * (uint64_t)percent;
      double bytes = 0, other_bytes = 0;
      char row[80];
      if (budget < info.floor_bytes) continue;
      n++;
      double stall = stall_of(trace, &info, budget, "timed", true, &bytes);
      double other = stall_of(trace, &info, budget, "greedy", true, &other_bytes);
      snprintf(row, sizeof row, "stall, %s at %d%%", names[i], percent);
      if (stall >= 0) ours[met++] = stall, mean += stall;
      if (other >= 0) theirs[their_n++] = other, their_mean += other;
      bench_row(row, "share", stall, other, other < 0 ? "greedy cannot meet it" : "greedy, both --early");
      snprintf(row, sizeof row, "bytes moved, %s at %d%%", names[i], percent);
      if (other >= 0) bench_row(row, "MiB", bytes / 0x1p20, other_bytes / 0x1p20, "greedy, both --early");
    }
    td_trace_destroy(trace);
  }
  qsort(ours, met, sizeof *ours, by_value);
  qsort(theirs, their_n, sizeof *theirs, by_value);
  if (!met || !their_n) return;
  bench_row("stall, median", "share", ours[met / 2], theirs[their_n / 2], "greedy, where it can");
  bench_row("stall, mean", "share", mean / (double)met, their_mean / (double)their_n, "greedy, where it can");
  bench_row("budgets met of those at or above the floor", "cases", (double)met, (double)their_n, "greedy");
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

static double plan_time(const td_trace *trace, const char *planner)
{
  td_simulation *plain;
  td_schedule *schedule = NULL;
  if (td_simulate(trace, NULL, false, &plain, &err)) return -1;
  td_plan_options options = {.budget_bytes = plain->peak_bytes / 2, .planner = planner, .d2h_bytes_per_s = 4e9, .h2d_bytes_per_s = 4e9};
  td_simulation_destroy(plain);
  uint64_t wall = bench_wall_ns();
  if (td_plan(trace, &options, &schedule, NULL, &err)) fprintf(stderr, "bench: %s\n", err.message);
  td_schedule_destroy(schedule);
  return (double)(bench_wall_ns() - wall);
}

void bench_plan(void)
{
  if (bench_traces()) bench_stall(bench_traces());
  for (uint64_t n = 10000; n <= 1000000; n *= 10) {
    td_trace *trace = made(n);
    char row[80];
    snprintf(row, sizeof row, "plan %llu ops at 50%%", (unsigned long long)n);
    bench_row(row, "ns/op", plan_time(trace, "timed") / (double)n, plan_time(trace, "greedy") / (double)n, "greedy");
    td_trace_destroy(trace);
  }
}
