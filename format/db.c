#include "format/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fail.h"

#define BUSY_MS 10000 /* how long to wait for another process that has the file */

const td_table td_tables[TD_N_TABLES] = {
  [TD_TABLE_TRACE] = {"trace",
    "CREATE TABLE trace( -- one recorded step each: facts\n"
    "  id INTEGER PRIMARY KEY, -- from 1, in the order they were recorded\n"
    "  complete INTEGER NOT NULL, -- 0: still being recorded, or the recorder died\n"
    "  has_frees INTEGER NOT NULL, -- 1: it says when storages were freed\n"
    "  names INTEGER NOT NULL, -- counts, as far as it is recorded\n"
    "  ops INTEGER NOT NULL,\n"
    "  accesses INTEGER NOT NULL,\n"
    "  outputs INTEGER NOT NULL, -- bound outputs\n"
    "  storages INTEGER NOT NULL,\n"
    "  activations INTEGER NOT NULL,\n"
    "  retained INTEGER NOT NULL,\n"
    "  marks INTEGER NOT NULL,\n"
    "  writer TEXT NOT NULL, -- what wrote it\n"
    "  seal INTEGER NOT NULL -- of the values before it\n"
    ") STRICT", 12, false},
  [TD_TABLE_BLOCK] = {"block",
    "CREATE TABLE block( -- some values of one column: facts\n"
    "  trace INTEGER NOT NULL,\n"
    "  col INTEGER NOT NULL, -- which column, see docs/format.md\n"
    "  seq INTEGER NOT NULL, -- from 0; the columns of a group are cut in the same places\n"
    "  first INTEGER NOT NULL, -- values of the column in the blocks before\n"
    "  count INTEGER NOT NULL, -- values\n"
    "  data BLOB NOT NULL, -- one zstd frame with checksum\n"
    "  seal INTEGER NOT NULL,\n"
    "  PRIMARY KEY(trace, col, seq)\n"
    ") STRICT, WITHOUT ROWID", 6, false},
  [TD_TABLE_MARK] = {"trace_mark",
    "CREATE TABLE trace_mark( -- named positions: facts\n"
    "  trace INTEGER NOT NULL,\n"
    "  seq INTEGER NOT NULL, -- from 0, in the order they were made\n"
    "  name INTEGER NOT NULL, -- number of a name\n"
    "  op INTEGER NOT NULL, -- the position before this op; the number of ops: the end\n"
    "  seal INTEGER NOT NULL,\n"
    "  PRIMARY KEY(trace, seq)\n"
    ") STRICT, WITHOUT ROWID", 4, false},
  [TD_TABLE_META] = {"trace_meta",
    "CREATE TABLE trace_meta( -- what is known besides, as in the interchange: facts\n"
    "  trace INTEGER NOT NULL,\n"
    "  seq INTEGER NOT NULL, -- from 0, in order\n"
    "  part TEXT NOT NULL, -- 'meta': a member of that object; 'top': a further one beside it\n"
    "  key TEXT NOT NULL,\n"
    "  value TEXT NOT NULL, -- JSON\n"
    "  seal INTEGER NOT NULL,\n"
    "  PRIMARY KEY(trace, seq)\n"
    ") STRICT, WITHOUT ROWID", 5, false},
  [TD_TABLE_SCHEDULE] = {"schedule",
    "CREATE TABLE schedule( -- facts\n"
    "  id INTEGER PRIMARY KEY, -- from 1, in the order they were made\n"
    "  trace INTEGER NOT NULL,\n"
    "  planner TEXT NOT NULL,\n"
    "  memory_limit INTEGER NOT NULL, -- bytes, for activations on the device\n"
    "  host_limit INTEGER, -- bytes, for copies on the host; null: none\n"
    "  d2h REAL NOT NULL, -- bytes a second\n"
    "  h2d REAL NOT NULL,\n"
    "  early INTEGER NOT NULL, -- 1: judged with the last access as the end of a storage\n"
    "  extra TEXT, -- further members, a JSON object\n"
    "  actions INTEGER NOT NULL, -- count\n"
    "  op BLOB NOT NULL, -- columns of the actions, coded as in blocks\n"
    "  kind BLOB NOT NULL,\n"
    "  sid BLOB NOT NULL,\n"
    "  seal INTEGER NOT NULL\n"
    ") STRICT", 13, false},
  [TD_TABLE_SUMMARY] = {"summary",
    "CREATE TABLE summary( -- derived from the facts of a complete trace\n"
    "  trace INTEGER PRIMARY KEY,\n"
    "  compute INTEGER NOT NULL, -- ns, sum of all durations\n"
    "  activation_bytes INTEGER NOT NULL, -- sums\n"
    "  retained_bytes INTEGER NOT NULL,\n"
    "  other_bytes INTEGER NOT NULL, -- of storages that are no activations\n"
    "  peak_bytes INTEGER NOT NULL, -- most activation bytes alive at once\n"
    "  floor_bytes INTEGER NOT NULL, -- no schedule can do with less\n"
    "  digest TEXT NOT NULL, -- 32 hexadecimal digits\n"
    "  seal INTEGER NOT NULL\n"
    ") STRICT", 8, false},
  [TD_TABLE_RUN] = {"run",
    "CREATE TABLE run( -- steps that were replayed: facts\n"
    "  id INTEGER PRIMARY KEY, -- from 1, in the order they were stored\n"
    "  trace INTEGER NOT NULL,\n"
    "  schedule INTEGER NOT NULL,\n"
    "  at INTEGER NOT NULL, -- seconds since 1970\n"
    "  device TEXT NOT NULL,\n"
    "  ops INTEGER NOT NULL,\n"
    "  peak_bytes INTEGER NOT NULL, -- on the device\n"
    "  host_peak_bytes INTEGER NOT NULL,\n"
    "  d2h_bytes INTEGER NOT NULL, -- copied\n"
    "  h2d_bytes INTEGER NOT NULL,\n"
    "  stall_ns INTEGER NOT NULL,\n"
    "  step_ns INTEGER NOT NULL,\n"
    "  demand_faults INTEGER NOT NULL,\n"
    "  late_prefetches INTEGER NOT NULL,\n"
    "  waits TEXT NOT NULL, -- JSON: [op, SID, bytes, ns, 1 if it was away] for each storage that was waited for\n"
    "  seal INTEGER NOT NULL\n"
    ") STRICT", 15, true},
};

/* ---- errors --------------------------------------------------------------------------------------------------- */

static td_status status_of(int code)
{
  switch (code & 0xff) {
  case SQLITE_NOMEM: return TD_E_NOMEM;
  case SQLITE_NOTADB: return TD_E_FORMAT;
  case SQLITE_CORRUPT:
  case SQLITE_ERROR: /* our own statements are sound, so the tables are not */
  case SQLITE_MISMATCH:
  case SQLITE_CONSTRAINT: return TD_E_DAMAGED;
  default: return TD_E_IO;
  }
}

td_status td_db_fail(const td_db *db, const char *doing, td_error *err)
{
  int code = db->handle ? sqlite3_extended_errcode(db->handle) : SQLITE_NOMEM;
  td_status status = status_of(code);
  int cause = 0;
  if (db->handle) sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_LAST_ERRNO, &cause);
  if (db->handle && !cause) cause = sqlite3_system_errno(db->handle);
  const char *what = db->handle ? sqlite3_errmsg(db->handle) : "out of memory";
  if (status == TD_E_NOMEM) return td_fail_nomem(err);
  if (status == TD_E_IO && cause) return td_fail(err, status, "cannot %s %s: %s", doing, db->path, strerror(cause));
  if (status == TD_E_IO) return td_fail(err, status, "cannot %s %s: %s", doing, db->path, what);
  return td_fail(err, status, "%s is damaged: %s", db->path, what);
}

/* ---- seals ---------------------------------------------------------------------------------------------------- */

static void seal_number(XXH3_state_t *state, uint8_t type, uint64_t value)
{
  uint8_t bytes[9] = {type};
  for (unsigned i = 0; i < 8; i++) bytes[1 + i] = (uint8_t)(value >> (8 * i));
  XXH3_64bits_update(state, bytes, sizeof bytes);
}

static void seal_value(XXH3_state_t *state, sqlite3_value *value)
{
  int type = sqlite3_value_type(value);
  uint64_t bits = 0;
  if (type == SQLITE_FLOAT) {
    double number = sqlite3_value_double(value);
    memcpy(&bits, &number, sizeof bits);
  } else if (type == SQLITE_INTEGER) {
    bits = (uint64_t)sqlite3_value_int64(value);
  } else if (type != SQLITE_NULL) {
    bits = (uint64_t)sqlite3_value_bytes(value);
  }
  seal_number(state, (uint8_t)type, bits);
  if ((type == SQLITE_TEXT || type == SQLITE_BLOB) && bits)
    XXH3_64bits_update(state, sqlite3_value_blob(value), (size_t)bits);
}

/* td_seal(value, ...): a checksum over any values, the same on every machine. */
static void seal(sqlite3_context *context, int n_values, sqlite3_value **values)
{
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (int i = 0; i < n_values; i++) seal_value(&state, values[i]);
  sqlite3_result_int64(context, (sqlite3_int64)XXH3_64bits_digest(&state));
}

static bool matches_seal(sqlite3_stmt *row, unsigned n_sealed)
{
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (unsigned i = 0; i < n_sealed; i++) seal_value(&state, sqlite3_column_value(row, (int)i));
  return sqlite3_column_type(row, (int)n_sealed) == SQLITE_INTEGER &&
         (uint64_t)sqlite3_column_int64(row, (int)n_sealed) == XXH3_64bits_digest(&state);
}

/* ---- opening and statements ----------------------------------------------------------------------------------- */

td_status td_db_open_to_read(td_db *db, const char *path, td_error *err)
{
  /* Writable where it can be, since reading may first have to roll back what a killed writer left; no statement writes. */
  td_status status = td_db_open(db, path, path, SQLITE_OPEN_READWRITE, err);
  if (!status) status = td_db_check_header(db, err);
  return status ? status : td_db_exec(db, "PRAGMA query_only = 1", err);
}

td_status td_db_open(td_db *db, const char *file, const char *path, int flags, td_error *err)
{
  *db = (td_db){.path = strdup(path)};
  if (!db->path) return td_fail_nomem(err);
  /* The connection belongs to one caller at a time, so it needs no mutex. */
  if (sqlite3_open_v2(file, &db->handle, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, NULL) ||
      sqlite3_busy_timeout(db->handle, BUSY_MS) ||
      sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) ||
      sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) ||
      sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL) ||
      sqlite3_db_config(db->handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL) ||
      sqlite3_create_function(db->handle, "td_seal", -1, SQLITE_UTF8 | SQLITE_DETERMINISTIC, NULL, seal, NULL, NULL) ||
      sqlite3_exec(db->handle, "PRAGMA cell_size_check = 1", NULL, NULL, NULL))
    return td_db_fail(db, "open", err);
  return TD_OK;
}

void td_db_close(td_db *db)
{
  sqlite3_close(db->handle);
  free(db->path);
  *db = (td_db){0};
}

td_status td_db_exec(const td_db *db, const char *sql, td_error *err)
{
  if (!sqlite3_exec(db->handle, sql, NULL, NULL, NULL)) return TD_OK;
  return td_db_fail(db, sqlite3_db_readonly(db->handle, "main") ? "read" : "write", err);
}

td_status td_db_prepare(const td_db *db, sqlite3_stmt **statement, td_error *err, const char *format, ...)
{
  va_list args;
  va_start(args, format);
  char *sql = sqlite3_vmprintf(format, args);
  va_end(args);
  if (!sql) return td_fail_nomem(err);
  int code = sqlite3_prepare_v2(db->handle, sql, -1, statement, NULL);
  sqlite3_free(sql);
  return code ? td_db_fail(db, "read", err) : TD_OK;
}

td_status td_db_prepare_put(const td_db *db, td_table_id table, sqlite3_stmt **statement, td_error *err)
{
  char values[128];
  size_t length = 0;
  for (unsigned i = 1; i <= td_tables[table].n_sealed; i++)
    length += (size_t)snprintf(values + length, sizeof values - length, "%s?%u", i > 1 ? "," : "", i);
  return td_db_prepare(db, statement, err, "REPLACE INTO %s VALUES(%s, td_seal(%s))", td_tables[table].name, values, values);
}

td_status td_db_run(const td_db *db, sqlite3_stmt *statement, td_error *err)
{
  td_status status = sqlite3_step(statement) == SQLITE_DONE ? TD_OK : td_db_fail(db, "write", err);
  sqlite3_reset(statement);
  return status;
}

td_status td_db_row(const td_db *db, sqlite3_stmt *statement, bool *row, td_error *err)
{
  int code = sqlite3_step(statement);
  *row = code == SQLITE_ROW;
  return code == SQLITE_ROW || code == SQLITE_DONE ? TD_OK : td_db_fail(db, "read", err);
}

td_status td_db_sealed_row(const td_db *db, td_table_id table, sqlite3_stmt *statement, bool *row, td_error *err)
{
  td_status status = td_db_row(db, statement, row, err);
  if (!status && *row && !matches_seal(statement, td_tables[table].n_sealed))
    return td_fail(err, TD_E_DAMAGED, "%s is damaged: a row of its table %s does not match its seal", db->path,
                   td_tables[table].name);
  return status;
}

/* ---- what the file is ----------------------------------------------------------------------------------------- */

td_status td_db_create_tables(const td_db *db, td_error *err)
{
  char numbers[96];
  snprintf(numbers, sizeof numbers, "PRAGMA application_id = %d; PRAGMA user_version = %d", TD_APPLICATION_ID,
           TD_FORMAT_VERSION);
  td_status status = td_db_exec(db, numbers, err);
  for (unsigned i = 0; i < TD_N_TABLES && !status; i++)
    if (!td_tables[i].later) status = td_db_exec(db, td_tables[i].sql, err);
  return status;
}

static uint32_t big_endian(const uint8_t *bytes)
{
  return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* The offsets are those of SQLite's file format, section 1.3. */
static td_status judge_header(const char *path, const uint8_t *header, size_t length, int64_t size, td_error *err)
{
  if (size == 0) return td_fail(err, TD_E_FORMAT, "%s is empty, not a tape", path);
  if (memcmp(header, "SQLite format 3", length < 16 ? length : 16) != 0)
    return td_fail(err, TD_E_FORMAT, "%s is not a tape", path);
  if (length < 100) return td_fail(err, TD_E_DAMAGED, "%s is cut off: it has %lld bytes", path, (long long)size);
  if (big_endian(header + 68) != TD_APPLICATION_ID)
    return td_fail(err, TD_E_FORMAT, "%s is a SQLite database, but not a tape", path);
  uint32_t version = big_endian(header + 60);
  if (version > TD_FORMAT_VERSION)
    return td_fail(err, TD_E_VERSION, "%s is a tape of version %u; this tapedeck, %s, reads versions up to %u", path,
                   version, td_version(), TD_FORMAT_VERSION);
  if (version == 0) return td_fail(err, TD_E_DAMAGED, "%s is a tape without a version", path);
  uint64_t page = (uint64_t)header[16] << 8 | header[17];
  if (page == 1) page = 65536;
  bool logged = header[18] == 2; /* part of it may stand in a file beside it */
  uint64_t want = page * big_endian(header + 28);
  if (!logged && (uint64_t)size < want)
    return td_fail(err, TD_E_DAMAGED, "%s is cut off: it has %lld of %llu bytes", path, (long long)size,
                   (unsigned long long)want);
  return TD_OK;
}

/* Through SQLite's own handle: closing another one of the same file would drop this process's locks on it. */
static td_status check_header(const td_db *db, td_error *err)
{
  uint8_t header[100];
  sqlite3_file *file = NULL;
  sqlite3_int64 size = 0;
  sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (!file || !file->pMethods || file->pMethods->xFileSize(file, &size))
    return td_fail(err, TD_E_IO, "cannot read %s", db->path);
  int length = size < (sqlite3_int64)sizeof header ? (int)size : (int)sizeof header;
  if (file->pMethods->xRead(file, header, length, 0))
    return td_fail(err, TD_E_IO, "cannot read %s: %s", db->path, strerror(errno));
  return judge_header(db->path, header, (size_t)length, size, err);
}

/* Inside a read transaction, which also rolls back what a writer left half done when it was killed: then size and header are
 * of one moment. Where there can be none, the header says best why. */
td_status td_db_check_header(const td_db *db, td_error *err)
{
  td_error why;
  td_status readable = td_db_exec(db, "BEGIN; SELECT count(*) FROM sqlite_schema", &why);
  td_status status = check_header(db, err);
  if (!status && readable) status = td_fail(err, readable, "%s", why.message);
  if (!sqlite3_get_autocommit(db->handle)) sqlite3_exec(db->handle, "COMMIT", NULL, NULL, NULL);
  return status;
}

td_status td_db_has_table(const td_db *db, td_table_id table, bool *has, td_error *err)
{
  sqlite3_stmt *statement = NULL;
  td_status status = td_db_prepare(db, &statement, err, "SELECT 1 FROM main.sqlite_schema WHERE name = %Q", td_tables[table].name);
  if (!status) status = td_db_row(db, statement, has, err);
  sqlite3_finalize(statement);
  return status;
}

td_status td_db_need_table(const td_db *db, td_table_id table, td_error *err)
{
  bool has;
  td_status status = td_db_has_table(db, table, &has, err);
  return status || has ? status : td_db_exec(db, td_tables[table].sql, err);
}

td_status td_db_check_tables(const td_db *db, td_error *err)
{
  sqlite3_stmt *statement = NULL;
  td_status status = td_db_prepare(db, &statement, err, "SELECT sql FROM sqlite_schema WHERE name = ?1");
  for (unsigned i = 0; i < TD_N_TABLES && !status; i++) {
    bool row = false;
    sqlite3_reset(statement);
    sqlite3_bind_text(statement, 1, td_tables[i].name, -1, SQLITE_STATIC);
    status = td_db_row(db, statement, &row, err);
    const char *sql = row ? (const char *)sqlite3_column_text(statement, 0) : NULL;
    if (!status && !sql && td_tables[i].later) continue;
    if (!status && (!sql || strcmp(sql, td_tables[i].sql) != 0))
      status = td_fail(err, TD_E_DAMAGED, "%s is damaged: its table %s is not as it should be", db->path, td_tables[i].name);
  }
  sqlite3_finalize(statement);
  return status;
}
