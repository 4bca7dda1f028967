/* The default planner: copies that are hidden behind the compute, and no more bytes than must move.
 *
 * Time is the step's own, without stalls. A gap is a stretch in which a storage could be away: between two accesses, after the
 * last access until it is freed (it never comes back), or until the end of the step (retained: it comes back). Its relief is the
 * ops from the end of the copy out to the beginning of the copy in, both at their earliest and latest.
 *
 * 1. Select: gaps with the most relief for the bytes that they move first, each taken if an op in its relief is over the budget. What
 *    is over even so is relieved by stretching gaps to all of their length, at the price of stall.
 * 2. Drop, in reverse, whatever turns out not to be needed.
 * 3. Copies out go in order of need (earliest deadline first) as soon as the last write is done.
 * 4. Copies in are queued backwards from their need on one engine, and start as late as that allows, or later where there is no room.
 *
 * Safety does not depend on time: with every taken gap away for all of its length no op is over the budget, and a copy in starts
 * earlier only where there is room. The windows of step 1 are tried with several margins; the simulator says which is best. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/planners.h"
#include "planner/segtree.h"

typedef struct gap {
  uint32_t storage;
  bool returns;
  bool taken, stretched;
  uint64_t bytes;
  uint64_t written;  /* the last write before it: from here on it can be copied out */
  uint64_t from, to; /* away after op `from`; back before op `to`, or freed before it */
  uint64_t leaves, fetch; /* relief: ops from `leaves` up to, without, `fetch` */
  uint64_t out_ns, in_ns;
  double score;
  uint64_t copied_after; /* the op after which the copy out is queued */
  size_t version;        /* gaps of one storage and version share a copy out: the first of them */
} gap;

typedef struct timed {
  const td_liveness *liveness;
  const td_trace *trace;
  const td_plan_options *options;
  uint64_t *start; /* of each op, and of the end of the step */
  gap *gaps;       /* by storage and op */
  size_t n_gaps, gaps_capacity;
  size_t *order; /* by score */
  td_segtree usage, host;
} timed;

/* ---- time ----------------------------------------------------------------------------------------------------- */

static uint64_t plus(uint64_t a, uint64_t b)
{
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static td_status set_times(timed *t, td_error *err)
{
  uint64_t n = t->trace->n_ops, now = 0;
  bool none = true;
  t->start = malloc(((size_t)n + 1) * sizeof *t->start);
  if (!t->start) return td_fail_nomem(err);
  for (uint64_t op = 0; op < n; op++) none &= t->trace->ops[op].dur_ns == 0;
  for (uint64_t op = 0; op <= n; op++) {
    t->start[op] = now;
    if (op < n) now = plus(now, none ? 1 : t->trace->ops[op].dur_ns); /* without durations, time is counted in ops */
  }
  return TD_OK;
}

/* The first op that starts at `ns` or later; n_ops if none does. */
static uint64_t op_from(const timed *t, uint64_t ns)
{
  uint64_t low = 0, high = t->trace->n_ops;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (t->start[middle] < ns) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* The last op that starts at `ns` or before. */
static uint64_t op_until(const timed *t, uint64_t ns)
{
  uint64_t op = op_from(t, ns == UINT64_MAX ? ns : ns + 1);
  return op == t->trace->n_ops && t->start[op] <= ns ? op : op ? op - 1 : 0;
}

static uint64_t copy_ns(const timed *t, uint64_t bytes, double rate)
{
  if (t->start[t->trace->n_ops] == t->trace->n_ops) return 0; /* counted in ops */
  double ns = ceil((double)bytes * 1e9 / rate);
  return ns >= 0x1p63 ? (uint64_t)1 << 63 : (uint64_t)ns;
}

static uint64_t scaled(uint64_t ns, double margin)
{
  double product = (double)ns * margin;
  return product >= 0x1p63 ? (uint64_t)1 << 63 : (uint64_t)product;
}

/* ---- gaps ----------------------------------------------------------------------------------------------------- */

static bool add_gap(timed *t, uint32_t storage, uint64_t written, uint64_t from, uint64_t to, bool returns)
{
  uint64_t bytes = t->trace->storages[storage].bytes;
  if (to < from + 2 || !bytes || t->liveness->stays[storage]) return true;
  if (!TD_GROW(t->gaps, t->gaps_capacity, t->n_gaps + 1) || !t->gaps) return false;
  const gap *before = t->n_gaps ? &t->gaps[t->n_gaps - 1] : NULL;
  bool same = before && before->storage == storage && before->written == written;
  t->gaps[t->n_gaps] = (gap){.storage = storage,
                             .returns = returns,
                             .bytes = bytes,
                             .written = written,
                             .from = from,
                             .to = to,
                             .out_ns = copy_ns(t, bytes, t->options->d2h_bytes_per_s),
                             .in_ns = returns ? copy_ns(t, bytes, t->options->h2d_bytes_per_s) : 0,
                             .version = same ? before->version : t->n_gaps};
  t->n_gaps++;
  return true;
}

static td_status list_gaps(timed *t, td_error *err)
{
  bool fits = true;
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

static void set_relief(const timed *t, gap *g, double margin)
{
  uint64_t gone = plus(t->start[g->written + 1], scaled(g->out_ns, margin)), back = t->start[g->to], in = scaled(g->in_ns, margin);
  g->leaves = op_from(t, gone);
  if (g->leaves <= g->from) g->leaves = g->from + 1;
  g->fetch = g->returns ? back < in ? 0 : op_until(t, back - in) : g->to;
  if (g->fetch > g->to) g->fetch = g->to;
  g->taken = g->stretched = false;
  double relief = g->fetch > g->leaves ? (double)(t->start[g->fetch] - t->start[g->leaves]) : 0;
  g->score = g->returns ? relief : 2 * relief; /* it moves half the bytes */
}

static const gap *sorting; /* qsort gives no context */

static int by_score(const void *a, const void *b)
{
  const gap *x = &sorting[*(const size_t *)a], *y = &sorting[*(const size_t *)b];
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  if (x->to - x->from != y->to - y->from) return x->to - x->from > y->to - y->from ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  if (x->from != y->from) return x->from < y->from ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

/* ---- selection ------------------------------------------------------------------------------------------------ */

static void set_base(timed *t)
{
  td_segtree_clear(&t->usage);
  for (uint32_t i = 0; i < t->trace->n_storages; i++) {
    size_t n;
    const td_use *uses = td_uses_of(t->liveness, i, &n);
    if (n) td_segtree_add(&t->usage, (size_t)uses[0].op, (size_t)t->liveness->end[i], (int64_t)t->trace->storages[i].bytes);
  }
}

static bool over(const timed *t, uint64_t from, uint64_t to)
{
  return td_segtree_max(&t->usage, (size_t)from, (size_t)to) > (int64_t)t->options->budget_bytes;
}

static bool any_over(const timed *t)
{
  return t->usage.most[1] > (int64_t)t->options->budget_bytes;
}

static void add(timed *t, uint64_t from, uint64_t to, int64_t bytes)
{
  td_segtree_add(&t->usage, (size_t)from, (size_t)to, bytes);
}

/* The host copy of a gap's version stands until the last gap of it that was taken ends. To take a gap may lengthen that. */
static bool take_host(timed *t, const gap *g)
{
  uint64_t from = g->written, to = g->returns && g->to < t->trace->n_ops ? g->to + 1 : g->to;
  const gap *all = t->gaps;
  if (t->options->host_bytes == UINT64_MAX) return true;
  uint64_t until = from;
  for (size_t i = g->version; i < t->n_gaps && all[i].version == g->version; i++)
    if (all[i].taken && all[i].to + 1 > until) until = all[i].to + 1;
  if (until > from) from = until;
  if (from >= to) return true;
  if (g->bytes > t->options->host_bytes ||
      td_segtree_max(&t->host, (size_t)from, (size_t)to) > (int64_t)(t->options->host_bytes - g->bytes))
    return false;
  td_segtree_add(&t->host, (size_t)from, (size_t)to, (int64_t)g->bytes);
  return true;
}

static void stretch(timed *t, gap *g)
{
  add(t, g->from + 1, g->taken ? g->leaves : g->to, -(int64_t)g->bytes);
  if (g->taken) add(t, g->fetch, g->to, -(int64_t)g->bytes);
  g->taken = g->stretched = true;
}

static bool select_gaps(timed *t, double margin)
{
  for (size_t i = 0; i < t->n_gaps; i++) {
    set_relief(t, &t->gaps[i], margin);
    t->order[i] = i;
  }
  sorting = t->gaps;
  if (t->n_gaps) qsort(t->order, t->n_gaps, sizeof *t->order, by_score);
  set_base(t);
  td_segtree_clear(&t->host);
  for (size_t i = 0; i < t->n_gaps && any_over(t); i++) {
    gap *g = &t->gaps[t->order[i]];
    if (g->fetch <= g->leaves || !over(t, g->leaves, g->fetch) || !take_host(t, g)) continue;
    add(t, g->leaves, g->fetch, -(int64_t)g->bytes);
    g->taken = true;
  }
  for (size_t i = 0; i < t->n_gaps && any_over(t); i++) {
    gap *g = &t->gaps[t->order[i]];
    bool helps = g->taken ? over(t, g->from + 1, g->leaves) || over(t, g->fetch, g->to) : over(t, g->from + 1, g->to);
    if (helps && (g->taken || take_host(t, g))) stretch(t, g);
  }
  return !any_over(t);
}

/* Whatever can stay stays: first the ends of stretched gaps, then whole gaps, the last chosen first. */
static void drop_unneeded(timed *t)
{
  for (size_t i = t->n_gaps; i--;) {
    gap *g = &t->gaps[t->order[i]];
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

/* ---- copies out ----------------------------------------------------------------------------------------------- */

/* One copy out: of the first taken gap of a version. */
typedef struct copy {
  size_t gap;
  uint64_t deadline_ns; /* when an op needs its room */
  bool queued;
} copy;

static int by_written(const void *a, const void *b)
{
  const copy *x = a, *y = b;
  uint64_t w = sorting[x->gap].written, v = sorting[y->gap].written;
  if (w != v) return w < v ? -1 : 1;
  return (x->gap > y->gap) - (x->gap < y->gap);
}

static int by_from(const void *a, const void *b)
{
  const copy *x = *(copy *const *)a, *y = *(copy *const *)b;
  uint64_t f = sorting[x->gap].from, g = sorting[y->gap].from;
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
static void queue_copy(timed *t, copy *c, uint64_t op, uint64_t *engine)
{
  const gap *g = &t->gaps[c->gap];
  size_t version = g->version;
  *engine = plus(*engine > t->start[op + 1] ? *engine : t->start[op + 1], g->out_ns);
  c->queued = true;
  for (size_t i = c->gap; i < t->n_gaps && t->gaps[i].version == version; i++) {
    t->gaps[i].copied_after = op;
    t->gaps[i].leaves = op_from(t, *engine);
    if (t->gaps[i].leaves <= t->gaps[i].from) t->gaps[i].leaves = t->gaps[i].from + 1;
  }
}

/* What is to be copied, and when an op first needs its room. */
static size_t list_copies(const timed *t, copy *copies)
{
  size_t n = 0;
  for (size_t i = 0, seen = SIZE_MAX; i < t->n_gaps; i++) {
    const gap *g = &t->gaps[i];
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
static td_status queue_out(timed *t, td_error *err)
{
  copy *copies = malloc((t->n_gaps + 1) * sizeof *copies);
  copy **heap = malloc((t->n_gaps + 1) * sizeof *heap), **latest = malloc((t->n_gaps + 1) * sizeof *latest);
  size_t n = 0, next = 0, waiting = 0, due = 0;
  uint64_t engine = 0, n_ops = t->trace->n_ops;
  if (copies && heap && latest) {
    n = list_copies(t, copies);
    sorting = t->gaps;
    if (n) qsort(copies, n, sizeof *copies, by_written);
    for (size_t i = 0; i < n; i++) latest[i] = &copies[i];
    if (n) qsort(latest, n, sizeof *latest, by_from);
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

static int by_return(const void *a, const void *b)
{
  const gap *x = &sorting[*(const size_t *)a], *y = &sorting[*(const size_t *)b];
  if (x->to != y->to) return x->to > y->to ? -1 : 1;
  if (x->from != y->from) return x->from > y->from ? -1 : 1;
  return (x->storage < y->storage) - (x->storage > y->storage);
}

/* With every gap away from the time it has left until it must be back, the rest of the room is for earlier copies in. */
static void queue_in(timed *t, double margin)
{
  size_t n = 0;
  set_base(t);
  for (size_t i = 0; i < t->n_gaps; i++) {
    gap *g = &t->gaps[i];
    if (!g->taken) continue;
    if (g->leaves < g->to) add(t, g->leaves, g->to, -(int64_t)g->bytes);
    if (g->returns) t->order[n++] = i;
  }
  sorting = t->gaps;
  if (n) qsort(t->order, n, sizeof *t->order, by_return);
  uint64_t engine = UINT64_MAX; /* when the copy after this one begins */
  for (size_t i = 0; i < n; i++) {
    gap *g = &t->gaps[t->order[i]];
    uint64_t needed = t->start[g->to] < engine ? t->start[g->to] : engine, in = scaled(g->in_ns, margin);
    uint64_t first = g->leaves < g->to ? g->leaves : g->to;
    engine = needed > in ? needed - in : 0;
    uint64_t fetch = op_until(t, engine);
    if (fetch > g->to) fetch = g->to;
    if (fetch < first) fetch = first;
    size_t full = td_segtree_last_above(&t->usage, (size_t)fetch, (size_t)g->to, (int64_t)t->options->budget_bytes - (int64_t)g->bytes);
    if (full < g->to) fetch = full + 1;
    g->fetch = fetch;
    add(t, fetch, g->to, (int64_t)g->bytes);
  }
}

/* ---- actions -------------------------------------------------------------------------------------------------- */

typedef struct planned {
  td_action action;
  uint64_t order; /* among those of one op, phase and kind */
} planned;

typedef struct emission {
  planned *list;
  size_t n, capacity;
  bool nomem;
} emission;

static void emit(emission *e, uint64_t op, td_phase phase, td_action_kind kind, uint64_t sid, uint64_t order)
{
  if (!TD_GROW(e->list, e->capacity, e->n + 1)) {
    e->nomem = true;
    return;
  }
  e->list[e->n++] = (planned){{.op = op, .sid = sid, .phase = (uint8_t)phase, .kind = (uint8_t)kind}, order};
}

static int by_place(const void *a, const void *b)
{
  const planned *x = a, *y = b;
  if (x->action.op != y->action.op) return x->action.op < y->action.op ? -1 : 1;
  if (x->action.phase != y->action.phase) return (int)x->action.phase - (int)y->action.phase;
  if (x->action.kind != y->action.kind) return (int)x->action.kind - (int)y->action.kind;
  if (x->order != y->order) return x->order < y->order ? -1 : 1;
  return (x->action.sid > y->action.sid) - (x->action.sid < y->action.sid);
}

/* A version's host copy goes after the op that reads the bytes it brought back last, unless that op's write is copied out at once,
 * over it. */
static void emit_gaps(const timed *t, emission *e)
{
  for (size_t i = 0; i < t->n_gaps; i++) {
    const gap *g = &t->gaps[i];
    if (!g->taken) continue;
    uint64_t sid = t->trace->storages[g->storage].sid;
    bool first = true, last = true, over_written = false;
    for (size_t k = g->version; k < i; k++) first &= !t->gaps[k].taken;
    for (size_t k = i + 1; k < t->n_gaps && t->gaps[k].storage == g->storage; k++) {
      if (!t->gaps[k].taken) continue;
      if (t->gaps[k].version == g->version) last = false;
      else over_written |= t->gaps[k].copied_after == g->to;
    }
    if (first) emit(e, g->copied_after, TD_POST, TD_COPY_D2H, sid, t->start[g->from]);
    emit(e, g->from, TD_POST, TD_RELEASE_DEVICE, sid, 0);
    if (!g->returns) continue;
    emit(e, g->fetch, TD_PRE, TD_COPY_H2D, sid, g->to);
    if (last && !over_written && g->to < t->trace->n_ops) emit(e, g->to, TD_POST, TD_RELEASE_HOST, sid, 0);
  }
}

static td_status emit_all(const timed *t, td_schedule *schedule, td_error *err)
{
  emission e = {0};
  emit_gaps(t, &e);
  for (uint32_t i = 0; i < t->trace->n_storages; i++) {
    size_t n;
    const td_use *uses = td_uses_of(t->liveness, i, &n);
    const td_storage_info *storage = &t->trace->storages[i];
    if (n && storage->bytes && !storage->retained && !t->liveness->freed[i])
      emit(&e, uses[n - 1].op, TD_POST, TD_RELEASE_DEVICE, storage->sid, 0);
  }
  if (e.n) qsort(e.list, e.n, sizeof *e.list, by_place);
  free(schedule->actions);
  schedule->n_actions = 0;
  schedule->actions = malloc((e.n + 1) * sizeof *schedule->actions);
  if (!schedule->actions) e.nomem = true;
  for (size_t i = 0; i < e.n && !e.nomem; i++) schedule->actions[schedule->n_actions++] = e.list[i].action;
  free(e.list);
  return e.nomem ? td_fail_nomem(err) : TD_OK;
}

/* ---- the planner ---------------------------------------------------------------------------------------------- */

static td_status prepare(timed *t, td_error *err)
{
  size_t positions = (size_t)t->trace->n_ops + 1;
  bool fits = td_segtree_init(&t->usage, positions);
  fits = td_segtree_init(&t->host, positions) && fits;
  if (!fits) return td_fail_nomem(err);
  td_status status = set_times(t, err);
  return status ? status : list_gaps(t, err);
}

typedef struct best {
  td_action *actions;
  size_t n_actions;
  uint64_t stall_ns, bytes;
} best;

/* Keeps the schedule if it stalls less than the best so far, or as little and moves fewer bytes. */
static td_status judge(const timed *t, td_schedule *schedule, best *b, td_error *err)
{
  td_simulation *s;
  td_status status = td_simulate(t->trace, schedule, false, &s, err);
  if (status) return status;
  uint64_t bytes = s->d2h_bytes + s->h2d_bytes;
  if (s->ok && (!b->actions || s->stall_ns < b->stall_ns || (s->stall_ns == b->stall_ns && bytes < b->bytes))) {
    free(b->actions);
    *b = (best){.actions = schedule->actions, .n_actions = schedule->n_actions, .stall_ns = s->stall_ns, .bytes = bytes};
    schedule->actions = NULL;
  }
  td_simulation_destroy(s);
  return TD_OK;
}

/* Without a host limit, with every gap away for all of its length. With one, what is found is known to work, though less may. */
static uint64_t smallest_budget(timed *t, td_plan_options *options, uint64_t *op)
{
  set_base(t);
  uint64_t high = (uint64_t)t->usage.most[1];
  for (size_t i = 0; i < t->n_gaps; i++) add(t, t->gaps[i].from + 1, t->gaps[i].to, -(int64_t)t->gaps[i].bytes);
  *op = td_segtree_argmax(&t->usage);
  uint64_t low = (uint64_t)t->usage.most[1];
  options->budget_bytes = low;
  if (select_gaps(t, 1)) return low;
  while (high - low > 1) {
    options->budget_bytes = low + (high - low) / 2;
    if (select_gaps(t, 1)) high = options->budget_bytes;
    else low = options->budget_bytes;
  }
  return high;
}

static td_status plan(const td_liveness *liveness, const td_plan_options *options, td_schedule *schedule,
                      td_plan_report *report, td_error *err)
{
  static const double margins[] = {1, 1.15, 1.4, 2, 3, 5};
  td_plan_options bounded = *options;
  if (bounded.budget_bytes > INT64_MAX / 4) bounded.budget_bytes = INT64_MAX / 4; /* more than all activations have */
  timed t = {.liveness = liveness, .trace = liveness->trace, .options = &bounded};
  best b = {0};
  bool met = false;
  td_status status = prepare(&t, err);
  for (size_t i = 0; i < sizeof margins / sizeof *margins && !status && !(met && b.actions && !b.stall_ns && i > 1); i++) {
    if (!select_gaps(&t, margins[i])) continue;
    met = true;
    drop_unneeded(&t);
    status = queue_out(&t, err);
    if (!status) queue_in(&t, margins[i] < 1.5 ? margins[i] : 1.5);
    if (!status) status = emit_all(&t, schedule, err);
    if (!status) status = judge(&t, schedule, &b, err);
  }
  if (!status && !met) {
    report->min_budget_bytes = smallest_budget(&t, &bounded, &report->min_budget_op);
    status = TD_E_BUDGET;
  }
  free(schedule->actions);
  schedule->actions = b.actions;
  schedule->n_actions = b.n_actions;
  if (!status && !b.actions) status = td_fail(err, TD_E_STATE, "no schedule passes the simulator");
  td_segtree_finish(&t.usage);
  td_segtree_finish(&t.host);
  free(t.start);
  free(t.gaps);
  free(t.order);
  return status;
}

const td_planner td_timed_planner = {.name = "timed", .plan = plan};
