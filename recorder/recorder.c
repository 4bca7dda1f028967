/* From what the deck saw to a tape. */
#include <tapedeck/recorder.h>

#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/names.h"
#include "format/sharding_place.h"
#include "recorder/role.h"
#include "recorder/scribe.h"

typedef struct recorder {
  td_role role;
  char *path;
  td_meta *meta; /* with copies of the strings; values are JSON */
  size_t n_meta;
  int level;
  td_scribe *scribe; /* NULL outside a step, and in one whose tape could not be made */
  td_names names;    /* of this step */
  uint64_t told_sids;
  td_status status; /* why this step has no scribe */
  td_error error;
  char digest[33];
} recorder;

/* The scribe of this step, if there is one. In a child of the process that began the step, the tape is the parent's: the
 * child's copy of the scribe is left alone. */
static td_scribe *scribe(recorder *r)
{
  if (!r->scribe || td_scribe_is_here(r->scribe)) return r->scribe;
  r->status = td_fail(&r->error, TD_E_STATE, "%s: this process was forked during the step and does not record it", r->path);
  return r->scribe = NULL;
}

static void destroy(td_role *role)
{
  recorder *r = (recorder *)role;
  td_scribe_abandon(scribe(r));
  td_names_finish(&r->names);
  td_meta_free(r->meta, r->n_meta);
  free(r->path);
  free(r);
}

static td_status step_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)deck, (void)err;
  recorder *r = (recorder *)role;
  td_names_finish(&r->names);
  r->told_sids = 0;
  r->digest[0] = '\0';
  r->status = td_scribe_start(&r->scribe, r->path, r->meta, r->n_meta, r->level, &r->error);
  return TD_OK;
}

/* Stops recording this step, which goes on. */
static void give_up(recorder *r)
{
  r->status = td_fail_nomem(&r->error);
  td_scribe_abandon(r->scribe);
  r->scribe = NULL;
}

static uint32_t tell_name(recorder *r, const char *bytes, size_t length)
{
  uint32_t known = (uint32_t)r->names.count;
  uint32_t name = td_names_intern(&r->names, bytes, length);
  if (name == TD_NAME_NONE)
    give_up(r);
  else if (name == known)
    td_scribe_name(r->scribe, bytes, length);
  return name;
}

static void tell_storage(recorder *r, const td_slot *slot, uint64_t freed_before_op)
{
  td_scribe_storage(r->scribe, &(td_storage_info){.sid = slot->sid,
                                                  .bytes = slot->resident.bytes,
                                                  .freed_before_op = slot->activation ? freed_before_op : TD_NEVER,
                                                  .activation = slot->activation});
}

/* SIDs are given in the order in which the op names its storages, so the new ones are those not told yet. */
static void tell_if_new(recorder *r, const td_slot *slot)
{
  if (slot->sid < r->told_sids) return;
  r->told_sids = slot->sid + 1;
  tell_storage(r, slot, TD_NEVER);
  if (slot->activation) td_scribe_activation(r->scribe, slot->sid);
}

static td_status op_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)role, (void)deck, (void)err;
  return TD_OK;
}

static td_status op_end(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  recorder *r = (recorder *)role;
  const td_open_op *op = &deck->op;
  if (!scribe(r)) return TD_OK;
  uint32_t name = tell_name(r, (const char *)op->name.bytes, op->name.length);
  if (name == TD_NAME_NONE) return TD_OK;
  for (size_t i = 0; i < op->n_accesses; i++) tell_if_new(r, op->accesses[i].slot);
  for (size_t i = 0; i < op->n_outputs; i++) tell_if_new(r, op->outputs[i].slot);
  td_scribe_op(r->scribe, name, op->opaque, op->dur_ns, op->leaves, op->n_accesses, op->n_outputs);
  for (size_t i = 0; i < op->n_accesses; i++) td_scribe_access(r->scribe, op->accesses[i].slot->sid, op->accesses[i].kind);
  for (size_t i = 0; i < op->n_outputs; i++) td_scribe_output(r->scribe, op->outputs[i].leaf, op->outputs[i].slot->sid);
  td_scribe_op_told(r->scribe);
  return TD_OK;
}

static void storage_changed(td_role *role, td_deck *deck, const td_slot *slot)
{
  (void)deck;
  recorder *r = (recorder *)role;
  if (scribe(r)) tell_storage(r, slot, TD_NEVER);
}

static void storage_freed(td_role *role, td_deck *deck, const td_slot *slot)
{
  recorder *r = (recorder *)role;
  if (scribe(r) && slot->activation) tell_storage(r, slot, (uint64_t)(deck->op_number + 1));
}

static td_status mark(td_role *role, td_deck *deck, const char *name, td_error *err)
{
  (void)err;
  recorder *r = (recorder *)role;
  uint32_t number = scribe(r) ? tell_name(r, name, strlen(name)) : TD_NAME_NONE;
  if (number != TD_NAME_NONE) td_scribe_mark(r->scribe, number, (uint64_t)(deck->op_number + 1));
  return TD_OK;
}

static int by_number(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The activations that are still held, by SID. */
static void tell_retained(recorder *r, const td_deck *deck)
{
  uint64_t *sids = NULL;
  size_t n = 0, capacity = 0;
  for (uint32_t i = 0; i < deck->n_slots; i++) {
    const td_slot *slot = td_deck_slot_at(deck, i);
    if (!td_slot_living(slot) || slot->step != deck->step || !slot->activation) continue;
    if (!TD_GROW(sids, capacity, n + 1)) {
      free(sids);
      give_up(r);
      return;
    }
    sids[n++] = slot->sid;
  }
  if (n) qsort(sids, n, sizeof *sids, by_number);
  for (size_t i = 0; i < n; i++) td_scribe_retained(r->scribe, sids[i]);
  free(sids);
}

static td_status step_end(td_role *role, td_deck *deck, td_error *err)
{
  recorder *r = (recorder *)role;
  if (scribe(r)) tell_retained(r, deck);
  if (r->scribe) r->status = td_scribe_finish(r->scribe, r->digest, &r->error);
  r->scribe = NULL;
  if (r->status && err) *err = r->error;
  return r->status;
}

static void step_abort(td_role *role, td_deck *deck)
{
  (void)deck;
  recorder *r = (recorder *)role;
  td_scribe_abandon(scribe(r));
  r->scribe = NULL;
}

static const td_role_ops recorder_ops = {
    .name = "recorder",
    .step_begin = step_begin,
    .op_begin = op_begin,
    .op_end = op_end,
    .storage_changed = storage_changed,
    .storage_freed = storage_freed,
    .mark = mark,
    .step_end = step_end,
    .step_abort = step_abort,
    .destroy = destroy,
};

void td_meta_free(td_meta *meta, size_t n)
{
  for (size_t i = 0; meta && i < n; i++) {
    free((char *)meta[i].key);
    free((char *)meta[i].value);
  }
  free(meta);
}

bool td_meta_copy(td_meta **out, const td_meta *from, size_t n)
{
  td_meta *copy = *out = calloc(n + 1, sizeof *copy);
  for (size_t i = 0; copy && i < n; i++) {
    copy[i].key = strdup(from[i].key);
    copy[i].value = strdup(from[i].value);
    if (!copy[i].key || !copy[i].value) return false;
  }
  return copy;
}

static char *text_as_json(const char *text)
{
  cJSON *value = cJSON_CreateString(text);
  char *json = value ? cJSON_PrintUnformatted(value) : NULL;
  cJSON_Delete(value);
  return json;
}

static td_status add_meta(void *context, const char *key, const char *json, td_error *err)
{
  recorder *r = context;
  for (size_t i = 0; i < r->n_meta; i++)
    if (strcmp(r->meta[i].key, key) == 0) return td_fail(err, TD_E_ARG, "\"%s\" is given twice for the tape's meta", key);
  td_meta *grown = realloc(r->meta, (r->n_meta + 1) * sizeof *grown);
  if (!grown) return td_fail_nomem(err);
  r->meta = grown;
  td_meta *new = &r->meta[r->n_meta];
  *new = (td_meta){.key = strdup(key), .value = strdup(json)};
  r->n_meta++;
  return new->key && new->value ? TD_OK : td_fail_nomem(err);
}

static td_status copy_options(recorder *r, const td_recorder_options *options, td_error *err)
{
  td_status status = (r->path = strdup(options->path)) ? TD_OK : td_fail_nomem(err);
  for (size_t i = 0; i < options->n_meta && !status; i++) {
    char *json = text_as_json(options->meta[i].value);
    status = json ? add_meta(r, options->meta[i].key, json, err) : td_fail_nomem(err);
    cJSON_free(json);
  }
  return !status && options->sharding ? td_sharding_place_each(options->sharding, add_meta, r, err) : status;
}

td_status td_recorder_role_create(td_role **out, const td_recorder_options *options, td_error *err)
{
  if (!options->path || !*options->path) return td_fail(err, TD_E_ARG, "a recorder needs a path for its tape");
  recorder *r = calloc(1, sizeof *r);
  if (!r) return td_fail_nomem(err);
  r->role.ops = &recorder_ops;
  r->level = options->zstd_level;
  td_status status = copy_options(r, options, err);
  if (!status) status = td_scribe_start(&r->scribe, r->path, r->meta, r->n_meta, r->level, err); /* can a file be made there? */
  if (status) {
    destroy(&r->role);
    return status;
  }
  td_scribe_abandon(r->scribe);
  r->scribe = NULL;
  *out = &r->role;
  return TD_OK;
}

td_status td_recorder_create(td_deck **out, const td_recorder_options *options, td_error *err)
{
  td_role *role = NULL;
  td_status status = td_recorder_role_create(&role, options, err);
  return status ? status : td_deck_create(out, role, options->device, options->limit_bytes, err);
}

const char *td_recorder_digest(const td_deck *deck)
{
  return deck->role->ops == &recorder_ops ? ((const recorder *)deck->role)->digest : "";
}
