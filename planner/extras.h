/* What a schedule says in its further members, and the trace as it looks to a planner. */
#ifndef TD_PLANNER_EXTRAS_H
#define TD_PLANNER_EXTRAS_H

#include <tapedeck/planner.h>

/* Members that are missing or make no sense are 0 and false. */
typedef struct td_extras {
  uint64_t latency_ns[2]; /* by kind of copy */
  uint64_t align_bytes;   /* what sizes are rounded up to */
  bool moves_found;
} td_extras;

void td_extras_read(const char *text, td_extras *extras);
/* The text, NULL in *text if there is nothing to say. False if memory ran out. */
bool td_extras_write(const td_extras *extras, char **text);

/* A trace with sizes rounded up and, where found storages move too, these as activations that op 0 writes and that are retained: so
 * they are on the device from op 0 to the end of the step. */
typedef struct td_seen {
  td_trace trace; /* borrows what is the same from the trace that it was made of */
  td_storage_info *storages;
  td_op *ops;
  td_access *accesses;
  uint32_t *activations, *retained;
} td_seen;

/* td_seen_finish in every case. */
td_status td_seen_init(td_seen *seen, const td_trace *trace, const td_extras *extras, td_error *err);
void td_seen_finish(td_seen *seen);

#endif
