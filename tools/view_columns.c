/* A step in columns, for charts that have a fixed width, however long the step is. */
#include <inttypes.h>
#include <stdlib.h>

#include <tapedeck/size.h>

#include "view.h"

const char *const view_lane_names[VIEW_LANES] = {"stall", "D2H", "H2D"};

static double share(double part)
{
  return part < 0 ? 0 : part > 1 ? 1 : part;
}

/* Adds to each column from `begin` to `end`, in columns, the share of it that lies between. */
static void cover(view_columns *columns, double begin, double end, int lane)
{
  if (end > columns->n) end = columns->n;
  for (uint32_t i = begin < 0 ? 0 : (uint32_t)begin; i < columns->n && i < end; i++) {
    double *to = &columns->of[i].busy[lane], from = begin > i ? begin : i, until = end < i + 1.0 ? end : i + 1.0;
    *to = share(*to + until - from);
  }
}

/* Where op number `op` begins, in columns. */
static double place(const view_columns *columns, const td_simulation *s, uint64_t op)
{
  double at = columns->by_op ? (double)op : (double)s->timeline[op].start_ns;
  return at / (double)columns->length * columns->n;
}

static void add_op(view_columns *columns, const view_side *side, const td_simulation *shown, uint64_t op)
{
  uint64_t plain = side->plain->timeline[op].device_bytes, planned = side->planned ? side->planned->timeline[op].device_bytes : 0;
  double begin = place(columns, shown, op), end = op < side->trace->n_ops ? place(columns, shown, op + 1) : columns->n;
  uint32_t i = begin < columns->n ? (uint32_t)begin : columns->n - 1;
  do {
    view_column *column = &columns->of[i];
    if (column->plain < plain) column->plain = plain;
    if (column->planned < planned) column->planned = planned;
  } while (++i < columns->n && i < end);
  double stall = columns->by_op ? 0 : (double)shown->timeline[op].stall_ns / (double)columns->length * columns->n;
  cover(columns, begin - stall, begin, VIEW_STALL);
}

static void add_copies(view_columns *columns, const td_simulation *s)
{
  double scale = columns->n / (double)columns->length;
  for (size_t i = 0; i < s->n_transfers && !columns->by_op; i++) {
    const td_transfer *copy = &s->transfers[i];
    cover(columns, (double)copy->start_ns * scale, (double)copy->end_ns * scale,
          copy->kind == TD_COPY_D2H ? VIEW_D2H : VIEW_H2D);
  }
}

bool view_columns_init(view_columns *columns, const view_side *side, uint32_t n)
{
  const td_simulation *shown = side->planned ? side->planned : side->plain;
  *columns = (view_columns){.n = n, .by_op = !side->info.compute_ns, .peak = 1};
  columns->of = calloc(n, sizeof *columns->of);
  if (!columns->of) return false;
  columns->length = columns->by_op ? side->trace->n_ops : shown->timeline[side->trace->n_ops].start_ns;
  for (size_t i = 0; i < shown->n_transfers && !columns->by_op; i++)
    if (columns->length < shown->transfers[i].end_ns) columns->length = shown->transfers[i].end_ns;
  if (!columns->length) columns->length = 1;
  for (uint64_t op = 0; op <= side->trace->n_ops; op++) add_op(columns, side, shown, op);
  add_copies(columns, shown);
  for (uint32_t i = 0; i < n; i++) {
    if (columns->peak < columns->of[i].plain) columns->peak = columns->of[i].plain;
    if (columns->peak < columns->of[i].planned) columns->peak = columns->of[i].planned;
  }
  return true;
}

void view_summary(FILE *to, const view_side *side)
{
  char a[32], b[32];
  const td_simulation *s = side->planned;
  fprintf(to, "%s ops, peak %s", with_commas(side->info.ops, a), td_format_size(side->plain->peak_bytes, b, sizeof b));
  if (!s) {
    fputs(" without a schedule", to);
    return;
  }
  fprintf(to, "; schedule %" PRId64 ": peak %s", side->schedule->id, td_format_size(s->peak_bytes, a, sizeof a));
  if (side->schedule->memory_limit_bytes != UINT64_MAX)
    fprintf(to, " of %s", td_format_size(side->schedule->memory_limit_bytes, a, sizeof a));
  fprintf(to, ", stall %s", as_time(s->stall_ns, a));
  if (side->info.compute_ns) fprintf(to, " (%.1f%%)", 100.0 * (double)s->stall_ns / (double)side->info.compute_ns);
  if (s->n_faults) fprintf(to, ", %zu faults", s->n_faults);
}
