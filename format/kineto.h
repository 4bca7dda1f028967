/* Durations from a profiler's trace: Kineto JSON, in which an operator's event carries its record function id. */
#ifndef TD_FORMAT_KINETO_H
#define TD_FORMAT_KINETO_H

#include <tapedeck/trace.h>

#include "base/map.h"

typedef struct td_kineto_op {
  const char *name;
  size_t name_length;
  uint64_t dur_ns; /* 0 until it is found */
  enum { TD_KINETO_NONE, TD_KINETO_OTHER_NAME, TD_KINETO_FOUND } match;
} td_kineto_op;

/* Reads the whole file and fills in the ops that it has. `by_rf_id` leads from a record function id to an op's number. Of several
 * events for an op the first with its name counts, else the first. */
td_status td_kineto_read(const char *path, td_kineto_op *ops, const td_map *by_rf_id, td_error *err);

#endif
