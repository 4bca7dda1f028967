/* The compiled plan: a guide and a schedule as flat arrays, ready to be walked op by op. */
#ifndef TD_REPLAYER_PLAN_H
#define TD_REPLAYER_PLAN_H

#include <tapedeck/trace.h>

/* Do `kind` to the storage that the trace numbers `storage`, at op `op`. */
typedef struct td_planned_action {
  uint32_t op;
  uint32_t storage; /* index into the trace's storages */
  uint8_t phase, kind;
} td_planned_action;

typedef struct td_plan_arrays {
  td_trace *guide;
  uint64_t *hashes; /* of each op of the guide */
  td_planned_action *actions; /* in execution order; after the last one an op that never comes */
  size_t n_actions;
  uint64_t limit_bytes; /* what the schedule was made for */
} td_plan_arrays;

/* What tells one op from another: its name and its number of leaves. */
uint64_t td_guide_hash(const char *name, size_t length, uint64_t leaves);

/* Reads trace and schedule from the tape. TD_E_INPUT: the schedule does not fit the trace. */
td_status td_plan_arrays_load(td_plan_arrays *out, const char *path, int64_t trace, int64_t schedule, td_error *err);
void td_plan_arrays_finish(td_plan_arrays *plan);

#endif
