/* The tape: size, recording, loading; against SQLite rows, cJSON, and plain structs as the floor. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <sqlite3.h>
#include <zlib.h>

#include <tapedeck/recorder.h>
#include <tapedeck/trace.h>

#include "bench.h"

static td_error err;

static void need(td_status status)
{
  if (!status) return;
  fprintf(stderr, "bench: %s\n", err.message);
  exit(2);
}

static double file_bytes(const char *path)
{
  struct stat info;
  return stat(path, &info) ? 0 : (double)info.st_size;
}

/* ---- recording ------------------------------------------------------------------------------------------------ */

enum { RECORDED = 1000000 };

typedef struct recording {
  double wall, cpu; /* ns an op on the caller's thread; ns of processor time in all */
} recording;

/* Two accesses and one output each: a chain of ops with names and sizes that repeat as in layers. */
static recording record(void)
{
  td_deck *deck;
  td_storage last, next;
  recording r;
  char names[40][16];
  for (int i = 0; i < 40; i++) snprintf(names[i], sizeof names[i], "aten.op%d", i);
  need(td_recorder_create(&deck, &(td_recorder_options){.path = bench_file("record.tape")}, &err));
  td_storage_born(deck, 0, 4096, &last);
  td_step_begin(deck);
  uint64_t cpu = bench_cpu_ns(), wall = bench_wall_ns(), noise = 1;
  for (int i = 0; i < RECORDED; i++) {
    noise = noise * 6364136223846793005u + 1442695040888963407u;
    td_op_begin(deck, names[i % 40]);
    td_storage_born(deck, 0, 4096u << (i % 5), &next);
    td_read(deck, last);
    td_output(deck, 0, next);
    td_op_end(deck, 20000 + (noise >> 51));
    td_release(deck, last);
    last = next;
  }
  r.wall = (double)(bench_wall_ns() - wall) / RECORDED;
  if (td_step_end(deck)) fprintf(stderr, "bench: %s\n", td_deck_error(deck)->message);
  r.cpu = (double)(bench_cpu_ns() - cpu) / RECORDED;
  td_deck_destroy(deck);
  return r;
}

static double record_wall(void *context)
{
  (void)context;
  return record().wall;
}

static double record_cpu(void *context)
{
  (void)context;
  return record().cpu;
}

static void put_row(sqlite3_stmt *insert, int a, int b, int c, int d)
{
  const int values[] = {a, b, c, d};
  for (int i = 0; i < sqlite3_bind_parameter_count(insert); i++) sqlite3_bind_int(insert, i + 1, values[i]);
  sqlite3_step(insert);
  sqlite3_reset(insert);
}

/* The same as rows of four tables in one transaction. */
static double record_rows(void *context)
{
  enum { N = RECORDED / 5 };
  static const char *const inserts[] = {"INSERT INTO op VALUES(?, 'aten.op', ?, 1)", "INSERT INTO access VALUES(?, ?, ?, ?)",
                                        "INSERT INTO output VALUES(?, 0, ?)", "INSERT INTO storage VALUES(?, ?, ?)"};
  sqlite3 *db;
  sqlite3_stmt *insert[4];
  (void)context;
  const char *path = bench_file("rows.db");
  unlink(path);
  sqlite3_open(path, &db);
  sqlite3_exec(db, "PRAGMA synchronous = OFF; CREATE TABLE op(op INTEGER PRIMARY KEY, name TEXT, dur_ns INT, leaves INT);"
                   "CREATE TABLE access(op INT, seq INT, sid INT, kind INT, PRIMARY KEY(op, seq)) WITHOUT ROWID;"
                   "CREATE TABLE output(op INT, leaf INT, sid INT, PRIMARY KEY(op, leaf)) WITHOUT ROWID;"
                   "CREATE TABLE storage(sid INTEGER PRIMARY KEY, bytes INT, freed INT); BEGIN",
               NULL, NULL, NULL);
  for (int i = 0; i < 4; i++) sqlite3_prepare_v2(db, inserts[i], -1, &insert[i], NULL);
  uint64_t cpu = bench_cpu_ns();
  for (int i = 0; i < N; i++) {
    put_row(insert[0], i, 20000 + i % 8191, 0, 0);
    put_row(insert[1], i, 0, i, 0);
    put_row(insert[1], i, 1, i + 1, 1);
    put_row(insert[2], i, i + 1, 0, 0);
    put_row(insert[3], i, 4096 << i % 5, i + 2, 0);
  }
  for (int i = 0; i < 4; i++) sqlite3_finalize(insert[i]);
  sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
  double result = (double)(bench_cpu_ns() - cpu) / N;
  sqlite3_close(db);
  return result;
}

/* The floor: the same numbers as structs through fwrite. */
static double record_structs(void *context)
{
  struct {
    uint64_t name, dur_ns, leaves, accesses[4], outputs[2];
  } op = {0};
  (void)context;
  FILE *to = fopen(bench_file("structs"), "wb");
  uint64_t cpu = bench_cpu_ns();
  for (int i = 0; i < RECORDED; i++) {
    op.dur_ns = (uint64_t)i;
    op.accesses[0] = (uint64_t)i;
    fwrite(&op, sizeof op, 1, to);
  }
  fclose(to);
  return (double)(bench_cpu_ns() - cpu) / RECORDED;
}

/* ---- loading -------------------------------------------------------------------------------------------------- */

typedef struct real {
  const char *tape;
  char *json;
  uint64_t ops;
} real;

static double load(void *context)
{
  const real *r = context;
  td_tape *tape;
  td_trace *trace;
  uint64_t wall = bench_wall_ns();
  need(td_tape_open(&tape, r->tape, &err));
  need(td_tape_load_trace(tape, TD_NEWEST, &trace, &err));
  td_tape_close(tape);
  double result = (double)(bench_wall_ns() - wall) / (double)r->ops;
  td_trace_destroy(trace);
  return result;
}

static double parse_json(void *context)
{
  const real *r = context;
  uint64_t wall = bench_wall_ns();
  cJSON *json = cJSON_Parse(r->json);
  double result = (double)(bench_wall_ns() - wall) / (double)r->ops;
  cJSON_Delete(json);
  return result;
}

static char *slurp(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  char *text = malloc((size_t)file_bytes(path) + 1);
  *length = fread(text, 1, (size_t)file_bytes(path), file);
  text[*length] = '\0';
  fclose(file);
  return text;
}

/* ---- SQL ------------------------------------------------------------------------------------------------------ */

static double query(sqlite3 *db, const char *sql)
{
  sqlite3_stmt *statement = NULL;
  uint64_t wall = bench_wall_ns();
  if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL)) fprintf(stderr, "bench: %s\n", sqlite3_errmsg(db));
  while (sqlite3_step(statement) == SQLITE_ROW) {
  }
  sqlite3_finalize(statement);
  return (double)(bench_wall_ns() - wall);
}

typedef struct asked {
  td_tape *tape;
  sqlite3 *rows;
  const char *sql;
  double n; /* rows that it walks */
} asked;

static int ignore_row(void *context, int n, const char *const *names, const td_value *values)
{
  (void)context, (void)n, (void)names, (void)values;
  return 0;
}

static double ask_tape(void *context)
{
  const asked *a = context;
  uint64_t wall = bench_wall_ns();
  need(td_tape_sql(a->tape, a->sql, ignore_row, NULL, &err));
  return (double)(bench_wall_ns() - wall) / a->n;
}

static double ask_rows(void *context)
{
  const asked *a = context;
  return query(a->rows, a->sql) / a->n;
}

static int copy_row(void *context, int n, const char *const *names, const td_value *values)
{
  (void)names;
  sqlite3_stmt *insert = context;
  for (int i = 0; i < n; i++) {
    if (values[i].type == TD_INTEGER) sqlite3_bind_int64(insert, i + 1, values[i].integer);
    else sqlite3_bind_text(insert, i + 1, values[i].bytes, (int)values[i].length, SQLITE_TRANSIENT);
  }
  sqlite3_step(insert);
  sqlite3_reset(insert);
  return 0;
}

/* The same tables as plain ones. */
static void copy_table(td_tape *tape, sqlite3 *db, const char *create, const char *insert, const char *select)
{
  sqlite3_stmt *statement = NULL;
  sqlite3_exec(db, create, NULL, NULL, NULL);
  sqlite3_exec(db, "BEGIN", NULL, NULL, NULL);
  sqlite3_prepare_v2(db, insert, -1, &statement, NULL);
  need(td_tape_sql(tape, select, copy_row, statement, &err));
  sqlite3_finalize(statement);
  sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
}

static void bench_sql(const char *path, uint64_t ops)
{
  td_tape *tape;
  sqlite3 *db;
  td_trace_info info;
  need(td_tape_open(&tape, path, &err));
  need(td_tape_info(tape, TD_NEWEST, &info, &err));
  sqlite3_open(bench_file("plain.db"), &db);
  copy_table(tape, db, "CREATE TABLE op(trace INT, op INT, name TEXT, dur_ns INT, leaves INT, opaque INT, PRIMARY KEY(trace, op)) WITHOUT ROWID",
             "INSERT INTO op VALUES(?,?,?,?,?,?)", "SELECT * FROM op");
  copy_table(tape, db, "CREATE TABLE access(trace INT, op INT, seq INT, sid INT, kind TEXT, PRIMARY KEY(trace, op, seq)) WITHOUT ROWID",
             "INSERT INTO access VALUES(?,?,?,?,?)", "SELECT * FROM access");
  asked a = {.tape = tape, .rows = db, .sql = "SELECT sum(dur_ns), max(leaves) FROM op", .n = (double)ops};
  bench_row("sql, scan of ops", "ns/row", bench_median(ask_tape, &a), bench_median(ask_rows, &a), "a plain SQLite table");
  a.sql = "SELECT max(op), sum(sid) FROM access WHERE kind = 'W'";
  a.n = (double)info.accesses;
  bench_row("sql, scan of accesses", "ns/row", bench_median(ask_tape, &a), bench_median(ask_rows, &a), "a plain SQLite table");
  a.sql = "SELECT dur_ns FROM op WHERE trace = 1 AND op = 20000";
  a.n = 1000;
  bench_row("sql, look-up of one op", "us", bench_median(ask_tape, &a), bench_median(ask_rows, &a), "a plain SQLite table");
  sqlite3_close(db);
  td_tape_close(tape);
}

static void bench_real(const char *traces)
{
  char in[600];
  td_tape *tape;
  td_trace_info info;
  real r = {.tape = bench_file("n.tape")};
  const char *json = bench_file("n.json");
  snprintf(in, sizeof in, "%s/n_gpt24_acc8.json.zst", traces);
  need(td_import(in, r.tape, NULL, NULL, &err));
  need(td_tape_open(&tape, r.tape, &err));
  need(td_tape_info(tape, TD_NEWEST, &info, &err));
  FILE *to = fopen(json, "wb");
  need(td_export(tape, TD_NEWEST, to, &err));
  fclose(to);
  td_tape_close(tape);
  r.ops = info.ops;
  size_t length;
  r.json = slurp(json, &length);
  const char *zipped = bench_file("n.json.gz");
  gzFile gz = gzopen(zipped, "wb");
  gzwrite(gz, r.json, (unsigned)length);
  gzclose(gz);
  double ops = (double)r.ops;
  bench_row("size, n_gpt24_acc8", "B/op", file_bytes(r.tape) / ops, file_bytes(zipped) / ops, "gzip of its JSON");
  bench_row("load, n_gpt24_acc8", "ns/op", bench_median(load, &r), bench_median(parse_json, &r), "cJSON parse");
  bench_sql(r.tape, r.ops);
  free(r.json);
}

void bench_tape(void)
{
  double rows = bench_median(record_rows, NULL), structs = bench_median(record_structs, NULL);
  bench_row("record, caller's thread", "ns/op", bench_median(record_wall, NULL), rows, "SQLite rows, one transaction");
  double cpu = bench_median(record_cpu, NULL);
  bench_row("record, processor time", "ns/op", cpu, rows, "SQLite rows, one transaction");
  bench_row("record, processor time", "ns/op", cpu, structs, "fwrite of structs: the floor");
  if (bench_traces()) bench_real(bench_traces());
}
