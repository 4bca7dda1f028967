/* Time and gaps: what the default planner chooses from. */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/timed.h"

/* ---- time ----------------------------------------------------------------------------------------------------- */

static td_status set_times(td_timed *t, td_error *err)
{
  uint64_t n = t->trace->n_ops, now = 0;
  t->in_ops = true;
  t->start = malloc(((size_t)n + 1) * sizeof *t->start);
  if (!t->start) return td_fail_nomem(err);
  for (uint64_t op = 0; op < n; op++) t->in_ops &= t->trace->ops[op].dur_ns == 0;
  for (uint64_t op = 0; op <= n; op++) {
    t->start[op] = now;
    if (op < n) now = td_plus(now, t->in_ops ? 1 : t->trace->ops[op].dur_ns);
  }
  return TD_OK;
}

uint64_t td_timed_op_from(const td_timed *t, uint64_t ns)
{
  uint64_t low = 0, high = t->trace->n_ops;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (t->start[middle] < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

uint64_t td_timed_op_until(const td_timed *t, uint64_t ns)
{
  uint64_t op = td_timed_op_from(t, ns == UINT64_MAX ? ns : ns + 1);
  return op == t->trace->n_ops && t->start[op] <= ns ? op : op ? op - 1 : 0;
}

static uint64_t copy_ns(const td_timed *t, uint64_t bytes, double rate, uint64_t latency_ns)
{
  if (t->in_ops) return 0;
  double ns = ceil((double)bytes * 1e9 / rate) + (double)latency_ns;
  return ns >= 0x1p63 ? (uint64_t)1 << 63 : (uint64_t)ns;
}

/* ---- gaps ----------------------------------------------------------------------------------------------------- */

static double worth(const td_gap *g, uint64_t latency_ns)
{
  double ns = (double)g->out_ns + (double)g->in_ns, lost = (double)latency_ns;
  return ns > lost && lost > 0 ? (ns - lost) / ns : lost > 0 ? 1 / (1 + lost) : 1;
}

static bool add_gap(td_timed *t, uint32_t storage, uint64_t written, uint64_t from, uint64_t to, bool returns)
{
  const td_plan_options *o = t->options;
  uint64_t bytes = t->trace->storages[storage].bytes;
  if (to < from + 2 || !bytes || t->liveness->stays[storage] || t->scratch[to] == t->scratch[from + 1]) return true;
  if (!TD_GROW(t->gaps, t->gaps_capacity, t->n_gaps + 1) || !t->gaps) return false;
  const td_gap *before = t->n_gaps ? &t->gaps[t->n_gaps - 1] : NULL;
  bool same = before && before->storage == storage && before->written == written;
  td_gap *g = &t->gaps[t->n_gaps];
  *g = (td_gap){.storage = storage,
                .returns = returns,
                .bytes = bytes,
                .written = written,
                .from = from,
                .to = to,
                .out_ns = copy_ns(t, bytes, o->d2h_bytes_per_s, o->d2h_latency_ns),
                .in_ns = returns ? copy_ns(t, bytes, o->h2d_bytes_per_s, o->h2d_latency_ns) : 0,
                .bias = 1,
                .version = same ? before->version : t->n_gaps};
  g->worth = worth(g, td_plus(o->d2h_latency_ns, returns ? o->h2d_latency_ns : 0));
  t->n_gaps++;
  return true;
}

/* In `scratch`: how many ops before each one are over the budget. A gap without one would never be taken. */
static void count_over(td_timed *t)
{
  int64_t n = 0;
  for (uint64_t op = 0; op <= t->trace->n_ops; op++) {
    t->scratch[op] = n;
    n += t->base[op] > (int64_t)t->options->budget_bytes;
  }
}

static td_status list_gaps(td_timed *t, td_error *err)
{
  bool fits = true;
  count_over(t);
  for (uint32_t i = 0; i < t->trace->n_storages && fits; i++) {
    size_t n;
    const td_use *uses = td_uses_of(t->liveness, i, &n);
    uint64_t written = n ? uses[0].op : 0, end = t->liveness->end[i];
    bool retained = t->trace->storages[i].retained;
    for (size_t k = 0; k < n && fits; k++) {
      if (uses[k].writes) written = uses[k].op;
      if (k + 1 < n) fits = add_gap(t, i, written, uses[k].op, uses[k + 1].op, true);
      else if (retained) fits = add_gap(t, i, written, uses[k].op, t->trace->n_ops, true);
      else if (t->liveness->freed[i]) fits = add_gap(t, i, written, uses[k].op, end, false);
    }
  }
  t->order = malloc((t->n_gaps + 1) * sizeof *t->order);
  return fits && t->order ? TD_OK : td_fail_nomem(err);
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

static void set_base(td_timed *t)
{
  size_t positions = (size_t)t->trace->n_ops + 1;
  for (uint32_t i = 0; i < t->trace->n_storages; i++) {
    size_t n;
    const td_use *uses = td_uses_of(t->liveness, i, &n);
    if (!n) continue;
    t->base[uses[0].op] += (int64_t)t->trace->storages[i].bytes;
    if (t->liveness->end[i] < positions) t->base[t->liveness->end[i]] -= (int64_t)t->trace->storages[i].bytes;
  }
  for (size_t i = 1; i < positions; i++) t->base[i] += t->base[i - 1];
}

td_status td_timed_init(td_timed *t, const td_liveness *liveness, const td_plan_options *options, td_error *err)
{
  *t = (td_timed){.liveness = liveness, .trace = liveness->trace, .options = options};
  size_t positions = (size_t)t->trace->n_ops + 1;
  bool fits = td_segtree_init(&t->usage, positions);
  fits = td_segtree_init(&t->host, positions) && fits;
  t->base = calloc(positions, sizeof *t->base);
  t->scratch = calloc(positions + 1, sizeof *t->scratch);
  if (!fits || !t->base || !t->scratch) return td_fail_nomem(err);
  set_base(t);
  td_status status = set_times(t, err);
  return status ? status : list_gaps(t, err);
}

void td_timed_finish(td_timed *t)
{
  td_segtree_finish(&t->usage);
  td_segtree_finish(&t->host);
  free(t->start);
  free(t->gaps);
  free(t->order);
  free(t->base);
  free(t->scratch);
}
