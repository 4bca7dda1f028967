/* Sharding plans as objects: built, read, written, and what they are known by. */
#include "format/sharding_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fail.h"

/* ---- life ----------------------------------------------------------------------------------------------------- */

static td_status wrap(td_sharding **out, td_sharding_job *j, cJSON *live)
{
  td_sharding *plan = live ? malloc(sizeof *plan) : NULL;
  if (!plan) {
    td_sharding_nomem(j);
    cJSON_Delete(live);
    return j->status;
  }
  *plan = (td_sharding){.live = live};
  *out = plan;
  return TD_OK;
}

td_status td_sharding_create(td_sharding **out, td_error *err)
{
  td_sharding_job j = {.err = err};
  return wrap(out, &j, cJSON_CreateObject());
}

void td_sharding_destroy(td_sharding *plan)
{
  if (!plan) return;
  cJSON_Delete(plan->live);
  free(plan);
}

/* The keys that only a frozen plan has. */
static bool is_frozen(const cJSON *tree)
{
  static const char *const keys[] = {"param_plan", "injections", "boundary_classes", "frozen_sharded_params"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (cJSON_GetObjectItemCaseSensitive(tree, keys[i])) return true;
  return false;
}

/* Either way the plan is checked: a live one by freezing it. */
static cJSON *read_tree(td_sharding_job *j, const char *json)
{
  cJSON *tree = td_sharding_parse(j, json), *other = NULL;
  if (!tree) return NULL;
  bool frozen = is_frozen(tree);
  other = frozen ? td_sharding_thaw_tree(j, &td_sharding_fields, tree) : td_sharding_freeze_tree(j, &td_sharding_fields, tree);
  cJSON *live = !other ? NULL : frozen ? other : cJSON_IsNull(tree) ? td_sharding_made(j, cJSON_CreateObject()) : tree;
  if (tree != live) cJSON_Delete(tree);
  if (other != live) cJSON_Delete(other);
  return live;
}

td_status td_sharding_read(td_sharding **out, const char *json, td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *live = read_tree(&j, json);
  return j.status ? j.status : wrap(out, &j, live);
}

/* ---- building ------------------------------------------------------------------------------------------------- */

/* The member of that name, made where it is missing. */
static cJSON *part(td_sharding_job *j, cJSON *of, const char *key, bool list)
{
  cJSON *item = cJSON_GetObjectItemCaseSensitive(of, key);
  if (item) return item;
  item = td_sharding_made(j, list ? cJSON_CreateArray() : cJSON_CreateObject());
  return td_sharding_attach(j, of, key, item) ? item : NULL;
}

static bool add_once(td_sharding_job *j, cJSON *to, const char *key, cJSON *item)
{
  if (!cJSON_GetObjectItemCaseSensitive(to, key)) return td_sharding_attach(j, to, key, item);
  cJSON_Delete(item);
  return td_sharding_fail(j, "given twice");
}

static cJSON *find_module(td_sharding_job *j, td_sharding *plan, const char *module)
{
  j->module = module;
  if (plan->module && strcmp(plan->module->string, module) == 0) return plan->module;
  plan->module = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(plan->live, "modules"), module);
  if (!plan->module) j->status = td_fail(j->err, TD_E_NOT_FOUND, "%s: the plan has no such module", module);
  return plan->module;
}

td_status td_sharding_add_module(td_sharding *plan, const char *module, const char *class_name, td_error *err)
{
  td_sharding_job j = {.err = err, .module = module};
  cJSON *modules = part(&j, plan->live, "modules", false), *classes = class_name ? part(&j, plan->live, "classes", false) : NULL;
  if (!modules || (class_name && !classes)) return j.status;
  if (add_once(&j, modules, module, td_sharding_made(&j, cJSON_CreateObject())) && class_name)
    add_once(&j, classes, module, td_sharding_made(&j, cJSON_CreateString(class_name)));
  return j.status;
}

/* A placement in the live form, by way of its text. */
static cJSON *live_placement(td_sharding_job *j, const td_placement *placement)
{
  char *text;
  td_error why;
  td_status status = td_placement_format(placement, &text, &why);
  if (status) return status == TD_E_NOMEM ? td_sharding_nomem(j) : td_sharding_fail(j, why.message);
  cJSON *item = td_sharding_thaw_placement(j, text);
  free(text);
  return item;
}

td_status td_sharding_add_placement(td_sharding *plan, const char *module, const char *param, const char *axis,
                                    const td_placement *placement, td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *spec = find_module(&j, plan, module), *params = spec ? part(&j, spec, "params", false) : NULL;
  j.field = param;
  cJSON *axes = params ? part(&j, params, param, false) : NULL;
  cJSON *item = axes ? live_placement(&j, placement) : NULL;
  if (item) add_once(&j, axes, axis, item);
  return j.status;
}

td_status td_sharding_add_field(td_sharding *plan, const char *module, const char *field, const char *json, td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *spec = find_module(&j, plan, module);
  j.field = field;
  cJSON *value = spec ? td_sharding_parse(&j, json) : NULL;
  if (value && !td_sharding_check_field(&j, &td_sharding_fields, field, value)) {
    cJSON_Delete(value);
    value = NULL;
  }
  if (value) add_once(&j, spec, field, value);
  return j.status;
}

td_status td_sharding_add_tie(td_sharding *plan, const char *param, const char *other, td_error *err)
{
  td_sharding_job j = {.err = err, .field = "tied_pairs"};
  const char *const names[] = {param, other};
  cJSON *pairs = part(&j, plan->live, "tied_pairs", true);
  if (pairs) td_sharding_attach(&j, pairs, NULL, td_sharding_made(&j, cJSON_CreateStringArray(names, 2)));
  return j.status;
}

td_status td_sharding_add_handler(td_sharding *plan, const char *param, const char *json, td_error *err)
{
  td_sharding_job j = {.err = err, .field = "special_handlers"};
  cJSON *handlers = part(&j, plan->live, "special_handlers", false), *value = handlers ? td_sharding_parse(&j, json) : NULL;
  if (value) add_once(&j, handlers, param, value);
  return j.status;
}

td_status td_sharding_add_axis(td_sharding *plan, const char *axis, td_error *err)
{
  td_sharding_job j = {.err = err, .field = "mesh_dim_names"};
  cJSON *axes = part(&j, plan->live, "mesh_dim_names", true);
  for (const cJSON *item = axes ? axes->child : NULL; item && !j.status; item = item->next)
    if (strcmp(item->valuestring, axis) == 0) td_sharding_fail(&j, "an axis is named twice");
  if (axes && !j.status) td_sharding_attach(&j, axes, NULL, td_sharding_made(&j, cJSON_CreateString(axis)));
  return j.status;
}

/* ---- texts and digest ----------------------------------------------------------------------------------------- */

cJSON *td_sharding_frozen_tree(td_sharding_job *j, const td_sharding *plan)
{
  return td_sharding_freeze_tree(j, &td_sharding_fields, plan->live);
}

static td_status print(td_sharding_job *j, const cJSON *tree, char **text)
{
  char *printed = tree ? cJSON_Print(tree) : NULL;
  if (!printed) td_sharding_nomem(j);
  if (!j->status) *text = printed;
  return j->status;
}

td_status td_sharding_live_text(const td_sharding *plan, char **text, td_error *err)
{
  td_sharding_job j = {.err = err};
  return print(&j, plan->live, text);
}

td_status td_sharding_frozen_text(const td_sharding *plan, char **text, td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *frozen = td_sharding_frozen_tree(&j, plan);
  print(&j, frozen, text);
  cJSON_Delete(frozen);
  return j.status;
}

/* Puts the children of a list or object in the order of an index of them. */
static void relink(cJSON *parent, const td_sharding_index *index)
{
  cJSON *before = NULL;
  for (size_t i = 0; i < index->n; i++) {
    cJSON *item = (cJSON *)index->at[i];
    item->prev = before;
    item->next = NULL;
    if (before) before->next = item;
    else parent->child = item;
    before = item;
  }
  if (before) parent->child->prev = before; /* as cJSON finds the last one */
}

static bool sort_keys(td_sharding_job *j, cJSON *item)
{
  td_sharding_index index = {0};
  bool good = true;
  if (cJSON_IsObject(item)) {
    good = td_sharding_index_make(j, &index, item);
    if (good) relink(item, &index);
    td_sharding_index_finish(&index);
  }
  for (cJSON *child = item->child; child && good; child = child->next) good = sort_keys(j, child);
  return good;
}

bool td_sharding_key_injections(td_sharding_job *j, cJSON *frozen)
{
  cJSON *list = cJSON_DetachItemFromObjectCaseSensitive(frozen, "injections"), *object = td_sharding_made(j, cJSON_CreateObject());
  bool good = list && object;
  while (good && list->child) {
    cJSON *item = cJSON_DetachItemViaPointer(list, list->child);
    good = td_sharding_attach(j, object, td_sharding_member(item, "match")->valuestring, item);
  }
  cJSON_Delete(list);
  return td_sharding_attach(j, frozen, "injections", object) && good;
}

td_status td_sharding_digest(const td_sharding *plan, char digest[33], td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *frozen = td_sharding_frozen_tree(&j, plan);
  char *text = frozen && td_sharding_key_injections(&j, frozen) && sort_keys(&j, frozen) ? cJSON_PrintUnformatted(frozen) : NULL;
  if (text) {
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    snprintf(digest, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
  } else {
    td_sharding_nomem(&j);
  }
  cJSON_free(text);
  cJSON_Delete(frozen);
  return j.status;
}
