#include "format/kineto.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/json_reader.h"

typedef struct event {
  td_buffer name;
  uint64_t rf_id, dur_ns;
  bool has_rf_id, has_dur;
} event;

static bool is(const char *key, size_t length, const char *name)
{
  return length == strlen(name) && memcmp(key, name, length) == 0;
}

static bool starts_number(char c)
{
  return c == '-' || (c >= '0' && c <= '9');
}

/* Microseconds, with a fraction in newer traces. */
static bool read_duration(td_json *json, event *e)
{
  const char *text;
  size_t length;
  if (!starts_number(td_json_next(json))) return td_json_value(json, NULL);
  if (!td_json_number(json, &text, &length)) return false;
  long double ns = strtold(text, NULL) * 1000;
  if (!(ns >= 0 && ns < 0x1p63L)) return td_json_fail(json, "a duration of %.60s microseconds", text);
  e->dur_ns = (uint64_t)llroundl(ns);
  e->has_dur = true;
  return true;
}

/* A number, or a number as text in older traces. */
static bool read_rf_id(td_json *json, event *e)
{
  const char *text;
  size_t length;
  char c = td_json_next(json);
  if (c != '"' && !starts_number(c)) return td_json_value(json, NULL);
  if (c == '"' ? !td_json_string(json, &text, &length) : !td_json_number(json, &text, &length)) return false;
  e->has_rf_id = td_parse_u64(text, length, &e->rf_id);
  return true;
}

static bool read_args(td_json *json, event *e)
{
  const char *key;
  size_t length;
  if (td_json_next(json) != '{') return td_json_value(json, NULL);
  if (!td_json_object(json)) return false;
  while (td_json_member(json, &key, &length))
    if (is(key, length, "Record function id") ? !read_rf_id(json, e) : !td_json_value(json, NULL)) return false;
  return !td_json_status(json);
}

static bool read_name(td_json *json, event *e, td_error *err, td_status *status)
{
  const char *text;
  size_t length;
  if (td_json_next(json) != '"') return td_json_value(json, NULL);
  if (!td_json_string(json, &text, &length)) return false;
  if (!td_buffer_append(&e->name, text, length)) *status = td_fail_nomem(err);
  return !*status;
}

static bool read_event(td_json *json, event *e, td_error *err, td_status *status)
{
  const char *key;
  size_t length;
  e->name.length = 0;
  e->has_rf_id = e->has_dur = false;
  if (td_json_next(json) != '{') return td_json_value(json, NULL);
  if (!td_json_object(json)) return false;
  while (td_json_member(json, &key, &length)) {
    bool done = is(key, length, "name")   ? read_name(json, e, err, status)
                : is(key, length, "dur")  ? read_duration(json, e)
                : is(key, length, "args") ? read_args(json, e)
                                          : td_json_value(json, NULL);
    if (!done) return false;
  }
  return !td_json_status(json);
}

static void match(const event *e, td_kineto_op *ops, const td_map *by_rf_id)
{
  uint32_t number = e->has_rf_id && e->has_dur ? td_map_get(by_rf_id, e->rf_id) : TD_MAP_NONE;
  if (number == TD_MAP_NONE) return;
  td_kineto_op *op = &ops[number];
  bool same = e->name.length == op->name_length && (!op->name_length || memcmp(e->name.bytes, op->name, op->name_length) == 0);
  if (op->match == TD_KINETO_FOUND || (op->match == TD_KINETO_OTHER_NAME && !same)) return;
  op->match = same ? TD_KINETO_FOUND : TD_KINETO_OTHER_NAME;
  op->dur_ns = e->dur_ns;
}

static bool read_events(td_json *json, td_kineto_op *ops, const td_map *by_rf_id, td_error *err, td_status *status)
{
  event e = {0};
  bool done = td_json_array(json);
  while (done && td_json_element(json)) {
    done = read_event(json, &e, err, status);
    if (done) match(&e, ops, by_rf_id);
  }
  td_buffer_finish(&e.name);
  return done && !td_json_status(json);
}

/* The array of events alone is the other form that such traces have. */
static bool read_file(td_json *json, td_kineto_op *ops, const td_map *by_rf_id, td_error *err, td_status *status)
{
  const char *key;
  size_t length;
  bool found = false;
  if (td_json_next(json) == '[') return read_events(json, ops, by_rf_id, err, status) && td_json_end(json);
  if (!td_json_object(json)) return false;
  while (td_json_member(json, &key, &length)) {
    bool events = is(key, length, "traceEvents");
    if (events ? !read_events(json, ops, by_rf_id, err, status) : !td_json_value(json, NULL)) return false;
    found = found || events;
  }
  if (td_json_status(json)) return false;
  return found ? td_json_end(json) : td_json_fail(json, "no \"traceEvents\": not a profiler's trace");
}

td_status td_kineto_read(const char *path, td_kineto_op *ops, const td_map *by_rf_id, td_error *err)
{
  td_json *json;
  td_status mine = TD_OK, status = td_json_open(&json, path, err);
  if (status) return status;
  td_json_take_any_bytes(json);
  read_file(json, ops, by_rf_id, err, &mine);
  status = td_json_status(json) ? td_json_status(json) : mine;
  td_json_close(json);
  return status;
}
