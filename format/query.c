/* SQL over an open tape, read-only. */
#include <tapedeck/trace.h>

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/sql.h"
#include "format/tape.h"

typedef int (*row_function)(void *context, int n, const char *const *names, const td_value *values);

/* Only what reads. */
static int authorize(void *context, int action, const char *a, const char *b, const char *c, const char *d)
{
  (void)context, (void)b, (void)c, (void)d;
  switch (action) {
  case SQLITE_SELECT:
  case SQLITE_READ:
  case SQLITE_RECURSIVE: return SQLITE_OK;
  case SQLITE_FUNCTION: return b && sqlite3_stricmp(b, "load_extension") == 0 ? SQLITE_DENY : SQLITE_OK;
  case SQLITE_PRAGMA: {
    static const char *const harmless[] = {"table_info", "table_xinfo", "table_list", "function_list", "module_list"};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
      if (sqlite3_stricmp(a, harmless[i]) == 0) return SQLITE_OK;
    return SQLITE_DENY;
  }
  default: return SQLITE_DENY;
  }
}

/* Temporary views are made before anything is forbidden. */
static td_status add_tables(td_tape *tape, td_error *err)
{
  if (tape->has_sql) return TD_OK;
  td_status status = td_db_exec(&tape->db, "PRAGMA query_only = 0", err);
  if (!status) status = td_sql_register(tape->db.handle, err);
  if (!status) status = td_db_exec(&tape->db, "PRAGMA query_only = 1", err);
  tape->has_sql = !status;
  return status;
}

static td_value value_of(sqlite3_stmt *statement, int column)
{
  switch (sqlite3_column_type(statement, column)) {
  case SQLITE_INTEGER: return (td_value){.type = TD_INTEGER, .integer = sqlite3_column_int64(statement, column)};
  case SQLITE_FLOAT: return (td_value){.type = TD_REAL, .real = sqlite3_column_double(statement, column)};
  case SQLITE_NULL: return (td_value){.type = TD_NULL};
  case SQLITE_BLOB: {
    const void *bytes = sqlite3_column_blob(statement, column);
    return (td_value){
        .type = TD_BLOB, .bytes = bytes ? bytes : "", .length = (size_t)sqlite3_column_bytes(statement, column)};
  }
  default: {
    const char *text = (const char *)sqlite3_column_text(statement, column);
    return (td_value){.type = TD_TEXT, .bytes = text ? text : "", .length = (size_t)sqlite3_column_bytes(statement, column)};
  }
  }
}

/* What SQLite says of a statement that fails; only a damaged tape or a failing disk is not the statement's fault. */
static td_status failed(td_tape *tape, td_error *err)
{
  int code = sqlite3_errcode(tape->db.handle) & 0xff;
  if (code == SQLITE_CORRUPT) return td_fail(err, TD_E_DAMAGED, "%s", sqlite3_errmsg(tape->db.handle));
  if (code == SQLITE_NOMEM || code == SQLITE_IOERR || code == SQLITE_BUSY || code == SQLITE_CANTOPEN)
    return td_db_fail(&tape->db, "read", err);
  if (code == SQLITE_AUTH || code == SQLITE_READONLY)
    return td_fail(err, TD_E_ARG, "a tape can only be read here: %s", sqlite3_errmsg(tape->db.handle));
  return td_fail(err, TD_E_ARG, "%s", sqlite3_errmsg(tape->db.handle));
}

static td_status run(td_tape *tape, sqlite3_stmt *statement, row_function row, void *context, bool *stop, td_error *err)
{
  int n = sqlite3_column_count(statement), code;
  const char **names = calloc((size_t)n + 1, sizeof *names);
  td_value *values = calloc((size_t)n + 1, sizeof *values);
  td_status status = names && values ? TD_OK : td_fail_nomem(err);
  for (int i = 0; i < n && !status; i++) names[i] = sqlite3_column_name(statement, i);
  while (!status && !*stop && (code = sqlite3_step(statement)) != SQLITE_DONE) {
    if (code != SQLITE_ROW) {
      status = failed(tape, err);
      break;
    }
    for (int i = 0; i < n; i++) values[i] = value_of(statement, i);
    *stop = row(context, n, names, values) != 0;
  }
  free(names);
  free(values);
  return status;
}

td_status td_tape_sql(td_tape *tape, const char *sql, row_function row, void *context, td_error *err)
{
  bool stop = false;
  td_status status = add_tables(tape, err);
  if (status) return status;
  sqlite3_set_authorizer(tape->db.handle, authorize, NULL);
  while (!status && !stop && *sql) {
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(tape->db.handle, sql, -1, &statement, &sql)) status = failed(tape, err);
    else if (statement) status = run(tape, statement, row, context, &stop, err);
    sqlite3_finalize(statement);
  }
  sqlite3_set_authorizer(tape->db.handle, NULL, NULL);
  return status;
}
