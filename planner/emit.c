/* The taken gaps of the default planner as actions. */
#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/timed.h"

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

/* Whether the version of gaps that begins at `next` is copied out right after op number `op`. */
static bool copied_after(const td_timed *t, uint32_t storage, size_t next, uint64_t op)
{
  for (size_t i = next; i < t->n_gaps && t->gaps[i].version == next && t->gaps[i].storage == storage; i++)
    if (t->gaps[i].taken) return t->gaps[i].copied_after == op;
  return false;
}

/* The gaps of one version: one copy out, and after the op that reads the bytes it brought back last, the host copy goes, unless that
 * op's write is copied out at once, over it. */
static void emit_version(const td_timed *t, emission *e, size_t from, size_t to)
{
  uint64_t sid = t->trace->storages[t->gaps[from].storage].sid;
  const td_gap *last = NULL;
  for (size_t i = from; i < to; i++) {
    const td_gap *g = &t->gaps[i];
    if (!g->taken) continue;
    if (!last) emit(e, g->copied_after, TD_POST, TD_COPY_D2H, sid, t->start[g->from]);
    emit(e, g->copied_after > g->from ? g->copied_after : g->from, TD_POST, TD_RELEASE_DEVICE, sid, 0);
    if (g->returns) emit(e, g->fetch, TD_PRE, TD_COPY_H2D, sid, g->to);
    last = g;
  }
  if (last && last->returns && last->to < t->trace->n_ops && !copied_after(t, last->storage, to, last->to))
    emit(e, last->to, TD_POST, TD_RELEASE_HOST, sid, 0);
}

td_status td_timed_emit(const td_timed *t, td_schedule *schedule, td_error *err)
{
  emission e = {0};
  for (size_t i = 0, end; i < t->n_gaps; i = end) {
    for (end = i + 1; end < t->n_gaps && t->gaps[end].version == i;) end++;
    emit_version(t, &e, i, end);
  }
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
