/* From a file in either form to a tape: says which form it is, and what both have in common. */
#include "format/import.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"

static td_status keep_early(td_importing *i, const char *key, size_t length)
{
  td_buffer value = {0};
  if (!TD_GROW(i->early, i->early_capacity, i->n_early + 1)) return td_fail_nomem(i->err);
  char *copy = malloc(length + 1); /* the value's strings overwrite the key */
  if (!copy) return td_fail_nomem(i->err);
  memcpy(copy, key, length + 1);
  i->early[i->n_early++] = (td_early_member){.key = copy, .key_length = length};
  if (!td_json_value(i->json, &value)) {
    td_buffer_finish(&value);
    return td_json_status(i->json);
  }
  i->early[i->n_early - 1].json = (char *)value.bytes;
  return TD_OK;
}

/* The first member that only one form has decides. "nodes" is an execution trace's. */
static td_status read_file(td_importing *i)
{
  const char *key;
  size_t length;
  td_status status = TD_OK;
  if (!td_json_object(i->json)) return td_json_status(i->json);
  while (!status && td_json_member(i->json, &key, &length)) {
    if (length == 5 && memcmp(key, "nodes", 5) == 0) return td_et_import(i);
    if (td_interchange_key(key, length)) return td_interchange_import(i, key, length);
    status = keep_early(i, key, length);
  }
  if (!status) status = td_json_status(i->json);
  if (!status) td_json_fail(i->json, "the trace has no \"ops\"; an execution trace has \"nodes\"");
  return status ? status : td_json_status(i->json);
}

static void release(td_importing *i)
{
  td_json_close(i->json);
  td_writer_abandon(i->writer);
  for (size_t k = 0; k < i->n_early; k++) {
    free(i->early[k].key);
    free(i->early[k].json);
  }
  free(i->early);
}

td_status td_import(const char *in, const char *out, const td_import_options *options, td_import_report *report, td_error *err)
{
  static const td_import_options none;
  td_error own;
  td_importing i = {.path = in, .options = options ? options : &none, .err = err ? err : &own};
  td_status status = td_json_open(&i.json, in, i.err);
  if (!status) status = td_writer_create(&i.writer, &(td_writer_options){.path = out, .level = i.options->zstd_level}, i.err);
  if (!status) status = read_file(&i);
  if (!status) {
    td_error why;
    status = td_writer_finish(i.writer, NULL, &why);
    i.writer = NULL;
    if (status == TD_E_INPUT) td_fail(i.err, status, "%s: %s", in, why.message);
    else if (status) td_fail(i.err, status, "%s", why.message);
  }
  release(&i);
  if (!status && report) *report = i.report;
  return status;
}
