/* The parts of the default planner; timed.c says how they go together. */
#ifndef TD_PLANNER_TIMED_H
#define TD_PLANNER_TIMED_H

#include "planner/planners.h"
#include "planner/segtree.h"

#define TD_FORCED 1e6 /* a bias: taken for all of its length */

/* A stretch in which a storage could be away. */
typedef struct td_gap {
  uint32_t storage;
  bool returns;
  bool taken, stretched;
  uint64_t bytes;
  uint64_t written;       /* the last write before it: from here on it can be copied out */
  uint64_t from, to;      /* away after op `from`; back before op `to`, or freed before it */
  uint64_t leaves, fetch; /* relief: ops from `leaves` up to, without, `fetch` */
  uint64_t out_ns, in_ns;
  double worth;           /* share of a copy's time that moves bytes: 1 without latency */
  double bias, score;     /* by score they are tried; bias is a factor in it that improvement changes */
  uint64_t copied_after;  /* the op after which the copy out is queued */
  size_t version;         /* gaps of one storage and version share a copy out: the first of them */
  uint64_t host_until;    /* of the first gap of a version: the op from which its host copy is not needed; 0: none yet */
} td_gap;

typedef struct td_timed {
  const td_liveness *liveness;
  const td_trace *trace;
  const td_plan_options *options;
  bool in_ops;     /* all durations are 0: time is counted in ops, and copies take none of it */
  uint64_t *start; /* of each op, and of the end of the step */
  td_gap *gaps;    /* by storage and op */
  size_t n_gaps, gaps_capacity;
  size_t *order;       /* by score */
  int64_t *base;       /* bytes alive at each op without a schedule */
  int64_t *scratch;
  td_segtree usage, host;
} td_timed;

/* Lists the gaps that help to meet the budget, or a larger one. td_timed_finish in every case. */
td_status td_timed_init(td_timed *timed, const td_liveness *liveness, const td_plan_options *options, td_error *err);
void td_timed_finish(td_timed *timed);

/* The first op that starts at `ns` or later, n_ops if none does; and the last that starts at `ns` or before. */
uint64_t td_timed_op_from(const td_timed *timed, uint64_t ns);
uint64_t td_timed_op_until(const td_timed *timed, uint64_t ns);

static inline uint64_t td_plus(uint64_t a, uint64_t b)
{
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* `ns` times a margin of a few times. */
static inline uint64_t td_scaled(uint64_t ns, double margin)
{
  double product = (double)ns * margin;
  return product >= 0x1p63 ? (uint64_t)1 << 63 : (uint64_t)product;
}

/* Takes gaps until no op is over the budget, then drops what is not needed. False if some op is over whatever is taken. */
bool td_timed_select(td_timed *timed, double margin);

/* The smallest budget for which td_timed_select succeeds, and an op that sets it. `options` are the timed's own, and it must have been
 * made for a budget of 0, which has all gaps. Without a host limit the answer is exact; with one, it is known to work, though less
 * may. */
uint64_t td_timed_smallest_budget(td_timed *timed, td_plan_options *options, uint64_t *op);

/* When the copies of the taken gaps are queued. */
td_status td_timed_queue(td_timed *timed, double margin, td_error *err);

/* The taken gaps as the actions of the schedule, in place of those it had. */
td_status td_timed_emit(const td_timed *timed, td_schedule *schedule, td_error *err);

#endif
