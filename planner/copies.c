/* When the copies of the default planner are queued.
 *
 * Copies out go in order of need, earliest deadline first, as soon as the last write is done. Copies in are queued backwards from
 * their need on one engine, and start as late as that allows, or later where there is no room. */
#include <stdlib.h>

#include "base/fail.h"
#include "planner/timed.h"

/* ---- copies out ----------------------------------------------------------------------------------------------- */

/* One copy out: of the first taken gap of a version. */
typedef struct copy {
  size_t gap;
  uint64_t deadline_ns; /* when an op needs its room */
  bool queued;
} copy;

static int by_written(const void *a, const void *b, void *context)
{
  const td_gap *gaps = context;
  const copy *x = a, *y = b;
  uint64_t w = gaps[x->gap].written, v = gaps[y->gap].written;
  if (w != v) return w < v ? -1 : 1;
  return (x->gap > y->gap) - (x->gap < y->gap);
}

static int by_from(const void *a, const void *b, void *context)
{
  const td_gap *gaps = context;
  const copy *x = *(copy *const *)a, *y = *(copy *const *)b;
  uint64_t f = gaps[x->gap].from, g = gaps[y->gap].from;
  if (f != g) return f < g ? -1 : 1;
  return (x->gap > y->gap) - (x->gap < y->gap);
}

static bool sooner(const copy *a, const copy *b)
{
  return a->deadline_ns != b->deadline_ns ? a->deadline_ns < b->deadline_ns : a->gap < b->gap;
}

static void push(copy **heap, size_t *n, copy *c)
{
  size_t i = (*n)++;
  for (; i && sooner(c, heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = c;
}

static copy *pop(copy **heap, size_t *n)
{
  copy *first = heap[0], *last = heap[--*n];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < *n; i = child) {
    if (child + 1 < *n && sooner(heap[child + 1], heap[child])) child++;
    if (!sooner(heap[child], last)) break;
    heap[i] = heap[child];
  }
  heap[i] = last;
  return first;
}

/* Queues a copy out after op number `op`, and sets when the bytes of all gaps that share it have left. */
static void queue_copy(td_timed *t, copy *c, uint64_t op, uint64_t *engine)
{
  const td_gap *g = &t->gaps[c->gap];
  size_t version = g->version;
  *engine = td_plus(*engine > t->start[op + 1] ? *engine : t->start[op + 1], g->out_ns);
  c->queued = true;
  uint64_t leaves = td_timed_op_from(t, *engine);
  for (size_t i = c->gap; i < t->n_gaps && t->gaps[i].version == version; i++) {
    t->gaps[i].copied_after = op;
    t->gaps[i].leaves = leaves > t->gaps[i].from ? leaves : t->gaps[i].from + 1;
  }
}

/* What is to be copied, and when an op first needs its room. */
static size_t list_copies(const td_timed *t, copy *copies)
{
  size_t n = 0;
  for (size_t i = 0, seen = SIZE_MAX; i < t->n_gaps; i++) {
    const td_gap *g = &t->gaps[i];
    if (!g->taken || g->version == seen) continue;
    seen = g->version;
    uint64_t from = g->stretched ? g->from + 1 : g->leaves, to = g->stretched ? g->to : g->fetch;
    int64_t room = (int64_t)t->options->budget_bytes - (int64_t)g->bytes;
    copies[n++] = (copy){.gap = i, .deadline_ns = t->start[td_segtree_first_above(&t->usage, (size_t)from, (size_t)to, room)]};
  }
  return n;
}

/* Copies are queued when the engine is about to be free, the most urgent first, but no later than after the op that begins the
 * gap: the device bytes are given back there. */
static td_status queue_out(td_timed *t, td_error *err)
{
  copy *copies = malloc((t->n_gaps + 1) * sizeof *copies);
  copy **heap = malloc((t->n_gaps + 1) * sizeof *heap), **latest = malloc((t->n_gaps + 1) * sizeof *latest);
  size_t n = 0, next = 0, waiting = 0, due = 0;
  uint64_t engine = 0, n_ops = t->trace->n_ops;
  if (copies && heap && latest) {
    n = list_copies(t, copies);
    if (n) qsort_r(copies, n, sizeof *copies, by_written, t->gaps);
    for (size_t i = 0; i < n; i++) latest[i] = &copies[i];
    if (n) qsort_r(latest, n, sizeof *latest, by_from, t->gaps);
  }
  for (uint64_t op = 0; op < n_ops && due < n; op++) {
    uint64_t soon = t->start[op + 2 <= n_ops ? op + 2 : n_ops]; /* when the next op ends */
    for (; next < n && t->gaps[copies[next].gap].written == op; next++) push(heap, &waiting, &copies[next]);
    while (waiting && engine < soon) {
      copy *c = pop(heap, &waiting);
      if (!c->queued) queue_copy(t, c, op, &engine);
    }
    for (; due < n && t->gaps[latest[due]->gap].from == op; due++)
      if (!latest[due]->queued) queue_copy(t, latest[due], op, &engine);
  }
  bool fits = copies && heap && latest;
  free(copies);
  free(heap);
  free(latest);
  return fits ? TD_OK : td_fail_nomem(err);
}

/* ---- copies in ------------------------------------------------------------------------------------------------ */

static int by_return(const void *a, const void *b, void *context)
{
  const td_gap *gaps = context, *x = &gaps[*(const size_t *)a], *y = &gaps[*(const size_t *)b];
  if (x->to != y->to) return x->to > y->to ? -1 : 1;
  if (x->from != y->from) return x->from > y->from ? -1 : 1;
  return (x->storage < y->storage) - (x->storage > y->storage);
}

/* With every gap away from the time it has left until it must be back, the rest of the room is for earlier copies in. */
static size_t set_room(td_timed *t)
{
  size_t n = 0, positions = (size_t)t->trace->n_ops + 1;
  int64_t *room = t->scratch, sum = 0;
  for (size_t i = 0; i < positions; i++) room[i] = 0;
  for (size_t i = 0; i < t->n_gaps; i++) {
    const td_gap *g = &t->gaps[i];
    if (!g->taken) continue;
    if (g->returns) t->order[n++] = i;
    if (g->leaves >= g->to) continue;
    room[g->leaves] -= (int64_t)g->bytes;
    room[g->to] += (int64_t)g->bytes;
  }
  for (size_t i = 0; i < positions; i++) {
    sum += room[i];
    room[i] = t->base[i] + sum;
  }
  td_segtree_set(&t->usage, room, positions);
  return n;
}

static void queue_in(td_timed *t, double margin)
{
  size_t n = set_room(t);
  if (n) qsort_r(t->order, n, sizeof *t->order, by_return, t->gaps);
  uint64_t engine = UINT64_MAX; /* when the copy after this one begins */
  for (size_t i = 0; i < n; i++) {
    td_gap *g = &t->gaps[t->order[i]];
    uint64_t needed = t->start[g->to] < engine ? t->start[g->to] : engine, in = td_scaled(g->in_ns, margin);
    uint64_t first = g->leaves < g->to ? g->leaves : g->to;
    engine = needed > in ? needed - in : 0;
    uint64_t fetch = td_timed_op_until(t, engine);
    if (fetch > g->to) fetch = g->to;
    if (fetch < first) fetch = first;
    int64_t room = (int64_t)t->options->budget_bytes - (int64_t)g->bytes;
    size_t full = td_segtree_last_above(&t->usage, (size_t)fetch, (size_t)g->to, room);
    g->fetch = full < g->to ? full + 1 : fetch;
    td_segtree_add(&t->usage, (size_t)g->fetch, (size_t)g->to, (int64_t)g->bytes);
  }
}

td_status td_timed_queue(td_timed *t, double margin, td_error *err)
{
  td_status status = queue_out(t, err);
  if (!status) queue_in(t, margin);
  return status;
}
