/* Freezing and thawing sharding plans. One table says which field of a module is frozen, when and how; both directions walk it. */
#include <tapedeck/sharding.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/fail.h"

typedef enum section { PARAM_PLAN, INJECTION } section;
typedef enum condition { NOT_NULL, NOT_EMPTY, NOT_ZERO } condition;
typedef enum form { PARAMS, NESTED, AS_IS, LIST, WRAPPED } form;

static const struct field {
  const char *live, *frozen;
  section section;
  condition when;
  form form;
} fields[] = {
    {"params", "params", PARAM_PLAN, NOT_NULL, PARAMS},
    {"in_src", "in_src", PARAM_PLAN, NOT_NULL, NESTED},
    {"in_dst", "in_dst", PARAM_PLAN, NOT_NULL, NESTED},
    {"out_src", "out_src", PARAM_PLAN, NOT_NULL, NESTED},
    {"out_dst", "out_dst", PARAM_PLAN, NOT_NULL, NESTED},
    {"out_names", "out_names", PARAM_PLAN, NOT_EMPTY, LIST},
    {"tp_divide_attrs", "tp_divide_attrs", PARAM_PLAN, NOT_NULL, LIST},
    {"is_boundary", "is_boundary", PARAM_PLAN, NOT_NULL, AS_IS},
    {"region_dispatch", "region_dispatch", PARAM_PLAN, NOT_NULL, AS_IS},
    {"_deferred_bias_params", "deferred_bias_params", PARAM_PLAN, NOT_EMPTY, LIST},
    {"inner_wrapper", "inner_wrapper", INJECTION, NOT_NULL, WRAPPED},
    {"inner_target", "inner_target", INJECTION, NOT_NULL, AS_IS},
    {"inner_out_src", "inner_out_src", INJECTION, NOT_NULL, WRAPPED},
    {"local_compute_fn", "local_compute_fn", INJECTION, NOT_NULL, WRAPPED},
    {"_ep_stack", "ep_stack", INJECTION, NOT_EMPTY, AS_IS},
    {"_ep_size", "ep_size", INJECTION, NOT_ZERO, AS_IS},
};

#define N_FIELDS (sizeof fields / sizeof *fields)

/* What is being converted, for messages; the first failure sticks. */
typedef struct job {
  const char *module, *field;
  td_error *err;
  td_status status;
} job;

static cJSON *fail(job *j, const char *what)
{
  if (j->status) return NULL;
  j->status = td_fail(j->err, TD_E_INPUT, "%s%s%s%s%s", j->module ? j->module : "", j->module ? ": " : "",
                      j->field ? j->field : "", j->field ? ": " : "", what);
  return NULL;
}

static cJSON *nomem(job *j)
{
  if (!j->status) j->status = td_fail_nomem(j->err);
  return NULL;
}

/* The item, or the failure that it could not be made. */
static cJSON *made(job *j, cJSON *item)
{
  return item ? item : nomem(j);
}

/* Adds to an object or, without a key, to an array; takes over `item`. False if there is none. */
static bool attach(job *j, cJSON *to, const char *key, cJSON *item)
{
  if (!item) return false;
  if (key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item)) return true;
  cJSON_Delete(item);
  nomem(j);
  return false;
}

static const cJSON *member(const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return item && !cJSON_IsNull(item) ? item : NULL;
}

static bool is_empty(const cJSON *item)
{
  return !item || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

/* ---- placements ----------------------------------------------------------------------------------------------- */

static bool whole_number(const cJSON *item, int32_t *number)
{
  if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble) || fabs(item->valuedouble) > INT32_MAX) return false;
  *number = (int32_t)item->valuedouble;
  return true;
}

static bool read_placement(job *j, const cJSON *live, td_placement *p)
{
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(live, "type"), *uneven = member(live, "uneven_shard"),
              *op = member(live, "reduce_op");
  char what[128];
  *p = (td_placement){.uneven = cJSON_IsTrue(uneven)};
  if (!cJSON_IsString(type)) return fail(j, "a placement's type is text");
  if (uneven && !cJSON_IsBool(uneven)) return fail(j, "uneven_shard is true or false");
  if (strcmp(type->valuestring, "Replicate") == 0) {
    p->kind = TD_REPLICATE;
  } else if (strcmp(type->valuestring, "Partial") == 0) {
    p->kind = TD_PARTIAL;
    if (!cJSON_IsString(op)) return fail(j, "a partial placement needs a reduce_op");
    p->reduce_op = op->valuestring;
    p->reduce_op_length = strlen(op->valuestring);
  } else if (strcmp(type->valuestring, "Shard") == 0 || strcmp(type->valuestring, "StridedShard") == 0) {
    p->kind = strcmp(type->valuestring, "Shard") == 0 ? TD_SHARD : TD_STRIDED_SHARD;
    if (!whole_number(member(live, "dim"), &p->dim)) return fail(j, "a shard needs a dim, a whole number");
    if (p->kind == TD_STRIDED_SHARD && !whole_number(member(live, "split_factor"), &p->split_factor))
      return fail(j, "a strided shard needs a split_factor, a whole number");
  } else {
    snprintf(what, sizeof what, "unknown placement type '%.80s'", type->valuestring);
    return fail(j, what);
  }
  return true;
}

static cJSON *freeze_placement(job *j, const cJSON *live)
{
  td_placement p;
  td_error why;
  char *text;
  if (!read_placement(j, live, &p)) return NULL;
  td_status status = td_placement_format(&p, &text, &why);
  if (status) return status == TD_E_NOMEM ? nomem(j) : fail(j, why.message);
  cJSON *item = cJSON_CreateString(text);
  free(text);
  return made(j, item);
}

static cJSON *thaw_placement(job *j, const char *text)
{
  td_placement p;
  td_error why;
  if (td_placement_parse(text, strlen(text), &p, &why)) return fail(j, why.message);
  static const char *const types[] = {"Replicate", "Shard", "Partial", "StridedShard"};
  cJSON *item = cJSON_CreateObject();
  bool fits = item && cJSON_AddStringToObject(item, "type", types[p.kind]);
  if (p.kind == TD_SHARD || p.kind == TD_STRIDED_SHARD) fits = fits && cJSON_AddNumberToObject(item, "dim", p.dim);
  if (p.kind == TD_STRIDED_SHARD) fits = fits && cJSON_AddNumberToObject(item, "split_factor", p.split_factor);
  if (p.kind == TD_SHARD || p.kind == TD_STRIDED_SHARD) fits = fits && cJSON_AddBoolToObject(item, "uneven_shard", p.uneven);
  if (p.kind == TD_PARTIAL) {
    char *op = strndup(p.reduce_op, p.reduce_op_length);
    fits = fits && op && cJSON_AddStringToObject(item, "reduce_op", op);
    free(op);
  }
  if (fits) return item;
  cJSON_Delete(item);
  return nomem(j);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static cJSON *convert(job *j, const cJSON *value, form form, bool freezing);

/* The text is what a placement is written as, to the letter. */
static bool is_placement(const char *text)
{
  td_placement p;
  char *written;
  if (td_placement_parse(text, strlen(text), &p, NULL) || td_placement_format(&p, &written, NULL)) return false;
  bool same = strcmp(text, written) == 0;
  free(written);
  return same;
}

static bool is_callable(const cJSON *object)
{
  return object->child && !object->child->next && strcmp(object->child->string, "callable") == 0;
}

static cJSON *convert_children(job *j, const cJSON *value, form form, bool freezing)
{
  cJSON *result = made(j, cJSON_IsArray(value) ? cJSON_CreateArray() : cJSON_CreateObject());
  for (const cJSON *child = value->child; child && result; child = child->next) {
    if (attach(j, result, child->string, convert(j, child, form, freezing))) continue;
    cJSON_Delete(result);
    result = NULL;
  }
  return result;
}

/* In an injection other text is data: the name of a callable, or what a target says of itself. */
static cJSON *freeze_value(job *j, const cJSON *value, form form)
{
  bool object = cJSON_IsObject(value), wrapped = form == WRAPPED;
  if (object && wrapped && member(value, "to_dict")) return made(j, cJSON_Duplicate(member(value, "to_dict"), true));
  if (object && cJSON_GetObjectItemCaseSensitive(value, "type")) return freeze_placement(j, value);
  if (object && wrapped && is_callable(value)) {
    if (!cJSON_IsString(value->child)) return fail(j, "a callable's name is text");
    return made(j, cJSON_CreateString(value->child->valuestring));
  }
  if (cJSON_IsString(value) && (!wrapped || is_placement(value->valuestring)))
    return fail(j, "text where a placement may stand: it would thaw to something else");
  if (cJSON_IsArray(value) || object) return convert_children(j, value, form, true);
  return made(j, cJSON_Duplicate(value, true));
}

/* Data that looks like a placement or a callable of the live form was a target's. */
static cJSON *thaw_target(job *j, const cJSON *value)
{
  cJSON *target = made(j, cJSON_CreateObject());
  if (!target || attach(j, target, "to_dict", made(j, cJSON_Duplicate(value, true)))) return target;
  cJSON_Delete(target);
  return NULL;
}

static cJSON *thaw_value(job *j, const cJSON *value, form form)
{
  bool object = cJSON_IsObject(value);
  if (cJSON_IsString(value) && (form != WRAPPED || is_placement(value->valuestring))) return thaw_placement(j, value->valuestring);
  if (object && form == WRAPPED &&
      (cJSON_GetObjectItemCaseSensitive(value, "type") || cJSON_GetObjectItemCaseSensitive(value, "to_dict") || is_callable(value)))
    return thaw_target(j, value);
  if (cJSON_IsArray(value) || object) return convert_children(j, value, form, false);
  return made(j, cJSON_Duplicate(value, true));
}

/* {name: {axis: placement}}, to the letter. */
static cJSON *convert_params(job *j, const cJSON *value, bool freezing)
{
  if (!cJSON_IsObject(value)) return fail(j, "expected an object of parameters");
  for (const cJSON *param = value->child; param; param = param->next) {
    if (!cJSON_IsObject(param)) return fail(j, "expected an object of axes for each parameter");
    for (const cJSON *axis = param->child; axis; axis = axis->next)
      if (freezing ? !cJSON_IsObject(axis) || !cJSON_GetObjectItemCaseSensitive(axis, "type") : !cJSON_IsString(axis))
        return fail(j, "expected a placement for each axis");
  }
  return convert_children(j, value, NESTED, freezing);
}

static cJSON *convert(job *j, const cJSON *value, form form, bool freezing)
{
  switch (form) {
  case PARAMS: return convert_params(j, value, freezing);
  case LIST:
    if (!cJSON_IsArray(value)) return fail(j, "expected a list");
    return made(j, cJSON_Duplicate(value, true));
  case AS_IS: return made(j, cJSON_Duplicate(value, true));
  default: return freezing ? freeze_value(j, value, form) : thaw_value(j, value, form);
  }
}

static bool is_written(const struct field *f, const cJSON *value)
{
  if (!value) return false;
  if (f->when == NOT_EMPTY) return !is_empty(value);
  return f->when != NOT_ZERO || !cJSON_IsNumber(value) || value->valuedouble != 0;
}

/* ---- modules -------------------------------------------------------------------------------------------------- */

static bool check_fields(job *j, const cJSON *spec)
{
  if (!cJSON_IsObject(spec)) return fail(j, "expected an object");
  for (const cJSON *item = spec->child; item; item = item->next) {
    size_t i = 0;
    while (i < N_FIELDS && strcmp(fields[i].live, item->string) != 0) i++;
    j->field = item->string;
    if (i == N_FIELDS) return fail(j, "unknown field");
  }
  j->field = NULL;
  return true;
}

/* The fields of one section of a module. */
static bool freeze_section(job *j, const cJSON *spec, section section, cJSON *to)
{
  for (size_t i = 0; i < N_FIELDS; i++) {
    const cJSON *value = member(spec, fields[i].live);
    if (fields[i].section != section || !is_written(&fields[i], value)) continue;
    j->field = fields[i].live;
    cJSON *frozen = fields[i].form == NESTED && is_empty(value) ? made(j, cJSON_CreateObject())
                                                               : convert(j, value, fields[i].form, true);
    if (!attach(j, to, fields[i].frozen, frozen)) return false;
  }
  j->field = NULL;
  return true;
}

static bool thaw_section(job *j, const cJSON *frozen, section section, cJSON *to)
{
  for (size_t i = 0; i < N_FIELDS; i++) {
    const cJSON *value = member(frozen, fields[i].frozen);
    if (fields[i].section != section || !value) continue;
    j->field = fields[i].frozen;
    if (!attach(j, to, fields[i].live, convert(j, value, fields[i].form, false))) return false;
  }
  j->field = NULL;
  return true;
}

static bool freeze_modules(job *j, const cJSON *modules, cJSON *plan, cJSON *injections)
{
  for (const cJSON *spec = modules ? modules->child : NULL; spec; spec = spec->next) {
    j->module = spec->string;
    cJSON *entry = cJSON_CreateObject(), *injection = cJSON_CreateObject();
    bool good = (entry && injection) || nomem(j);
    good = good && check_fields(j, spec) && freeze_section(j, spec, PARAM_PLAN, entry) &&
           (cJSON_AddStringToObject(injection, "match", spec->string) || nomem(j)) && freeze_section(j, spec, INJECTION, injection);
    if (!good) cJSON_Delete(entry);
    else good = attach(j, plan, spec->string, entry);
    if (good && cJSON_GetArraySize(injection) > 1) good = attach(j, injections, NULL, injection);
    else cJSON_Delete(injection);
    if (!good) return false;
  }
  j->module = NULL;
  return true;
}

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
static bool list_sharded(job *j, const cJSON *plan, cJSON *list)
{
  size_t n = 0, capacity = 1;
  for (const cJSON *module = plan->child; module; module = module->next) capacity += (size_t)cJSON_GetArraySize(member(module, "params"));
  char **names = calloc(capacity, sizeof *names);
  bool good = names || nomem(j);
  for (const cJSON *module = plan->child; module && good; module = module->next) {
    const cJSON *params = member(module, "params");
    for (const cJSON *param = params ? params->child : NULL; param && good; param = param->next) {
      if (!is_sharded(param)) continue;
      bool dot = *module->string && *param->string;
      if (asprintf(&names[n], "%s%s%s", module->string, dot ? "." : "", param->string) < 0) good = nomem(j);
      else n++;
    }
  }
  if (good && n) qsort(names, n, sizeof *names, by_text);
  for (size_t i = 0; i < n && good; i++)
    if (!i || strcmp(names[i], names[i - 1]) != 0) good = attach(j, list, NULL, made(j, cJSON_CreateString(names[i])));
  for (size_t i = 0; i < n; i++) free(names[i]);
  free(names);
  return good;
}

static bool freeze_classes(job *j, const cJSON *modules, const cJSON *classes, cJSON *to)
{
  if (!classes) return true;
  j->field = "classes";
  if (!cJSON_IsObject(classes)) return fail(j, "expected an object");
  for (const cJSON *module = modules ? modules->child : NULL; module; module = module->next) {
    const cJSON *class = member(classes, module->string);
    j->module = module->string;
    if (!cJSON_IsString(class)) return fail(j, "no class is given for this module");
    if (!attach(j, to, module->string, made(j, cJSON_Duplicate(class, true)))) return false;
  }
  j->module = j->field = NULL;
  return true;
}

static bool copy_pairs(job *j, const cJSON *pairs, cJSON *to)
{
  j->field = "tied_pairs";
  if (pairs && !cJSON_IsArray(pairs)) return fail(j, "expected a list");
  for (const cJSON *pair = pairs ? pairs->child : NULL; pair; pair = pair->next) {
    if (cJSON_GetArraySize(pair) != 2 || !cJSON_IsArray(pair) || !cJSON_IsString(pair->child) || !cJSON_IsString(pair->child->next))
      return fail(j, "a tied pair is two names");
    if (!attach(j, to, NULL, made(j, cJSON_Duplicate(pair, true)))) return false;
  }
  j->field = NULL;
  return true;
}

static bool copy_handlers(job *j, const cJSON *handlers, cJSON *to)
{
  j->field = "special_handlers";
  if (handlers && !cJSON_IsObject(handlers)) return fail(j, "expected an object");
  for (const cJSON *item = handlers ? handlers->child : NULL; item; item = item->next)
    if (!attach(j, to, item->string, made(j, cJSON_Duplicate(item, true)))) return false;
  j->field = NULL;
  return true;
}

static bool copy_axes(job *j, const cJSON *axes, cJSON *to)
{
  j->field = "mesh_dim_names";
  if (axes && !cJSON_IsArray(axes)) return fail(j, "expected a list");
  for (const cJSON *axis = axes ? axes->child : NULL; axis; axis = axis->next) {
    if (!cJSON_IsString(axis)) return fail(j, "the name of an axis is text");
    for (const cJSON *before = axes->child; before != axis; before = before->next)
      if (strcmp(before->valuestring, axis->valuestring) == 0) return fail(j, "an axis is named twice");
    if (!attach(j, to, NULL, made(j, cJSON_Duplicate(axis, true)))) return false;
  }
  j->field = NULL;
  return true;
}

/* Nothing but these keys. */
static bool check_keys(job *j, const cJSON *object, const char *const *keys)
{
  for (const cJSON *item = object->child; item; item = item->next) {
    size_t i = 0;
    while (keys[i] && strcmp(keys[i], item->string) != 0) i++;
    j->field = item->string;
    if (!keys[i]) return fail(j, "unknown field");
  }
  j->field = NULL;
  return true;
}

/* ---- both directions ------------------------------------------------------------------------------------------ */

static bool freeze(job *j, const cJSON *live, cJSON *to)
{
  static const char *const keys[] = {"modules", "classes", "tied_pairs", "special_handlers", "mesh_dim_names", NULL};
  const cJSON *modules = member(live, "modules");
  cJSON *plan = cJSON_AddObjectToObject(to, "param_plan"), *injections = cJSON_AddArrayToObject(to, "injections"),
        *pairs = cJSON_AddArrayToObject(to, "tied_pairs"), *handlers = cJSON_AddObjectToObject(to, "special_handlers"),
        *sharded = cJSON_AddArrayToObject(to, "frozen_sharded_params"), *classes = cJSON_AddObjectToObject(to, "boundary_classes"),
        *axes = cJSON_AddArrayToObject(to, "mesh_dim_names");
  if (!plan || !injections || !pairs || !handlers || !sharded || !classes || !axes) return nomem(j);
  if (cJSON_IsNull(live)) return true;
  if (!cJSON_IsObject(live)) return fail(j, "a live plan is an object or null");
  if (modules && !cJSON_IsObject(modules)) return fail(j, "modules is an object");
  return check_keys(j, live, keys) && freeze_modules(j, modules, plan, injections) && list_sharded(j, plan, sharded) &&
         copy_pairs(j, member(live, "tied_pairs"), pairs) && copy_handlers(j, member(live, "special_handlers"), handlers) &&
         freeze_classes(j, modules, member(live, "classes"), classes) && copy_axes(j, member(live, "mesh_dim_names"), axes);
}

static bool thaw_injections(job *j, const cJSON *injections, cJSON *modules)
{
  for (const cJSON *item = injections ? injections->child : NULL; item; item = item->next) {
    const cJSON *match = member(item, "match");
    if (!cJSON_IsString(match)) return fail(j, "an injection has no match");
    j->module = match->valuestring;
    cJSON *module = cJSON_GetObjectItemCaseSensitive(modules, match->valuestring);
    if (!module) return fail(j, "an injection for a module that is not there");
    if (!thaw_section(j, item, INJECTION, module)) return false;
  }
  j->module = NULL;
  return true;
}

static bool thaw(job *j, const cJSON *frozen, cJSON *to)
{
  static const char *const keys[] = {"param_plan", "injections", "tied_pairs", "special_handlers", "frozen_sharded_params",
                                     "boundary_classes", "mesh_dim_names", NULL};
  if (!cJSON_IsObject(frozen)) return fail(j, "a frozen plan is an object");
  const cJSON *plan = member(frozen, "param_plan"), *injections = member(frozen, "injections"), *classes = member(frozen, "boundary_classes");
  cJSON *modules = cJSON_AddObjectToObject(to, "modules");
  if (!modules) return nomem(j);
  if (plan && !cJSON_IsObject(plan)) return fail(j, "param_plan is an object");
  if (injections && !cJSON_IsArray(injections)) return fail(j, "injections is a list");
  if (!check_keys(j, frozen, keys)) return false;
  for (const cJSON *entry = plan ? plan->child : NULL; entry; entry = entry->next) {
    cJSON *module = made(j, cJSON_CreateObject());
    j->module = entry->string;
    if (!attach(j, modules, entry->string, module) || !thaw_section(j, entry, PARAM_PLAN, module)) return false;
  }
  j->module = NULL;
  if (!thaw_injections(j, injections, modules)) return false;
  if (!is_empty(classes) && !attach(j, to, "classes", made(j, cJSON_Duplicate(classes, true)))) return false;
  cJSON *pairs = cJSON_AddArrayToObject(to, "tied_pairs"), *handlers = cJSON_AddObjectToObject(to, "special_handlers"),
        *axes = cJSON_AddArrayToObject(to, "mesh_dim_names");
  if (!pairs || !handlers || !axes) return nomem(j);
  return copy_pairs(j, member(frozen, "tied_pairs"), pairs) && copy_handlers(j, member(frozen, "special_handlers"), handlers) &&
         copy_axes(j, member(frozen, "mesh_dim_names"), axes);
}

static td_status transform(const char *text, char **out, bool (*f)(job *, const cJSON *, cJSON *), td_error *err)
{
  job j = {.err = err};
  cJSON *from = cJSON_ParseWithOpts(text, NULL, true), *to = cJSON_CreateObject();
  char *printed = NULL;
  if (!from) fail(&j, "not JSON");
  else if (!to || (f(&j, from, to) && !(printed = cJSON_Print(to)))) nomem(&j);
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
