/* How two traces differ, and how two schedules of one trace do. */
#ifndef TAPEDECK_DIFF_H
#define TAPEDECK_DIFF_H

#include <tapedeck/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TD_NO_OP UINT64_MAX /* in place of an op number */

/* What differs between two ops that stand for each other, as bits. */
enum {
  TD_DIFF_NAME = 1,
  TD_DIFF_LEAVES = 2,   /* the number of leaves */
  TD_DIFF_OPAQUE = 4,   /* one of them is a region */
  TD_DIFF_BINDINGS = 8, /* which leaf lives in which storage */
  TD_DIFF_ACCESSES = 16,
  TD_DIFF_SIZES = 32, /* a storage that appears here first has another size */
};

/* An op of A beside the op of B that stands for it, or one alone. */
typedef struct td_diff_row {
  uint64_t a, b;    /* op numbers; TD_NO_OP: the other has no counterpart */
  uint32_t changes; /* bits above; 0: alike, or alone */
} td_diff_row;

/* Two traces side by side. SIDs are names: two storages stand for each other if they first appear in the same place, and
 * whatever is said of storages is said of such pairs. Durations, marks and meta have no part in it. */
typedef struct td_diff {
  bool same;
  uint64_t ops_a, ops_b;
  uint64_t common_ops;       /* pairs of equal name and number of leaves */
  uint64_t removed, added;   /* ops of A without counterpart; ops of B */
  uint64_t first_difference; /* the first op of A that differs, or that follows ops of B alone; n_ops: at its end;
                                TD_NO_OP: none */
  uint64_t names, leaves, opaque, bindings, accesses; /* pairs of ops that differ in this */
  uint64_t sizes;       /* pairs of storages of different sizes */
  uint64_t retained;    /* storages that only one of the steps holds at its end */
  uint64_t activations; /* pairs of which one is no activation */
  uint64_t frees;       /* pairs that are freed at different places, or of which only one is */
  size_t n_rows;
  td_diff_row *rows;  /* every op of both traces, in order */
  uint32_t *partner;  /* by storage of A: its counterpart in B, or TD_NO_STORAGE */
} td_diff;

#define TD_NO_STORAGE UINT32_MAX

/* Aligns the ops of two traces and compares what is aligned. Time and memory grow with the number of ops, whatever they are.
 * TD_E_ARG: 2^31 ops or more in a trace. */
TD_API td_status td_diff_traces(const td_trace *a, const td_trace *b, td_diff **out, td_error *err);
TD_API void td_diff_destroy(td_diff *diff);

/* ---- schedules ------------------------------------------------------------------------------------------------- */

/* What one schedule does with a storage. */
typedef struct td_moves {
  uint64_t out, away, back; /* ops of the first copy out, release from the device, and copy in; TD_NO_OP: none */
  uint32_t times;           /* copies out */
} td_moves;

/* A storage that two schedules do not move alike. */
typedef struct td_moved {
  uint32_t storage; /* of trace A */
  td_moves a, b;
} td_moved;

typedef struct td_schedule_diff {
  bool same;                   /* the same actions in the same order; who planned, and for what speeds, is not compared */
  uint64_t common;             /* actions that both have, at the same place */
  uint64_t only_a, only_b;     /* actions */
  uint64_t moved_a, moved_b;   /* storages that are copied out */
  uint64_t moved_both, alike;  /* by both; of these, with the same actions */
  size_t n_moved;
  td_moved *moved; /* what is not alike, the largest storages first */
} td_schedule_diff;

/* Compares schedules of two traces that are the same but for their SIDs: `traces` comes from td_diff_traces(a, b).
 * TD_E_ARG: those traces differ, so that their schedules cannot be compared. */
TD_API td_status td_diff_schedules(const td_trace *a, const td_trace *b, const td_diff *traces, const td_schedule *of_a,
                                   const td_schedule *of_b, td_schedule_diff **out, td_error *err);
TD_API void td_schedule_diff_destroy(td_schedule_diff *diff);

#ifdef __cplusplus
}
#endif
#endif
