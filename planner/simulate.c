/* The machine model that schedules are judged by: one compute queue, two copy engines, all concurrent.
 *
 * The step is played op by op. Before an op: the framework's frees, the pre actions, room for the op's new storages, then the
 * wait for its prefetches. After it: the post actions. Bytes that are being given back, but that a copy still uses, are taken
 * until it ends; an allocation that does not fit waits for them. */
#include <tapedeck/planner.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "planner/extras.h"
#include "planner/planners.h"

#define FAULTS_KEPT 1000

/* Bytes that come free at some time: a heap, the earliest first. */
typedef struct leaving {
  struct leave {
    uint64_t at_ns, bytes;
  } *heap;
  size_t count, capacity;
} leaving;

/* Where the bytes of one storage are. */
typedef struct place {
  bool on_device, on_host;
  bool current; /* the host copy is of the present bytes, or will be when its copy ends */
  uint64_t d2h_end, h2d_end;
  size_t stay; /* the present one's number */
} place;

typedef struct machine {
  const td_trace *trace;
  const td_liveness *liveness;
  const td_action *actions; /* sorted */
  td_action *sorted;        /* where they had to be */
  size_t n_actions, next_action;
  uint32_t *frees; /* storages that go by themselves, by the op before which they do */
  size_t n_frees, next_free;
  bool goes_alone; /* no schedule: every storage goes when it is not needed any more */
  place *places;
  uint64_t limit, host_limit;
  long double rates[2]; /* bytes a second, by kind of copy */
  td_extras extras;
  uint64_t now, engine_free[2];
  uint64_t device_bytes, host_bytes;
  leaving device_leaving, host_leaving;
  uint64_t point;      /* the next one of the timeline */
  uint64_t *stay_ends; /* when the bytes of a stay are free, by its number */
  size_t faults_capacity, transfers_capacity, stays_capacity, stay_ends_capacity;
  bool nomem;
  td_simulation *out;
} machine;

static uint64_t later(uint64_t a, uint64_t b)
{
  return a > b ? a : b;
}

/* Times stop at 2^64-1. */
static uint64_t after(uint64_t time, uint64_t ns)
{
  return time > UINT64_MAX - ns ? UINT64_MAX : time + ns;
}

static void fault(machine *m, uint64_t op, uint64_t sid, const char *what)
{
  td_simulation *out = m->out;
  if (out->n_faults < FAULTS_KEPT) {
    if (TD_GROW(out->faults, m->faults_capacity, out->n_faults + 1))
      out->faults[out->n_faults] = (td_fault){.op = op, .sid = sid, .what = what};
    else
      m->nomem = true;
  }
  out->n_faults++;
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

static void push(machine *m, leaving *l, uint64_t at_ns, uint64_t bytes)
{
  if (!TD_GROW(l->heap, l->capacity, l->count + 1)) {
    m->nomem = true;
    return;
  }
  size_t i = l->count++;
  for (; i && l->heap[(i - 1) / 2].at_ns > at_ns; i = (i - 1) / 2) l->heap[i] = l->heap[(i - 1) / 2];
  l->heap[i] = (struct leave){.at_ns = at_ns, .bytes = bytes};
}

static struct leave pop(leaving *l)
{
  struct leave first = l->heap[0], last = l->heap[--l->count];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < l->count; i = child) {
    if (child + 1 < l->count && l->heap[child + 1].at_ns < l->heap[child].at_ns) child++;
    if (l->heap[child].at_ns >= last.at_ns) break;
    l->heap[i] = l->heap[child];
  }
  l->heap[i] = last;
  return first;
}

static void give_back(machine *m, leaving *l, uint64_t *taken, uint64_t at_ns, uint64_t bytes)
{
  if (at_ns <= m->now)
    *taken -= bytes;
  else
    push(m, l, at_ns, bytes);
}

static void collect(machine *m, leaving *l, uint64_t *taken)
{
  while (l->count && l->heap[0].at_ns <= m->now) *taken -= pop(l).bytes;
}

/* Moves the compute queue on to `ns`. */
static void stall_until(machine *m, uint64_t ns)
{
  if (ns <= m->now) return;
  m->out->stall_ns = after(m->out->stall_ns, ns - m->now);
  m->now = ns;
}

/* Notes that a storage came to the device. */
static void begin_stay(machine *m, uint32_t storage)
{
  td_simulation *out = m->out;
  size_t n = out->n_stays;
  if (!out->timeline) return;
  if (!TD_GROW(out->stays, m->stays_capacity, n + 1) || !TD_GROW(m->stay_ends, m->stay_ends_capacity, n + 1)) {
    m->nomem = true;
    return;
  }
  out->stays[n] = (td_stay){.storage = storage, .first = m->point, .end = m->trace->n_ops + 1};
  m->stay_ends[n] = 0;
  m->places[storage].stay = n;
  out->n_stays = n + 1;
}

/* Notes that it goes, at the next point or, where a copy still uses its bytes, at the first one when that has ended. */
static void end_stay(machine *m, const place *p)
{
  if (p->stay >= m->out->n_stays) return;
  m->out->stays[p->stay].end = m->point;
  m->stay_ends[p->stay] = later(p->d2h_end, p->h2d_end);
}

/* Moves the ends of stays on to where their bytes came free. */
static void settle_stays(machine *m)
{
  const td_timeline_point *points = m->out->timeline;
  for (size_t i = 0; i < m->out->n_stays; i++) {
    uint64_t low = m->out->stays[i].end, high = m->trace->n_ops + 1;
    while (low < high) {
      uint64_t middle = low + (high - low) / 2;
      if (points[middle].start_ns < m->stay_ends[i])
        low = middle + 1;
      else
        high = middle;
    }
    m->out->stays[i].end = low;
  }
}

static void take_device(machine *m, uint64_t op, uint32_t storage)
{
  uint64_t bytes = m->trace->storages[storage].bytes;
  collect(m, &m->device_leaving, &m->device_bytes);
  while (bytes && (m->device_bytes > m->limit || bytes > m->limit - m->device_bytes)) {
    if (!m->device_leaving.count) {
      fault(m, op, m->trace->storages[storage].sid, "over the budget");
      break;
    }
    stall_until(m, m->device_leaving.heap[0].at_ns);
    collect(m, &m->device_leaving, &m->device_bytes);
  }
  m->device_bytes += bytes;
  m->out->peak_bytes = later(m->out->peak_bytes, m->device_bytes);
  m->places[storage].on_device = true;
  begin_stay(m, storage);
}

static void release_device(machine *m, uint32_t storage)
{
  place *p = &m->places[storage];
  give_back(m, &m->device_leaving, &m->device_bytes, later(p->d2h_end, p->h2d_end), m->trace->storages[storage].bytes);
  p->on_device = false;
  end_stay(m, p);
}

static void release_host(machine *m, uint32_t storage)
{
  place *p = &m->places[storage];
  give_back(m, &m->host_leaving, &m->host_bytes, later(p->d2h_end, p->h2d_end), m->trace->storages[storage].bytes);
  p->on_host = p->current = false;
}

/* ---- actions -------------------------------------------------------------------------------------------------- */

/* Queues a copy; returns its end. */
static uint64_t transfer(machine *m, const td_action *action, uint64_t bytes, uint64_t not_before)
{
  td_simulation *out = m->out;
  unsigned kind = action->kind;
  long double ns = ceill((long double)bytes * 1e9L / m->rates[kind]) + (long double)m->extras.latency_ns[kind];
  uint64_t start = later(m->engine_free[kind], later(m->now, not_before));
  uint64_t end = after(start, ns >= 0x1p64L ? UINT64_MAX : (uint64_t)ns);
  m->engine_free[kind] = end;
  *(kind == TD_COPY_D2H ? &out->d2h_bytes : &out->h2d_bytes) += bytes;
  if (out->timeline) {
    if (TD_GROW(out->transfers, m->transfers_capacity, out->n_transfers + 1))
      out->transfers[out->n_transfers++] =
          (td_transfer){.sid = action->sid, .op = action->op, .start_ns = start, .end_ns = end, .kind = (uint8_t)kind};
    else
      m->nomem = true;
  }
  return end;
}

static void copy_d2h(machine *m, const td_action *action, uint32_t storage)
{
  place *p = &m->places[storage];
  uint64_t bytes = m->trace->storages[storage].bytes;
  if (!p->on_device) {
    fault(m, action->op, action->sid, "copied out while it is not on the device");
    return;
  }
  if (p->on_host && p->current) return;
  if (!p->on_host) { /* a copy of older bytes is written over */
    collect(m, &m->host_leaving, &m->host_bytes);
    if (m->host_bytes > m->host_limit || bytes > m->host_limit - m->host_bytes)
      fault(m, action->op, action->sid, "over the host limit");
    m->host_bytes += bytes;
    m->out->host_peak_bytes = later(m->out->host_peak_bytes, m->host_bytes);
  }
  p->on_host = p->current = true;
  p->d2h_end = transfer(m, action, bytes, later(p->h2d_end, p->d2h_end));
}

static void copy_h2d(machine *m, const td_action *action, uint32_t storage)
{
  place *p = &m->places[storage];
  if (p->on_device) return;
  if (!p->on_host) {
    fault(m, action->op, action->sid, "copied in without a host copy");
    return;
  }
  take_device(m, action->op, storage);
  p->h2d_end = transfer(m, action, m->trace->storages[storage].bytes, p->d2h_end);
}

/* After op number `op`, the storage is still needed. */
static bool needed_after(const machine *m, uint32_t storage, uint64_t op)
{
  return m->liveness->end[storage] > op + 1;
}

static void play_action(machine *m, const td_action *action)
{
  uint32_t storage = td_map_get(&m->liveness->by_sid, action->sid);
  uint64_t op = action->op, sid = action->sid;
  if (op > m->trace->n_ops) {
    fault(m, op, sid, "at an op that the trace has not got");
  } else if (op == m->trace->n_ops && action->phase == TD_POST) {
    fault(m, op, sid, "after the end of the step");
  } else if (action->kind > TD_RELEASE_HOST || (action->phase == TD_PRE) != (action->kind == TD_COPY_H2D)) {
    fault(m, op, sid, action->phase == TD_PRE ? "only copies in stand before an op" : "copies in stand before an op");
  } else if (storage == TD_MAP_NONE) {
    fault(m, op, sid, "no activation of the trace");
  } else if (action->kind == TD_COPY_D2H) {
    copy_d2h(m, action, storage);
  } else if (action->kind == TD_COPY_H2D) {
    copy_h2d(m, action, storage);
  } else if (action->kind == TD_RELEASE_DEVICE && m->places[storage].on_device) {
    if (needed_after(m, storage, op) && !m->places[storage].current)
      fault(m, op, sid, "released while it is needed and has no current host copy");
    release_device(m, storage);
  } else if (action->kind == TD_RELEASE_HOST && m->places[storage].on_host) {
    if (needed_after(m, storage, op) && !m->places[storage].on_device)
      fault(m, op, sid, "its only copy is released while it is needed");
    release_host(m, storage);
  }
}

static void play_actions(machine *m, uint64_t op, td_phase phase)
{
  for (; m->next_action < m->n_actions; m->next_action++) {
    const td_action *action = &m->actions[m->next_action];
    if (action->op != op || action->phase != phase) break;
    play_action(m, action);
  }
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

static void play_frees(machine *m, uint64_t op)
{
  for (; m->next_free < m->n_frees && m->liveness->end[m->frees[m->next_free]] <= op; m->next_free++) {
    uint32_t storage = m->frees[m->next_free];
    if (m->places[storage].on_device) release_device(m, storage);
    if (m->places[storage].on_host) release_host(m, storage);
  }
}

/* Before an op that accesses the storage: its bytes, new or brought back. */
static void prepare_use(machine *m, uint64_t op, uint32_t storage)
{
  size_t n;
  if (m->places[storage].on_device) return;
  if (td_uses_of(m->liveness, storage, &n)->op != op)
    fault(m, op, m->trace->storages[storage].sid, "used while it is away");
  take_device(m, op, storage);
}

static void play_op(machine *m, uint64_t op)
{
  const td_trace *trace = m->trace;
  uint64_t first = trace->ops[op].first_access, end = trace->ops[op + 1].first_access;
  for (uint64_t i = first; i < end; i++)
    if (trace->storages[trace->accesses[i].storage].activation) prepare_use(m, op, trace->accesses[i].storage);
  for (uint64_t i = first; i < end; i++) stall_until(m, m->places[trace->accesses[i].storage].h2d_end);
  for (uint64_t i = first; i < end; i++)
    if (trace->accesses[i].kind == TD_WRITE) m->places[trace->accesses[i].storage].current = false;
}

/* At the end of the step every retained storage is there. */
static void play_end(machine *m)
{
  for (uint32_t i = 0; i < m->trace->n_retained; i++) {
    uint32_t storage = m->trace->retained[i];
    size_t n;
    td_uses_of(m->liveness, storage, &n);
    if (n && !m->places[storage].on_device)
      fault(m, m->trace->n_ops, m->trace->storages[storage].sid, "retained, but away at the end of the step");
    stall_until(m, m->places[storage].h2d_end);
  }
}

static void note_point(machine *m, uint64_t op, uint64_t dur_ns, uint64_t stall_before)
{
  m->point = op + 1;
  if (!m->out->timeline) return;
  collect(m, &m->device_leaving, &m->device_bytes);
  collect(m, &m->host_leaving, &m->host_bytes);
  m->out->timeline[op] = (td_timeline_point){.start_ns = m->now,
                                             .end_ns = after(m->now, dur_ns),
                                             .device_bytes = m->device_bytes,
                                             .host_bytes = m->host_bytes,
                                             .stall_ns = m->out->stall_ns - stall_before};
}

static void play(machine *m, uint64_t ops)
{
  for (uint64_t op = 0; op <= m->trace->n_ops && op < ops; op++) {
    bool end = op == m->trace->n_ops;
    uint64_t stall = m->out->stall_ns, dur_ns = end ? 0 : m->trace->ops[op].dur_ns;
    play_frees(m, op);
    play_actions(m, op, TD_PRE);
    if (end)
      play_end(m);
    else
      play_op(m, op);
    note_point(m, op, dur_ns, stall);
    m->now = after(m->now, dur_ns);
    m->out->compute_ns = after(m->out->compute_ns, dur_ns);
    if (!end && op + 1 < ops) play_actions(m, op, TD_POST);
  }
  for (; ops == TD_NEVER && m->next_action < m->n_actions; m->next_action++) play_action(m, &m->actions[m->next_action]);
  settle_stays(m);
}

/* ---- setting up ----------------------------------------------------------------------------------------------- */

static int by_place(const td_action *a, const td_action *b)
{
  if (a->op != b->op) return a->op < b->op ? -1 : 1;
  return (int)a->phase - (int)b->phase;
}

/* Merge sort, since actions of one place keep their order. */
static void sort(td_action *actions, td_action *spare, size_t n)
{
  if (n < 2) return;
  size_t half = n / 2, i = 0, k = half, to = 0;
  sort(actions, spare, half);
  sort(actions + half, spare, n - half);
  memcpy(spare, actions, n * sizeof *actions);
  while (to < n) actions[to++] = k == n || (i < half && by_place(&spare[i], &spare[k]) <= 0) ? spare[i++] : spare[k++];
}

static td_status sort_actions(machine *m, const td_schedule *schedule, td_error *err)
{
  size_t n = schedule->n_actions, i = 1;
  m->actions = schedule->actions;
  m->n_actions = n;
  while (i < n && by_place(&schedule->actions[i - 1], &schedule->actions[i]) <= 0) i++;
  if (i >= n) return TD_OK;
  m->sorted = malloc(n * sizeof *m->sorted);
  td_action *spare = malloc(n * sizeof *spare);
  if (!m->sorted || !spare) {
    free(spare);
    return td_fail_nomem(err);
  }
  memcpy(m->sorted, schedule->actions, n * sizeof *m->sorted);
  sort(m->sorted, spare, n);
  free(spare);
  m->actions = m->sorted;
  return TD_OK;
}

typedef struct ending {
  uint64_t end;
  uint32_t storage;
} ending;

static int by_end(const void *a, const void *b)
{
  const ending *x = a, *y = b;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return (x->storage > y->storage) - (x->storage < y->storage);
}

static td_status list_frees(machine *m, td_error *err)
{
  uint32_t n = m->trace->n_activations;
  ending *list = malloc((n + 1) * sizeof *list);
  m->frees = malloc((n + 1) * sizeof *m->frees);
  if (!list || !m->frees) {
    free(list);
    return td_fail_nomem(err);
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t storage = m->trace->activations[i];
    if (m->trace->storages[storage].retained || (!m->liveness->freed[storage] && !m->goes_alone)) continue;
    list[m->n_frees++] = (ending){.end = m->liveness->end[storage], .storage = storage};
  }
  qsort(list, m->n_frees, sizeof *list, by_end);
  for (size_t i = 0; i < m->n_frees; i++) m->frees[i] = list[i].storage;
  free(list);
  return TD_OK;
}

static long double rate_or_default(double rate)
{
  return rate > 0 ? (long double)rate : (long double)TD_DEFAULT_BYTES_PER_S;
}

static td_status set_up(machine *m, const td_schedule *schedule, bool timeline, td_error *err)
{
  static const td_schedule none = {.memory_limit_bytes = UINT64_MAX, .host_limit_bytes = UINT64_MAX};
  m->goes_alone = !schedule;
  if (!schedule) schedule = &none;
  m->limit = schedule->memory_limit_bytes;
  m->host_limit = schedule->host_limit_bytes;
  td_extras_read(schedule->extra, &m->extras);
  m->rates[TD_COPY_D2H] = rate_or_default(schedule->d2h_bytes_per_s);
  m->rates[TD_COPY_H2D] = rate_or_default(schedule->h2d_bytes_per_s);
  m->places = calloc((size_t)m->trace->n_storages + 1, sizeof *m->places);
  m->out = calloc(1, sizeof *m->out);
  if (!m->places || !m->out) return td_fail_nomem(err);
  if (timeline) {
    m->out->timeline = calloc((size_t)m->trace->n_ops + 1, sizeof *m->out->timeline);
    if (!m->out->timeline) return td_fail_nomem(err);
  }
  td_status status = sort_actions(m, schedule, err);
  return status ? status : list_frees(m, err);
}

td_status td_play(const td_liveness *liveness, const td_schedule *schedule, uint64_t ops, bool timeline, td_simulation **out,
                  td_error *err)
{
  machine m = {.trace = liveness->trace, .liveness = liveness};
  td_status status = set_up(&m, schedule, timeline, err);
  if (!status) play(&m, ops);
  if (!status && m.nomem) status = td_fail_nomem(err);
  if (!status) {
    m.out->ok = m.out->n_faults == 0;
    *out = m.out;
  } else {
    td_simulation_destroy(m.out);
  }
  free(m.sorted);
  free(m.frees);
  free(m.places);
  free(m.stay_ends);
  free(m.device_leaving.heap);
  free(m.host_leaving.heap);
  return status;
}

td_status td_simulate(const td_trace *trace, const td_schedule *schedule, bool timeline, td_simulation **out, td_error *err)
{
  td_extras extras = {0};
  td_liveness liveness = {0};
  td_seen seen;
  if (schedule) td_extras_read(schedule->extra, &extras);
  td_status status = td_seen_init(&seen, trace, &extras, err);
  if (!status) status = td_liveness_init(&liveness, &seen.trace, schedule && schedule->early, err);
  if (!status) status = td_play(&liveness, schedule, TD_NEVER, timeline, out, err);
  td_liveness_finish(&liveness);
  td_seen_finish(&seen);
  return status;
}

void td_simulation_destroy(td_simulation *simulation)
{
  if (!simulation) return;
  free(simulation->faults);
  free(simulation->timeline);
  free(simulation->transfers);
  free(simulation->stays);
  free(simulation);
}
