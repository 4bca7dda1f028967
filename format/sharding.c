/* Freezing and thawing sharding plans. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/sharding_fields.h"

/* ---- the other keys ------------------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_sharded(const cJSON *frozen_param)
{
  for (const cJSON *axis = frozen_param->child; axis; axis = axis->next)
    if (strcmp(axis->valuestring, "R") != 0) return true;
  return false;
}

/* The names of all parameters that are not whole everywhere: sorted, each once. */
static bool list_sharded(td_sharding_job *j, const cJSON *plan, cJSON *list)
{
  size_t n = 0, capacity = 1;
  for (const cJSON *module = plan->child; module; module = module->next)
    capacity += (size_t)cJSON_GetArraySize(td_sharding_member(module, "params"));
  char **names = calloc(capacity, sizeof *names);
  if (!names) return td_sharding_nomem(j);
  bool good = true;
  for (const cJSON *module = plan->child; module && good; module = module->next) {
    const cJSON *params = td_sharding_member(module, "params");
    for (const cJSON *param = params ? params->child : NULL; param && good; param = param->next) {
      if (!is_sharded(param)) continue;
      bool dot = *module->string && *param->string;
      if (asprintf(&names[n], "%s%s%s", module->string, dot ? "." : "", param->string) < 0) good = td_sharding_nomem(j);
      else n++;
    }
  }
  if (good && n) qsort(names, n, sizeof *names, by_text);
  for (size_t i = 0; i < n && good; i++)
    if (!i || strcmp(names[i], names[i - 1]) != 0)
      good = td_sharding_attach(j, list, NULL, td_sharding_made(j, cJSON_CreateString(names[i])));
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return good;
}

static bool freeze_classes(td_sharding_job *j, const cJSON *modules, const cJSON *classes, cJSON *to)
{
  td_sharding_index index = {0};
  if (!classes) return true;
  j->field = "classes";
  if (!cJSON_IsObject(classes)) return td_sharding_fail(j, "expected an object");
  bool good = td_sharding_index_make(j, &index, classes);
  for (const cJSON *module = modules ? modules->child : NULL; module && good; module = module->next) {
    const cJSON *class = td_sharding_index_find(&index, module->string);
    j->module = module->string;
    good = cJSON_IsString(class) || td_sharding_fail(j, "no class is given for this module");
    good = good && td_sharding_attach(j, to, module->string, td_sharding_made(j, cJSON_Duplicate(class, true)));
  }
  td_sharding_index_finish(&index);
  if (good) j->module = j->field = NULL;
  return good;
}

static bool copy_pairs(td_sharding_job *j, const cJSON *pairs, cJSON *to)
{
  j->field = "tied_pairs";
  if (pairs && !cJSON_IsArray(pairs)) return td_sharding_fail(j, "expected a list");
  for (const cJSON *pair = pairs ? pairs->child : NULL; pair; pair = pair->next) {
    if (cJSON_GetArraySize(pair) != 2 || !cJSON_IsArray(pair) || !cJSON_IsString(pair->child) || !cJSON_IsString(pair->child->next))
      return td_sharding_fail(j, "a tied pair is two names");
    if (!td_sharding_attach(j, to, NULL, td_sharding_made(j, cJSON_Duplicate(pair, true)))) return false;
  }
  j->field = NULL;
  return true;
}

static bool copy_handlers(td_sharding_job *j, const cJSON *handlers, cJSON *to)
{
  j->field = "special_handlers";
  if (handlers && !cJSON_IsObject(handlers)) return td_sharding_fail(j, "expected an object");
  for (const cJSON *item = handlers ? handlers->child : NULL; item; item = item->next)
    if (!td_sharding_attach(j, to, item->string, td_sharding_made(j, cJSON_Duplicate(item, true)))) return false;
  j->field = NULL;
  return true;
}

static bool check_texts(td_sharding_job *j, const char *field, const cJSON *list, const char *twice)
{
  td_sharding_index index = {0};
  j->field = field;
  if (list && !cJSON_IsArray(list)) return td_sharding_fail(j, "expected a list");
  for (const cJSON *item = list ? list->child : NULL; item; item = item->next)
    if (!cJSON_IsString(item)) return td_sharding_fail(j, "expected a list of texts");
  bool good = td_sharding_index_make(j, &index, list) && (!td_sharding_index_twice(&index) || td_sharding_fail(j, twice));
  td_sharding_index_finish(&index);
  if (good) j->field = NULL;
  return good;
}

static bool copy_axes(td_sharding_job *j, const cJSON *axes, cJSON *to)
{
  if (!check_texts(j, "mesh_dim_names", axes, "an axis is named twice")) return false;
  for (const cJSON *axis = axes ? axes->child : NULL; axis; axis = axis->next)
    if (!td_sharding_attach(j, to, NULL, td_sharding_made(j, cJSON_Duplicate(axis, true)))) return false;
  return true;
}

/* Nothing but these keys. */
static bool check_keys(td_sharding_job *j, const cJSON *object, const char *const *keys)
{
  for (const cJSON *item = object->child; item; item = item->next) {
    size_t i = 0;
    while (keys[i] && strcmp(keys[i], item->string) != 0) i++;
    j->field = item->string;
    if (!keys[i]) return td_sharding_fail(j, "unknown field");
  }
  j->field = NULL;
  return true;
}

/* ---- freezing ------------------------------------------------------------------------------------------------- */

static bool freeze_module(td_sharding_job *j, const td_sharding_table *table, const cJSON *spec, cJSON *plan, cJSON *injections)
{
  cJSON *entry = cJSON_CreateObject(), *injection = cJSON_CreateObject();
  const cJSON *match = cJSON_AddStringToObject(injection, "match", spec->string);
  bool good = (entry && match) || td_sharding_nomem(j);
  good = good && td_sharding_check_spec(j, table, spec) && td_sharding_freeze_section(j, table, TD_PARAM_PLAN, spec, entry) &&
         td_sharding_freeze_section(j, table, TD_INJECTION, spec, injection);
  if (!good) cJSON_Delete(entry);
  else good = td_sharding_attach(j, plan, spec->string, entry);
  if (good && match && match->next) return td_sharding_attach(j, injections, NULL, injection);
  cJSON_Delete(injection);
  return good;
}

static bool freeze_modules(td_sharding_job *j, const td_sharding_table *table, const cJSON *modules, cJSON *plan, cJSON *injections)
{
  for (const cJSON *spec = modules ? modules->child : NULL; spec; spec = spec->next) {
    j->module = spec->string;
    if (!freeze_module(j, table, spec, plan, injections)) return false;
  }
  j->module = NULL;
  return true;
}

static bool freeze(td_sharding_job *j, const td_sharding_table *table, const cJSON *live, cJSON *to)
{
  static const char *const keys[] = {"modules", "classes", "tied_pairs", "special_handlers", "mesh_dim_names", NULL};
  const cJSON *modules = td_sharding_member(live, "modules");
  cJSON *plan = cJSON_AddObjectToObject(to, "param_plan"), *injections = cJSON_AddArrayToObject(to, "injections"),
        *pairs = cJSON_AddArrayToObject(to, "tied_pairs"), *handlers = cJSON_AddObjectToObject(to, "special_handlers"),
        *sharded = cJSON_AddArrayToObject(to, "frozen_sharded_params"), *classes = cJSON_AddObjectToObject(to, "boundary_classes"),
        *axes = cJSON_AddArrayToObject(to, "mesh_dim_names");
  if (!plan || !injections || !pairs || !handlers || !sharded || !classes || !axes) return td_sharding_nomem(j);
  if (cJSON_IsNull(live)) return true;
  if (!cJSON_IsObject(live)) return td_sharding_fail(j, "a live plan is an object or null");
  if (modules && !cJSON_IsObject(modules)) return td_sharding_fail(j, "modules is an object");
  return check_keys(j, live, keys) && freeze_modules(j, table, modules, plan, injections) && list_sharded(j, plan, sharded) &&
         copy_pairs(j, td_sharding_member(live, "tied_pairs"), pairs) &&
         copy_handlers(j, td_sharding_member(live, "special_handlers"), handlers) &&
         freeze_classes(j, modules, td_sharding_member(live, "classes"), classes) &&
         copy_axes(j, td_sharding_member(live, "mesh_dim_names"), axes);
}

/* ---- thawing -------------------------------------------------------------------------------------------------- */

static bool thaw_modules(td_sharding_job *j, const td_sharding_table *table, const cJSON *plan, cJSON *modules)
{
  if (plan && !cJSON_IsObject(plan)) return td_sharding_fail(j, "param_plan is an object");
  for (const cJSON *entry = plan ? plan->child : NULL; entry; entry = entry->next) {
    cJSON *module = td_sharding_made(j, cJSON_CreateObject());
    j->module = entry->string;
    if (!td_sharding_attach(j, modules, entry->string, module) || !td_sharding_check_entry(j, table, TD_PARAM_PLAN, entry) ||
        !td_sharding_thaw_section(j, table, TD_PARAM_PLAN, entry, module))
      return false;
  }
  j->module = NULL;
  return true;
}

static bool thaw_injection(td_sharding_job *j, const td_sharding_table *table, const cJSON *item, td_sharding_index *modules)
{
  const cJSON *match = td_sharding_member(item, "match");
  if (!cJSON_IsString(match)) return td_sharding_fail(j, "an injection has no match");
  j->module = match->valuestring;
  cJSON *module = (cJSON *)td_sharding_index_find(modules, match->valuestring);
  if (!module) return td_sharding_fail(j, "an injection for a module that is not there");
  for (const td_sharding_field *f = table->fields; f < table->fields + table->n; f++)
    if (f->section == TD_INJECTION && td_sharding_member(module, f->live))
      return td_sharding_fail(j, "a second injection for this module");
  return td_sharding_check_entry(j, table, TD_INJECTION, item) && td_sharding_thaw_section(j, table, TD_INJECTION, item, module);
}

static bool thaw_injections(td_sharding_job *j, const td_sharding_table *table, const cJSON *injections, const cJSON *modules)
{
  td_sharding_index index = {0};
  if (injections && !cJSON_IsArray(injections)) return td_sharding_fail(j, "injections is a list");
  bool good = td_sharding_index_make(j, &index, modules);
  for (const cJSON *item = injections ? injections->child : NULL; item && good; item = item->next)
    good = thaw_injection(j, table, item, &index);
  td_sharding_index_finish(&index);
  if (good) j->module = NULL;
  return good;
}

static bool thaw_classes(td_sharding_job *j, const cJSON *classes, cJSON *to)
{
  j->field = "boundary_classes";
  if (classes && !cJSON_IsObject(classes)) return td_sharding_fail(j, "expected an object");
  for (const cJSON *class = classes ? classes->child : NULL; class; class = class->next)
    if (!cJSON_IsString(class)) return td_sharding_fail(j, "the name of a class is text");
  j->field = NULL;
  return td_sharding_is_empty(classes) || td_sharding_attach(j, to, "classes", td_sharding_made(j, cJSON_Duplicate(classes, true)));
}

static bool thaw(td_sharding_job *j, const td_sharding_table *table, const cJSON *frozen, cJSON *to)
{
  static const char *const keys[] = {"param_plan", "injections", "tied_pairs", "special_handlers", "frozen_sharded_params",
                                     "boundary_classes", "mesh_dim_names", NULL};
  if (!cJSON_IsObject(frozen)) return td_sharding_fail(j, "a frozen plan is an object");
  cJSON *modules = cJSON_AddObjectToObject(to, "modules");
  if (!modules) return td_sharding_nomem(j);
  if (!check_keys(j, frozen, keys) || !thaw_modules(j, table, td_sharding_member(frozen, "param_plan"), modules) ||
      !thaw_injections(j, table, td_sharding_member(frozen, "injections"), modules) ||
      !check_texts(j, "frozen_sharded_params", td_sharding_member(frozen, "frozen_sharded_params"), "a parameter is named twice") ||
      !thaw_classes(j, td_sharding_member(frozen, "boundary_classes"), to))
    return false;
  cJSON *pairs = cJSON_AddArrayToObject(to, "tied_pairs"), *handlers = cJSON_AddObjectToObject(to, "special_handlers"),
        *axes = cJSON_AddArrayToObject(to, "mesh_dim_names");
  if (!pairs || !handlers || !axes) return td_sharding_nomem(j);
  return copy_pairs(j, td_sharding_member(frozen, "tied_pairs"), pairs) &&
         copy_handlers(j, td_sharding_member(frozen, "special_handlers"), handlers) &&
         copy_axes(j, td_sharding_member(frozen, "mesh_dim_names"), axes);
}

/* ---- both ----------------------------------------------------------------------------------------------------- */

typedef bool direction(td_sharding_job *, const td_sharding_table *, const cJSON *, cJSON *);

static cJSON *transform_tree(td_sharding_job *j, const td_sharding_table *table, const cJSON *from, direction *f)
{
  cJSON *to = td_sharding_made(j, cJSON_CreateObject());
  if (!to || f(j, table, from, to)) return to;
  cJSON_Delete(to);
  return NULL;
}

cJSON *td_sharding_freeze_tree(td_sharding_job *j, const td_sharding_table *table, const cJSON *live)
{
  return transform_tree(j, table, live, freeze);
}

cJSON *td_sharding_thaw_tree(td_sharding_job *j, const td_sharding_table *table, const cJSON *frozen)
{
  return transform_tree(j, table, frozen, thaw);
}

static td_status transform(const char *text, char **out, direction *f, td_error *err)
{
  td_sharding_job j = {.err = err};
  cJSON *from = td_sharding_parse(&j, text), *to = from ? transform_tree(&j, &td_sharding_fields, from, f) : NULL;
  char *printed = to ? cJSON_Print(to) : NULL;
  if (!printed) td_sharding_nomem(&j);
  cJSON_Delete(from);
  cJSON_Delete(to);
  if (!j.status) *out = printed;
  return j.status;
}

td_status td_sharding_freeze(const char *live, char **frozen, td_error *err)
{
  return transform(live, frozen, freeze, err);
}

td_status td_sharding_thaw(const char *frozen, char **live, td_error *err)
{
  return transform(frozen, live, thaw, err);
}
