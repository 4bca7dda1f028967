/* Reading the facts of a trace, block by block. Nothing is believed that the blocks do not bear out. */
#ifndef TD_FORMAT_READER_H
#define TD_FORMAT_READER_H

#include "format/column.h"
#include "format/db.h"
#include "format/storages.h"

/* A row of the table trace. */
typedef struct td_trace_row {
  int64_t id;
  bool complete, has_frees;
  uint64_t names, ops, accesses, outputs, storages, activations, retained, marks;
} td_trace_row;

/* `trace` may be TD_NEWEST. TD_E_NOT_FOUND if there is none. */
td_status td_trace_row_get(const td_db *db, int64_t trace, td_trace_row *row, td_error *err);
td_status td_trace_row_put(const td_db *db, const td_trace_row *row, td_error *err);

typedef struct td_reader {
  const td_db *db;
  td_trace_row row;
  td_decoder decoder;
  sqlite3_stmt *select;
  td_values columns[TD_N_COLUMNS]; /* of the block read last */
  uint64_t first[TD_N_COLUMNS];    /* values of the column before that block */
} td_reader;

/* td_reader_finish in every case. The database must outlive the reader. */
td_status td_reader_init(td_reader *reader, const td_db *db, int64_t trace, td_error *err);
void td_reader_finish(td_reader *reader);

/* Decodes the columns in `mask` (of TD_COL_BIT, all of one group) of block number `seq` into reader->columns; *found is
 * false past the last block. */
td_status td_reader_block(td_reader *reader, uint32_t mask, uint64_t seq, bool *found, td_error *err);

/* The same for columns of ops, checked against each other: counts, kinds and names. TD_COL_OUTPUT_SID needs
 * TD_COL_OP_OUTPUTS, TD_COL_OP_ACCESSES and TD_COL_ACCESS_SID in the mask. */
td_status td_reader_ops(td_reader *reader, uint32_t mask, uint64_t seq, bool *found, td_error *err);

/* The number of the block of ops that holds op number `op`, or would. */
td_status td_reader_find_op(td_reader *reader, uint64_t op, uint64_t *seq, td_error *err);

/* All names, in one allocation that the caller frees with free(); a NUL follows each. */
td_status td_reader_names(td_reader *reader, td_name **names, td_error *err);

/* All storages with their lists. In an unfinished trace a listed storage that is not known has no bytes. */
td_status td_reader_storages(td_reader *reader, td_storage_table *table, td_error *err);

#endif
