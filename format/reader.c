#include "format/reader.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* ---- the row of a trace --------------------------------------------------------------------------------------- */

td_status td_trace_row_get(const td_db *db, int64_t trace, td_trace_row *row, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool found = false;
  td_status status =
      td_db_prepare(db, &select, err, "SELECT * FROM trace WHERE id = ifnull(nullif(?1, 0), (SELECT max(id) FROM trace))");
  if (!status) {
    sqlite3_bind_int64(select, 1, trace);
    status = td_db_sealed_row(db, TD_TABLE_TRACE, select, &found, err);
  }
  if (!status && !found) {
    status = trace == TD_NEWEST ? td_fail(err, TD_E_NOT_FOUND, "%s has no trace", db->path)
                                : td_fail(err, TD_E_NOT_FOUND, "%s has no trace %lld", db->path, (long long)trace);
  } else if (!status) {
    *row = (td_trace_row){.id = sqlite3_column_int64(select, 0),
                          .complete = sqlite3_column_int64(select, 1),
                          .has_frees = sqlite3_column_int64(select, 2),
                          .names = td_column_u64(select, 3),
                          .ops = td_column_u64(select, 4),
                          .accesses = td_column_u64(select, 5),
                          .outputs = td_column_u64(select, 6),
                          .storages = td_column_u64(select, 7),
                          .activations = td_column_u64(select, 8),
                          .retained = td_column_u64(select, 9),
                          .marks = td_column_u64(select, 10)};
  }
  sqlite3_finalize(select);
  return status;
}

td_status td_trace_row_put(const td_db *db, const td_trace_row *row, td_error *err)
{
  sqlite3_stmt *put = NULL;
  td_status status = td_db_prepare_put(db, TD_TABLE_TRACE, &put, err);
  if (!status) {
    const uint64_t numbers[] = {(uint64_t)row->id, row->complete, row->has_frees, row->names,       row->ops,  row->accesses,
                                row->outputs,      row->storages, row->activations, row->retained, row->marks};
    for (int i = 0; i < 11; i++) td_bind_u64(put, i + 1, numbers[i]);
    char writer[64];
    snprintf(writer, sizeof writer, "tapedeck %s", td_version());
    sqlite3_bind_text(put, 12, writer, -1, SQLITE_TRANSIENT);
    status = td_db_run(db, put, err);
  }
  sqlite3_finalize(put);
  return status;
}

/* ---- blocks --------------------------------------------------------------------------------------------------- */

td_status td_reader_init(td_reader *reader, const td_db *db, int64_t trace, td_error *err)
{
  *reader = (td_reader){.db = db};
  td_status status = td_trace_row_get(db, trace, &reader->row, err);
  if (!status && !td_decoder_init(&reader->decoder)) status = td_fail_nomem(err);
  if (!status)
    status = td_db_prepare(db, &reader->select, err, "SELECT * FROM block WHERE trace = ?1 AND col = ?2 AND seq = ?3");
  return status;
}

void td_reader_finish(td_reader *reader)
{
  sqlite3_finalize(reader->select);
  td_decoder_finish(&reader->decoder);
  for (unsigned column = 0; column < TD_N_COLUMNS; column++) td_values_finish(&reader->columns[column]);
  *reader = (td_reader){0};
}

static td_status damaged(const td_reader *reader, td_column column, uint64_t seq, const char *what, td_error *err)
{
  return td_fail(err, TD_E_DAMAGED, "%s is damaged: trace %lld, column %s, block %llu: %s", reader->db->path,
                 (long long)reader->row.id, td_columns[column].name, (unsigned long long)seq, what);
}

/* How many values of the column the trace has in all. */
static uint64_t declared(const td_trace_row *row, td_column column)
{
  switch (column) {
  case TD_COL_ACCESS_SID:
  case TD_COL_ACCESS_KIND: return row->accesses;
  case TD_COL_OUTPUT_LEAF:
  case TD_COL_OUTPUT_SID: return row->outputs;
  case TD_COL_NAME_BYTE: return UINT64_MAX;
  default: break;
  }
  switch (td_columns[column].group) {
  case TD_GROUP_NAMES: return row->names;
  case TD_GROUP_OPS: return row->ops;
  case TD_GROUP_STORAGES: return row->complete ? row->storages : UINT64_MAX; /* told again as they change */
  case TD_GROUP_ACTIVATIONS: return row->activations;
  default: return row->retained;
  }
}

static td_status read_column(td_reader *reader, td_column column, uint64_t seq, bool *found, td_error *err)
{
  sqlite3_stmt *select = reader->select;
  sqlite3_reset(select);
  sqlite3_bind_int64(select, 1, reader->row.id);
  sqlite3_bind_int64(select, 2, column);
  td_bind_u64(select, 3, seq);
  td_status status = td_db_sealed_row(reader->db, TD_TABLE_BLOCK, select, found, err);
  if (status || !*found) return status;
  /* A broken tree may lead to another row than the one that was asked for. */
  if (sqlite3_column_int64(select, 0) != reader->row.id || sqlite3_column_int64(select, 1) != (int64_t)column ||
      td_column_u64(select, 2) != seq)
    return damaged(reader, column, seq, "its key leads to another", err);
  uint64_t first = td_column_u64(select, 3), count = td_column_u64(select, 4), all = declared(&reader->row, column);
  if (first > all || count > all - first) return damaged(reader, column, seq, "more values than the trace has", err);
  td_error why;
  reader->first[column] = first;
  status = td_column_decode(&reader->decoder, column, sqlite3_column_blob(select, 5),
                            (size_t)sqlite3_column_bytes(select, 5), count, reader->columns, &why);
  return status == TD_E_DAMAGED ? damaged(reader, column, seq, why.message, err) : status ? td_fail_nomem(err) : TD_OK;
}

td_status td_reader_block(td_reader *reader, uint32_t mask, uint64_t seq, bool *found, td_error *err)
{
  bool first = true;
  td_status status = TD_OK;
  *found = false;
  for (td_column column = 0; column < TD_N_COLUMNS && !status; column++) {
    bool here = false;
    if (!(mask & TD_COL_BIT(column))) continue;
    reader->columns[column].count = 0;
    if (first || *found) status = read_column(reader, column, seq, &here, err);
    if (!status && *found && !here) status = damaged(reader, column, seq, "it is missing", err);
    *found |= here;
    first = false;
  }
  sqlite3_reset(reader->select);
  return status;
}

/* False if the sum is not `total`. */
static bool adds_up(const td_values *values, uint64_t total)
{
  for (size_t i = 0; i < values->count; i++) {
    if (values->at[i] > total) return false;
    total -= values->at[i];
  }
  return total == 0;
}

static bool all_below(const td_values *values, uint64_t limit)
{
  for (size_t i = 0; i < values->count; i++)
    if (values->at[i] >= limit) return false;
  return true;
}

/* The columns of one value an op, of those in the mask, hold as many values. */
static td_status check_counts(td_reader *reader, uint32_t mask, uint64_t seq, td_error *err)
{
  size_t n = SIZE_MAX;
  for (td_column column = TD_COL_OP_NAME; column <= TD_COL_OP_OUTPUTS; column++) {
    if (!(mask & TD_COL_BIT(column))) continue;
    if (n == SIZE_MAX) n = reader->columns[column].count;
    if (reader->columns[column].count != n) return damaged(reader, column, seq, "not as many values as ops", err);
  }
  return TD_OK;
}

/* The columns in `mask` that are among these two hold as many values as the counts of `counts` add up to. */
static td_status check_sum(td_reader *reader, uint32_t mask, td_column counts, td_column a, td_column b, uint64_t seq,
                           td_error *err)
{
  for (int i = 0; i < 2; i++) {
    td_column column = i ? b : a;
    if ((mask & TD_COL_BIT(counts)) && (mask & TD_COL_BIT(column)) &&
        !adds_up(&reader->columns[counts], reader->columns[column].count))
      return damaged(reader, column, seq, "not as many values as the ops have", err);
  }
  return TD_OK;
}

static td_status check_range(td_reader *reader, uint32_t mask, td_column column, uint64_t limit, uint64_t seq, td_error *err)
{
  if (!(mask & TD_COL_BIT(column)) || all_below(&reader->columns[column], limit)) return TD_OK;
  return damaged(reader, column, seq, "a number that stands for nothing", err);
}

td_status td_reader_ops(td_reader *reader, uint32_t mask, uint64_t seq, bool *found, td_error *err)
{
  td_status status = td_reader_block(reader, mask, seq, found, err);
  if (status || !*found) return status;
  status = check_counts(reader, mask, seq, err);
  if (!status) status = check_sum(reader, mask, TD_COL_OP_ACCESSES, TD_COL_ACCESS_SID, TD_COL_ACCESS_KIND, seq, err);
  if (!status) status = check_sum(reader, mask, TD_COL_OP_OUTPUTS, TD_COL_OUTPUT_LEAF, TD_COL_OUTPUT_SID, seq, err);
  if (!status) status = check_range(reader, mask, TD_COL_OP_NAME, reader->row.names, seq, err);
  if (!status) status = check_range(reader, mask, TD_COL_OP_OPAQUE, 2, seq, err);
  if (!status) status = check_range(reader, mask, TD_COL_ACCESS_KIND, 2, seq, err);
  return status;
}

td_status td_reader_find_op(td_reader *reader, uint64_t op, uint64_t *seq, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  td_status status = td_db_prepare(reader->db, &select, err,
                                   "SELECT seq FROM block WHERE trace = %lld AND col = %d AND first <= ?1 "
                                   "ORDER BY seq DESC LIMIT 1",
                                   (long long)reader->row.id, TD_COL_OP_NAME);
  if (!status) {
    td_bind_u64(select, 1, op > INT64_MAX ? INT64_MAX : op);
    status = td_db_row(reader->db, select, &row, err);
  }
  if (!status) *seq = row ? td_column_u64(select, 0) : 0;
  sqlite3_finalize(select);
  return status;
}

/* ---- names ---------------------------------------------------------------------------------------------------- */

/* All lengths in `lengths` and all bytes in `bytes`, as they stand in the blocks. */
static td_status collect_names(td_reader *reader, td_values *lengths, td_buffer *bytes, td_error *err)
{
  bool found = true;
  td_status status = TD_OK;
  for (uint64_t seq = 0; found && !status; seq++) {
    status = td_reader_block(reader, TD_GROUP_NAMES_MASK, seq, &found, err);
    const td_values *length = &reader->columns[TD_COL_NAME_LENGTH], *byte = &reader->columns[TD_COL_NAME_BYTE];
    if (!status && !adds_up(length, byte->count))
      return damaged(reader, TD_COL_NAME_BYTE, seq, "not as many bytes as the names have", err);
    if (!status && !td_buffer_reserve(bytes, byte->count)) return td_fail_nomem(err);
    for (size_t i = 0; i < byte->count && !status; i++) bytes->bytes[bytes->length++] = (uint8_t)byte->at[i];
    for (size_t i = 0; i < length->count && !status; i++)
      if (!td_values_add(lengths, length->at[i])) return td_fail_nomem(err);
  }
  if (!status && lengths->count != reader->row.names)
    return damaged(reader, TD_COL_NAME_LENGTH, 0, "not as many names as the trace has", err);
  return status;
}

td_status td_reader_names(td_reader *reader, td_name **names, td_error *err)
{
  td_values lengths = {0};
  td_buffer bytes = {0};
  td_status status = collect_names(reader, &lengths, &bytes, err);
  td_name *result = status ? NULL : malloc((lengths.count + 1) * sizeof *result + bytes.length + lengths.count);
  if (!status && !result) status = td_fail_nomem(err);
  if (!status) {
    char *to = (char *)(result + lengths.count + 1);
    const uint8_t *from = bytes.bytes;
    for (size_t i = 0; i < lengths.count; i++) {
      size_t length = (size_t)lengths.at[i];
      if (length) memcpy(to, from, length);
      to[length] = '\0';
      result[i] = (td_name){.bytes = to, .length = length};
      to += length + 1;
      from += length;
    }
    *names = result;
  }
  td_values_finish(&lengths);
  td_buffer_finish(&bytes);
  return status;
}

/* ---- storages ------------------------------------------------------------------------------------------------- */

static td_status read_list(td_reader *reader, td_storage_table *table, td_column column,
                           td_status (*append)(td_storage_table *, uint32_t, td_error *), td_error *err)
{
  bool found = true;
  td_error why;
  td_status status = TD_OK;
  for (uint64_t seq = 0; found && !status; seq++) {
    status = td_reader_block(reader, TD_COL_BIT(column), seq, &found, err);
    const td_values *sids = &reader->columns[column];
    for (size_t i = 0; i < sids->count && !status; i++) {
      uint32_t index = td_storage_index(table, sids->at[i]);
      if (index == TD_MAP_NONE && reader->row.complete)
        return td_fail(err, TD_E_INPUT, "%s %llu has no size: no storage has this SID", td_columns[column].name,
                       (unsigned long long)sids->at[i]);
      if (index == TD_MAP_NONE && !td_storage_put(table, sids->at[i], 0, TD_NEVER)) return td_fail_nomem(err);
      if (index == TD_MAP_NONE) index = td_storage_index(table, sids->at[i]);
      status = append(table, index, &why);
      if (status) td_fail(err, status, "%s", why.message);
    }
  }
  return status;
}

td_status td_reader_storages(td_reader *reader, td_storage_table *table, td_error *err)
{
  bool found = true;
  td_status status = TD_OK;
  for (uint64_t seq = 0; found && !status; seq++) {
    status = td_reader_block(reader, TD_GROUP_STORAGES_MASK, seq, &found, err);
    const td_values *sids = &reader->columns[TD_COL_STORAGE_SID], *bytes = &reader->columns[TD_COL_STORAGE_BYTES],
                    *freed = &reader->columns[TD_COL_STORAGE_FREED];
    if (!status && (sids->count != bytes->count || sids->count != freed->count))
      return damaged(reader, TD_COL_STORAGE_SID, seq, "not as many values as storages", err);
    for (size_t i = 0; i < sids->count && !status; i++)
      if (!td_storage_put(table, sids->at[i], bytes->at[i], freed->at[i] - 1)) return td_fail_nomem(err);
  }
  if (!status && reader->row.complete && table->count != reader->row.storages)
    return damaged(reader, TD_COL_STORAGE_SID, 0, "not as many storages as the trace has", err);
  if (!status) status = read_list(reader, table, TD_COL_ACTIVATION_SID, td_storage_list_activation, err);
  if (!status) status = read_list(reader, table, TD_COL_RETAINED_SID, td_storage_list_retained, err);
  return status;
}
