/* What the ops of a trace do with each storage. */
#ifndef TD_TOOLS_USES_H
#define TD_TOOLS_USES_H

#include <tapedeck/trace.h>

typedef struct use {
  uint64_t first_op, last_op; /* TD_NEVER: no op accesses it */
  uint64_t reads, writes;
  uint64_t gap_from, gap_to; /* the two neighbouring accesses with the most ops between; equal if there are not two */
  uint64_t end_op; /* the op from which it is not needed; n_ops + 1: still needed at the end */
} use;

/* By storage; freed by the caller. NULL if memory ran out. */
use *list_uses(const td_trace *trace);

/* The storage with this SID, or n_storages. */
uint32_t find_storage(const td_trace *trace, uint64_t sid);

/* "op 12 (aten.mm)" in a buffer. */
const char *op_text(const td_trace *trace, uint64_t op, char *text, size_t size);

#endif
