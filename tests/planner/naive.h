/* A second simulator, written differently from the first: every byte that is ever taken is an interval in a list, and what is taken at
 * some moment is found by walking all of it. A byte takes a nanosecond each way. */
#ifndef TD_TESTS_NAIVE_H
#define TD_TESTS_NAIVE_H

#include "planner/script.h"

typedef struct interval {
  uint32_t storage;
  bool host;
  uint64_t from, to, bytes; /* to: NAIVE_NEVER while it is held */
} interval;

#define NAIVE_NEVER UINT64_MAX

typedef struct naive {
  const td_trace *trace;
  const td_schedule *schedule;
  interval list[2000];
  size_t n;
  uint64_t now, engine[2], d2h_end[64], h2d_end[64];
  int64_t on_device[64], on_host[64]; /* the interval, or -1 */
  bool current[64];
  uint64_t latency[2];
  uint64_t stall, peak, host_peak, bytes[2];
  size_t faults;
} naive;

static inline uint64_t naive_taken(const naive *s, bool host)
{
  uint64_t sum = 0;
  for (size_t i = 0; i < s->n; i++)
    if (s->list[i].host == host && s->list[i].from <= s->now && s->list[i].to > s->now) sum += s->list[i].bytes;
  return sum;
}

static inline uint64_t naive_max(uint64_t a, uint64_t b, uint64_t c)
{
  return a > b ? (a > c ? a : c) : (b > c ? b : c);
}

static inline int64_t naive_take(naive *s, uint32_t storage, bool host)
{
  uint64_t bytes = s->trace->storages[storage].bytes;
  s->list[s->n] = (interval){.storage = storage, .host = host, .from = s->now, .to = NAIVE_NEVER, .bytes = bytes};
  uint64_t *peak = host ? &s->host_peak : &s->peak;
  int64_t at = (int64_t)s->n++;
  if (naive_taken(s, host) > *peak) *peak = naive_taken(s, host);
  return at;
}

static inline void naive_take_device(naive *s, uint32_t storage)
{
  uint64_t bytes = s->trace->storages[storage].bytes;
  while (bytes && naive_taken(s, false) + bytes > s->schedule->memory_limit_bytes) {
    uint64_t next = NAIVE_NEVER;
    for (size_t i = 0; i < s->n; i++)
      if (!s->list[i].host && s->list[i].bytes && s->list[i].to > s->now && s->list[i].to < next) next = s->list[i].to;
    if (next == NAIVE_NEVER) {
      s->faults++;
      break;
    }
    s->stall += next - s->now;
    s->now = next;
  }
  s->on_device[storage] = naive_take(s, storage, false);
}

static inline void naive_drop(naive *s, uint32_t storage, bool host)
{
  int64_t *at = host ? &s->on_host[storage] : &s->on_device[storage];
  s->list[*at].to = naive_max(s->now, s->d2h_end[storage], s->h2d_end[storage]);
  *at = -1;
  if (host) s->current[storage] = false;
}

/* When the storage is not needed any more, and whether it goes by itself then. */
static inline uint64_t naive_needed_until(const naive *s, uint32_t storage, bool *goes)
{
  const td_storage_info *info = &s->trace->storages[storage];
  uint64_t last = 0;
  for (uint64_t op = 0; op < s->trace->n_ops; op++)
    for (uint64_t i = s->trace->ops[op].first_access; i < s->trace->ops[op + 1].first_access; i++)
      if (s->trace->accesses[i].storage == storage) last = op + 1;
  *goes = !s->schedule->early && !info->retained && info->freed_before_op != TD_NEVER;
  return info->retained ? s->trace->n_ops + 1 : *goes ? info->freed_before_op : last;
}

static inline void naive_action(naive *s, const td_action *a)
{
  uint32_t storage = UINT32_MAX;
  bool goes;
  for (uint32_t i = 0; i < s->trace->n_storages; i++)
    if (s->trace->storages[i].sid == a->sid && s->trace->storages[i].activation) storage = i;
  if (storage == UINT32_MAX || (a->phase == TD_PRE) != (a->kind == TD_COPY_H2D) || (a->op == s->trace->n_ops && a->phase == TD_POST)) {
    s->faults++;
    return;
  }
  bool device = s->on_device[storage] >= 0, host = s->on_host[storage] >= 0, needed = naive_needed_until(s, storage, &goes) > a->op + 1;
  uint64_t bytes = s->trace->storages[storage].bytes;
  switch (a->kind) {
  case TD_COPY_D2H:
    if (!device) s->faults++;
    else if (!host || !s->current[storage]) {
      if (!host) s->on_host[storage] = naive_take(s, storage, true);
      s->current[storage] = true;
      s->engine[0] = s->d2h_end[storage] = naive_max(s->engine[0], s->now, naive_max(s->h2d_end[storage], s->d2h_end[storage], 0)) + bytes + s->latency[0];
      s->bytes[0] += bytes;
    }
    break;
  case TD_COPY_H2D:
    if (device) break;
    if (!host) {
      s->faults++;
      break;
    }
    naive_take_device(s, storage);
    s->engine[1] = s->h2d_end[storage] = naive_max(s->engine[1], s->now, s->d2h_end[storage]) + bytes + s->latency[1];
    s->bytes[1] += bytes;
    break;
  case TD_RELEASE_DEVICE:
    if (!device) break;
    if (needed && !(host && s->current[storage])) s->faults++;
    naive_drop(s, storage, false);
    break;
  default:
    if (!host) break;
    if (needed && !device) s->faults++;
    naive_drop(s, storage, true);
  }
}

static inline void naive_wait(naive *s, uint64_t ns)
{
  if (ns <= s->now) return;
  s->stall += ns - s->now;
  s->now = ns;
}

/* Plays the whole step from the beginning; the caller sets trace, schedule and latency. */
static inline void naive_play(naive *s)
{
  const td_trace *trace = s->trace;
  s->n = 0;
  s->now = s->stall = s->peak = s->host_peak = 0;
  memset(s->engine, 0, sizeof s->engine);
  memset(s->bytes, 0, sizeof s->bytes);
  s->faults = 0;
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    s->on_device[i] = s->on_host[i] = -1;
    s->d2h_end[i] = s->h2d_end[i] = 0;
    s->current[i] = false;
  }
  for (uint64_t op = 0; op <= trace->n_ops; op++) {
    bool goes;
    for (uint32_t i = 0; i < trace->n_storages; i++) {
      if (naive_needed_until(s, i, &goes) != op || !goes) continue;
      if (s->on_device[i] >= 0) naive_drop(s, i, false);
      if (s->on_host[i] >= 0) naive_drop(s, i, true);
    }
    for (size_t i = 0; i < s->schedule->n_actions; i++)
      if (s->schedule->actions[i].op == op && s->schedule->actions[i].phase == TD_PRE) naive_action(s, &s->schedule->actions[i]);
    if (op == trace->n_ops) break;
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
      uint32_t storage = trace->accesses[i].storage;
      bool new = true;
      for (uint64_t k = 0; k < trace->ops[op].first_access; k++) new &= trace->accesses[k].storage != storage;
      if (s->on_device[storage] < 0 && !new) s->faults++;
      if (s->on_device[storage] < 0) naive_take_device(s, storage);
    }
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      naive_wait(s, s->h2d_end[trace->accesses[i].storage]);
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      if (trace->accesses[i].kind == TD_WRITE) s->current[trace->accesses[i].storage] = false;
    s->now += trace->ops[op].dur_ns;
    for (size_t i = 0; i < s->schedule->n_actions; i++)
      if (s->schedule->actions[i].op == op && s->schedule->actions[i].phase == TD_POST) naive_action(s, &s->schedule->actions[i]);
  }
  for (uint32_t i = 0; i < trace->n_retained; i++) {
    if (s->on_device[trace->retained[i]] < 0) s->faults++;
    naive_wait(s, s->h2d_end[trace->retained[i]]);
  }
}

#endif
