/* What an open tape is, for those in this room who read more of it than the public calls give. */
#ifndef TD_FORMAT_TAPE_H
#define TD_FORMAT_TAPE_H

#include "format/reader.h"

struct td_tape {
  td_db db;
  bool has_sql; /* its SQL tables are there */
};

/* A writer of an existing tape: checks it, and opens the transaction that the caller commits. td_db_close, in every case, rolls back. */
td_status td_tape_begin_change(td_db *db, const char *path, int64_t trace, td_trace_row *row, td_error *err);

#endif
