#include "format/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/names.h"
#include "format/derive.h"
#include "format/json_text.h"
#include "format/schedule.h"
#include "format/target.h"

#define BLOCK_OPS 16384
#define BLOCK_VALUES 65536 /* of the other groups, and of accesses and outputs: a block is cut early when it has more */
#define LEVEL 9            /* of zstd: on the recorded traces 3% smaller than its default, for a third more time */

struct td_writer {
  td_db db;
  char *path, *part;
  int fd;         /* of the part, for its lock and for fsync; closed after the database, whose locks closing it drops */
  bool recording;
  bool committed; /* no transaction is open */
  sqlite3_stmt *put_block;
  td_encoder encoder;
  td_values columns[TD_N_COLUMNS]; /* what stands in no block yet */
  uint64_t first[TD_N_COLUMNS];    /* values of the column in the blocks so far */
  uint64_t seq[TD_N_COLUMNS];
  td_trace_row row;
  td_names names;
  size_t names_written, n_meta;
  td_storage_table table;
  uint32_t *changed; /* storages that were told since they were written last; one may be there twice */
  size_t n_changed, changed_capacity;
};

/* ---- blocks --------------------------------------------------------------------------------------------------- */

static td_status begin(td_writer *w, td_error *err)
{
  if (!w->committed) return TD_OK;
  td_status status = td_db_exec(&w->db, "BEGIN IMMEDIATE", err);
  if (!status) w->committed = false;
  return status;
}

static td_status put_block(td_writer *w, td_column column, td_error *err)
{
  td_values *values = &w->columns[column];
  if (!td_column_encode(&w->encoder, column, w->columns)) return td_fail_nomem(err);
  sqlite3_bind_int64(w->put_block, 1, w->row.id);
  sqlite3_bind_int64(w->put_block, 2, column);
  td_bind_u64(w->put_block, 3, w->seq[column]++);
  td_bind_u64(w->put_block, 4, w->first[column]);
  td_bind_u64(w->put_block, 5, values->count);
  sqlite3_bind_blob64(w->put_block, 6, w->encoder.frame.bytes, w->encoder.frame.length, SQLITE_STATIC);
  w->first[column] += values->count;
  return td_db_run(&w->db, w->put_block, err);
}

/* Writes what the columns of a group hold as a block of each, and empties them. */
static td_status flush(td_writer *w, td_group group, td_error *err)
{
  size_t values = 0;
  for (td_column column = 0; column < TD_N_COLUMNS; column++)
    if (td_columns[column].group == group) values += w->columns[column].count;
  if (!values) return TD_OK;
  td_status status = begin(w, err);
  for (td_column column = 0; column < TD_N_COLUMNS && !status; column++)
    if (td_columns[column].group == group) status = put_block(w, column, err);
  for (td_column column = 0; column < TD_N_COLUMNS; column++)
    if (td_columns[column].group == group) w->columns[column].count = 0;
  return status;
}

static td_status flush_names(td_writer *w, td_error *err)
{
  for (; w->names_written < w->names.count; w->names_written++) {
    size_t length;
    const char *bytes = td_names_get(&w->names, (uint32_t)w->names_written, &length);
    if (!td_values_add(&w->columns[TD_COL_NAME_LENGTH], length)) return td_fail_nomem(err);
    for (size_t i = 0; i < length; i++)
      if (!td_values_add(&w->columns[TD_COL_NAME_BYTE], (uint8_t)bytes[i])) return td_fail_nomem(err);
    if (w->columns[TD_COL_NAME_BYTE].count < BLOCK_VALUES) continue;
    td_status status = flush(w, TD_GROUP_NAMES, err);
    if (status) return status;
  }
  return flush(w, TD_GROUP_NAMES, err);
}

static td_status put_storage(td_writer *w, const td_storage_info *storage, td_error *err)
{
  if (!td_values_add(&w->columns[TD_COL_STORAGE_SID], storage->sid) ||
      !td_values_add(&w->columns[TD_COL_STORAGE_BYTES], storage->bytes) ||
      !td_values_add(&w->columns[TD_COL_STORAGE_FREED], storage->freed_before_op + 1))
    return td_fail_nomem(err);
  return w->columns[TD_COL_STORAGE_SID].count < BLOCK_VALUES ? TD_OK : flush(w, TD_GROUP_STORAGES, err);
}

static td_status flush_changed_storages(td_writer *w, td_error *err)
{
  td_status status = TD_OK;
  for (size_t i = 0; i < w->n_changed && !status; i++) status = put_storage(w, &w->table.at[w->changed[i]], err);
  w->n_changed = 0;
  return status ? status : flush(w, TD_GROUP_STORAGES, err);
}

/* In a finished trace each storage stands once, in the order in which they were first told. */
static td_status rewrite_storages(td_writer *w, td_error *err)
{
  char sql[128];
  snprintf(sql, sizeof sql, "DELETE FROM block WHERE trace = %lld AND col BETWEEN %d AND %d", (long long)w->row.id,
           TD_COL_STORAGE_SID, TD_COL_STORAGE_FREED);
  td_status status = begin(w, err);
  if (!status) status = td_db_exec(&w->db, sql, err);
  for (td_column column = TD_COL_STORAGE_SID; column <= TD_COL_STORAGE_FREED; column++) w->first[column] = w->seq[column] = 0;
  for (size_t i = 0; i < w->table.count && !status; i++) status = put_storage(w, &w->table.at[i], err);
  return status ? status : flush(w, TD_GROUP_STORAGES, err);
}

static td_status flush_all(td_writer *w, bool storages, td_error *err)
{
  td_status status = flush_names(w, err);
  if (!status && storages) status = flush_changed_storages(w, err);
  if (!status) status = flush(w, TD_GROUP_OPS, err);
  if (!status) status = flush(w, TD_GROUP_ACTIVATIONS, err);
  if (!status) status = flush(w, TD_GROUP_RETAINED, err);
  if (!status) status = begin(w, err);
  w->row.names = w->first[TD_COL_NAME_LENGTH];
  w->row.ops = w->first[TD_COL_OP_NAME];
  w->row.accesses = w->first[TD_COL_ACCESS_SID];
  w->row.outputs = w->first[TD_COL_OUTPUT_SID];
  w->row.storages = w->table.count;
  w->row.activations = w->first[TD_COL_ACTIVATION_SID];
  w->row.retained = w->first[TD_COL_RETAINED_SID];
  return status ? status : td_trace_row_put(&w->db, &w->row, err);
}

static td_status commit(td_writer *w, td_error *err)
{
  td_status status = td_db_exec(&w->db, "COMMIT", err);
  if (!status) w->committed = true;
  return status;
}

td_status td_writer_commit(td_writer *w, td_error *err)
{
  td_status status = flush_all(w, true, err);
  return status ? status : commit(w, err);
}

/* Storages change as the step goes on, and are written again when it is finished: a block of ops does not wait for them. */
static td_status commit_ops(td_writer *w, td_error *err)
{
  td_status status = flush_all(w, false, err);
  return status ? status : commit(w, err);
}

/* ---- what is told --------------------------------------------------------------------------------------------- */

td_status td_writer_name(td_writer *w, const char *bytes, size_t length, uint32_t *name, td_error *err)
{
  *name = td_names_intern(&w->names, bytes, length);
  return *name == TD_NAME_NONE ? td_fail_nomem(err) : TD_OK;
}

td_status td_writer_op(td_writer *w, uint32_t name, uint64_t dur_ns, uint64_t leaves, bool opaque,
                       const td_written_access *accesses, size_t n_accesses, const td_written_output *outputs,
                       size_t n_outputs, td_error *err)
{
  td_values *columns = w->columns;
  if (n_accesses > TD_BLOB_VALUES_MAX / 2 || n_outputs > TD_BLOB_VALUES_MAX / 2)
    return td_fail(err, TD_E_INPUT, "an op with %zu accesses and %zu outputs: more than %zu", n_accesses, n_outputs,
                   TD_BLOB_VALUES_MAX / 2);
  bool fits = td_values_add(&columns[TD_COL_OP_NAME], name) && td_values_add(&columns[TD_COL_OP_DUR], dur_ns) &&
              td_values_add(&columns[TD_COL_OP_LEAVES], leaves) && td_values_add(&columns[TD_COL_OP_OPAQUE], opaque) &&
              td_values_add(&columns[TD_COL_OP_ACCESSES], n_accesses) &&
              td_values_add(&columns[TD_COL_OP_OUTPUTS], n_outputs);
  for (size_t i = 0; i < n_accesses && fits; i++)
    fits = td_values_add(&columns[TD_COL_ACCESS_SID], accesses[i].sid) &&
           td_values_add(&columns[TD_COL_ACCESS_KIND], accesses[i].kind);
  for (size_t i = 0; i < n_outputs && fits; i++)
    fits = td_values_add(&columns[TD_COL_OUTPUT_LEAF], outputs[i].leaf) &&
           td_values_add(&columns[TD_COL_OUTPUT_SID], outputs[i].sid);
  if (!fits) return td_fail_nomem(err);
  if (columns[TD_COL_OP_NAME].count < BLOCK_OPS && columns[TD_COL_ACCESS_SID].count < BLOCK_VALUES &&
      columns[TD_COL_OUTPUT_SID].count < BLOCK_VALUES)
    return TD_OK;
  return commit_ops(w, err);
}

td_status td_writer_storage(td_writer *w, const td_storage_info *storage, td_error *err)
{
  if (!td_storage_put(&w->table, storage->sid, storage->bytes, storage->freed_before_op) ||
      !TD_GROW(w->changed, w->changed_capacity, w->n_changed + 1))
    return td_fail_nomem(err);
  w->changed[w->n_changed++] = td_storage_index(&w->table, storage->sid);
  if (storage->freed_before_op != TD_NEVER) w->row.has_frees = true;
  return TD_OK;
}

td_status td_writer_activation(td_writer *w, uint64_t sid, td_error *err)
{
  if (!td_values_add(&w->columns[TD_COL_ACTIVATION_SID], sid)) return td_fail_nomem(err);
  return w->columns[TD_COL_ACTIVATION_SID].count < BLOCK_VALUES ? TD_OK : flush(w, TD_GROUP_ACTIVATIONS, err);
}

td_status td_writer_retained(td_writer *w, uint64_t sid, td_error *err)
{
  if (!td_values_add(&w->columns[TD_COL_RETAINED_SID], sid)) return td_fail_nomem(err);
  return w->columns[TD_COL_RETAINED_SID].count < BLOCK_VALUES ? TD_OK : flush(w, TD_GROUP_RETAINED, err);
}

td_status td_writer_mark(td_writer *w, uint32_t name, uint64_t op, td_error *err)
{
  sqlite3_stmt *put = NULL;
  td_status status = begin(w, err);
  if (!status) status = td_db_prepare_put(&w->db, TD_TABLE_MARK, &put, err);
  if (!status) {
    const uint64_t numbers[] = {(uint64_t)w->row.id, w->row.marks, name, op};
    for (int i = 0; i < 4; i++) td_bind_u64(put, i + 1, numbers[i]);
    status = td_db_run(&w->db, put, err);
    w->row.marks++;
  }
  sqlite3_finalize(put);
  return status;
}

td_status td_writer_meta(td_writer *w, bool top, const char *key, size_t key_length, const char *json, td_error *err)
{
  sqlite3_stmt *put = NULL;
  td_buffer escaped = {0}; /* as in JSON, so that it is text whatever the key */
  td_status status = begin(w, err);
  if (!status) status = td_db_prepare_put(&w->db, TD_TABLE_META, &put, err);
  if (!status && !td_json_escape(&escaped, key, key_length)) status = td_fail_nomem(err);
  if (!status) {
    sqlite3_bind_int64(put, 1, w->row.id);
    sqlite3_bind_int64(put, 2, (sqlite3_int64)w->n_meta++);
    sqlite3_bind_text(put, 3, top ? "top" : "meta", -1, SQLITE_STATIC);
    sqlite3_bind_text64(put, 4, escaped.bytes ? (const char *)escaped.bytes : "", escaped.length, SQLITE_TRANSIENT,
                        SQLITE_UTF8);
    sqlite3_bind_text(put, 5, json, -1, SQLITE_STATIC);
    status = td_db_run(&w->db, put, err);
  }
  td_buffer_finish(&escaped);
  sqlite3_finalize(put);
  return status;
}

td_status td_writer_schedule(td_writer *w, td_schedule *schedule, td_error *err)
{
  td_status status = begin(w, err);
  return status ? status : td_schedule_put(&w->db, &w->encoder, w->row.id, schedule, err);
}

void td_writer_has_frees(td_writer *w)
{
  w->row.has_frees = true;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

/* Opens the unfinished file and locks it. Another writer may give the file its final name, or remove it, between our open
 * and our lock; then we hold somebody's finished tape, and start again. */
static td_status lock_part(td_writer *w, td_error *err)
{
  for (int attempt = 0; attempt < 100; attempt++) {
    struct stat held, named;
    w->fd = open(w->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0) return td_fail(err, TD_E_IO, "cannot write %s: %s", w->path, strerror(errno));
    errno = 0;
    if (!flock(w->fd, LOCK_EX | LOCK_NB) && !fstat(w->fd, &held) && !stat(w->part, &named) && held.st_ino == named.st_ino &&
        held.st_dev == named.st_dev)
      return TD_OK;
    bool busy = errno == EWOULDBLOCK;
    close(w->fd);
    w->fd = -1;
    if (busy) break;
  }
  return td_fail(err, TD_E_IO, "cannot write %s: another process is writing it", w->path);
}

/* Makes the unfinished file new and empty; what a dead writer left there goes. */
static td_status claim(td_writer *w, td_error *err)
{
  td_status status = lock_part(w, err);
  if (status) return status;
  char *journal = malloc(strlen(w->part) + sizeof "-journal");
  if (!journal) return td_fail_nomem(err);
  sprintf(journal, "%s-journal", w->part);
  unlink(journal);
  free(journal);
  return ftruncate(w->fd, 0) ? td_fail(err, TD_E_IO, "cannot write %s: %s", w->path, strerror(errno)) : TD_OK;
}

static void destroy(td_writer *w)
{
  sqlite3_finalize(w->put_block);
  td_db_close(&w->db);
  if (w->fd >= 0) close(w->fd);
  td_encoder_finish(&w->encoder);
  for (unsigned column = 0; column < TD_N_COLUMNS; column++) td_values_finish(&w->columns[column]);
  td_names_finish(&w->names);
  td_storage_table_finish(&w->table);
  free(w->changed);
  free(w->path);
  free(w->part);
  free(w);
}

static void give_up(td_writer *w)
{
  sqlite3_finalize(w->put_block);
  w->put_block = NULL;
  if (!w->committed && w->db.handle) sqlite3_exec(w->db.handle, "ROLLBACK", NULL, NULL, NULL);
  destroy(w);
}

void td_writer_abandon(td_writer *w)
{
  if (!w) return;
  if (w->fd >= 0) unlink(w->part); /* while the lock is held, so that nobody else's file is removed */
  give_up(w);
}

void td_writer_leave(td_writer *w)
{
  if (w) give_up(w);
}

/* Small pages waste little on small tapes. The file need not survive the machine's death before it is finished, only this
 * program's, so nothing is synced until then. */
static td_status create_file(td_writer *w, td_error *err)
{
  td_status status = claim(w, err);
  if (!status)
    status = td_db_open(&w->db, w->part, w->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, err);
  if (!status) status = td_db_exec(&w->db, "PRAGMA page_size = 1024; PRAGMA synchronous = OFF", err);
  if (!status) status = begin(w, err);
  if (!status) status = td_db_create_tables(&w->db, err);
  if (!status) status = td_db_prepare_put(&w->db, TD_TABLE_BLOCK, &w->put_block, err);
  if (!status) status = td_trace_row_put(&w->db, &w->row, err);
  return status ? status : commit(w, err);
}

static td_status name_files(td_writer *w, const td_writer_options *options, td_error *err)
{
  td_status status = td_target_resolve(options->path, &w->path, err);
  if (status) return status;
  size_t size = strlen(w->path) + 32;
  w->part = malloc(size);
  if (!w->part) return td_fail_nomem(err);
  if (options->recording) snprintf(w->part, size, "%s.part", w->path);
  else snprintf(w->part, size, "%s.%ld.part", w->path, (long)getpid());
  return TD_OK;
}

td_status td_writer_create(td_writer **out, const td_writer_options *options, td_error *err)
{
  td_writer *w = calloc(1, sizeof *w);
  if (!w) return td_fail_nomem(err);
  w->fd = -1;
  w->recording = options->recording;
  w->committed = true;
  w->row.id = 1;
  td_status status = name_files(w, options, err);
  if (!status && !td_encoder_init(&w->encoder, options->level ? options->level : LEVEL)) status = td_fail_nomem(err);
  if (!status) status = create_file(w, err);
  if (status)
    td_writer_abandon(w);
  else
    *out = w;
  return status;
}

static td_status check_marks(td_writer *w, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  td_status status = td_db_prepare(&w->db, &select, err,
                                   "SELECT op FROM trace_mark WHERE trace = %lld AND (op > %lld OR op < 0) ORDER BY seq",
                                   (long long)w->row.id, (long long)w->row.ops);
  if (!status) status = td_db_row(&w->db, select, &row, err);
  if (!status && row)
    status = td_fail(err, TD_E_INPUT, "a mark stands before op %llu, but there are %llu ops",
                     (unsigned long long)td_column_u64(select, 0), (unsigned long long)w->row.ops);
  sqlite3_finalize(select);
  return status;
}

/* Reads what was written, so that the digest is that of the file. */
static td_status derive(td_writer *w, char *digest, td_error *err)
{
  td_reader reader;
  td_summary summary;
  td_status status = td_reader_init(&reader, &w->db, w->row.id, err);
  if (!status) status = td_derive(&reader, &summary, err);
  td_reader_finish(&reader);
  if (!status) status = check_marks(w, err);
  if (!status) status = td_summary_put(&w->db, w->row.id, &summary, err);
  if (!status && digest) memcpy(digest, summary.digest, sizeof summary.digest);
  return status;
}

/* The name of a file survives a crash of the machine once its folder is synced. Some file systems cannot; no harm. */
static void sync_folder(const char *path)
{
  char *copy = strdup(path);
  int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    (void)!fsync(fd);
    close(fd);
  }
  free(copy);
}

static td_status give_name(td_writer *w, td_error *err)
{
  sqlite3_finalize(w->put_block);
  w->put_block = NULL;
  sqlite3_close(w->db.handle);
  w->db.handle = NULL;
  td_target_keep_mode(w->part, w->path);
  if (fsync(w->fd) || rename(w->part, w->path))
    return td_fail(err, TD_E_IO, "cannot write %s: %s", w->path, strerror(errno));
  sync_folder(w->path);
  return TD_OK;
}

td_status td_writer_finish(td_writer *w, char *digest, td_error *err)
{
  char derived[33];
  w->row.complete = true;
  td_status status = flush_all(w, false, err);
  if (!status) status = rewrite_storages(w, err);
  td_storage_table_finish(&w->table); /* from here on the file knows better */
  if (!status) status = derive(w, derived, err);
  if (!status) status = commit(w, err);
  if (!status) status = give_name(w, err);
  if (status) {
    w->recording ? td_writer_leave(w) : td_writer_abandon(w);
    return status;
  }
  if (digest) memcpy(digest, derived, sizeof derived);
  destroy(w);
  return TD_OK;
}

td_status td_writer_finish_partial(td_writer *w, td_error *err)
{
  td_status status = td_writer_commit(w, err);
  if (!status) status = give_name(w, err);
  if (status) td_writer_abandon(w);
  else destroy(w);
  return status;
}
