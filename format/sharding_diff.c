/* Where two sharding plans differ, and what in one of them may be a mistake. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/sharding_plan.h"

typedef struct walk {
  td_sharding_job job;
  int (*differs)(void *, const td_sharding_difference *);
  void *context;
  bool ended;
} walk;

/* Goes on unless the caller has seen enough or memory ran out. */
static bool tell(walk *w, const td_sharding_difference *difference)
{
  w->ended = w->ended || w->differs(w->context, difference) != 0;
  return !w->ended;
}

static bool tell_json(walk *w, td_sharding_difference difference, const cJSON *from, const cJSON *to)
{
  char *a = from ? cJSON_PrintUnformatted(from) : NULL, *b = to ? cJSON_PrintUnformatted(to) : NULL;
  difference.from = a;
  difference.to = b;
  bool on = ((from && !a) || (to && !b)) ? td_sharding_nomem(&w->job) != NULL : tell(w, &difference);
  cJSON_free(a);
  cJSON_free(b);
  return on;
}

/* Goes through the members of both objects, those of `b` alone last; either may be NULL. */
static bool each_pair(walk *w, const cJSON *a, const cJSON *b, td_sharding_difference *at,
                      bool (*pair)(walk *, const char *, const cJSON *, const cJSON *, td_sharding_difference *))
{
  td_sharding_index in_a = {0}, in_b = {0};
  bool on = td_sharding_index_make(&w->job, &in_a, a) && td_sharding_index_make(&w->job, &in_b, b);
  for (const cJSON *item = a ? a->child : NULL; item && on; item = item->next)
    on = pair(w, item->string, item, td_sharding_index_find(&in_b, item->string), at);
  for (const cJSON *item = b ? b->child : NULL; item && on; item = item->next)
    if (!td_sharding_index_find(&in_a, item->string)) on = pair(w, item->string, NULL, item, at);
  td_sharding_index_finish(&in_a);
  td_sharding_index_finish(&in_b);
  return on;
}

/* ---- levels --------------------------------------------------------------------------------------------------- */

static bool pair_of_axes(walk *w, const char *axis, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  const char *from = cJSON_GetStringValue(a), *to = cJSON_GetStringValue(b);
  if (from && to && strcmp(from, to) == 0) return true;
  return tell(w, &(td_sharding_difference){.module = at->module, .name = at->name, .axis = axis, .from = from, .to = to});
}

static bool pair_of_params(walk *w, const char *param, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  at->name = param;
  if (!td_sharding_is_empty(a) || !td_sharding_is_empty(b)) return each_pair(w, a, b, at, pair_of_axes);
  return (a && b) || tell_json(w, *at, a, b);
}

static bool pair_of_fields(walk *w, const char *field, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  if (strcmp(field, "params") == 0 && (!td_sharding_is_empty(a) || !td_sharding_is_empty(b)))
    return each_pair(w, a, b, at, pair_of_params);
  at->name = field;
  return strcmp(field, "match") == 0 || td_sharding_same(&w->job, a, b) || tell_json(w, *at, a, b);
}

static bool pair_of_modules(walk *w, const char *module, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  *at = (td_sharding_difference){.module = module};
  if (!td_sharding_is_empty(a) || !td_sharding_is_empty(b)) return each_pair(w, a, b, at, pair_of_fields);
  at->name = "module";
  return (a && b) || tell_json(w, *at, a, b);
}

static bool pair_of_classes(walk *w, const char *module, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  *at = (td_sharding_difference){.module = module, .name = "boundary_class"};
  return td_sharding_same(&w->job, a, b) || tell_json(w, *at, a, b);
}

static bool pair_of_handlers(walk *w, const char *param, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  *at = (td_sharding_difference){.module = param, .name = "special_handler"};
  return td_sharding_same(&w->job, a, b) || tell_json(w, *at, a, b);
}

static bool pair_of_keys(walk *w, const char *key, const cJSON *a, const cJSON *b, td_sharding_difference *at)
{
  *at = (td_sharding_difference){.name = key};
  if (strcmp(key, "frozen_sharded_params") == 0) return true; /* follows from the parameters */
  if (strcmp(key, "param_plan") == 0 || strcmp(key, "injections") == 0) return each_pair(w, a, b, at, pair_of_modules);
  if (strcmp(key, "boundary_classes") == 0) return each_pair(w, a, b, at, pair_of_classes);
  if (strcmp(key, "special_handlers") == 0) return each_pair(w, a, b, at, pair_of_handlers);
  return td_sharding_same(&w->job, a, b) || tell_json(w, *at, a, b);
}

td_status td_sharding_diff(const td_sharding *a, const td_sharding *b, int (*differs)(void *, const td_sharding_difference *),
                           void *context, td_error *err)
{
  walk w = {.job = {.err = err}, .differs = differs, .context = context};
  td_sharding_difference at = {0};
  cJSON *from = td_sharding_frozen_tree(&w.job, a), *to = from ? td_sharding_frozen_tree(&w.job, b) : NULL;
  if (from && to && td_sharding_key_injections(&w.job, from) && td_sharding_key_injections(&w.job, to))
    each_pair(&w, from, to, &at, pair_of_keys);
  cJSON_Delete(from);
  cJSON_Delete(to);
  return w.job.status;
}

/* ---- remarks -------------------------------------------------------------------------------------------------- */

typedef struct remarks {
  td_sharding_job job;
  void (*remark)(void *, const char *);
  void *context;
  td_sharding_index axes; /* of the mesh */
  cJSON *unknown;         /* axis -> the parameters that name it, the first and how many */
  unsigned n_unknown;
} remarks;

#define UNKNOWN_MAX 100 /* axes that are remarked; a plan with more has another trouble */

static bool see_axis(remarks *r, const char *module, const char *param, const char *axis)
{
  char first[300];
  if (td_sharding_index_find(&r->axes, axis)) return true;
  cJSON *seen = cJSON_GetObjectItemCaseSensitive(r->unknown, axis);
  if (seen) {
    seen->child->next->valuedouble++;
    return true;
  }
  if (r->n_unknown++ >= UNKNOWN_MAX) return true;
  snprintf(first, sizeof first, "%.200s%s%.80s", module, *module && *param ? "." : "", param);
  seen = td_sharding_made(&r->job, cJSON_CreateArray());
  return td_sharding_attach(&r->job, r->unknown, axis, seen) &&
         td_sharding_attach(&r->job, seen, NULL, td_sharding_made(&r->job, cJSON_CreateString(first))) &&
         td_sharding_attach(&r->job, seen, NULL, td_sharding_made(&r->job, cJSON_CreateNumber(0)));
}

static bool see_axes(remarks *r, const cJSON *plan)
{
  const cJSON *module, *param, *axis;
  cJSON_ArrayForEach(module, plan)
    cJSON_ArrayForEach(param, td_sharding_member(module, "params"))
      cJSON_ArrayForEach(axis, param)
        if (!see_axis(r, module->string, param->string, axis->string)) return false;
  return true;
}

static void tell_axes(remarks *r)
{
  const cJSON *seen;
  char line[512], more[64] = "";
  cJSON_ArrayForEach(seen, r->unknown)
  {
    double others = seen->child->next->valuedouble;
    if (others > 0) snprintf(more, sizeof more, " and %.0f more", others);
    else *more = '\0';
    snprintf(line, sizeof line, "axis '%.100s' of %s%s is not in mesh_dim_names: it is taken to have size 1", seen->string,
             seen->child->valuestring, more);
    r->remark(r->context, line);
  }
}

/* The placements of a parameter by its whole name, the longest module first that has it. NULL: there are none. */
static const cJSON *placements_of(const td_sharding_index *modules, const char *name)
{
  char module[1024];
  if (strlen(name) >= sizeof module) return NULL;
  strcpy(module, name);
  for (char *dot = strrchr(module, '.'); dot; dot = strrchr(module, '.')) {
    *dot = '\0';
    const cJSON *entry = td_sharding_index_find(modules, module);
    const char *param = name + (dot - module) + 1;
    const cJSON *found = entry ? cJSON_GetObjectItemCaseSensitive(td_sharding_member(entry, "params"), param) : NULL;
    if (found) return found;
  }
  const cJSON *root = td_sharding_index_find(modules, "");
  return root ? cJSON_GetObjectItemCaseSensitive(td_sharding_member(root, "params"), name) : NULL;
}

static bool tell_ties(remarks *r, const cJSON *frozen)
{
  td_sharding_index modules = {0};
  char line[512];
  const cJSON *pair;
  if (!td_sharding_index_make(&r->job, &modules, td_sharding_member(frozen, "param_plan"))) return false;
  cJSON_ArrayForEach(pair, td_sharding_member(frozen, "tied_pairs"))
  {
    const char *first = pair->child->valuestring, *second = pair->child->next->valuestring;
    const cJSON *a = placements_of(&modules, first), *b = placements_of(&modules, second);
    if (!a || !b || td_sharding_same(&r->job, a, b)) continue;
    snprintf(line, sizeof line, "%.200s and %.200s are tied, but placed differently", first, second);
    r->remark(r->context, line);
  }
  td_sharding_index_finish(&modules);
  return true;
}

td_status td_sharding_remarks(const td_sharding *plan, void (*remark)(void *, const char *), void *context, td_error *err)
{
  remarks r = {.job = {.err = err}, .remark = remark, .context = context};
  cJSON *frozen = td_sharding_frozen_tree(&r.job, plan);
  r.unknown = td_sharding_made(&r.job, cJSON_CreateObject());
  if (frozen && r.unknown && td_sharding_index_make(&r.job, &r.axes, td_sharding_member(frozen, "mesh_dim_names")) &&
      see_axes(&r, td_sharding_member(frozen, "param_plan"))) {
    tell_axes(&r);
    tell_ties(&r, frozen);
  }
  td_sharding_index_finish(&r.axes);
  cJSON_Delete(r.unknown);
  cJSON_Delete(frozen);
  return r.job.status;
}
