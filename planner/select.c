/* Which gaps the default planner takes.
 *
 * Gaps with the longest relief first, each taken if an op in its relief is over the budget. What is over even so is relieved by
 * stretching gaps to all of their length, at the price of stall. Then, in reverse, whatever turns out not to be needed is dropped. */
#include <stdlib.h>

#include "planner/timed.h"

#define SLACK 100000 /* of the step: a copy that takes no more than this part of it stalls next to nothing, and counts as none */

static void set_relief(const td_timed *t, td_gap *g, double margin)
{
  uint64_t written = t->start[g->written + 1], slack = t->start[t->trace->n_ops] / SLACK;
  uint64_t out = td_scaled(g->out_ns, margin), in = td_scaled(g->in_ns, margin), back = t->start[g->to];
  g->leaves = td_timed_op_from(t, td_plus(written, out > slack ? out - slack : 0));
  if (g->leaves <= g->from) g->leaves = g->from + 1;
  in = in > slack ? in - slack : 0;
  g->fetch = !g->returns ? g->to : back < in ? 0 : td_timed_op_until(t, back - in);
  if (g->fetch > g->to) g->fetch = g->to;
  g->taken = g->stretched = false;
  g->host_until = 0;
  double relief = g->fetch > g->leaves ? (double)(t->start[g->fetch] - t->start[g->leaves]) : 0;
  g->score = (g->returns ? relief : 2 * relief) * g->worth * g->bias; /* one that never returns moves half the bytes */
  if (g->bias >= TD_FORCED) g->score = 1e300;
}

static int by_score(const void *a, const void *b, void *context)
{
  const td_gap *gaps = context, *x = &gaps[*(const size_t *)a], *y = &gaps[*(const size_t *)b];
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->to - x->from != y->to - y->from) return x->to - x->from > y->to - y->from ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static bool over(const td_timed *t, uint64_t from, uint64_t to)
{
  return td_segtree_max(&t->usage, (size_t)from, (size_t)to) > (int64_t)t->options->budget_bytes;
}

static bool any_over(const td_timed *t)
{
  return t->usage.most[1] > (int64_t)t->options->budget_bytes;
}

static void add(td_timed *t, uint64_t from, uint64_t to, int64_t bytes)
{
  td_segtree_add(&t->usage, (size_t)from, (size_t)to, bytes);
}

/* The host copy of a gap's version stands until the last gap of it that was taken ends. To take a gap may lengthen that. */
static bool take_host(td_timed *t, const td_gap *g)
{
  uint64_t *until = &t->gaps[g->version].host_until;
  uint64_t from = *until ? *until : g->written, to = g->returns && g->to < t->trace->n_ops ? g->to + 1 : g->to;
  if (t->options->host_bytes == UINT64_MAX || from >= to) return true;
  if (g->bytes > t->options->host_bytes ||
      td_segtree_max(&t->host, (size_t)from, (size_t)to) > (int64_t)(t->options->host_bytes - g->bytes))
    return false;
  td_segtree_add(&t->host, (size_t)from, (size_t)to, (int64_t)g->bytes);
  *until = to;
  return true;
}

static void stretch(td_timed *t, td_gap *g)
{
  add(t, g->from + 1, g->taken ? g->leaves : g->to, -(int64_t)g->bytes);
  if (g->taken) add(t, g->fetch, g->to, -(int64_t)g->bytes);
  g->taken = g->stretched = true;
}

static bool take_gaps(td_timed *t, double margin)
{
  for (size_t i = 0; i < t->n_gaps; i++) {
    set_relief(t, &t->gaps[i], margin);
    t->order[i] = i;
  }
  if (t->n_gaps) qsort_r(t->order, t->n_gaps, sizeof *t->order, by_score, t->gaps);
  td_segtree_set(&t->usage, t->base, (size_t)t->trace->n_ops + 1);
  if (t->options->host_bytes != UINT64_MAX) td_segtree_clear(&t->host);
  for (size_t i = 0; i < t->n_gaps && any_over(t); i++) {
    td_gap *g = &t->gaps[t->order[i]];
    if (g->bias >= TD_FORCED && over(t, g->from + 1, g->to) && take_host(t, g)) stretch(t, g);
    if (g->taken || g->fetch <= g->leaves || !over(t, g->leaves, g->fetch) || !take_host(t, g)) continue;
    add(t, g->leaves, g->fetch, -(int64_t)g->bytes);
    g->taken = true;
  }
  for (size_t i = 0; i < t->n_gaps && any_over(t); i++) {
    td_gap *g = &t->gaps[t->order[i]];
    if (g->stretched) continue;
    bool helps = g->taken ? over(t, g->from + 1, g->leaves) || over(t, g->fetch, g->to) : over(t, g->from + 1, g->to);
    if (helps && (g->taken || take_host(t, g))) stretch(t, g);
  }
  return !any_over(t);
}

/* Whatever can stay stays: first the ends of stretched gaps, then whole gaps, the last chosen first. */
static void drop_unneeded(td_timed *t)
{
  for (size_t i = t->n_gaps; i--;) {
    td_gap *g = &t->gaps[t->order[i]];
    if (!g->taken) continue;
    uint64_t from = g->stretched ? g->from + 1 : g->leaves, to = g->stretched ? g->to : g->fetch;
    add(t, from, to, (int64_t)g->bytes);
    if (!over(t, from, to)) {
      g->taken = g->stretched = false;
      continue;
    }
    add(t, from, to, -(int64_t)g->bytes);
    if (!g->stretched || g->fetch <= g->leaves) continue;
    add(t, g->from + 1, g->leaves, (int64_t)g->bytes);
    add(t, g->fetch, g->to, (int64_t)g->bytes);
    g->stretched = false;
    if (!over(t, g->from + 1, g->to)) continue;
    add(t, g->from + 1, g->leaves, -(int64_t)g->bytes);
    add(t, g->fetch, g->to, -(int64_t)g->bytes);
    g->stretched = true;
  }
}

bool td_timed_select(td_timed *t, double margin)
{
  if (!take_gaps(t, margin)) return false;
  drop_unneeded(t);
  return true;
}

uint64_t td_timed_smallest_budget(td_timed *t, td_plan_options *options, uint64_t *op)
{
  td_segtree_set(&t->usage, t->base, (size_t)t->trace->n_ops + 1);
  uint64_t high = (uint64_t)t->usage.most[1];
  for (size_t i = 0; i < t->n_gaps; i++) add(t, t->gaps[i].from + 1, t->gaps[i].to, -(int64_t)t->gaps[i].bytes);
  *op = td_segtree_argmax(&t->usage);
  uint64_t low = (uint64_t)t->usage.most[1];
  options->budget_bytes = low;
  if (take_gaps(t, 1)) return low;
  while (high - low > 1) {
    options->budget_bytes = low + (high - low) / 2;
    if (take_gaps(t, 1)) high = options->budget_bytes;
    else low = options->budget_bytes;
  }
  return high;
}
