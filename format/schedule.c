#include "format/schedule.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"

void td_schedule_destroy(td_schedule *schedule)
{
  if (!schedule) return;
  free(schedule->planner);
  free(schedule->extra);
  free(schedule->actions);
  free(schedule);
}

#define AFTER 4 /* added to the kind of an action after its op */

static bool fill_columns(const td_schedule *schedule, td_values *columns)
{
  for (size_t i = 0; i < schedule->n_actions; i++) {
    const td_action *action = &schedule->actions[i];
    if (!td_values_add(&columns[TD_COL_ACTION_OP], action->op) || !td_values_add(&columns[TD_COL_ACTION_SID], action->sid) ||
        !td_values_add(&columns[TD_COL_ACTION_KIND], action->kind + (action->phase == TD_POST ? AFTER : 0u)))
      return false;
  }
  return true;
}

static td_status bind_columns(sqlite3_stmt *put, td_encoder *encoder, const td_values *columns, td_error *err)
{
  for (td_column column = TD_COL_ACTION_OP; column < TD_N_CODED; column++) {
    if (!td_column_encode(encoder, column, columns)) return td_fail_nomem(err);
    sqlite3_bind_blob64(put, 11 + (int)(column - TD_COL_ACTION_OP), encoder->frame.bytes, encoder->frame.length,
                        SQLITE_TRANSIENT);
  }
  return TD_OK;
}

static td_status check(const td_schedule *schedule, td_error *err)
{
  for (size_t i = 0; i < schedule->n_actions; i++)
    if (schedule->actions[i].kind > TD_RELEASE_HOST || schedule->actions[i].phase > TD_POST)
      return td_fail(err, TD_E_ARG, "action %zu is of an unknown kind or phase", i);
  if (schedule->n_actions > TD_BLOB_VALUES_MAX) return td_fail(err, TD_E_ARG, "a schedule of too many actions");
  return TD_OK;
}

td_status td_schedule_put(const td_db *db, td_encoder *encoder, int64_t trace, td_schedule *schedule, td_error *err)
{
  td_values columns[TD_N_CODED] = {0};
  sqlite3_stmt *put = NULL, *next = NULL;
  bool row;
  int64_t id = 1;
  td_status status = check(schedule, err);
  if (!status) status = td_db_prepare(db, &next, err, "SELECT ifnull(max(id), 0) + 1 FROM schedule");
  if (!status) status = td_db_row(db, next, &row, err);
  if (!status) id = sqlite3_column_int64(next, 0);
  sqlite3_finalize(next);
  if (!status) status = td_db_prepare_put(db, TD_TABLE_SCHEDULE, &put, err);
  if (!status && !fill_columns(schedule, columns)) status = td_fail_nomem(err);
  if (!status) status = bind_columns(put, encoder, columns, err);
  if (!status) {
    sqlite3_bind_int64(put, 1, id);
    sqlite3_bind_int64(put, 2, trace);
    sqlite3_bind_text(put, 3, schedule->planner ? schedule->planner : "", -1, SQLITE_STATIC);
    td_bind_u64(put, 4, schedule->memory_limit_bytes);
    if (schedule->host_limit_bytes != UINT64_MAX) td_bind_u64(put, 5, schedule->host_limit_bytes);
    sqlite3_bind_double(put, 6, schedule->d2h_bytes_per_s);
    sqlite3_bind_double(put, 7, schedule->h2d_bytes_per_s);
    sqlite3_bind_int64(put, 8, schedule->early);
    sqlite3_bind_text(put, 9, schedule->extra, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 10, (sqlite3_int64)schedule->n_actions);
    status = td_db_run(db, put, err);
  }
  if (!status) schedule->id = id;
  sqlite3_finalize(put);
  for (unsigned column = 0; column < TD_N_CODED; column++) td_values_finish(&columns[column]);
  return status;
}

static td_status take_actions(td_schedule *schedule, sqlite3_stmt *select, td_values *columns, td_error *err)
{
  td_decoder decoder;
  uint64_t count = td_column_u64(select, 9);
  td_status status = td_decoder_init(&decoder) ? TD_OK : td_fail_nomem(err);
  for (td_column column = TD_COL_ACTION_OP; column < TD_N_CODED && !status; column++) {
    int at = 10 + (int)(column - TD_COL_ACTION_OP);
    status = td_column_decode(&decoder, column, sqlite3_column_blob(select, at), (size_t)sqlite3_column_bytes(select, at),
                              count, columns, err);
  }
  td_decoder_finish(&decoder);
  if (status) return status;
  schedule->actions = calloc((size_t)count + 1, sizeof *schedule->actions);
  if (!schedule->actions) return td_fail_nomem(err);
  schedule->n_actions = (size_t)count;
  for (size_t i = 0; i < schedule->n_actions; i++) {
    uint64_t kind = columns[TD_COL_ACTION_KIND].at[i];
    if (kind >= 2 * AFTER) return td_fail(err, TD_E_DAMAGED, "an action of no known kind");
    schedule->actions[i] = (td_action){.op = columns[TD_COL_ACTION_OP].at[i],
                                       .sid = columns[TD_COL_ACTION_SID].at[i],
                                       .phase = kind >= AFTER ? TD_POST : TD_PRE,
                                       .kind = (uint8_t)(kind % AFTER)};
  }
  return TD_OK;
}

static char *copy_text(sqlite3_stmt *select, int column)
{
  const char *text = (const char *)sqlite3_column_text(select, column);
  return text ? strdup(text) : NULL;
}

static td_status take_row(const td_db *db, sqlite3_stmt *select, td_schedule *schedule, td_error *err)
{
  td_values columns[TD_N_CODED] = {0};
  td_error why;
  *schedule = (td_schedule){.id = sqlite3_column_int64(select, 0),
                            .planner = copy_text(select, 2),
                            .memory_limit_bytes = td_column_u64(select, 3),
                            .host_limit_bytes = UINT64_MAX,
                            .d2h_bytes_per_s = sqlite3_column_double(select, 5),
                            .h2d_bytes_per_s = sqlite3_column_double(select, 6),
                            .early = sqlite3_column_int64(select, 7),
                            .extra = copy_text(select, 8)};
  if (sqlite3_column_type(select, 4) != SQLITE_NULL) schedule->host_limit_bytes = td_column_u64(select, 4);
  td_status status = schedule->planner ? take_actions(schedule, select, columns, &why) : td_fail_nomem(&why);
  for (unsigned column = 0; column < TD_N_CODED; column++) td_values_finish(&columns[column]);
  if (status == TD_E_DAMAGED)
    return td_fail(err, status, "%s is damaged: schedule %lld: %s", db->path, (long long)schedule->id, why.message);
  return status ? td_fail_nomem(err) : TD_OK;
}

td_status td_schedule_get(const td_db *db, int64_t trace, int64_t schedule, td_schedule **out, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool found = false;
  td_schedule *result = calloc(1, sizeof *result);
  td_status status = result ? TD_OK : td_fail_nomem(err);
  if (!status)
    status = td_db_prepare(db, &select, err,
                           "SELECT * FROM schedule WHERE trace = ?1 AND (?2 = 0 OR id = ?2) ORDER BY id DESC LIMIT 1");
  if (!status) {
    sqlite3_bind_int64(select, 1, trace);
    sqlite3_bind_int64(select, 2, schedule);
    status = td_db_sealed_row(db, TD_TABLE_SCHEDULE, select, &found, err);
  }
  if (!status && found)
    status = take_row(db, select, result, err);
  else if (!status && schedule == TD_NEWEST)
    status = td_fail(err, TD_E_NOT_FOUND, "%s has no schedule for trace %lld; make one with tapedeck plan", db->path,
                     (long long)trace);
  else if (!status)
    status = td_fail(err, TD_E_NOT_FOUND, "%s has no schedule %lld for trace %lld", db->path, (long long)schedule,
                     (long long)trace);
  sqlite3_finalize(select);
  if (status)
    td_schedule_destroy(result);
  else
    *out = result;
  return status;
}

td_status td_schedule_ids(const td_db *db, int64_t trace, int64_t **ids, size_t *count, td_error *err)
{
  sqlite3_stmt *select = NULL;
  int64_t *list = NULL;
  size_t n = 0, capacity = 0;
  bool row = true;
  td_status status =
      td_db_prepare(db, &select, err, "SELECT id FROM schedule WHERE trace = %lld ORDER BY id", (long long)trace);
  while (!status) {
    status = td_db_row(db, select, &row, err);
    if (status || !row) break;
    if (TD_GROW(list, capacity, n + 1))
      list[n++] = sqlite3_column_int64(select, 0);
    else
      status = td_fail_nomem(err);
  }
  sqlite3_finalize(select);
  if (status) {
    free(list);
    return status;
  }
  *ids = list;
  *count = n;
  return TD_OK;
}
