/* Checks a tape: the file, then each row by itself, then each trace as a whole. */
#include <tapedeck/trace.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/progress.h"
#include "format/derive.h"
#include "format/schedule.h"
#include "format/trace.h"

typedef struct check {
  td_db db;
  void (*damage)(void *context, const char *line);
  void *context;
  uint64_t n_damages;
  uint64_t done, total; /* bytes of blocks, each looked at twice: by itself, and as a part of its trace */
} check;

static void report(check *c, const char *line)
{
  c->n_damages++;
  if (c->damage) c->damage(c->context, line);
}

/* Takes a failure as a damage if it is one; otherwise it cannot be told what the file holds. */
static td_status judge(check *c, td_status status, const td_error *why)
{
  if (status != TD_E_DAMAGED && status != TD_E_INPUT && status != TD_E_FORMAT) return status;
  report(c, why->message);
  return TD_OK;
}

static td_status check_pages(check *c, td_error *err)
{
  sqlite3_stmt *pragma = NULL;
  bool row = true;
  td_status status = td_db_prepare(&c->db, &pragma, err, "PRAGMA integrity_check");
  while (!status) {
    status = td_db_row(&c->db, pragma, &row, err);
    if (status || !row) break;
    const char *line = (const char *)sqlite3_column_text(pragma, 0);
    if (line && strcmp(line, "ok") != 0) report(c, line);
  }
  sqlite3_finalize(pragma);
  return status;
}

static td_status check_block(check *c, td_decoder *decoder, sqlite3_stmt *block, td_values *columns)
{
  int64_t column = sqlite3_column_int64(block, 1);
  td_error why;
  char line[sizeof why.message + 128];
  if (column < 0 || column >= TD_N_COLUMNS) {
    snprintf(line, sizeof line, "block %lld of trace %lld is of no known column", (long long)sqlite3_column_int64(block, 2),
             (long long)sqlite3_column_int64(block, 0));
    report(c, line);
    return TD_OK;
  }
  if (column == TD_COL_OUTPUT_SID) return TD_OK; /* decoded with its accesses, when the trace is read */
  td_status status = td_column_decode(decoder, (td_column)column, sqlite3_column_blob(block, 5),
                                      (size_t)sqlite3_column_bytes(block, 5), td_column_u64(block, 4), columns, &why);
  if (status != TD_E_DAMAGED) return status;
  snprintf(line, sizeof line, "trace %lld, column %s, block %lld: %s", (long long)sqlite3_column_int64(block, 0),
           td_columns[column].name, (long long)sqlite3_column_int64(block, 2), why.message);
  report(c, line);
  return TD_OK;
}

static td_status sum_blocks(check *c, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  td_status status = td_db_prepare(&c->db, &select, err, "SELECT 2 * total(length(data)) FROM block");
  if (!status) status = td_db_row(&c->db, select, &row, err);
  if (!status && row) c->total = (uint64_t)sqlite3_column_double(select, 0);
  sqlite3_finalize(select);
  return status;
}

static void tell(check *c, uint64_t bytes)
{
  c->done += bytes;
  td_progress(c->done, c->total, "bytes");
}

/* Every row against its seal, and every block against its own checksum. */
static td_status check_rows(check *c, td_table_id table, td_decoder *decoder, td_error *err)
{
  sqlite3_stmt *select = NULL;
  td_values columns[TD_N_COLUMNS] = {0};
  bool row = true, has;
  td_error why;
  td_status status = td_db_has_table(&c->db, table, &has, err);
  if (status || !has) return status;
  status = td_db_prepare(&c->db, &select, err, "SELECT * FROM %s", td_tables[table].name);
  while (!status) {
    td_status sealed = td_db_sealed_row(&c->db, table, select, &row, &why);
    if (sealed && !row) { /* the table cannot be walked any further */
      status = judge(c, sealed, &why);
      break;
    }
    if (!row) break;
    if (sealed) {
      char line[sizeof why.message + 64];
      snprintf(line, sizeof line, "a row of table %s does not match its seal (%s %lld)", td_tables[table].name,
               sqlite3_column_name(select, 0), (long long)sqlite3_column_int64(select, 0));
      report(c, line);
    } else if (table == TD_TABLE_BLOCK) {
      status = check_block(c, decoder, select, columns);
      tell(c, (uint64_t)sqlite3_column_bytes(select, 5));
    }
  }
  sqlite3_finalize(select);
  for (unsigned column = 0; column < TD_N_COLUMNS; column++) td_values_finish(&columns[column]);
  return status;
}

/* Rows that belong to no trace, and numbers in a row that leave holes. */
static td_status check_strays(check *c, td_error *err)
{
  static const td_table_id owned[] = {TD_TABLE_BLOCK, TD_TABLE_MARK, TD_TABLE_META, TD_TABLE_SCHEDULE, TD_TABLE_SUMMARY, TD_TABLE_RUN};
  td_status status = TD_OK;
  for (size_t i = 0; i < sizeof owned / sizeof *owned && !status; i++) {
    sqlite3_stmt *select = NULL;
    bool row = false, has;
    const char *name = td_tables[owned[i]].name;
    status = td_db_has_table(&c->db, owned[i], &has, err);
    if (status || !has) continue;
    status = td_db_prepare(&c->db, &select, err, "SELECT count(*) FROM %s WHERE trace NOT IN (SELECT id FROM trace)", name);
    if (!status) status = td_db_row(&c->db, select, &row, err);
    if (!status && sqlite3_column_int64(select, 0)) {
      char line[128];
      snprintf(line, sizeof line, "%lld rows of table %s belong to no trace", (long long)sqlite3_column_int64(select, 0), name);
      report(c, line);
    }
    sqlite3_finalize(select);
  }
  return status;
}

/* A summary is missing, or is not what the facts say. */
static void compare_summary(check *c, int64_t trace, const td_summary *derived, td_status status, const td_summary *stored,
                            const td_error *why)
{
  char line[128];
  if (status) {
    report(c, why->message);
  } else if (derived->compute_ns != stored->compute_ns || derived->activation_bytes != stored->activation_bytes ||
             derived->retained_bytes != stored->retained_bytes || derived->other_bytes != stored->other_bytes ||
             derived->peak_bytes != stored->peak_bytes || derived->floor_bytes != stored->floor_bytes ||
             strcmp(derived->digest, stored->digest) != 0) {
    snprintf(line, sizeof line, "the summary of trace %lld is not what its blocks say", (long long)trace);
    report(c, line);
  }
}

static td_status check_trace(check *c, int64_t trace)
{
  td_reader reader;
  td_summary derived, stored;
  td_trace *whole = NULL;
  td_error why;
  td_status status = td_reader_init(&reader, &c->db, trace, &why);
  if (!status) status = td_derive(&reader, &derived, &why);
  if (!status) status = td_trace_read(&reader, &whole, &why); /* marks too */
  td_trace_destroy(whole);
  if (!status && reader.row.complete) {
    td_status got = td_summary_get(&c->db, trace, &stored, &why);
    compare_summary(c, trace, &derived, got, &stored, &why);
  }
  td_reader_finish(&reader);
  return judge(c, status, &why);
}

static td_status check_schedules(check *c, int64_t trace, td_error *err)
{
  int64_t *ids = NULL;
  size_t n = 0;
  td_status status = td_schedule_ids(&c->db, trace, &ids, &n, err);
  for (size_t i = 0; i < n && !status; i++) {
    td_schedule *schedule = NULL;
    td_error why;
    status = judge(c, td_schedule_get(&c->db, trace, ids[i], &schedule, &why), &why);
    td_schedule_destroy(schedule);
  }
  free(ids);
  return status;
}

/* Each trace as a whole; done only where every row is sound, since otherwise it only repeats what was found. */
static td_status check_traces(check *c, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = true;
  td_status status = td_db_prepare(&c->db, &select, err,
                                   "SELECT id, (SELECT total(length(data)) FROM block WHERE trace = id) FROM trace ORDER BY id");
  while (!status) {
    status = td_db_row(&c->db, select, &row, err);
    if (status || !row) break;
    status = check_trace(c, sqlite3_column_int64(select, 0));
    if (!status) status = check_schedules(c, sqlite3_column_int64(select, 0), err);
    tell(c, (uint64_t)sqlite3_column_double(select, 1));
  }
  sqlite3_finalize(select);
  return status;
}

static td_status check_all(check *c, td_error *err)
{
  td_decoder decoder;
  td_status status = td_decoder_init(&decoder) ? TD_OK : td_fail_nomem(err);
  if (!status) status = check_pages(c, err);
  if (!status && !c->n_damages) status = td_db_check_tables(&c->db, err);
  bool walk = !c->n_damages; /* broken pages have been told already */
  if (!status && walk) status = sum_blocks(c, err);
  for (unsigned table = 0; table < TD_N_TABLES && !status && walk; table++)
    status = check_rows(c, (td_table_id)table, &decoder, err);
  if (!status && !c->n_damages) status = check_strays(c, err);
  if (!status && !c->n_damages) status = check_traces(c, err);
  td_decoder_finish(&decoder);
  return status;
}

td_status td_tape_verify(const char *path, void (*damage)(void *context, const char *line), void *context,
                         uint64_t *n_damages, td_error *err)
{
  check c = {.damage = damage, .context = context};
  td_error why;
  td_status status = td_db_open_to_read(&c.db, path, &why);
  if (!status) status = check_all(&c, &why);
  if (status == TD_E_DAMAGED) status = judge(&c, status, &why);
  td_db_close(&c.db);
  if (status) return td_fail(err, status, "%s", why.message);
  *n_damages = c.n_damages;
  return TD_OK;
}
