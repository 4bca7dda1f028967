/* What no schedule can better.
 *
 * Without a schedule an op has so many bytes alive; what is over the budget must have been copied out before it begins, at link
 * speed. Of these, storages that are not accessed again before the framework frees them need not come back; the rest must be copied in after
 * the op and before the end of the step. */
#include <stdlib.h>

#include "base/fail.h"
#include "planner/planners.h"

/* Adds to the bytes from an op on, and takes them away from another on. */
static void change(uint64_t *changes, uint64_t from, uint64_t to, uint64_t bytes)
{
  if (from >= to) return;
  changes[from] += bytes; /* modulo 2^64, as the sums are */
  changes[to] -= bytes;
}

static uint64_t at_least(double ns, uint64_t available)
{
  return ns > (double)available ? (uint64_t)(ns - (double)available) : 0;
}

static td_status find_floor(const td_liveness *liveness, td_plan_report *report, td_error *err)
{
  const td_trace *trace = liveness->trace;
  uint64_t n = trace->n_ops, *bytes = calloc((size_t)n + 1, sizeof *bytes);
  if (!bytes) return td_fail_nomem(err);
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    size_t n_uses;
    const td_use *uses = td_uses_of(liveness, i, &n_uses);
    for (size_t k = 0; k < n_uses; k++) bytes[uses[k].op] += trace->storages[i].bytes;
    if (n_uses && trace->storages[i].retained) bytes[n] += trace->storages[i].bytes;
  }
  report->floor_op = n;
  for (uint64_t op = 0; op <= n; op++)
    if (bytes[op] > bytes[report->floor_op]) report->floor_op = op;
  report->floor_bytes = bytes[report->floor_op];
  free(bytes);
  return TD_OK;
}

td_status td_bounds(const td_liveness *liveness, const td_plan_options *options, td_plan_report *report, td_error *err)
{
  const td_trace *trace = liveness->trace;
  uint64_t n = trace->n_ops, alive = 0, gone = 0, now = 0, all = 0;
  uint64_t *changes = calloc((size_t)n + 3, sizeof *changes), *leaving = calloc((size_t)n + 3, sizeof *leaving);
  if (!changes || !leaving) {
    free(changes);
    free(leaving);
    return td_fail_nomem(err);
  }
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    size_t n_uses;
    const td_use *uses = td_uses_of(liveness, i, &n_uses);
    if (!n_uses) continue;
    change(changes, uses[0].op, liveness->end[i], trace->storages[i].bytes);
    if (liveness->freed[i]) change(leaving, uses[n_uses - 1].op + 1, liveness->end[i], trace->storages[i].bytes);
  }
  for (uint64_t op = 0; op < n; op++) all += trace->ops[op].dur_ns;
  for (uint64_t op = 0; op < n; op++) {
    alive += changes[op];
    gone += leaving[op];
    uint64_t end = now + trace->ops[op].dur_ns;
    if (alive > options->budget_bytes) {
      uint64_t out = alive - options->budget_bytes, back = out > gone ? out - gone : 0;
      uint64_t stall = at_least((double)out * 1e9 / options->d2h_bytes_per_s, now) +
                       at_least((double)back * 1e9 / options->h2d_bytes_per_s, all - end);
      if (stall > report->bound_stall_ns) report->bound_stall_ns = stall;
      if (out > report->bound_d2h_bytes) report->bound_d2h_bytes = out;
      if (back > report->bound_h2d_bytes) report->bound_h2d_bytes = back;
    }
    now = end;
  }
  free(changes);
  free(leaving);
  return find_floor(liveness, report, err);
}
