/* What follows from the facts of a trace: sums, peak, floor and digest. */
#ifndef TD_FORMAT_DERIVE_H
#define TD_FORMAT_DERIVE_H

#include "format/reader.h"

/* A row of the table summary; td_trace_info says what each is. */
typedef struct td_summary {
  uint64_t compute_ns, activation_bytes, retained_bytes, other_bytes, peak_bytes, floor_bytes;
  char digest[33];
} td_summary;

/* Reads the whole trace once, in memory for one block and its storages. Sums that pass 2^64-1 stay there.
 * TD_E_INPUT: the facts contradict each other, as an op that uses a SID that no storage has. */
td_status td_derive(td_reader *reader, td_summary *out, td_error *err);

/* TD_E_NOT_FOUND if the trace has none, as one that is unfinished. */
td_status td_summary_get(const td_db *db, int64_t trace, td_summary *out, td_error *err);
td_status td_summary_put(const td_db *db, int64_t trace, const td_summary *summary, td_error *err);

#endif
