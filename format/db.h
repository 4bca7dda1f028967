/* The SQLite side of a tape: opening, its tables, and errors that name the file and the cause. */
#ifndef TD_FORMAT_DB_H
#define TD_FORMAT_DB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef TD_SQLITE_EXTENSION
#include <sqlite3ext.h>
extern const sqlite3_api_routines *sqlite3_api; /* who loads the extension */
#else
#include <sqlite3.h>
#endif

#include <tapedeck/error.h>

#define TD_APPLICATION_ID 0x5444434b /* "TDCK" */
#define TD_FORMAT_VERSION 1

typedef struct td_table {
  const char *name;
  const char *sql;   /* as it stands in the file */
  unsigned n_sealed; /* columns; the seal comes after them */
  bool later;        /* made when it is first needed; else every tape has it */
} td_table;

typedef enum td_table_id {
  TD_TABLE_TRACE,
  TD_TABLE_BLOCK,
  TD_TABLE_MARK,
  TD_TABLE_META,
  TD_TABLE_SCHEDULE,
  TD_TABLE_SUMMARY,
  TD_TABLE_RUN,
  TD_N_TABLES
} td_table_id;

extern const td_table td_tables[TD_N_TABLES];

typedef struct td_db {
  sqlite3 *handle;
  char *path; /* the name in messages */
} td_db;

/* The status and message for what SQLite says went wrong last; `doing` is such as "read". */
td_status td_db_fail(const td_db *db, const char *doing, td_error *err);

/* Opens `file`, saying `path` in messages. `flags` are SQLite's. td_db_close in every case. */
td_status td_db_open(td_db *db, const char *file, const char *path, int flags, td_error *err);
void td_db_close(td_db *db);

/* Opens a tape that is only read, and checks its header. */
td_status td_db_open_to_read(td_db *db, const char *path, td_error *err);

td_status td_db_exec(const td_db *db, const char *sql, td_error *err);
/* The format is sqlite3_mprintf's. */
td_status td_db_prepare(const td_db *db, sqlite3_stmt **statement, td_error *err, const char *format, ...);
/* A statement that puts a row into the table, sealed; it replaces one with the same key. */
td_status td_db_prepare_put(const td_db *db, td_table_id table, sqlite3_stmt **statement, td_error *err);
/* Runs a statement that returns no row, and resets it. */
td_status td_db_run(const td_db *db, sqlite3_stmt *statement, td_error *err);
/* Steps a statement that returns rows. */
td_status td_db_row(const td_db *db, sqlite3_stmt *statement, bool *row, td_error *err);
/* The same for "SELECT * FROM" the table; TD_E_DAMAGED if the row does not match its seal. */
td_status td_db_sealed_row(const td_db *db, td_table_id table, sqlite3_stmt *statement, bool *row, td_error *err);

/* The tables and the numbers that say what the file is. */
td_status td_db_create_tables(const td_db *db, td_error *err);

/* Makes a table that comes later, where it is not there. */
td_status td_db_need_table(const td_db *db, td_table_id table, td_error *err);
td_status td_db_has_table(const td_db *db, td_table_id table, bool *has, td_error *err);

/* What can be told from the first bytes: that it is a tape, of a version that we know, and not cut off. */
td_status td_db_check_header(const td_db *db, td_error *err);

/* The tables of the opened tape are ours. */
td_status td_db_check_tables(const td_db *db, td_error *err);

/* SQLite's integers are signed; a number of 64 bits is stored as its two's complement. */
static inline void td_bind_u64(sqlite3_stmt *statement, int column, uint64_t value)
{
  sqlite3_bind_int64(statement, column, (sqlite3_int64)value);
}

static inline uint64_t td_column_u64(sqlite3_stmt *statement, int column)
{
  return (uint64_t)sqlite3_column_int64(statement, column);
}

#endif
