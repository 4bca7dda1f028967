/* New tapes from old ones: merge, trim, compact. */
#include <tapedeck/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "base/progress.h"
#include "format/db.h"
#include "format/tape.h"
#include "format/target.h"
#include "format/writer.h"

/* ---- a copy that gets its name when it is whole --------------------------------------------------------------- */

typedef struct copy {
  char *path, *part;
  uint64_t size; /* of what is copied, in bytes */
  td_db db;
} copy;

static uint64_t file_size(const char *path)
{
  struct stat info;
  return stat(path, &info) ? 0 : (uint64_t)info.st_size;
}

/* SQLite calls it now and then while it copies. */
static int tell(void *context)
{
  const copy *c = context;
  td_progress(file_size(c->part), c->size, "bytes");
  return 0;
}

/* VACUUM INTO copies every table, known or not, and nothing that is unused. */
static td_status start_copy(copy *c, const char *in, const char *out, td_error *err)
{
  td_tape *tape;
  *c = (copy){0};
  td_status status = td_target_resolve(out, &c->path, err);
  if (!status && asprintf(&c->part, "%s.%ld.part", c->path, (long)getpid()) < 0) {
    c->part = NULL;
    status = td_fail_nomem(err);
  }
  if (!status) status = td_tape_open(&tape, in, err);
  if (status) return status;
  unlink(c->part);
  c->size = file_size(in);
  sqlite3_progress_handler(tape->db.handle, 1000, tell, c);
  char *sql = sqlite3_mprintf("VACUUM INTO %Q", c->part);
  if (!sql) status = td_fail_nomem(err);
  if (!status) status = td_db_exec(&tape->db, "PRAGMA query_only = 0", err);
  if (!status && sqlite3_exec(tape->db.handle, sql, NULL, NULL, NULL)) {
    td_db to = {.handle = tape->db.handle, .path = (char *)out};
    status = td_db_fail(&to, "write", err);
  }
  sqlite3_free(sql);
  td_tape_close(tape);
  if (!status) status = td_db_open(&c->db, c->part, out, SQLITE_OPEN_READWRITE, err);
  return status;
}

static td_status end_copy(copy *c, td_status status, td_error *err)
{
  td_db_close(&c->db);
  if (!status) {
    int fd = open(c->part, O_RDONLY | O_CLOEXEC);
    bool synced = fd >= 0 && !fsync(fd);
    if (fd >= 0) close(fd);
    td_target_keep_mode(c->part, c->path);
    if (!synced || rename(c->part, c->path)) status = td_fail(err, TD_E_IO, "cannot write %s: %s", c->path, strerror(errno));
  }
  if (status && c->part) unlink(c->part);
  free(c->path);
  free(c->part);
  return status;
}

td_status td_compact(const char *in, const char *out, td_error *err)
{
  copy c;
  td_status status = start_copy(&c, in, out, err);
  return end_copy(&c, status, err);
}

/* ---- merge ---------------------------------------------------------------------------------------------------- */

/* The columns of each table with its keys moved behind those that are there: T traces, S schedules, R runs. */
static const struct move {
  td_table_id table;
  const char *columns;
} moves[] = {
    {TD_TABLE_TRACE, "id+T,complete,has_frees,names,ops,accesses,outputs,storages,activations,retained,marks,writer"},
    {TD_TABLE_BLOCK, "trace+T,col,seq,first,count,data"},
    {TD_TABLE_MARK, "trace+T,seq,name,op"},
    {TD_TABLE_META, "trace+T,seq,part,key,value"},
    {TD_TABLE_SCHEDULE, "id+S,trace+T,planner,memory_limit,host_limit,d2h,h2d,early,extra,actions,op,kind,sid"},
    {TD_TABLE_SUMMARY, "trace+T,compute,activation_bytes,retained_bytes,other_bytes,peak_bytes,floor_bytes,digest"},
    {TD_TABLE_RUN, "id+R,trace+T,schedule+S,at,device,ops,peak_bytes,host_peak_bytes,d2h_bytes,h2d_bytes,stall_ns,step_ns,"
                   "demand_faults,late_prefetches,waits"},
};

static td_status maximum(const td_db *db, const char *table, long long *out, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row;
  td_status status = td_db_prepare(db, &select, err, "SELECT ifnull(max(id), 0) FROM main.%s", table);
  if (!status) status = td_db_row(db, select, &row, err);
  if (!status) *out = sqlite3_column_int64(select, 0);
  sqlite3_finalize(select);
  return status;
}

/* How many there are of what the letters stand for. */
typedef struct counts {
  long long traces, schedules, runs;
} counts;

/* Replaces the letters, which stand alone behind a plus, by numbers. */
static void fill_in(char *to, size_t size, const char *columns, const counts *counts)
{
  size_t n = 0;
  for (; *columns && n + 24 < size; columns++) {
    char letter = columns[0] == '+' ? columns[1] : ' ';
    if (letter != 'T' && letter != 'S' && letter != 'R') {
      to[n++] = *columns;
      continue;
    }
    n += (size_t)snprintf(to + n, size - n, "+%lld",
                          letter == 'T' ? counts->traces : letter == 'S' ? counts->schedules : counts->runs);
    columns++;
  }
  to[n] = '\0';
}

/* A table that comes later may be in the other tape alone, or in neither. */
static td_status is_in_other(const td_db *db, td_table_id table, bool *is, td_error *err)
{
  sqlite3_stmt *select = NULL;
  td_status status = td_db_prepare(db, &select, err, "SELECT 1 FROM other.sqlite_schema WHERE name = %Q", td_tables[table].name);
  if (!status) status = td_db_row(db, select, is, err);
  sqlite3_finalize(select);
  return status || !*is ? status : td_db_need_table(db, table, err);
}

static td_status move_rows(const td_db *db, td_error *err)
{
  counts counts = {0};
  td_status status = maximum(db, "trace", &counts.traces, err);
  if (!status) status = maximum(db, "schedule", &counts.schedules, err);
  for (size_t i = 0; i < sizeof moves / sizeof *moves && !status; i++) {
    char columns[256];
    bool is = true;
    if (td_tables[moves[i].table].later) status = is_in_other(db, moves[i].table, &is, err);
    if (status || !is) continue;
    if (moves[i].table == TD_TABLE_RUN) status = maximum(db, "run", &counts.runs, err);
    if (status) continue;
    fill_in(columns, sizeof columns, moves[i].columns, &counts);
    char *sql = sqlite3_mprintf("INSERT INTO main.%s SELECT %s, td_seal(%s) FROM other.%s", td_tables[moves[i].table].name, columns,
                                columns, td_tables[moves[i].table].name);
    status = sql ? td_db_exec(db, sql, err) : td_fail_nomem(err);
    sqlite3_free(sql);
  }
  return status;
}

static bool is_ours(const char *table)
{
  for (unsigned i = 0; i < TD_N_TABLES; i++)
    if (strcmp(table, td_tables[i].name) == 0) return true;
  return strncmp(table, "sqlite_", 7) == 0;
}

/* Tables that somebody else put into the tape: made where they are not there yet, their rows appended. */
static td_status move_foreign_tables(const td_db *db, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = true;
  td_status status = td_db_prepare(db, &select, err,
                                   "SELECT o.name, o.sql, m.sql FROM other.sqlite_schema o LEFT JOIN main.sqlite_schema m "
                                   "ON m.name = o.name AND m.type = 'table' WHERE o.type = 'table'");
  while (!status) {
    status = td_db_row(db, select, &row, err);
    if (status || !row) break;
    const char *name = (const char *)sqlite3_column_text(select, 0), *sql = (const char *)sqlite3_column_text(select, 1),
               *there = (const char *)sqlite3_column_text(select, 2);
    if (!name || !sql || is_ours(name)) continue;
    if (there && strcmp(there, sql) != 0)
      status = td_fail(err, TD_E_INPUT, "two tapes have a table %.100s, but not the same", name);
    char *insert = sqlite3_mprintf("INSERT INTO main.\"%w\" SELECT * FROM other.\"%w\"", name, name);
    if (!insert) status = td_fail_nomem(err);
    if (!status && !there) status = td_db_exec(db, sql, err);
    if (!status) status = td_db_exec(db, insert, err);
    sqlite3_free(insert);
  }
  sqlite3_finalize(select);
  return status;
}

static td_status add_tape(copy *c, const char *in, td_error *err)
{
  char *attach = sqlite3_mprintf("ATTACH %Q AS other", in);
  td_status status = attach ? td_db_exec(&c->db, attach, err) : td_fail_nomem(err);
  sqlite3_free(attach);
  if (!status) status = td_db_exec(&c->db, "BEGIN", err);
  if (!status) status = move_rows(&c->db, err);
  if (!status) status = move_foreign_tables(&c->db, err);
  if (!status) status = td_db_exec(&c->db, "COMMIT; DETACH other", err);
  return status;
}

/* Each is sound, and none is another. */
static td_status check_inputs(const char *const *in, size_t n, const char *out, td_error *err)
{
  struct stat a, b;
  td_status status = n ? TD_OK : td_fail(err, TD_E_ARG, "no tape to merge");
  for (size_t i = 0; i < n && !status; i++) {
    uint64_t damages;
    status = td_tape_verify(in[i], NULL, NULL, &damages, err);
    if (!status && damages) status = td_fail(err, TD_E_DAMAGED, "%s is damaged; see tapedeck verify", in[i]);
    if (status || stat(in[i], &a)) continue;
    for (size_t k = 0; k < i; k++)
      if (!stat(in[k], &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return td_fail(err, TD_E_ARG, "%s is given twice", in[i]);
    if (!stat(out, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
      return td_fail(err, TD_E_ARG, "%s is both read and written", in[i]);
  }
  return status;
}

td_status td_merge(const char *const *in, size_t n, const char *out, td_error *err)
{
  copy c;
  td_status status = check_inputs(in, n, out, err);
  if (status) return status;
  status = start_copy(&c, in[0], out, err);
  for (size_t i = 1; i < n && !status; i++) status = add_tape(&c, in[i], err);
  return end_copy(&c, status, err);
}

/* ---- trim ----------------------------------------------------------------------------------------------------- */

typedef struct cut {
  const td_trace *trace;
  td_writer *writer;
  uint64_t first, end;
  bool *used, *made; /* by storage: it appears in the range; it was first accessed or bound there */
  td_written_access *accesses;
  td_written_output *outputs;
} cut;

static void mark_used(cut *c)
{
  const td_trace *trace = c->trace;
  bool *before = c->made; /* first: what appears before the range; then the reverse */
  for (uint64_t op = 0; op < c->end; op++) {
    bool *set = op < c->first ? before : c->used;
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) set[trace->accesses[i].storage] = true;
    for (uint64_t i = trace->ops[op].first_output; i < trace->ops[op + 1].first_output; i++) set[trace->outputs[i].storage] = true;
  }
  for (uint32_t i = 0; i < trace->n_storages; i++) c->made[i] = c->used[i] && !before[i];
}

static td_status cut_ops(cut *c, td_error *err)
{
  const td_trace *trace = c->trace;
  td_status status = TD_OK;
  for (uint64_t at = c->first; at < c->end && !status; at++) {
    const td_op *op = &trace->ops[at];
    size_t n_accesses = 0, n_outputs = 0;
    uint32_t name;
    for (uint64_t i = op->first_access; i < op[1].first_access; i++)
      c->accesses[n_accesses++] = (td_written_access){trace->storages[trace->accesses[i].storage].sid, trace->accesses[i].kind};
    for (uint64_t i = op->first_output; i < op[1].first_output; i++)
      c->outputs[n_outputs++] = (td_written_output){trace->outputs[i].leaf, trace->storages[trace->outputs[i].storage].sid};
    status = td_writer_name(c->writer, trace->names[op->name].bytes, trace->names[op->name].length, &name, err);
    if (!status)
      status = td_writer_op(c->writer, name, op->dur_ns, op->leaves, op->opaque, c->accesses, n_accesses, c->outputs, n_outputs, err);
  }
  return status;
}

static td_status cut_storage(cut *c, uint32_t index, td_error *err)
{
  td_storage_info storage = c->trace->storages[index];
  bool activation = storage.activation && c->made[index];
  bool freed = storage.freed_before_op != TD_NEVER && storage.freed_before_op <= c->end;
  bool held = activation && (storage.retained || (storage.freed_before_op != TD_NEVER && !freed));
  storage.freed_before_op = activation && freed ? storage.freed_before_op - c->first : TD_NEVER;
  td_status status = td_writer_storage(c->writer, &storage, err);
  if (!status && activation) status = td_writer_activation(c->writer, storage.sid, err);
  return status || !held ? status : td_writer_retained(c->writer, storage.sid, err);
}

static td_status cut_marks(cut *c, td_error *err)
{
  td_status status = TD_OK;
  for (uint32_t i = 0; i < c->trace->n_marks && !status; i++) {
    const td_mark *mark = &c->trace->marks[i];
    const td_name *text = &c->trace->names[mark->name];
    uint32_t name;
    if (mark->op < c->first || mark->op > c->end) continue;
    status = td_writer_name(c->writer, text->bytes, text->length, &name, err);
    if (!status) status = td_writer_mark(c->writer, name, mark->op - c->first, err);
  }
  return status;
}

static td_status cut_all(cut *c, td_error *err)
{
  const td_trace *trace = c->trace;
  c->used = calloc((size_t)trace->n_storages + 1, sizeof *c->used);
  c->made = calloc((size_t)trace->n_storages + 1, sizeof *c->made);
  c->accesses = malloc(((size_t)trace->n_accesses + 1) * sizeof *c->accesses);
  c->outputs = malloc(((size_t)trace->n_outputs + 1) * sizeof *c->outputs);
  if (!c->used || !c->made || !c->accesses || !c->outputs) return td_fail_nomem(err);
  mark_used(c);
  if (trace->has_frees) td_writer_has_frees(c->writer);
  td_status status = cut_ops(c, err);
  for (uint32_t i = 0; i < trace->n_storages && !status; i++)
    if (c->used[i]) status = cut_storage(c, i, err);
  return status ? status : cut_marks(c, err);
}

static td_status copy_meta(td_tape *tape, int64_t trace, td_writer *writer, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = true;
  td_status status = td_db_prepare(&tape->db, &select, err,
                                   "SELECT * FROM trace_meta WHERE trace = ifnull(nullif(%lld, 0), (SELECT max(id) FROM trace)) "
                                   "AND (part = 'meta' OR value NOT IN ('[]', '{}')) ORDER BY seq",
                                   (long long)trace);
  while (!status) {
    status = td_db_sealed_row(&tape->db, TD_TABLE_META, select, &row, err);
    if (status || !row) break;
    const char *part = (const char *)sqlite3_column_text(select, 2), *key = (const char *)sqlite3_column_text(select, 3);
    status = td_writer_meta(writer, strcmp(part, "top") == 0, key, strlen(key), (const char *)sqlite3_column_text(select, 4), err);
  }
  sqlite3_finalize(select);
  return status;
}

td_status td_trim(const char *in, int64_t trace, uint64_t first, uint64_t end, const char *out, td_error *err)
{
  td_tape *tape = NULL;
  td_trace *whole = NULL;
  cut c = {.first = first, .end = end};
  td_status status = td_tape_open(&tape, in, err);
  if (!status) status = td_tape_load_trace(tape, trace, &whole, err);
  if (!status && (first > end || end > whole->n_ops))
    status = td_fail(err, TD_E_ARG, "ops %llu to %llu of a trace of %llu ops", (unsigned long long)first,
                     (unsigned long long)end, (unsigned long long)whole->n_ops);
  if (!status) status = td_writer_create(&c.writer, &(td_writer_options){.path = out}, err);
  c.trace = whole;
  if (!status) status = cut_all(&c, err);
  if (!status) status = copy_meta(tape, trace, c.writer, err);
  if (!status) {
    status = td_writer_finish(c.writer, NULL, err);
    c.writer = NULL;
  }
  td_writer_abandon(c.writer);
  free(c.used);
  free(c.made);
  free(c.accesses);
  free(c.outputs);
  td_trace_destroy(whole);
  td_tape_close(tape);
  return status;
}
