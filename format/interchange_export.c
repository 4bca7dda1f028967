/* From a tape to interchange JSON. The same tape always gives the same bytes. */
#include <tapedeck/trace.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/json_text.h"
#include "format/schedule.h"
#include "format/tape.h"
#include "format/trace.h"

typedef struct export {
  FILE *to;
  const td_trace *trace;
  td_buffer text;
  bool nomem;
} export;

static void put_string(export *e, const char *bytes, size_t length)
{
  e->text.length = 0;
  if (!td_json_escape(&e->text, bytes, length)) e->nomem = true;
  fputc('"', e->to);
  fwrite(e->text.bytes ? (const char *)e->text.bytes : "", 1, e->text.length, e->to);
  fputc('"', e->to);
}

static void put_name(export *e, uint32_t name)
{
  put_string(e, e->trace->names[name].bytes, e->trace->names[name].length);
}

static void put_op(export *e, const td_op *op)
{
  const td_trace *trace = e->trace;
  fputs("{\"name\": ", e->to);
  put_name(e, op->name);
  fprintf(e->to, ", \"dur_ns\": %" PRIu64 ", \"leaves\": %" PRIu64 ", \"out\": [", op->dur_ns, op->leaves);
  for (uint64_t i = op->first_output; i < op[1].first_output; i++)
    fprintf(e->to, "%s[%" PRIu64 ", %" PRIu64 "]", i > op->first_output ? ", " : "", trace->outputs[i].leaf,
            trace->storages[trace->outputs[i].storage].sid);
  fputs("], \"acc\": [", e->to);
  for (uint64_t i = op->first_access; i < op[1].first_access; i++)
    fprintf(e->to, "%s[%" PRIu64 ", \"%c\"]", i > op->first_access ? ", " : "",
            trace->storages[trace->accesses[i].storage].sid, trace->accesses[i].kind == TD_READ ? 'R' : 'W');
  fputs(op->opaque ? "], \"opaque\": true}" : "]}", e->to);
}

static void put_storages(export *e)
{
  fputs(",\n\"storages\": {", e->to);
  for (uint32_t i = 0; i < e->trace->n_storages; i++)
    fprintf(e->to, "%s\"%" PRIu64 "\": %" PRIu64, i ? ", " : "", e->trace->storages[i].sid, e->trace->storages[i].bytes);
  fputc('}', e->to);
}

static void put_sids(export *e, const char *key, const uint32_t *list, uint32_t n)
{
  fprintf(e->to, ",\n\"%s\": [", key);
  for (uint32_t i = 0; i < n; i++) fprintf(e->to, "%s%" PRIu64, i ? ", " : "", e->trace->storages[list[i]].sid);
  fputc(']', e->to);
}

static void put_frees(export *e)
{
  bool any = false;
  if (!e->trace->has_frees) return;
  fputs(",\n\"freed_before_op\": {", e->to);
  for (uint32_t i = 0; i < e->trace->n_storages; i++) {
    const td_storage_info *storage = &e->trace->storages[i];
    if (storage->freed_before_op == TD_NEVER) continue;
    fprintf(e->to, "%s\"%" PRIu64 "\": %" PRIu64, any ? ", " : "", storage->sid, storage->freed_before_op);
    any = true;
  }
  fputc('}', e->to);
}

static void put_marks(export *e)
{
  if (!e->trace->n_marks) return;
  fputs(",\n\"marks\": [", e->to);
  for (uint32_t i = 0; i < e->trace->n_marks; i++) {
    fputs(i ? ", [" : "[", e->to);
    put_name(e, e->trace->marks[i].name);
    fprintf(e->to, ", %" PRIu64 "]", e->trace->marks[i].op);
  }
  fputc(']', e->to);
}

/* The shortest text that reads back as the same number. */
static void put_rate(export *e, const char *key, double rate)
{
  char text[32];
  if (rate <= 0) return;
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, rate);
    if (strtod(text, NULL) == rate) break;
  }
  fprintf(e->to, ", \"%s\": %s", key, text);
}

static void put_schedule(export *e, const td_schedule *schedule)
{
  static const char *const kinds[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};
  fputs("{\"planner\": ", e->to);
  put_string(e, schedule->planner, strlen(schedule->planner));
  if (schedule->memory_limit_bytes != UINT64_MAX)
    fprintf(e->to, ", \"memory_limit_bytes\": %" PRIu64, schedule->memory_limit_bytes);
  if (schedule->host_limit_bytes != UINT64_MAX)
    fprintf(e->to, ", \"host_limit_bytes\": %" PRIu64, schedule->host_limit_bytes);
  put_rate(e, "d2h_bytes_per_s", schedule->d2h_bytes_per_s);
  put_rate(e, "h2d_bytes_per_s", schedule->h2d_bytes_per_s);
  if (schedule->early) fputs(", \"early\": true", e->to);
  if (schedule->extra) fprintf(e->to, ", %s", schedule->extra);
  fputs(", \"actions\": [", e->to);
  for (size_t i = 0; i < schedule->n_actions; i++)
    fprintf(e->to, "%s[%" PRIu64 ", \"%s\", \"%s\", %" PRIu64 "]", i ? ", " : "", schedule->actions[i].op,
            schedule->actions[i].phase == TD_POST ? "post" : "pre", kinds[schedule->actions[i].kind], schedule->actions[i].sid);
  fputs("]}", e->to);
}

static td_status put_schedules(export *e, td_tape *tape, int64_t trace, bool *any, td_error *err)
{
  int64_t *ids = NULL;
  size_t n = 0;
  td_status status = td_tape_schedules(tape, trace, &ids, &n, err);
  for (size_t i = 0; i < n && !status; i++) {
    td_schedule *schedule = NULL;
    status = td_tape_load_schedule(tape, trace, ids[i], &schedule, err);
    if (status) break;
    fputs(i ? ",\n" : ",\n\"schedules\": [\n", e->to);
    put_schedule(e, schedule);
    td_schedule_destroy(schedule);
  }
  if (n) fputs("\n]", e->to);
  free(ids);
  *any = n > 0;
  return status;
}

/* Members that were kept as they stand: `part` "meta" or "top". One called `skip` is left out. */
static td_status put_kept(export *e, td_tape *tape, int64_t trace, const char *part, const char *skip, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool row = true;
  td_status status = td_db_prepare(&tape->db, &select, err,
                                   "SELECT * FROM trace_meta WHERE trace = %lld AND part = %Q ORDER BY seq", (long long)trace, part);
  for (bool any = *part == 't'; !status;) {
    status = td_db_sealed_row(&tape->db, TD_TABLE_META, select, &row, err);
    if (status || !row) break;
    const char *key = (const char *)sqlite3_column_text(select, 3);
    if (!key || (skip && strcmp(key, skip) == 0)) continue;
    fprintf(e->to, "%s\"%s\": %s", !any ? "" : *part == 't' ? ",\n" : ", ", key, (const char *)sqlite3_column_text(select, 4));
    any = true;
  }
  sqlite3_finalize(select);
  return status;
}

static td_status has_meta(td_tape *tape, int64_t trace, bool *has, td_error *err)
{
  sqlite3_stmt *select = NULL;
  td_status status =
      td_db_prepare(&tape->db, &select, err, "SELECT 1 FROM trace_meta WHERE trace = %lld AND part = 'meta'", (long long)trace);
  if (!status) status = td_db_row(&tape->db, select, has, err);
  sqlite3_finalize(select);
  return status;
}

static td_status put_meta(export *e, td_tape *tape, int64_t trace, td_error *err)
{
  bool has = false;
  td_status status = has_meta(tape, trace, &has, err);
  if (status || !has) return status;
  fputs("\"meta\": {", e->to);
  status = put_kept(e, tape, trace, "meta", NULL, err);
  fputs("},\n", e->to);
  return status;
}

static td_status put_trace(export *e, td_tape *tape, int64_t trace, td_error *err)
{
  bool schedules = false;
  fputc('{', e->to);
  td_status status = put_meta(e, tape, trace, err);
  if (status) return status;
  fputs("\"ops\": [\n", e->to);
  for (uint64_t i = 0; i < e->trace->n_ops; i++) {
    if (i) fputs(",\n", e->to);
    put_op(e, &e->trace->ops[i]);
  }
  fputs("\n]", e->to);
  put_storages(e);
  put_sids(e, "activation_sids", e->trace->activations, e->trace->n_activations);
  put_sids(e, "retained", e->trace->retained, e->trace->n_retained);
  put_frees(e);
  put_marks(e);
  status = put_schedules(e, tape, trace, &schedules, err);
  if (!status) status = put_kept(e, tape, trace, "top", schedules ? "schedules" : NULL, err);
  fputs("}\n", e->to);
  return status;
}

td_status td_export(td_tape *tape, int64_t trace, FILE *out, td_error *err)
{
  td_trace_row row;
  td_trace *whole = NULL;
  td_status status = td_trace_row_get(&tape->db, trace, &row, err);
  if (!status) status = td_tape_load_trace(tape, row.id, &whole, err);
  if (status) return status;
  export e = {.to = out, .trace = whole};
  errno = 0;
  status = put_trace(&e, tape, row.id, err);
  if (!status && e.nomem) status = td_fail_nomem(err);
  if (!status && (fflush(out) || ferror(out))) status = td_fail(err, TD_E_IO, "cannot write: %s", strerror(errno));
  td_buffer_finish(&e.text);
  td_trace_destroy(whole);
  return status;
}
