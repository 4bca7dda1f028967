/* Saves what can be read of a damaged or unfinished tape, block by block. */
#include <tapedeck/trace.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/progress.h"
#include "format/reader.h"
#include "format/writer.h"

typedef struct recovery {
  td_db db;
  td_reader reader;
  td_writer *writer;
  void (*lost)(void *context, const char *line);
  void *context;
  td_recover_report report;
  uint64_t next_op; /* in the old numbers */
  uint32_t *names; /* number in the tape -> number in the new one */
  size_t n_names, names_capacity;
  td_written_access *accesses;
  td_written_output *outputs;
  size_t accesses_capacity, outputs_capacity;
} recovery;

static void tell(recovery *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void tell(recovery *r, const char *format, ...)
{
  char line[700];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  r->report.whole = false;
  if (r->lost) r->lost(r->context, line);
}

/* Whether a failure is of the tape, and so a loss, or of this machine, which ends it all. */
static bool is_loss(td_status status)
{
  return status == TD_E_DAMAGED || status == TD_E_INPUT || status == TD_E_FORMAT || status == TD_E_NOT_FOUND;
}

/* ---- finding what there is ------------------------------------------------------------------------------------ */

static bool newest_trace(recovery *r, int64_t *trace)
{
  sqlite3_stmt *select = NULL;
  bool row = false;
  bool found = !td_db_prepare(&r->db, &select, NULL, "SELECT max(trace) FROM block") && !td_db_row(&r->db, select, &row, NULL) &&
               row && sqlite3_column_type(select, 0) == SQLITE_INTEGER;
  if (found) *trace = sqlite3_column_int64(select, 0);
  sqlite3_finalize(select);
  return found;
}

/* The row of the trace, or, where that is lost, one that believes whatever the blocks say. */
static td_status find_trace(recovery *r, int64_t trace, td_error *err)
{
  td_error why;
  td_status status = td_reader_init(&r->reader, &r->db, trace, &why);
  if (!status) {
    r->report.whole = r->reader.row.complete;
    if (!r->report.whole) tell(r, "the recorder did not finish: what followed op %llu was never written", (unsigned long long)r->reader.row.ops);
    return TD_OK;
  }
  if (!is_loss(status)) return td_fail(err, status, "%s", why.message);
  tell(r, "%s", why.message);
  td_reader_finish(&r->reader);
  r->reader = (td_reader){.db = &r->db, .row = {.id = trace}};
  if (trace == TD_NEWEST && !newest_trace(r, &r->reader.row.id))
    return td_fail(err, TD_E_DAMAGED, "%s: nothing of it can be read", r->db.path);
  r->reader.row.names = r->reader.row.ops = r->reader.row.accesses = r->reader.row.outputs = UINT64_MAX;
  r->reader.row.activations = r->reader.row.retained = UINT64_MAX;
  if (!td_decoder_init(&r->reader.decoder)) return td_fail_nomem(err);
  return td_db_prepare(&r->db, &r->reader.select, err, "SELECT * FROM block WHERE trace = ?1 AND col = ?2 AND seq = ?3");
}

/* ---- blocks --------------------------------------------------------------------------------------------------- */

#define PROBE 64 /* blocks to try behind the last one that could be listed */

/* The numbers of a group's blocks, in order, as far as they can be listed, and then some that may be there. Only what stands in the
 * file is listed: a number in it says nothing of how many there are. */
static td_status list_blocks(recovery *r, uint32_t mask, td_values *list, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = true;
  td_error why;
  td_column last = 0;
  while (mask >> (last + 1)) last++;
  td_status status = td_db_prepare(&r->db, &select, &why,
                                   "SELECT DISTINCT seq FROM block WHERE trace = %lld AND col BETWEEN %d AND %d ORDER BY seq",
                                   (long long)r->reader.row.id, __builtin_ctz(mask), (int)last);
  while (!status) {
    status = td_db_row(&r->db, select, &row, &why);
    if (status || !row) break;
    uint64_t seq = td_column_u64(select, 0);
    if (list->count && seq <= list->at[list->count - 1]) continue; /* a broken tree may lead to a row twice */
    if (!td_values_add(list, seq)) status = td_fail_nomem(&why);
  }
  sqlite3_finalize(select);
  if (status && !is_loss(status)) return td_fail(err, status, "%s", why.message);
  uint64_t next = list->count ? list->at[list->count - 1] + 1 : 0;
  for (uint64_t i = 0; status && i < PROBE; i++)
    if (!td_values_add(list, next + i)) return td_fail_nomem(err);
  return TD_OK;
}

typedef td_status (*take_function)(recovery *r, uint64_t seq, td_error *err);

/* Hands each block of a group that can be read to `take`, and tells of the others. */
static td_status save_group(recovery *r, uint32_t mask, const char *what, take_function take, td_error *err)
{
  td_values list = {0};
  td_status status = list_blocks(r, mask, &list, err);
  for (size_t i = 0; i < list.count && !status; i++) {
    td_error why;
    bool found = false;
    uint64_t seq = list.at[i];
    td_status got = mask == TD_GROUP_OPS_MASK ? td_reader_ops(&r->reader, mask, seq, &found, &why)
                                              : td_reader_block(&r->reader, mask, seq, &found, &why);
    if (!got && found) status = take(r, seq, err);
    else if (got && !is_loss(got)) status = td_fail(err, got, "%s", why.message);
    else if (got) tell(r, "a block of %s is lost: %s", what, why.message);
  }
  td_values_finish(&list);
  return status;
}

/* Tells of the ops between those that were saved and `next`. */
static void tell_missing(recovery *r, uint64_t next)
{
  if (next <= r->next_op) return;
  tell(r, "ops %llu to %llu are missing", (unsigned long long)r->next_op, (unsigned long long)(next - 1));
  r->report.lost_ops += next - r->next_op;
}

static td_status take_names(recovery *r, uint64_t seq, td_error *err)
{
  (void)seq;
  const td_values *lengths = &r->reader.columns[TD_COL_NAME_LENGTH], *bytes = &r->reader.columns[TD_COL_NAME_BYTE];
  size_t first = (size_t)r->reader.first[TD_COL_NAME_LENGTH], at = 0;
  if (first < r->n_names || first - r->n_names > TD_BLOB_VALUES_MAX) return TD_OK; /* no place that a writer would give it */
  td_buffer text = {0};
  td_status status = TD_OK;
  if (!TD_GROW(r->names, r->names_capacity, first + lengths->count)) return td_fail_nomem(err);
  for (; r->n_names < first; r->n_names++) r->names[r->n_names] = TD_MAP_NONE; /* lost before this block */
  for (size_t i = 0; i < lengths->count && !status; i++) {
    text.length = 0;
    if (lengths->at[i] > bytes->count - at || !td_buffer_reserve(&text, (size_t)lengths->at[i] + 1)) break;
    for (uint64_t k = 0; k < lengths->at[i]; k++) text.bytes[text.length++] = (uint8_t)bytes->at[at++];
    status = td_writer_name(r->writer, (const char *)text.bytes, text.length, &r->names[r->n_names], err);
    r->n_names++;
  }
  td_buffer_finish(&text);
  return status;
}

static td_status take_ops(recovery *r, uint64_t seq, td_error *err)
{
  (void)seq;
  const td_values *c = r->reader.columns;
  size_t access = 0, output = 0;
  td_status status = TD_OK;
  tell_missing(r, r->reader.first[TD_COL_OP_NAME]);
  td_progress(r->report.ops, r->reader.row.ops == UINT64_MAX ? 0 : r->reader.row.ops, "ops");
  r->next_op = r->reader.first[TD_COL_OP_NAME] + c[TD_COL_OP_NAME].count;
  for (size_t i = 0; i < c[TD_COL_OP_NAME].count && !status; i++) {
    size_t n_accesses = (size_t)c[TD_COL_OP_ACCESSES].at[i], n_outputs = (size_t)c[TD_COL_OP_OUTPUTS].at[i];
    uint64_t known = c[TD_COL_OP_NAME].at[i];
    uint32_t name = known < r->n_names ? r->names[known] : TD_MAP_NONE;
    if (!TD_GROW(r->accesses, r->accesses_capacity, n_accesses) || !TD_GROW(r->outputs, r->outputs_capacity, n_outputs))
      return td_fail_nomem(err);
    for (size_t k = 0; k < n_accesses; k++, access++)
      r->accesses[k] = (td_written_access){c[TD_COL_ACCESS_SID].at[access], (uint32_t)c[TD_COL_ACCESS_KIND].at[access]};
    for (size_t k = 0; k < n_outputs; k++, output++)
      r->outputs[k] = (td_written_output){c[TD_COL_OUTPUT_LEAF].at[output], c[TD_COL_OUTPUT_SID].at[output]};
    if (name == TD_MAP_NONE) status = td_writer_name(r->writer, "(lost)", 6, &name, err);
    if (!status)
      status = td_writer_op(r->writer, name, c[TD_COL_OP_DUR].at[i], c[TD_COL_OP_LEAVES].at[i], c[TD_COL_OP_OPAQUE].at[i],
                            r->accesses, n_accesses, r->outputs, n_outputs, err);
    r->report.ops++;
  }
  return status;
}

static td_status take_storages(recovery *r, uint64_t seq, td_error *err)
{
  (void)seq;
  const td_values *c = r->reader.columns;
  td_status status = TD_OK;
  if (c[TD_COL_STORAGE_BYTES].count != c[TD_COL_STORAGE_SID].count || c[TD_COL_STORAGE_FREED].count != c[TD_COL_STORAGE_SID].count) {
    tell(r, "block %llu of storages is of several lengths", (unsigned long long)seq);
    return TD_OK;
  }
  for (size_t i = 0; i < c[TD_COL_STORAGE_SID].count && !status; i++)
    status = td_writer_storage(r->writer,
                               &(td_storage_info){.sid = c[TD_COL_STORAGE_SID].at[i],
                                                  .bytes = c[TD_COL_STORAGE_BYTES].at[i],
                                                  .freed_before_op = c[TD_COL_STORAGE_FREED].at[i] - 1},
                               err);
  return status;
}

static td_status take_activations(recovery *r, uint64_t seq, td_error *err)
{
  (void)seq;
  const td_values *sids = &r->reader.columns[TD_COL_ACTIVATION_SID];
  td_status status = TD_OK;
  for (size_t i = 0; i < sids->count && !status; i++) status = td_writer_activation(r->writer, sids->at[i], err);
  return status;
}

static td_status take_retained(recovery *r, uint64_t seq, td_error *err)
{
  (void)seq;
  const td_values *sids = &r->reader.columns[TD_COL_RETAINED_SID];
  td_status status = TD_OK;
  for (size_t i = 0; i < sids->count && !status; i++) status = td_writer_retained(r->writer, sids->at[i], err);
  return status;
}

/* ---- rows of small tables ------------------------------------------------------------------------------------- */

static td_status save_marks_and_meta(recovery *r, td_error *err)
{
  static const td_table_id saved[] = {TD_TABLE_MARK, TD_TABLE_META};
  td_status status = TD_OK;
  for (int i = 0; i < 2 && !status; i++) {
    sqlite3_stmt *select = NULL;
    bool row = true;
    td_error why;
    td_status got = td_db_prepare(&r->db, &select, &why, "SELECT * FROM %s WHERE trace = %lld ORDER BY seq",
                                  td_tables[saved[i]].name, (long long)r->reader.row.id);
    while (!got && !status) {
      got = td_db_sealed_row(&r->db, saved[i], select, &row, &why);
      if (got && row) {
        tell(r, "%s", why.message);
        got = TD_OK;
        continue;
      }
      if (got || !row) break;
      if (saved[i] == TD_TABLE_META) {
        const char *key = (const char *)sqlite3_column_text(select, 3);
        bool top = strcmp((const char *)sqlite3_column_text(select, 2), "top") == 0;
        status = td_writer_meta(r->writer, top, key, strlen(key), (const char *)sqlite3_column_text(select, 4), err);
      } else {
        uint64_t name = td_column_u64(select, 2);
        if (name < r->n_names && r->names[name] != TD_MAP_NONE && td_column_u64(select, 3) <= r->report.ops && !r->report.lost_ops)
          status = td_writer_mark(r->writer, r->names[name], td_column_u64(select, 3), err);
      }
    }
    sqlite3_finalize(select);
    if (got) tell(r, "%s", why.message);
  }
  return status;
}

static td_status save_all(recovery *r, td_error *err)
{
  td_status status = save_group(r, TD_GROUP_NAMES_MASK, "names", take_names, err);
  if (!status) status = save_group(r, TD_GROUP_OPS_MASK, "ops", take_ops, err);
  if (!status) status = save_group(r, TD_GROUP_STORAGES_MASK, "storages", take_storages, err);
  if (!status)
    status = save_group(r, TD_COL_BIT(TD_COL_ACTIVATION_SID), "activations", take_activations, err);
  if (!status) status = save_group(r, TD_COL_BIT(TD_COL_RETAINED_SID), "retained", take_retained, err);
  if (r->reader.row.has_frees) td_writer_has_frees(r->writer);
  if (!status) status = save_marks_and_meta(r, err);
  if (!status && r->reader.row.ops != UINT64_MAX) tell_missing(r, r->reader.row.ops);
  return status;
}

td_status td_recover(const char *in, const char *out, int64_t trace, void (*lost)(void *context, const char *line),
                     void *context, td_recover_report *report, td_error *err)
{
  recovery r = {.lost = lost, .context = context};
  td_status status = td_db_open(&r.db, in, in, SQLITE_OPEN_READWRITE, err);
  if (!status) status = td_db_exec(&r.db, "PRAGMA query_only = 1", err);
  if (!status) status = find_trace(&r, trace, err);
  if (!status) status = td_writer_create(&r.writer, &(td_writer_options){.path = out}, err);
  if (!status) status = save_all(&r, err);
  if (!status) {
    td_error why;
    status = r.report.whole ? td_writer_finish(r.writer, NULL, &why) : td_writer_finish_partial(r.writer, &why);
    r.writer = NULL;
    if (status) td_fail(err, status, "%s", why.message);
  }
  td_writer_abandon(r.writer);
  td_reader_finish(&r.reader);
  td_db_close(&r.db);
  free(r.names);
  free(r.accesses);
  free(r.outputs);
  if (!status && report) *report = r.report;
  return status;
}
