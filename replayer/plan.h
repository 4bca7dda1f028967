/* The compiled plan: a guide and a schedule as flat arrays, ready to be walked op by op. */
#ifndef TD_REPLAYER_PLAN_H
#define TD_REPLAYER_PLAN_H

#include <tapedeck/trace.h>

/* What is checked of an op, and what is due at it. Its outputs are outputs[op.first_output] up to those of the next op, its actions
 * likewise, the ones before the op first; the array has one op more than there are, the end of the step, and one behind it. */
typedef struct td_planned_op {
  uint32_t leaves;
  uint32_t name; /* index into names */
  uint32_t first_output, first_action;
} td_planned_op;

typedef struct td_planned_output {
  uint32_t leaf;
  uint32_t storage; /* index into storages */
} td_planned_output;

typedef struct td_planned_action {
  uint32_t storage; /* index into storages */
  uint8_t phase, kind;
  bool early; /* an earlier attempt at a copy to the device that came too late in a step before */
} td_planned_action;

typedef struct td_plan_arrays {
  int64_t trace, schedule; /* their numbers in the tape */
  uint64_t n_ops;
  uint32_t n_names, n_storages, n_outputs, n_actions;
  td_planned_op *ops;
  td_planned_output *outputs;
  td_storage_info *storages;
  td_planned_action *actions;
  td_name *names; /* one allocation */
  uint64_t *hashes; /* of each name */
  uint64_t limit_bytes; /* what the schedule was made for */
  uint64_t host_bytes;  /* the arena that its copies need */
} td_plan_arrays;

/* Tells one op from another, but for chance: by its name and its number of leaves. */
uint64_t td_guide_hash(uint64_t name_hash, uint64_t leaves);
uint64_t td_name_hash(const char *bytes, size_t length);

/* Reads trace and schedule from the tape. TD_E_INPUT: the schedule does not fit the trace. */
td_status td_plan_arrays_load(td_plan_arrays *out, const char *path, int64_t trace, int64_t schedule, td_error *err);
void td_plan_arrays_finish(td_plan_arrays *plan);

#endif
