/* From a trace to a schedule, and the machine model that schedules are judged by.
 *
 * The model has one compute queue and two copy engines, one a direction, each first in first out, all concurrent.
 * Only activations are managed, unless a plan is asked to move the storages that the step found too: these are on the device
 * at op 0 and again at the end. Bytes are exact unless a plan is asked to round them. A copy takes its latency and then its bytes at
 * link speed; schedule->extra has these, where they were asked for, as "d2h_latency_ns", "h2d_latency_ns", "align_bytes" and "moves": "all". */
#ifndef TAPEDECK_PLANNER_H
#define TAPEDECK_PLANNER_H

#include <tapedeck/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_DEFAULT_BYTES_PER_S 17179869184.0 /* 16 GiB a second, where nobody measured */

typedef struct td_plan_options {
  uint64_t budget_bytes;  /* for activations on the device; required */
  uint64_t host_bytes;    /* for copies on the host */
  bool host_limited;      /* host_bytes is a limit; else there is none */
  double d2h_bytes_per_s; /* 0: TD_DEFAULT_BYTES_PER_S */
  double h2d_bytes_per_s; /* likewise */
  uint64_t d2h_latency_ns; /* what a copy takes beside its bytes; less than 2^53 */
  uint64_t h2d_latency_ns;
  const char *planner;    /* NULL: the default */
  uint64_t align_bytes;   /* what the device rounds sizes up to; 0 or 1: sizes are exact */
  const uint64_t *keep;   /* SIDs of activations that must stay on the device */
  size_t n_keep;
  bool move_found;        /* storages that the step found (parameters, optimizer states, batches) move too and count in the budget */
  uint32_t effort;        /* local improvement: goes through so many times 100,000 ops and gaps; 0: once, only if that may spare stall */
  bool early;             /* a storage ends at its last access even where the trace has frees */
} td_plan_options;

/* What the simulator says of the schedule that was made, beside what no schedule can better; where the budget cannot be met, the
 * smallest that can. */
typedef struct td_plan_report {
  uint64_t predicted_peak_bytes;
  uint64_t predicted_stall_ns;
  uint64_t predicted_host_peak_bytes;
  uint64_t d2h_bytes, h2d_bytes;
  uint64_t bound_stall_ns;   /* at every op, what is over the budget must have left before it, and what of that returns must come
                                back after it, at link speed */
  uint64_t bound_d2h_bytes, bound_h2d_bytes;
  uint64_t floor_bytes;      /* no schedule can do with less: */
  uint64_t floor_op;         /* what this op accesses; n_ops: what is retained at the end of the step */
  uint64_t min_budget_bytes; /* the smallest budget that this planner meets for this trace and host limit */
  uint64_t min_budget_op;    /* an op that sets it; n_ops: the end of the step */
} td_plan_report;

/* Makes a schedule that stays inside the budget, as the simulator has confirmed. `report` may be NULL.
 * TD_E_BUDGET: the budget or the host limit cannot be met; `report` is filled in this case too, and the message names the
 * smallest budget and the op that sets it. TD_E_NOT_FOUND: no planner of that name, or no activation with a SID of `keep`. TD_E_ARG: a rate
 * below 0 or NaN, or a latency of 2^53 or more. */
TD_API td_status td_plan(const td_trace *trace, const td_plan_options *options, td_schedule **out,
                         td_plan_report *report, td_error *err);

/* How many times as fast both links would have to be for this schedule to stall for less than a thousandth of the step: 1 if it does
 * already, 0 if no speed would do, since copies wait for room or latency. The schedule's own timing is kept. */
TD_API td_status td_plan_speedup(const td_trace *trace, const td_schedule *schedule, double *times, td_error *err);

/* The names of the planners, the default first, NULL last. */
TD_API const char *const *td_planner_names(void);

/* One thing that a schedule does wrong. */
typedef struct td_fault {
  uint64_t op;
  uint64_t sid;
  const char *what; /* constant text */
} td_fault;

/* The state of the machine while op number `op` runs (n_ops: the end of the step). Times count from the step's start. */
typedef struct td_timeline_point {
  uint64_t start_ns, end_ns;
  uint64_t device_bytes; /* taken on the device, bytes still being copied out included */
  uint64_t host_bytes;
  uint64_t stall_ns; /* how long the compute queue waited before it */
} td_timeline_point;

/* One transfer on a copy engine. */
typedef struct td_transfer {
  uint64_t sid;
  uint64_t op; /* the op whose pre or post issued it */
  uint64_t start_ns, end_ns;
  uint8_t kind; /* TD_COPY_D2H or TD_COPY_H2D */
} td_transfer;

/* One stay of an activation on the device: its bytes are among device_bytes at the points `first` up to, without, `end` of the
 * timeline. */
typedef struct td_stay {
  uint64_t first, end;
  uint32_t storage; /* index into the trace's storages */
} td_stay;

typedef struct td_simulation {
  bool ok; /* no faults */
  uint64_t peak_bytes, host_peak_bytes;
  uint64_t stall_ns, compute_ns;
  uint64_t d2h_bytes, h2d_bytes;
  size_t n_faults;
  td_fault *faults;            /* the first 1,000 at the most; n_faults counts all */
  td_timeline_point *timeline; /* n_ops + 1 points, where asked for; else NULL */
  size_t n_transfers;
  td_transfer *transfers; /* where asked for; else NULL */
  size_t n_stays;
  td_stay *stays; /* likewise, in the order they began */
} td_simulation;

/* Plays a schedule on the machine model. `schedule` NULL plays the step without one, without a limit.
 * `timeline` asks for the timeline, the transfers and the stays. A bad schedule is no error: it has faults. */
TD_API td_status td_simulate(const td_trace *trace, const td_schedule *schedule, bool timeline, td_simulation **out,
                             td_error *err);
TD_API void td_simulation_destroy(td_simulation *simulation);

#ifdef __cplusplus
}
#endif
#endif
