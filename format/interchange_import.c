/* From interchange JSON to a tape, in one pass over the file. */
#include "format/import.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/map.h"
#include "format/json_text.h"

typedef struct import {
  td_json *json;
  td_writer *writer;
  td_error *err;
  td_status status; /* of the writer */
  td_import_report report;
  td_written_access *accesses;
  td_written_output *outputs;
  size_t n_accesses, accesses_capacity, n_outputs, outputs_capacity;
  td_map storages; /* SID -> index into sizes */
  td_storage_info *sizes;
  size_t n_sizes, sizes_capacity;
  td_map freed; /* SID -> index into frees; they may stand before the storages */
  struct free_of {
    uint64_t sid, op;
  } *frees;
  size_t n_frees, frees_capacity;
  td_buffer text;
} import;

/* Keeps the first failure of the writer; false if there is one. */
static bool wrote(import *i, td_status status)
{
  if (status && !i->status) i->status = status;
  return !i->status;
}

static bool nomem(import *i)
{
  return wrote(i, td_fail_nomem(i->err));
}

static bool is(const char *key, size_t length, const char *name)
{
  return length == strlen(name) && memcmp(key, name, length) == 0;
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

static bool read_outputs(import *i)
{
  if (!td_json_array(i->json)) return false;
  for (i->n_outputs = 0; td_json_element(i->json); i->n_outputs++) {
    if (!TD_GROW(i->outputs, i->outputs_capacity, i->n_outputs + 1)) return nomem(i);
    td_written_output *out = &i->outputs[i->n_outputs];
    if (!td_json_array(i->json) || !td_json_element(i->json) || !td_json_u64(i->json, &out->leaf) ||
        !td_json_element(i->json) || !td_json_u64(i->json, &out->sid))
      return td_json_fail(i->json, "an output is [leaf index, SID]");
    if (td_json_element(i->json)) return td_json_fail(i->json, "an output is [leaf index, SID]");
  }
  return !td_json_status(i->json);
}

static int by_leaf(const void *a, const void *b)
{
  uint64_t x = ((const td_written_output *)a)->leaf, y = ((const td_written_output *)b)->leaf;
  return (x > y) - (x < y);
}

/* A leaf lives in one storage. They nearly always come in order; else a sorted copy shows it. */
static bool check_leaves(import *i)
{
  size_t k = 1;
  while (k < i->n_outputs && i->outputs[k - 1].leaf < i->outputs[k].leaf) k++;
  if (k >= i->n_outputs) return true;
  td_written_output *sorted = malloc(i->n_outputs * sizeof *sorted);
  if (!sorted) return nomem(i);
  memcpy(sorted, i->outputs, i->n_outputs * sizeof *sorted);
  qsort(sorted, i->n_outputs, sizeof *sorted, by_leaf);
  for (k = 1; k < i->n_outputs && sorted[k - 1].leaf != sorted[k].leaf; k++) {
  }
  unsigned long long leaf = k < i->n_outputs ? sorted[k].leaf : 0;
  free(sorted);
  return k >= i->n_outputs || td_json_fail(i->json, "leaf %llu is bound twice", leaf);
}

static bool read_kind(import *i, uint32_t *kind)
{
  const char *text;
  size_t length;
  if (!td_json_string(i->json, &text, &length)) return false;
  if (!is(text, length, "R") && !is(text, length, "W")) return td_json_fail(i->json, "an access is \"R\" or \"W\"");
  *kind = text[0] == 'R' ? TD_READ : TD_WRITE;
  return true;
}

static bool read_accesses(import *i)
{
  if (!td_json_array(i->json)) return false;
  for (i->n_accesses = 0; td_json_element(i->json); i->n_accesses++) {
    if (!TD_GROW(i->accesses, i->accesses_capacity, i->n_accesses + 1)) return nomem(i);
    td_written_access *access = &i->accesses[i->n_accesses];
    if (!td_json_array(i->json) || !td_json_element(i->json) || !td_json_u64(i->json, &access->sid) ||
        !td_json_element(i->json) || !read_kind(i, &access->kind))
      return td_json_fail(i->json, "an access is [SID, \"R\" or \"W\"]");
    if (td_json_element(i->json)) return td_json_fail(i->json, "an access is [SID, \"R\" or \"W\"]");
  }
  return !td_json_status(i->json);
}

enum { NAME = 1, DUR = 2, LEAVES = 4, OUT = 8, ACC = 16, OPAQUE = 32 };

/* A key once, and all of the wanted ones. */
static bool once(import *i, unsigned *seen, unsigned bit, const char *key)
{
  if (*seen & bit) return td_json_fail(i->json, "\"%s\" stands twice", key);
  *seen |= bit;
  return true;
}

static bool read_op(import *i)
{
  unsigned seen = 0;
  const char *key, *name;
  size_t length;
  uint32_t number = 0;
  uint64_t dur_ns = 0, leaves = 0;
  bool opaque = false;
  if (!td_json_object(i->json)) return false;
  while (td_json_member(i->json, &key, &length)) {
    bool done;
    if (is(key, length, "name"))
      done = once(i, &seen, NAME, "name") && td_json_string(i->json, &name, &length) &&
             wrote(i, td_writer_name(i->writer, name, length, &number, i->err));
    else if (is(key, length, "dur_ns")) done = once(i, &seen, DUR, "dur_ns") && td_json_u64(i->json, &dur_ns);
    else if (is(key, length, "leaves")) done = once(i, &seen, LEAVES, "leaves") && td_json_u64(i->json, &leaves);
    else if (is(key, length, "out")) done = once(i, &seen, OUT, "out") && read_outputs(i) && check_leaves(i);
    else if (is(key, length, "acc")) done = once(i, &seen, ACC, "acc") && read_accesses(i);
    else if (is(key, length, "opaque")) done = once(i, &seen, OPAQUE, "opaque") && td_json_bool(i->json, &opaque);
    else done = td_json_value(i->json, NULL);
    if (!done) return false;
  }
  if (td_json_status(i->json)) return false;
  static const char *const names[] = {"name", "dur_ns", "leaves", "out", "acc"};
  for (unsigned bit = 0; bit < 5; bit++)
    if (!(seen >> bit & 1))
      return td_json_fail(i->json, "op %llu has no \"%s\"", (unsigned long long)i->report.ops, names[bit]);
  i->report.ops++;
  i->report.accesses += i->n_accesses;
  return wrote(i, td_writer_op(i->writer, number, dur_ns, leaves, opaque, i->accesses, i->n_accesses, i->outputs,
                               i->n_outputs, i->err));
}

static bool read_ops(import *i)
{
  if (!td_json_array(i->json)) return false;
  while (td_json_element(i->json))
    if (!read_op(i)) return false;
  return !td_json_status(i->json);
}

/* ---- storages ------------------------------------------------------------------------------------------------- */

/* The next member of an object by SID. */
static bool next_sid(import *i, uint64_t *sid, uint64_t *value)
{
  const char *key;
  size_t length;
  if (!td_json_member(i->json, &key, &length)) return false;
  if (!td_parse_u64(key, length, sid)) return td_json_fail(i->json, "\"%.60s\" is no SID", key);
  return td_json_u64(i->json, value);
}

static bool read_storages(import *i)
{
  uint64_t sid = 0, bytes = 0;
  if (!td_json_object(i->json)) return false;
  while (next_sid(i, &sid, &bytes)) {
    if (td_map_get(&i->storages, sid) != TD_MAP_NONE)
      return td_json_fail(i->json, "SID %llu has two sizes", (unsigned long long)sid);
    if (!TD_GROW(i->sizes, i->sizes_capacity, i->n_sizes + 1) || !td_map_put(&i->storages, sid, (uint32_t)i->n_sizes))
      return nomem(i);
    i->sizes[i->n_sizes++] = (td_storage_info){.sid = sid, .bytes = bytes, .freed_before_op = TD_NEVER};
  }
  i->report.storages = i->n_sizes;
  return !td_json_status(i->json);
}

static bool read_frees(import *i)
{
  uint64_t sid = 0, op = 0;
  if (!td_json_object(i->json)) return false;
  while (next_sid(i, &sid, &op)) {
    if (op == TD_NEVER) return td_json_fail(i->json, "SID %llu is freed before no op", (unsigned long long)sid);
    if (td_map_get(&i->freed, sid) != TD_MAP_NONE)
      return td_json_fail(i->json, "SID %llu is freed twice", (unsigned long long)sid);
    if (!TD_GROW(i->frees, i->frees_capacity, i->n_frees + 1) || !td_map_put(&i->freed, sid, (uint32_t)i->n_frees))
      return nomem(i);
    i->frees[i->n_frees++] = (struct free_of){.sid = sid, .op = op};
  }
  td_writer_has_frees(i->writer);
  return !td_json_status(i->json);
}

/* Sizes and frees stand apart in the file; they are told together. */
static bool tell_storages(import *i)
{
  for (size_t k = 0; k < i->n_frees; k++) {
    uint32_t index = td_map_get(&i->storages, i->frees[k].sid);
    if (index == TD_MAP_NONE)
      return td_json_fail(i->json, "\"freed_before_op\" names SID %llu, which no storage has",
                          (unsigned long long)i->frees[k].sid);
    i->sizes[index].freed_before_op = i->frees[k].op;
  }
  for (size_t k = 0; k < i->n_sizes; k++)
    if (!wrote(i, td_writer_storage(i->writer, &i->sizes[k], i->err))) return false;
  return true;
}

static bool read_sids(import *i, td_status (*tell)(td_writer *, uint64_t, td_error *))
{
  uint64_t sid;
  if (!td_json_array(i->json)) return false;
  while (td_json_element(i->json))
    if (!td_json_u64(i->json, &sid) || !wrote(i, tell(i->writer, sid, i->err))) return false;
  return !td_json_status(i->json);
}

/* ---- marks, meta, schedules ----------------------------------------------------------------------------------- */

/* An optional member that is empty is kept as a further member, so that it comes back. */
static bool keep_empty(import *i, bool empty, const char *key, const char *json)
{
  return !empty || wrote(i, td_writer_meta(i->writer, true, key, strlen(key), json, i->err));
}

static bool read_marks(import *i)
{
  bool empty = true;
  if (!td_json_array(i->json)) return false;
  for (; td_json_element(i->json); empty = false) {
    const char *text;
    size_t length;
    uint32_t name;
    uint64_t op;
    if (!td_json_array(i->json) || !td_json_element(i->json) || !td_json_string(i->json, &text, &length) ||
        !wrote(i, td_writer_name(i->writer, text, length, &name, i->err)) || !td_json_element(i->json) ||
        !td_json_u64(i->json, &op) || !wrote(i, td_writer_mark(i->writer, name, op, i->err)))
      return td_json_fail(i->json, "a mark is [name, op]");
    if (td_json_element(i->json)) return td_json_fail(i->json, "a mark is [name, op]");
  }
  return !td_json_status(i->json) && keep_empty(i, empty, "marks", "[]");
}

/* A value kept as it stands, under the key that was read last. */
static bool keep(import *i, bool top, const char *key, size_t length)
{
  char *copy = malloc(length + 1); /* the value's strings overwrite it */
  if (!copy) return nomem(i);
  memcpy(copy, key, length + 1);
  bool kept = td_json_value(i->json, &i->text) &&
              wrote(i, td_writer_meta(i->writer, top, copy, length, (const char *)i->text.bytes, i->err));
  free(copy);
  return kept;
}

static bool read_meta(import *i)
{
  const char *key;
  size_t length;
  bool empty = true;
  if (!td_json_object(i->json)) return false;
  for (; td_json_member(i->json, &key, &length); empty = false)
    if (!keep(i, false, key, length)) return false;
  return !td_json_status(i->json) && keep_empty(i, empty, "meta", "{}");
}

static bool read_word(import *i, const char *const *words, size_t n, uint8_t *number, const char *expected)
{
  const char *text;
  size_t length;
  if (!td_json_string(i->json, &text, &length)) return false;
  for (size_t k = 0; k < n; k++) {
    if (!is(text, length, words[k])) continue;
    *number = (uint8_t)k;
    return true;
  }
  return td_json_fail(i->json, "\"%.60s\" where %s was expected", text, expected);
}

static bool read_actions(import *i, td_schedule *schedule)
{
  static const char *const phases[] = {"pre", "post"};
  static const char *const kinds[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};
  size_t capacity = 0;
  if (!td_json_array(i->json)) return false;
  for (; td_json_element(i->json); schedule->n_actions++) {
    if (!TD_GROW(schedule->actions, capacity, schedule->n_actions + 1)) return nomem(i);
    td_action *action = &schedule->actions[schedule->n_actions];
    *action = (td_action){0};
    if (!td_json_array(i->json) || !td_json_element(i->json) || !td_json_u64(i->json, &action->op) ||
        !td_json_element(i->json) || !read_word(i, phases, 2, &action->phase, "pre or post") ||
        !td_json_element(i->json) || !read_word(i, kinds, 4, &action->kind, "the kind of an action") ||
        !td_json_element(i->json) || !td_json_u64(i->json, &action->sid))
      return td_json_fail(i->json, "an action is [op, \"pre\" or \"post\", kind, SID]");
    if (td_json_element(i->json)) return td_json_fail(i->json, "an action is [op, \"pre\" or \"post\", kind, SID]");
  }
  return !td_json_status(i->json);
}

/* One more member in the text of the object that holds what else a schedule has. */
static bool keep_extra(import *i, td_buffer *extra, const char *key, size_t length)
{
  if (!td_buffer_text(extra, extra->length ? ", \"" : "\"") || !td_json_escape(extra, key, length) ||
      !td_buffer_text(extra, "\": "))
    return nomem(i);
  return td_json_value(i->json, &i->text) && (td_buffer_text(extra, (const char *)i->text.bytes) || nomem(i));
}

static bool read_planner(import *i, td_schedule *schedule)
{
  const char *text;
  size_t length;
  if (!td_json_string(i->json, &text, &length)) return false;
  if (strlen(text) != length) return td_json_fail(i->json, "a planner's name holds a NUL");
  schedule->planner = strdup(text);
  return schedule->planner || nomem(i);
}

static bool read_rate(import *i, double *rate)
{
  if (!td_json_double(i->json, rate)) return false;
  return (*rate > 0 && isfinite(*rate)) || td_json_fail(i->json, "a link speed of %g bytes a second", *rate);
}

enum { PLANNER = 1, MEMORY = 2, HOST = 4, D2H = 8, H2D = 16, EARLY = 32, ACTIONS = 64 };

static bool read_schedule_member(import *i, td_schedule *schedule, unsigned *seen, td_buffer *extra, const char *key,
                                 size_t length)
{
  if (is(key, length, "planner")) return once(i, seen, PLANNER, "planner") && read_planner(i, schedule);
  if (is(key, length, "memory_limit_bytes"))
    return once(i, seen, MEMORY, "memory_limit_bytes") && td_json_u64(i->json, &schedule->memory_limit_bytes);
  if (is(key, length, "host_limit_bytes"))
    return once(i, seen, HOST, "host_limit_bytes") && td_json_u64(i->json, &schedule->host_limit_bytes);
  if (is(key, length, "d2h_bytes_per_s")) return once(i, seen, D2H, "d2h_bytes_per_s") && read_rate(i, &schedule->d2h_bytes_per_s);
  if (is(key, length, "h2d_bytes_per_s")) return once(i, seen, H2D, "h2d_bytes_per_s") && read_rate(i, &schedule->h2d_bytes_per_s);
  if (is(key, length, "early")) return once(i, seen, EARLY, "early") && td_json_bool(i->json, &schedule->early);
  if (is(key, length, "actions")) return once(i, seen, ACTIONS, "actions") && read_actions(i, schedule);
  return keep_extra(i, extra, key, length);
}

static bool read_schedule(import *i)
{
  td_schedule *schedule = calloc(1, sizeof *schedule);
  td_buffer extra = {0};
  const char *key;
  size_t length;
  unsigned seen = 0;
  bool done = schedule && td_json_object(i->json);
  if (!schedule) return nomem(i);
  schedule->memory_limit_bytes = schedule->host_limit_bytes = UINT64_MAX;
  while (done && td_json_member(i->json, &key, &length)) done = read_schedule_member(i, schedule, &seen, &extra, key, length);
  done = done && !td_json_status(i->json);
  if (done && !(seen & ACTIONS)) done = td_json_fail(i->json, "a schedule has no \"actions\"");
  if (done && extra.length) {
    done = td_buffer_append(&extra, "", 1);
    schedule->extra = (char *)extra.bytes;
  }
  done = done && wrote(i, td_writer_schedule(i->writer, schedule, i->err));
  if (!schedule->extra) td_buffer_finish(&extra);
  td_schedule_destroy(schedule);
  i->report.schedules++;
  return done;
}

static bool read_schedules(import *i)
{
  if (!td_json_array(i->json)) return false;
  while (td_json_element(i->json))
    if (!read_schedule(i)) return false;
  return !td_json_status(i->json) && keep_empty(i, !i->report.schedules, "schedules", "[]");
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

enum { OPS = 1, STORAGES = 2, ACTIVATIONS = 4, RETAINED = 8, META = 16, FREED = 32, MARKS = 64, SCHEDULES = 128 };

static bool read_member(import *i, unsigned *seen, const char *key, size_t length)
{
  if (is(key, length, "ops")) return once(i, seen, OPS, "ops") && read_ops(i);
  if (is(key, length, "storages")) return once(i, seen, STORAGES, "storages") && read_storages(i);
  if (is(key, length, "activation_sids"))
    return once(i, seen, ACTIVATIONS, "activation_sids") && read_sids(i, td_writer_activation);
  if (is(key, length, "retained")) return once(i, seen, RETAINED, "retained") && read_sids(i, td_writer_retained);
  if (is(key, length, "meta")) return once(i, seen, META, "meta") && read_meta(i);
  if (is(key, length, "freed_before_op")) return once(i, seen, FREED, "freed_before_op") && read_frees(i);
  if (is(key, length, "marks")) return once(i, seen, MARKS, "marks") && read_marks(i);
  if (is(key, length, "schedules")) return once(i, seen, SCHEDULES, "schedules") && read_schedules(i);
  return keep(i, true, key, length);
}

/* What stood before the first key that made the form known are further members of the trace. */
static bool keep_early(import *i, const td_importing *importing)
{
  for (size_t k = 0; k < importing->n_early; k++) {
    const td_early_member *early = &importing->early[k];
    if (!wrote(i, td_writer_meta(i->writer, true, early->key, early->key_length, early->json, i->err))) return false;
  }
  return true;
}

static const char *const member_names[] = {"ops", "storages", "activation_sids", "retained",
                                           "meta", "freed_before_op", "marks", "schedules"};

bool td_interchange_key(const char *key, size_t length)
{
  for (size_t k = 0; k < sizeof member_names / sizeof *member_names; k++)
    if (is(key, length, member_names[k])) return true;
  return false;
}

static bool read_trace(import *i, const char *key, size_t length)
{
  unsigned seen = 0;
  if (!read_member(i, &seen, key, length)) return false;
  while (td_json_member(i->json, &key, &length))
    if (!read_member(i, &seen, key, length)) return false;
  if (td_json_status(i->json) || !td_json_end(i->json)) return false;
  for (unsigned bit = 0; bit < 4; bit++)
    if (!(seen >> bit & 1)) return td_json_fail(i->json, "the trace has no \"%s\"", member_names[bit]);
  return tell_storages(i);
}

static void release(import *i)
{
  free(i->accesses);
  free(i->outputs);
  td_map_finish(&i->storages);
  free(i->sizes);
  td_map_finish(&i->freed);
  free(i->frees);
  td_buffer_finish(&i->text);
}

td_status td_interchange_import(td_importing *importing, const char *key, size_t length)
{
  import i = {.json = importing->json, .writer = importing->writer, .err = importing->err};
  td_status status = TD_OK;
  if (importing->options->profile)
    td_json_fail(i.json, "interchange JSON has its durations: a profile goes with an execution trace");
  else if (keep_early(&i, importing) && read_trace(&i, key, length))
    importing->report = i.report;
  status = td_json_status(i.json) ? td_json_status(i.json) : i.status;
  release(&i);
  return status;
}
