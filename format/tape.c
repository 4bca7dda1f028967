/* Tapes, as the public header promises them. */
#include <tapedeck/trace.h>

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/derive.h"
#include "format/json_text.h"
#include "format/schedule.h"
#include "format/tape.h"
#include "format/trace.h"

td_status td_tape_open(td_tape **out, const char *path, td_error *err)
{
  td_tape *tape = calloc(1, sizeof *tape);
  if (!tape) return td_fail_nomem(err);
  td_status status = td_db_open_to_read(&tape->db, path, err);
  if (!status) status = td_db_check_tables(&tape->db, err);
  if (status)
    td_tape_close(tape);
  else
    *out = tape;
  return status;
}

void td_tape_close(td_tape *tape)
{
  if (!tape) return;
  td_db_close(&tape->db);
  free(tape);
}

const char *td_tape_path(const td_tape *tape)
{
  return tape->db.path;
}

td_status td_tape_trace_count(td_tape *tape, int64_t *count, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row;
  td_status status = td_db_prepare(&tape->db, &select, err, "SELECT count(*) FROM trace");
  if (!status) status = td_db_row(&tape->db, select, &row, err);
  if (!status) *count = sqlite3_column_int64(select, 0);
  sqlite3_finalize(select);
  return status;
}

/* Everything that one call reads is read in one transaction, so that it is of one moment even while a recorder writes. */
static td_status begin(td_tape *tape, td_reader *reader, int64_t trace, td_error *err)
{
  *reader = (td_reader){0};
  td_status status = td_db_exec(&tape->db, "BEGIN", err);
  return status ? status : td_reader_init(reader, &tape->db, trace, err);
}

static void end(td_tape *tape, td_reader *reader)
{
  td_reader_finish(reader);
  if (!sqlite3_get_autocommit(tape->db.handle)) sqlite3_exec(tape->db.handle, "COMMIT", NULL, NULL, NULL);
}

td_status td_tape_info(td_tape *tape, int64_t trace, td_trace_info *out, td_error *err)
{
  td_reader reader;
  td_summary summary;
  td_status status = begin(tape, &reader, trace, err);
  const td_trace_row *row = &reader.row;
  if (!status) status = row->complete ? td_summary_get(&tape->db, row->id, &summary, err) : td_derive(&reader, &summary, err);
  if (!status) {
    *out = (td_trace_info){.trace = row->id,
                           .complete = row->complete,
                           .ops = row->ops,
                           .accesses = row->accesses,
                           .outputs = row->outputs,
                           .storages = row->storages,
                           .activations = row->activations,
                           .retained = row->retained,
                           .compute_ns = summary.compute_ns,
                           .activation_bytes = summary.activation_bytes,
                           .retained_bytes = summary.retained_bytes,
                           .other_bytes = summary.other_bytes,
                           .peak_bytes = summary.peak_bytes,
                           .floor_bytes = summary.floor_bytes};
    snprintf(out->digest, sizeof out->digest, "%s", summary.digest);
  }
  end(tape, &reader);
  return status;
}

td_status td_tape_load_trace(td_tape *tape, int64_t trace, td_trace **out, td_error *err)
{
  td_reader reader;
  td_status status = begin(tape, &reader, trace, err);
  if (!status) status = td_trace_read(&reader, out, err);
  end(tape, &reader);
  return status;
}

static td_status resolve(td_tape *tape, int64_t trace, int64_t *id, td_error *err)
{
  td_trace_row row;
  td_status status = td_trace_row_get(&tape->db, trace, &row, err);
  if (!status) *id = row.id;
  return status;
}

td_status td_tape_schedules(td_tape *tape, int64_t trace, int64_t **ids, size_t *count, td_error *err)
{
  int64_t id;
  td_status status = resolve(tape, trace, &id, err);
  return status ? status : td_schedule_ids(&tape->db, id, ids, count, err);
}

td_status td_tape_load_schedule(td_tape *tape, int64_t trace, int64_t schedule, td_schedule **out, td_error *err)
{
  int64_t id;
  td_status status = resolve(tape, trace, &id, err);
  return status ? status : td_schedule_get(&tape->db, id, schedule, out, err);
}

td_status td_tape_begin_change(td_db *db, const char *path, int64_t trace, td_trace_row *row, td_error *err)
{
  td_status status = td_db_open(db, path, path, SQLITE_OPEN_READWRITE, err);
  if (!status) status = td_db_check_header(db, err);
  if (!status) status = td_db_check_tables(db, err);
  if (!status) status = td_db_exec(db, "BEGIN IMMEDIATE", err);
  return status ? status : td_trace_row_get(db, trace, row, err);
}

td_status td_tape_add_schedule(const char *path, int64_t trace, td_schedule *schedule, td_error *err)
{
  td_db db;
  td_trace_row row;
  td_encoder encoder = {0};
  int64_t id = schedule->id;
  td_status status = td_tape_begin_change(&db, path, trace, &row, err);
  if (!status && !td_encoder_init(&encoder, 0)) status = td_fail_nomem(err);
  if (!status) status = td_schedule_put(&db, &encoder, row.id, schedule, err);
  if (!status) status = td_db_exec(&db, "COMMIT", err);
  td_encoder_finish(&encoder);
  td_db_close(&db);
  if (status) schedule->id = id;
  return status;
}

/* The number of the member with this key, or the next one. */
static td_status meta_seq(const td_db *db, int64_t trace, const char *key, int64_t *seq, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row;
  td_status status = td_db_prepare(db, &select, err,
                                   "SELECT ifnull((SELECT seq FROM trace_meta WHERE trace = ?1 AND part = 'meta' AND key = ?2), "
                                   "(SELECT ifnull(max(seq), -1) + 1 FROM trace_meta WHERE trace = ?1))");
  if (!status) {
    sqlite3_bind_int64(select, 1, trace);
    sqlite3_bind_text(select, 2, key, -1, SQLITE_STATIC);
    status = td_db_row(db, select, &row, err);
  }
  if (!status) *seq = sqlite3_column_int64(select, 0);
  sqlite3_finalize(select);
  return status;
}

td_status td_tape_get_meta(td_tape *tape, int64_t trace, const char *key, char **json, td_error *err)
{
  td_trace_row row;
  td_buffer escaped = {0};
  sqlite3_stmt *select = NULL;
  bool found = false;
  td_status status = td_trace_row_get(&tape->db, trace, &row, err);
  if (!status && !(td_json_escape(&escaped, key, strlen(key)) && td_buffer_append(&escaped, "", 1))) status = td_fail_nomem(err);
  if (!status)
    status = td_db_prepare(&tape->db, &select, err, "SELECT * FROM trace_meta WHERE trace = %lld AND part = 'meta' AND key = %Q",
                           (long long)row.id, (const char *)escaped.bytes);
  if (!status) status = td_db_sealed_row(&tape->db, TD_TABLE_META, select, &found, err);
  if (!status && !found) status = td_fail(err, TD_E_NOT_FOUND, "%s: the trace's meta has no \"%s\"", tape->db.path, key);
  if (!status) {
    const char *text = (const char *)sqlite3_column_text(select, 4);
    char *value = text ? strdup(text) : NULL;
    if (value) *json = value;
    else status = td_fail_nomem(err);
  }
  sqlite3_finalize(select);
  td_buffer_finish(&escaped);
  return status;
}

td_status td_tape_set_meta(const char *path, int64_t trace, const char *key, const char *json, td_error *err)
{
  td_db db;
  td_trace_row row;
  td_buffer escaped = {0};
  sqlite3_stmt *put = NULL;
  int64_t seq = 0;
  td_status status = td_json_escape(&escaped, key, strlen(key)) && td_buffer_append(&escaped, "", 1) ? TD_OK : td_fail_nomem(err);
  if (!status) status = td_tape_begin_change(&db, path, trace, &row, err);
  else db = (td_db){0};
  if (!status) status = meta_seq(&db, row.id, (const char *)escaped.bytes, &seq, err);
  if (!status) status = td_db_prepare_put(&db, TD_TABLE_META, &put, err);
  if (!status) {
    sqlite3_bind_int64(put, 1, row.id);
    sqlite3_bind_int64(put, 2, seq);
    sqlite3_bind_text(put, 3, "meta", -1, SQLITE_STATIC);
    sqlite3_bind_text(put, 4, (const char *)escaped.bytes, -1, SQLITE_STATIC);
    sqlite3_bind_text(put, 5, json, -1, SQLITE_STATIC);
    status = td_db_run(&db, put, err);
  }
  sqlite3_finalize(put);
  if (!status) status = td_db_exec(&db, "COMMIT", err);
  td_db_close(&db);
  td_buffer_finish(&escaped);
  return status;
}
