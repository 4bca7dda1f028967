/* Runs: what happened in a step that was replayed, kept in the tape beside what was planned. */
#ifndef TAPEDECK_RUN_H
#define TAPEDECK_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_step_stats {
  uint64_t ops;
  uint64_t peak_bytes;      /* most bytes that were taken on the device at once, those still being copied included */
  uint64_t host_peak_bytes;
  uint64_t d2h_bytes, h2d_bytes;
  uint64_t stall_ns;        /* time that calls waited for copies or for room */
  uint64_t demand_faults;   /* storages that were needed while away and brought back at once */
  uint64_t late_prefetches; /* storages that were on their way back when they were needed */
  uint64_t diverged_ops;    /* in a replay: ops that were not the recorded ones, or could not be followed */
  uint64_t step_ns;         /* from td_step_begin to td_step_end */
  int64_t trace, schedule;  /* in a replay: the numbers of what the step followed to its end; 0: none */
  bool replayed;            /* false: recorded */
} td_step_stats;

/* A storage that was needed before it was there. */
typedef struct td_wait {
  int64_t op;         /* -1: before the first */
  uint64_t sid;       /* by first appearance in the step; UINT64_MAX: it is not of this step */
  uint64_t bytes;
  uint64_t waited_ns;
  bool was_away;      /* a demand fault; else a prefetch that was late */
} td_wait;

typedef struct td_run {
  int64_t id;       /* within the tape, from 1; 0 until it is stored */
  int64_t at_unix;  /* when the step ended, seconds since 1970 */
  char device[32];  /* its name */
  td_step_stats stats;
  size_t n_waits;
  td_wait *waits;
} td_run;

/* Appends a run to the tape at `path` and sets run->id. Its trace and schedule must be in the tape. In one transaction. */
TD_API td_status td_tape_add_run(const char *path, td_run *run, td_error *err);

/* The runs of a trace, in the order they were stored. The caller frees them with td_runs_destroy. */
TD_API td_status td_tape_runs(td_tape *tape, int64_t trace, td_run **runs, size_t *count, td_error *err);
TD_API void td_runs_destroy(td_run *runs, size_t count);

#ifdef __cplusplus
}
#endif
#endif
