/* The fields of a module in a sharding plan. One table says which is frozen, when and how; both directions walk it. */
#include "format/sharding_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static const td_sharding_field fields[] = {
    {"params", "params", TD_PARAM_PLAN, TD_NOT_NULL, TD_PARAMS},
    {"in_src", "in_src", TD_PARAM_PLAN, TD_NOT_NULL, TD_NESTED},
    {"in_dst", "in_dst", TD_PARAM_PLAN, TD_NOT_NULL, TD_NESTED},
    {"out_src", "out_src", TD_PARAM_PLAN, TD_NOT_NULL, TD_NESTED},
    {"out_dst", "out_dst", TD_PARAM_PLAN, TD_NOT_NULL, TD_NESTED},
    {"out_names", "out_names", TD_PARAM_PLAN, TD_NOT_EMPTY, TD_LIST},
    {"tp_divide_attrs", "tp_divide_attrs", TD_PARAM_PLAN, TD_NOT_NULL, TD_LIST},
    {"is_boundary", "is_boundary", TD_PARAM_PLAN, TD_NOT_NULL, TD_AS_IS},
    {"region_dispatch", "region_dispatch", TD_PARAM_PLAN, TD_NOT_NULL, TD_AS_IS},
    {"_deferred_bias_params", "deferred_bias_params", TD_PARAM_PLAN, TD_NOT_EMPTY, TD_LIST},
    {"inner_wrapper", "inner_wrapper", TD_INJECTION, TD_NOT_NULL, TD_WRAPPED},
    {"inner_target", "inner_target", TD_INJECTION, TD_NOT_NULL, TD_AS_IS},
    {"inner_out_src", "inner_out_src", TD_INJECTION, TD_NOT_NULL, TD_WRAPPED},
    {"local_compute_fn", "local_compute_fn", TD_INJECTION, TD_NOT_NULL, TD_WRAPPED},
    {"_ep_stack", "ep_stack", TD_INJECTION, TD_NOT_EMPTY, TD_OBJECT},
    {"_ep_size", "ep_size", TD_INJECTION, TD_NOT_ZERO, TD_NUMBER},
};

const td_sharding_table td_sharding_fields = {fields, sizeof fields / sizeof *fields};

/* ---- placements ----------------------------------------------------------------------------------------------- */

static bool whole_number(const cJSON *item, int32_t *number)
{
  if (!cJSON_IsNumber(item) || item->valuedouble != floor(item->valuedouble) || fabs(item->valuedouble) > INT32_MAX) return false;
  *number = (int32_t)item->valuedouble;
  return true;
}

static bool check_placement_fields(td_sharding_job *j, const cJSON *live)
{
  static const char *const names[] = {"type", "dim", "uneven_shard", "reduce_op", "split_factor"};
  char what[128];
  for (const cJSON *item = live->child; item; item = item->next) {
    size_t i = 0;
    while (i < 5 && strcmp(names[i], item->string) != 0) i++;
    snprintf(what, sizeof what, "unknown field '%.80s' of a placement", item->string);
    if (i == 5) return td_sharding_fail(j, what);
  }
  return true;
}

static bool read_placement(td_sharding_job *j, const cJSON *live, td_placement *p)
{
  const cJSON *type = cJSON_GetObjectItemCaseSensitive(live, "type"), *uneven = td_sharding_member(live, "uneven_shard"),
              *op = td_sharding_member(live, "reduce_op");
  char what[128];
  *p = (td_placement){.uneven = cJSON_IsTrue(uneven)};
  if (!cJSON_IsString(type)) return td_sharding_fail(j, "a placement's type is text");
  if (!check_placement_fields(j, live)) return false;
  if (uneven && !cJSON_IsBool(uneven)) return td_sharding_fail(j, "uneven_shard is true or false");
  if (strcmp(type->valuestring, "Replicate") == 0) {
    p->kind = TD_REPLICATE;
  } else if (strcmp(type->valuestring, "Partial") == 0) {
    p->kind = TD_PARTIAL;
    if (!cJSON_IsString(op)) return td_sharding_fail(j, "a partial placement needs a reduce_op");
    p->reduce_op = op->valuestring;
    p->reduce_op_length = strlen(op->valuestring);
  } else if (strcmp(type->valuestring, "Shard") == 0 || strcmp(type->valuestring, "StridedShard") == 0) {
    p->kind = strcmp(type->valuestring, "Shard") == 0 ? TD_SHARD : TD_STRIDED_SHARD;
    if (!whole_number(td_sharding_member(live, "dim"), &p->dim)) return td_sharding_fail(j, "a shard needs a dim, a whole number");
    if (p->kind == TD_STRIDED_SHARD && !whole_number(td_sharding_member(live, "split_factor"), &p->split_factor))
      return td_sharding_fail(j, "a strided shard needs a split_factor, a whole number");
  } else {
    snprintf(what, sizeof what, "unknown placement type '%.80s'", type->valuestring);
    return td_sharding_fail(j, what);
  }
  return true;
}

static cJSON *freeze_placement(td_sharding_job *j, const cJSON *live)
{
  td_placement p;
  td_error why;
  char *text;
  if (!read_placement(j, live, &p)) return NULL;
  td_status status = td_placement_format(&p, &text, &why);
  if (status) return status == TD_E_NOMEM ? td_sharding_nomem(j) : td_sharding_fail(j, why.message);
  cJSON *item = cJSON_CreateString(text);
  free(text);
  return td_sharding_made(j, item);
}

cJSON *td_sharding_thaw_placement(td_sharding_job *j, const char *text)
{
  td_placement p;
  td_error why;
  if (td_placement_parse(text, strlen(text), &p, &why)) return td_sharding_fail(j, why.message);
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
  return td_sharding_nomem(j);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static cJSON *convert(td_sharding_job *j, const cJSON *value, td_sharding_value kind, bool freezing);

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

static cJSON *convert_children(td_sharding_job *j, const cJSON *value, td_sharding_value kind, bool freezing)
{
  cJSON *result = td_sharding_made(j, cJSON_IsArray(value) ? cJSON_CreateArray() : cJSON_CreateObject());
  for (const cJSON *child = value->child; child && result; child = child->next) {
    if (td_sharding_attach(j, result, child->string, convert(j, child, kind, freezing))) continue;
    cJSON_Delete(result);
    result = NULL;
  }
  return result;
}

/* In an injection other text is data: the name of a callable, or what a target says of itself. */
static cJSON *freeze_value(td_sharding_job *j, const cJSON *value, td_sharding_value kind)
{
  bool object = cJSON_IsObject(value), wrapped = kind == TD_WRAPPED;
  const cJSON *target = object && wrapped ? td_sharding_member(value, "to_dict") : NULL;
  if (target) return td_sharding_made(j, cJSON_Duplicate(target, true));
  if (object && cJSON_GetObjectItemCaseSensitive(value, "type")) return freeze_placement(j, value);
  if (object && wrapped && is_callable(value)) {
    if (!cJSON_IsString(value->child)) return td_sharding_fail(j, "a callable's name is text");
    return td_sharding_made(j, cJSON_CreateString(value->child->valuestring));
  }
  if (cJSON_IsString(value) && (!wrapped || is_placement(value->valuestring)))
    return td_sharding_fail(j, "text where a placement may stand: it would thaw to something else");
  if (cJSON_IsArray(value) || object) return convert_children(j, value, kind, true);
  return td_sharding_made(j, cJSON_Duplicate(value, true));
}

/* Data that looks like a placement or a callable of the live form was a target's. */
static cJSON *thaw_target(td_sharding_job *j, const cJSON *value)
{
  cJSON *target = td_sharding_made(j, cJSON_CreateObject());
  if (!target || td_sharding_attach(j, target, "to_dict", td_sharding_made(j, cJSON_Duplicate(value, true)))) return target;
  cJSON_Delete(target);
  return NULL;
}

static cJSON *thaw_value(td_sharding_job *j, const cJSON *value, td_sharding_value kind)
{
  bool object = cJSON_IsObject(value);
  if (cJSON_IsString(value) && (kind != TD_WRAPPED || is_placement(value->valuestring)))
    return td_sharding_thaw_placement(j, value->valuestring);
  if (object && kind == TD_WRAPPED &&
      (cJSON_GetObjectItemCaseSensitive(value, "type") || cJSON_GetObjectItemCaseSensitive(value, "to_dict") || is_callable(value)))
    return thaw_target(j, value);
  if (cJSON_IsArray(value) || object) return convert_children(j, value, kind, false);
  return td_sharding_made(j, cJSON_Duplicate(value, true));
}

static cJSON *convert_axes(td_sharding_job *j, const cJSON *axes, bool freezing)
{
  if (!cJSON_IsObject(axes)) return td_sharding_fail(j, "expected an object of axes for each parameter");
  cJSON *result = td_sharding_made(j, cJSON_CreateObject());
  for (const cJSON *axis = axes->child; axis && result; axis = axis->next) {
    cJSON *placement;
    if (freezing ? !cJSON_IsObject(axis) || !cJSON_GetObjectItemCaseSensitive(axis, "type") : !cJSON_IsString(axis))
      placement = td_sharding_fail(j, "expected a placement for each axis");
    else placement = freezing ? freeze_placement(j, axis) : td_sharding_thaw_placement(j, axis->valuestring);
    if (td_sharding_attach(j, result, axis->string, placement)) continue;
    cJSON_Delete(result);
    result = NULL;
  }
  return result;
}

/* {name: {axis: placement}}, to the letter. */
static cJSON *convert_params(td_sharding_job *j, const cJSON *params, bool freezing)
{
  if (!cJSON_IsObject(params)) return td_sharding_fail(j, "expected an object of parameters");
  cJSON *result = td_sharding_made(j, cJSON_CreateObject());
  for (const cJSON *param = params->child; param && result; param = param->next) {
    if (td_sharding_attach(j, result, param->string, convert_axes(j, param, freezing))) continue;
    cJSON_Delete(result);
    result = NULL;
  }
  return result;
}

static cJSON *copy(td_sharding_job *j, const cJSON *value, bool fits, const char *expected)
{
  return fits ? td_sharding_made(j, cJSON_Duplicate(value, true)) : td_sharding_fail(j, expected);
}

static cJSON *convert(td_sharding_job *j, const cJSON *value, td_sharding_value kind, bool freezing)
{
  switch (kind) {
  case TD_PARAMS: return convert_params(j, value, freezing);
  case TD_LIST: return copy(j, value, cJSON_IsArray(value), "expected a list");
  case TD_OBJECT: return copy(j, value, cJSON_IsObject(value), "expected an object");
  case TD_NUMBER: return copy(j, value, cJSON_IsNumber(value), "expected a number");
  case TD_AS_IS: return copy(j, value, true, NULL);
  default: return freezing ? freeze_value(j, value, kind) : thaw_value(j, value, kind);
  }
}

/* ---- sections ------------------------------------------------------------------------------------------------- */

bool td_sharding_check_spec(td_sharding_job *j, const td_sharding_table *table, const cJSON *spec)
{
  if (!cJSON_IsObject(spec)) return td_sharding_fail(j, "expected an object");
  for (const cJSON *item = spec->child; item; item = item->next) {
    size_t i = 0;
    while (i < table->n && strcmp(table->fields[i].live, item->string) != 0) i++;
    j->field = item->string;
    if (i == table->n) return td_sharding_fail(j, "unknown field");
  }
  j->field = NULL;
  return true;
}

bool td_sharding_check_field(td_sharding_job *j, const td_sharding_table *table, const char *field, const cJSON *value)
{
  size_t i = 0;
  while (i < table->n && strcmp(table->fields[i].live, field) != 0) i++;
  if (i == table->n) return td_sharding_fail(j, "unknown field");
  cJSON *frozen = convert(j, value, table->fields[i].value, true);
  cJSON_Delete(frozen);
  return frozen;
}

bool td_sharding_check_entry(td_sharding_job *j, const td_sharding_table *table, td_sharding_section section, const cJSON *entry)
{
  if (!cJSON_IsObject(entry)) return td_sharding_fail(j, "expected an object");
  for (const cJSON *item = entry->child; item; item = item->next) {
    bool known = section == TD_INJECTION && strcmp(item->string, "match") == 0;
    for (size_t i = 0; i < table->n && !known; i++)
      known = table->fields[i].section == section && strcmp(table->fields[i].frozen, item->string) == 0;
    j->field = item->string;
    if (!known) return td_sharding_fail(j, "unknown field");
  }
  j->field = NULL;
  return true;
}

static bool is_written(const td_sharding_field *f, const cJSON *value)
{
  if (!value) return false;
  if (f->when == TD_NOT_EMPTY) return !td_sharding_is_empty(value);
  return f->when != TD_NOT_ZERO || !cJSON_IsNumber(value) || value->valuedouble != 0;
}

bool td_sharding_freeze_section(td_sharding_job *j, const td_sharding_table *table, td_sharding_section section, const cJSON *spec,
                                cJSON *to)
{
  for (const td_sharding_field *f = table->fields; f < table->fields + table->n; f++) {
    const cJSON *value = td_sharding_member(spec, f->live);
    if (f->section != section || !is_written(f, value)) continue;
    j->field = f->live;
    bool empty = f->value == TD_NESTED && td_sharding_is_empty(value);
    cJSON *frozen = empty ? td_sharding_made(j, cJSON_CreateObject()) : convert(j, value, f->value, true);
    if (!td_sharding_attach(j, to, f->frozen, frozen)) return false;
  }
  j->field = NULL;
  return true;
}

bool td_sharding_thaw_section(td_sharding_job *j, const td_sharding_table *table, td_sharding_section section, const cJSON *entry,
                              cJSON *to)
{
  for (const td_sharding_field *f = table->fields; f < table->fields + table->n; f++) {
    const cJSON *value = td_sharding_member(entry, f->frozen);
    if (f->section != section || !value) continue;
    j->field = f->frozen;
    if (!td_sharding_attach(j, to, f->live, convert(j, value, f->value, false))) return false;
  }
  j->field = NULL;
  return true;
}
