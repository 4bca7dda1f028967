/* Runs as rows of a tape. */
#include <tapedeck/run.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/fail.h"
#include "format/reader.h"
#include "format/tape.h"

void td_runs_destroy(td_run *runs, size_t count)
{
  for (size_t i = 0; i < count; i++) free(runs[i].waits);
  free(runs);
}

/* ---- storing -------------------------------------------------------------------------------------------------- */

/* Exact integers, which cJSON does not write. */
static bool put_waits(td_buffer *text, const td_run *run)
{
  bool good = td_buffer_text(text, "[");
  for (size_t i = 0; i < run->n_waits && good; i++) {
    const td_wait *wait = &run->waits[i];
    char item[128];
    snprintf(item, sizeof item, "%s[%lld,%llu,%llu,%llu,%d]", i ? "," : "", (long long)wait->op, (unsigned long long)wait->sid,
             (unsigned long long)wait->bytes, (unsigned long long)wait->waited_ns, wait->was_away);
    good = td_buffer_text(text, item);
  }
  return good && td_buffer_append(text, "]", 2);
}

static td_status check_owner(const td_db *db, const td_run *run, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  td_status status = td_db_prepare(db, &select, err, "SELECT 1 FROM schedule WHERE trace = %lld AND id = %lld",
                                   (long long)run->stats.trace, (long long)run->stats.schedule);
  if (!status) status = td_db_row(db, select, &row, err);
  sqlite3_finalize(select);
  return status || row ? status
                       : td_fail(err, TD_E_NOT_FOUND, "%s: trace %lld has no schedule %lld that could have run", db->path,
                                 (long long)run->stats.trace, (long long)run->stats.schedule);
}

static td_status put_row(const td_db *db, const td_run *run, const td_buffer *waits, int64_t id, td_error *err)
{
  sqlite3_stmt *put = NULL;
  const td_step_stats *stats = &run->stats;
  td_status status = td_db_prepare_put(db, TD_TABLE_RUN, &put, err);
  if (status) return status;
  sqlite3_bind_int64(put, 1, id);
  sqlite3_bind_int64(put, 2, stats->trace);
  sqlite3_bind_int64(put, 3, stats->schedule);
  sqlite3_bind_int64(put, 4, run->at_unix);
  sqlite3_bind_text(put, 5, run->device, (int)strnlen(run->device, sizeof run->device), SQLITE_STATIC);
  const uint64_t numbers[] = {stats->ops,      stats->peak_bytes, stats->host_peak_bytes, stats->d2h_bytes,      stats->h2d_bytes,
                              stats->stall_ns, stats->step_ns,    stats->demand_faults,   stats->late_prefetches};
  for (int i = 0; i < 9; i++) td_bind_u64(put, 6 + i, numbers[i]);
  sqlite3_bind_text(put, 15, (const char *)waits->bytes, -1, SQLITE_STATIC);
  status = td_db_run(db, put, err);
  sqlite3_finalize(put);
  return status;
}

static td_status next_id(const td_db *db, int64_t *id, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  td_status status = td_db_prepare(db, &select, err, "SELECT ifnull(max(id), 0) + 1 FROM run");
  if (!status) status = td_db_row(db, select, &row, err);
  if (!status) *id = sqlite3_column_int64(select, 0);
  sqlite3_finalize(select);
  return status;
}

td_status td_tape_add_run(const char *path, td_run *run, td_error *err)
{
  td_db db;
  td_trace_row row;
  td_buffer waits = {0};
  int64_t id = 0;
  td_status status = td_tape_begin_change(&db, path, run->stats.trace, &row, err);
  if (!status) status = check_owner(&db, run, err);
  if (!status) status = td_db_need_table(&db, TD_TABLE_RUN, err);
  if (!status) status = next_id(&db, &id, err);
  if (!status && !put_waits(&waits, run)) status = td_fail_nomem(err);
  if (!status) status = put_row(&db, run, &waits, id, err);
  if (!status) status = td_db_exec(&db, "COMMIT", err);
  td_db_close(&db);
  td_buffer_finish(&waits);
  if (!status) run->id = id;
  return status;
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

/* One [op, SID, bytes, ns, away] of the text, which our own writer made and sealed; false if it is none. */
static const char *take_wait(const char *text, td_wait *wait)
{
  uint64_t values[5];
  char *end = (char *)text;
  for (int i = 0; i < 5; i++) {
    if (*end++ != (i ? ',' : '[')) return NULL;
    const char *start = end;
    values[i] = i ? strtoull(start, &end, 10) : (uint64_t)strtoll(start, &end, 10);
    if (end == start) return NULL;
  }
  if (*end != ']') return NULL;
  *wait = (td_wait){.op = (int64_t)values[0], .sid = values[1], .bytes = values[2], .waited_ns = values[3], .was_away = values[4]};
  return end + 1;
}

static td_status take_waits(td_run *run, const char *text, const char *path, td_error *err)
{
  size_t capacity = 0;
  if (*text++ != '[') text = "?";
  while (text && *text == '[') {
    if (!TD_GROW(run->waits, capacity, run->n_waits + 1)) return td_fail_nomem(err);
    text = take_wait(text, &run->waits[run->n_waits]);
    if (text) run->n_waits++;
    if (text && *text == ',') text++;
  }
  return text && strcmp(text, "]") == 0 ? TD_OK : td_fail(err, TD_E_DAMAGED, "%s is damaged: the waits of a run are no list", path);
}

static td_status take_row(sqlite3_stmt *row, const char *path, td_run *run, td_error *err)
{
  *run = (td_run){.id = sqlite3_column_int64(row, 0), .at_unix = sqlite3_column_int64(row, 3)};
  snprintf(run->device, sizeof run->device, "%s", (const char *)sqlite3_column_text(row, 4));
  run->stats = (td_step_stats){.trace = sqlite3_column_int64(row, 1),
                               .schedule = sqlite3_column_int64(row, 2),
                               .ops = td_column_u64(row, 5),
                               .peak_bytes = td_column_u64(row, 6),
                               .host_peak_bytes = td_column_u64(row, 7),
                               .d2h_bytes = td_column_u64(row, 8),
                               .h2d_bytes = td_column_u64(row, 9),
                               .stall_ns = td_column_u64(row, 10),
                               .step_ns = td_column_u64(row, 11),
                               .demand_faults = td_column_u64(row, 12),
                               .late_prefetches = td_column_u64(row, 13),
                               .replayed = true};
  return take_waits(run, (const char *)sqlite3_column_text(row, 14), path, err);
}

static td_status read_runs(const td_db *db, int64_t trace, td_run **runs, size_t *count, td_error *err)
{
  sqlite3_stmt *select = NULL;
  size_t capacity = 0;
  bool row = true;
  td_status status = td_db_prepare(db, &select, err, "SELECT * FROM run WHERE trace = %lld ORDER BY id", (long long)trace);
  while (!status) {
    status = td_db_sealed_row(db, TD_TABLE_RUN, select, &row, err);
    if (status || !row) break;
    if (!TD_GROW(*runs, capacity, *count + 1)) status = td_fail_nomem(err);
    if (!status) status = take_row(select, db->path, &(*runs)[(*count)++], err);
  }
  sqlite3_finalize(select);
  return status;
}

td_status td_tape_runs(td_tape *tape, int64_t trace, td_run **runs, size_t *count, td_error *err)
{
  td_trace_row row;
  td_run *found = NULL;
  size_t n = 0;
  bool has = false;
  td_status status = td_trace_row_get(&tape->db, trace, &row, err);
  if (!status) status = td_db_has_table(&tape->db, TD_TABLE_RUN, &has, err);
  if (!status && has) status = read_runs(&tape->db, row.id, &found, &n, err);
  if (status) {
    td_runs_destroy(found, n);
    return status;
  }
  *runs = found;
  *count = n;
  return TD_OK;
}
