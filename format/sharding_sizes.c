/* Sizes that differ between two traces of a job because a tensor is placed differently.
 *
 * Of each tensor that a plan places, the plan and the mesh say how many times its shard's bytes the whole tensor has: exactly, or
 * where a shard is uneven within bounds. Two sizes agree if one whole tensor can have both shards. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/map.h"
#include "format/sharding_plan.h"

/* How a tensor lies in one of the traces. */
typedef struct share {
  uint64_t least, most; /* the whole has at least and at most so many times the bytes; UINT64_MAX: no bound; least 0: not known */
  char text[160];
} share;

typedef struct tensor {
  char *name;  /* of a parameter "module.param"; of what crosses a boundary "module: field" and where in it */
  bool has[2]; /* the trace's plan places it; else it is whole there */
  share in[2];
} tensor;

struct td_sharding_sizes {
  tensor *tensors; /* sorted by name once all are known */
  size_t n, capacity;
  td_map by_sid[2]; /* SID of a parameter -> index */
};

#define AXES_MAX 64

/* ---- shares --------------------------------------------------------------------------------------------------- */

typedef struct side {
  td_sharding_job job;
  td_sharding_sizes *sizes;
  unsigned number;
  td_sharding_place *place;
  cJSON *plan;
} side;

static uint64_t times(uint64_t a, uint64_t b)
{
  uint64_t product;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* The axis of that name, or -1: it has size 1. No tape's mesh has more axes than are looked at. */
static int axis_number(const side *s, const char *name)
{
  const cJSON *axes = cJSON_GetObjectItemCaseSensitive(s->plan, "mesh_dim_names"), *axis = axes ? axes->child : NULL;
  for (int number = 0; axis && number < AXES_MAX; number++, axis = axis->next)
    if (strcmp(axis->valuestring, name) == 0) return number;
  return -1;
}

/* Of an uneven shard, only this is sure: shards before it are no smaller, and the first is the largest. */
static void add_axis(const side *s, share *share, int number, const char *name, const char *text)
{
  td_placement p;
  size_t length = strlen(share->text);
  if (td_placement_parse(text, strlen(text), &p, NULL) || (p.kind != TD_SHARD && p.kind != TD_STRIDED_SHARD) || number < 0) return;
  bool known = s->place->mesh_shape && (size_t)number < s->place->n_mesh;
  uint64_t n = known ? s->place->mesh_shape[number] : 0;
  bool placed = s->place->mesh_coords && (size_t)number < s->place->n_mesh;
  uint64_t coordinate = placed ? s->place->mesh_coords[number] : 0;
  snprintf(share->text + length, sizeof share->text - length, known ? "%s%.40s over %.40s=%llu" : "%s%.40s over %.40s",
           length ? ", " : "", text, name, (unsigned long long)n);
  if (!known) share->least = 0;
  else share->least = times(share->least, p.uneven ? (placed ? coordinate + 1 : 1) : n);
  share->most = p.uneven && !(placed && coordinate == 0) ? UINT64_MAX : times(share->most, n);
}

static int by_name(const void *a, const void *b)
{
  return strcmp(((const tensor *)a)->name, ((const tensor *)b)->name);
}

static const share whole = {.least = 1, .most = 1, .text = "whole"};

/* Takes over `name`. The same name of the other trace is joined to it later. */
static bool add_tensor(side *s, char *name, const share *share)
{
  td_sharding_sizes *sizes = s->sizes;
  if (!name || !TD_GROW(sizes->tensors, sizes->capacity, sizes->n + 1)) {
    free(name);
    return td_sharding_nomem(&s->job);
  }
  tensor *t = &sizes->tensors[sizes->n++];
  *t = (tensor){.name = name, .in = {whole, whole}};
  t->has[s->number] = true;
  if (*share->text) t->in[s->number] = *share;
  return true;
}

/* ---- what a plan places --------------------------------------------------------------------------------------- */

static bool add_params(side *s, const cJSON *module)
{
  const cJSON *param, *axis;
  cJSON_ArrayForEach(param, td_sharding_member(module, "params"))
  {
    share share = {.least = 1, .most = 1};
    char *name = NULL;
    cJSON_ArrayForEach(axis, param) add_axis(s, &share, axis_number(s, axis->string), axis->string, axis->valuestring);
    if (asprintf(&name, "%s%s%s", module->string, *module->string && *param->string ? "." : "", param->string) < 0) name = NULL;
    if (!add_tensor(s, name, &share)) return false;
  }
  return true;
}

/* Placements that stand together are a tensor's: by the names of axes, or in the order of the mesh's. */
static bool add_boundary(side *s, const char *path, const cJSON *value)
{
  share share = {.least = 1, .most = 1};
  int number = 0;
  bool placements = false;
  for (const cJSON *item = value->child; item; item = item->next, number++) {
    char *deeper = NULL;
    if (cJSON_IsString(item)) {
      const cJSON *axes = cJSON_GetObjectItemCaseSensitive(s->plan, "mesh_dim_names");
      const cJSON *axis = number < AXES_MAX ? cJSON_GetArrayItem(axes, number) : NULL;
      if (item->string) add_axis(s, &share, axis_number(s, item->string), item->string, item->valuestring);
      else if (axis) add_axis(s, &share, number, axis->valuestring, item->valuestring);
      placements = true;
    } else if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
      char index[16];
      snprintf(index, sizeof index, "%d", number);
      if (asprintf(&deeper, "%s.%s", path, item->string ? item->string : index) < 0) return td_sharding_nomem(&s->job);
      bool added = add_boundary(s, deeper, item);
      free(deeper);
      if (!added) return false;
    }
  }
  return !placements || add_tensor(s, strdup(path), &share);
}

static bool add_module(side *s, const cJSON *module)
{
  static const char *const fields[] = {"in_src", "in_dst", "out_src", "out_dst"};
  bool good = add_params(s, module);
  for (size_t i = 0; i < sizeof fields / sizeof *fields && good; i++) {
    const cJSON *value = td_sharding_member(module, fields[i]);
    char *path = NULL;
    if (!cJSON_IsObject(value) && !cJSON_IsArray(value)) continue;
    if (asprintf(&path, "%s: %s", module->string, fields[i]) < 0) return td_sharding_nomem(&s->job);
    good = add_boundary(s, path, value);
    free(path);
  }
  return good;
}

static td_status add_side(td_sharding_sizes *sizes, unsigned number, td_sharding_place *place, td_error *err)
{
  side s = {.job = {.err = err}, .sizes = sizes, .number = number, .place = place};
  if (!place->plan) return TD_OK;
  s.plan = td_sharding_parse(&s.job, place->plan);
  const cJSON *modules = cJSON_GetObjectItemCaseSensitive(s.plan, "param_plan");
  for (const cJSON *module = modules ? modules->child : NULL; module; module = module->next)
    if (!add_module(&s, module)) break;
  cJSON_Delete(s.plan);
  return s.job.status;
}

/* ---- both traces ---------------------------------------------------------------------------------------------- */

/* Tensors of the same name, one of each trace, become one. */
static void join(td_sharding_sizes *sizes)
{
  if (sizes->n) qsort(sizes->tensors, sizes->n, sizeof *sizes->tensors, by_name);
  size_t n = 0;
  for (size_t i = 0; i < sizes->n; i++) {
    tensor *before = n ? &sizes->tensors[n - 1] : NULL, *t = &sizes->tensors[i];
    if (!before || strcmp(before->name, t->name) != 0) {
      sizes->tensors[n++] = *t;
      continue;
    }
    for (int k = 0; k < 2; k++) {
      if (before->has[k] || !t->has[k]) continue;
      before->has[k] = true;
      before->in[k] = t->in[k];
    }
    free(t->name);
  }
  sizes->n = n;
}

/* The runtime's member "parameters": {name: SID}. */
static td_status read_names(td_sharding_sizes *sizes, unsigned number, td_tape *tape, int64_t trace, td_error *err)
{
  td_sharding_job j = {.err = err, .field = "parameters"};
  char *json = NULL;
  td_status status = td_tape_get_meta(tape, trace, "parameters", &json, err);
  if (status) return status == TD_E_NOT_FOUND ? TD_OK : status;
  cJSON *names = td_sharding_parse(&j, json);
  for (const cJSON *item = cJSON_IsObject(names) ? names->child : NULL; item && !j.status; item = item->next) {
    tensor key = {.name = item->string}, *found = NULL;
    if (sizes->n) found = bsearch(&key, sizes->tensors, sizes->n, sizeof key, by_name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0 && item->valuedouble < 0x1p53))
      td_sharding_fail(&j, "a SID is a whole number");
    else if (found && !td_map_put(&sizes->by_sid[number], (uint64_t)item->valuedouble, (uint32_t)(found - sizes->tensors)))
      td_sharding_nomem(&j);
  }
  cJSON_Delete(names);
  free(json);
  return j.status;
}

td_status td_sharding_sizes_create(td_sharding_sizes **out, td_tape *a, int64_t trace_a, td_tape *b, int64_t trace_b, td_error *err)
{
  td_sharding_place *first = NULL, *second = NULL;
  td_sharding_sizes *sizes = calloc(1, sizeof *sizes);
  if (!sizes) return td_fail_nomem(err);
  td_status status = td_tape_sharding(a, trace_a, &first, err);
  if (!status) status = td_tape_sharding(b, trace_b, &second, err);
  if (!status && !first->plan && !second->plan) status = td_fail(err, TD_E_NOT_FOUND, "neither trace carries a sharding plan");
  if (!status) status = add_side(sizes, 0, first, err);
  if (!status) status = add_side(sizes, 1, second, err);
  join(sizes);
  if (!status) status = read_names(sizes, 0, a, trace_a, err);
  if (!status) status = read_names(sizes, 1, b, trace_b, err);
  td_sharding_place_destroy(first);
  td_sharding_place_destroy(second);
  if (status)
    td_sharding_sizes_destroy(sizes);
  else
    *out = sizes;
  return status;
}

void td_sharding_sizes_destroy(td_sharding_sizes *sizes)
{
  if (!sizes) return;
  for (size_t i = 0; i < sizes->n; i++) free(sizes->tensors[i].name);
  free(sizes->tensors);
  for (int i = 0; i < 2; i++) td_map_finish(&sizes->by_sid[i]);
  free(sizes);
}

/* ---- explaining ----------------------------------------------------------------------------------------------- */

__extension__ typedef unsigned __int128 wide;

/* One whole tensor can have both shards. */
static bool agree(const tensor *t, uint64_t bytes_a, uint64_t bytes_b)
{
  const share *a = &t->in[0], *b = &t->in[1];
  if (!a->least || !b->least) return false;
  wide least_a = (wide)bytes_a * a->least, most_a = a->most == UINT64_MAX ? (wide)-1 : (wide)bytes_a * a->most;
  wide least_b = (wide)bytes_b * b->least, most_b = b->most == UINT64_MAX ? (wide)-1 : (wide)bytes_b * b->most;
  return (least_a > least_b ? least_a : least_b) <= (most_a < most_b ? most_a : most_b);
}

static bool is_exact(const tensor *t)
{
  return t->in[0].least == t->in[0].most && t->in[1].least == t->in[1].most;
}

static td_size_reason say(const tensor *t, td_size_reason reason, char *text, size_t size)
{
  if (text && size) snprintf(text, size, "%s: %s here, %s there", t->name, t->in[0].text, t->in[1].text);
  return reason;
}

td_size_reason td_sharding_sizes_explain(const td_sharding_sizes *sizes, uint64_t sid_a, uint64_t bytes_a, uint64_t sid_b,
                                         uint64_t bytes_b, char *text, size_t size)
{
  uint32_t a = td_map_get(&sizes->by_sid[0], sid_a), b = td_map_get(&sizes->by_sid[1], sid_b);
  if (text && size) *text = '\0';
  if (a != TD_MAP_NONE || b != TD_MAP_NONE) {
    uint32_t named = a != TD_MAP_NONE ? a : b;
    bool both = a == TD_MAP_NONE || b == TD_MAP_NONE || a == b;
    return both && agree(&sizes->tensors[named], bytes_a, bytes_b) ? say(&sizes->tensors[named], TD_SIZE_BY_NAME, text, size)
                                                                   : TD_SIZE_UNEXPLAINED;
  }
  for (size_t i = 0; i < sizes->n; i++)
    if (is_exact(&sizes->tensors[i]) && agree(&sizes->tensors[i], bytes_a, bytes_b))
      return say(&sizes->tensors[i], TD_SIZE_BY_RATIO, text, size);
  return TD_SIZE_UNEXPLAINED;
}
