#include "format/sharding_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/buffer.h"
#include "base/fail.h"

#define PLAN "sharding_plan"
#define WORLD_SIZE "world_size"
#define RANK "rank"
#define MESH_SHAPE "mesh_shape"
#define MESH_COORDS "mesh_coords"
#define MESH_MAX 64 /* axes */

/* ---- life ----------------------------------------------------------------------------------------------------- */

void td_sharding_place_destroy(td_sharding_place *place)
{
  if (!place) return;
  free((char *)place->plan);
  free((char *)place->digest);
  free((uint64_t *)place->mesh_shape);
  free((uint64_t *)place->mesh_coords);
  free(place);
}

static bool copy_text(const char **to, const char *from)
{
  *to = from ? strdup(from) : NULL;
  return !from || *to;
}

static bool copy_numbers(const uint64_t **to, const uint64_t *from, size_t n)
{
  uint64_t *copy = from ? malloc((n + 1) * sizeof *copy) : NULL;
  if (copy) memcpy(copy, from, n * sizeof *copy);
  *to = copy;
  return !from || copy;
}

td_status td_sharding_place_copy(td_sharding_place **out, const td_sharding_place *from, td_error *err)
{
  *out = NULL;
  if (!from) return TD_OK;
  td_sharding_place *place = calloc(1, sizeof *place);
  if (!place) return td_fail_nomem(err);
  place->world_size = from->world_size;
  place->rank = from->rank;
  place->n_mesh = from->n_mesh;
  bool plan = copy_text(&place->plan, from->plan), digest = copy_text(&place->digest, from->digest),
       shape = copy_numbers(&place->mesh_shape, from->mesh_shape, from->n_mesh),
       coords = copy_numbers(&place->mesh_coords, from->mesh_coords, from->n_mesh);
  if (!plan || !digest || !shape || !coords) {
    td_sharding_place_destroy(place);
    return td_fail_nomem(err);
  }
  *out = place;
  return TD_OK;
}

/* ---- checks --------------------------------------------------------------------------------------------------- */

static td_status check_mesh(const td_sharding_place *p, td_error *err)
{
  uint64_t product = 1;
  if (p->n_mesh > MESH_MAX) return td_fail(err, TD_E_INPUT, "a mesh of %zu axes: more than %d", p->n_mesh, MESH_MAX);
  if (p->n_mesh && !p->mesh_shape && !p->mesh_coords) return td_fail(err, TD_E_ARG, "a mesh without shape and coordinates");
  for (size_t i = 0; i < p->n_mesh && p->mesh_shape; i++) {
    unsigned long long size = p->mesh_shape[i];
    if (!size || __builtin_mul_overflow(product, size, &product))
      return td_fail(err, TD_E_INPUT, "axis %zu of the mesh has size %llu", i, size);
    if (p->mesh_coords && p->mesh_coords[i] >= size)
      return td_fail(err, TD_E_INPUT, "coordinate %llu on axis %zu of the mesh, which has size %llu",
                     (unsigned long long)p->mesh_coords[i], i, size);
  }
  if (p->world_size && p->rank >= p->world_size)
    return td_fail(err, TD_E_INPUT, "rank %llu of %llu", (unsigned long long)p->rank, (unsigned long long)p->world_size);
  if (p->world_size && p->n_mesh && p->mesh_shape && p->world_size % product != 0)
    return td_fail(err, TD_E_INPUT, "a mesh of %llu processes in a world of %llu", (unsigned long long)product,
                   (unsigned long long)p->world_size);
  return TD_OK;
}

/* A plan that names no axes says nothing of the mesh. */
static td_status check_axes(const td_sharding_place *p, const char *frozen, td_error *err)
{
  cJSON *plan = cJSON_Parse(frozen);
  int n = cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(plan, "mesh_dim_names"));
  cJSON_Delete(plan);
  if (!n || !p->n_mesh || (size_t)n == p->n_mesh) return TD_OK;
  return td_fail(err, TD_E_INPUT, "the mesh has %zu axes, but the plan's mesh_dim_names has %d", p->n_mesh, n);
}

/* ---- to meta -------------------------------------------------------------------------------------------------- */

typedef td_status put_function(void *context, const char *key, const char *json, td_error *err);

static td_status put_numbers(const char *key, const uint64_t *numbers, size_t n, put_function *put, void *context, td_error *err)
{
  char text[MESH_MAX * 22 + 3] = "[";
  if (!numbers) return TD_OK;
  size_t length = 1;
  for (size_t i = 0; i < n; i++)
    length += (size_t)sprintf(text + length, "%s%llu", i ? ", " : "", (unsigned long long)numbers[i]);
  strcpy(text + length, "]");
  return put(context, key, text, err);
}

static td_status put_plan(const td_sharding_place *p, put_function *put, void *context, td_error *err)
{
  td_sharding *plan = NULL;
  char *frozen = NULL;
  if (!p->plan) return TD_OK;
  td_status status = td_sharding_read(&plan, p->plan, err);
  if (!status) status = td_sharding_frozen_text(plan, &frozen, err);
  if (!status) status = check_axes(p, frozen, err);
  if (!status) {
    cJSON_Minify(frozen);
    status = put(context, PLAN, frozen, err);
  }
  free(frozen);
  td_sharding_destroy(plan);
  return status;
}

td_status td_sharding_place_each(const td_sharding_place *p, put_function *put, void *context, td_error *err)
{
  char number[32];
  td_status status = check_mesh(p, err);
  if (!status) status = put_plan(p, put, context, err);
  if (!status && p->world_size) {
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->world_size);
    status = put(context, WORLD_SIZE, number, err);
    snprintf(number, sizeof number, "%llu", (unsigned long long)p->rank);
    if (!status) status = put(context, RANK, number, err);
  }
  if (!status) status = put_numbers(MESH_SHAPE, p->mesh_shape, p->n_mesh, put, context, err);
  return status ? status : put_numbers(MESH_COORDS, p->mesh_coords, p->n_mesh, put, context, err);
}

typedef struct target {
  const char *path;
  int64_t trace;
} target;

static td_status put_nothing(void *context, const char *key, const char *json, td_error *err)
{
  (void)context, (void)key, (void)json, (void)err;
  return TD_OK;
}

static td_status put_in_tape(void *context, const char *key, const char *json, td_error *err)
{
  const target *to = context;
  return td_tape_set_meta(to->path, to->trace, key, json, err);
}

/* All is checked before anything is written. */
td_status td_tape_set_sharding(const char *path, int64_t trace, const td_sharding_place *place, td_error *err)
{
  target to = {.path = path, .trace = trace};
  td_status status = td_sharding_place_each(place, put_nothing, NULL, err);
  return status ? status : td_sharding_place_each(place, put_in_tape, &to, err);
}

/* ---- from meta ------------------------------------------------------------------------------------------------ */

typedef struct source {
  td_tape *tape;
  int64_t trace;
  td_error *err;
  td_status status;
} source;

/* The member's text; NULL: there is none. */
static char *get(source *s, const char *key)
{
  char *json = NULL;
  td_status status = s->status ? s->status : td_tape_get_meta(s->tape, s->trace, key, &json, s->err);
  if (status && status != TD_E_NOT_FOUND) s->status = status;
  return json;
}

static void bad(source *s, const char *key, const char *json)
{
  s->status = td_fail(s->err, TD_E_INPUT, "%s: %s is %.60s", td_tape_path(s->tape), key, json);
}

/* A whole number, or one as text, as a caller's own meta has it. */
static bool read_number(const cJSON *item, uint64_t *number)
{
  char *end;
  const char *text = cJSON_GetStringValue(item);
  if (cJSON_IsNumber(item) && item->valuedouble >= 0 && item->valuedouble < 0x1p53 &&
      item->valuedouble == (double)(uint64_t)item->valuedouble) {
    *number = (uint64_t)item->valuedouble;
    return true;
  }
  if (!text || *text < '0' || *text > '9') return false;
  *number = strtoull(text, &end, 10);
  return !*end;
}

static bool get_number(source *s, const char *key, uint64_t *number)
{
  char *json = get(s, key);
  cJSON *item = json ? cJSON_Parse(json) : NULL;
  bool found = json && read_number(item, number);
  if (json && !found) bad(s, key, json);
  cJSON_Delete(item);
  free(json);
  return found;
}

static uint64_t *get_numbers(source *s, const char *key, size_t *n)
{
  char *json = get(s, key);
  cJSON *list = json ? cJSON_Parse(json) : NULL;
  int count = cJSON_GetArraySize(list);
  uint64_t *numbers = json ? calloc((size_t)count + 1, sizeof *numbers) : NULL;
  if (json && !numbers) s->status = td_fail_nomem(s->err);
  bool good = cJSON_IsArray(list) && count <= MESH_MAX && (!*n || *n == (size_t)count);
  const cJSON *item = good && list ? list->child : NULL;
  for (size_t i = 0; item && good && numbers; item = item->next) good = read_number(item, &numbers[i++]);
  if (json && !good) bad(s, key, json);
  if (json) *n = (size_t)count;
  cJSON_Delete(list);
  free(json);
  return numbers;
}

static void get_plan(source *s, td_sharding_place *place)
{
  td_sharding *plan = NULL;
  td_error why;
  char *json = get(s, PLAN), *frozen = NULL, *digest = json ? calloc(1, 33) : NULL;
  if (!json) return;
  td_status status = digest ? td_sharding_read(&plan, json, &why) : td_fail_nomem(&why);
  if (!status) status = td_sharding_frozen_text(plan, &frozen, &why);
  if (!status) status = td_sharding_digest(plan, digest, &why);
  place->plan = frozen;
  place->digest = digest;
  if (status) s->status = td_fail(s->err, status, "%s: %s: %s", td_tape_path(s->tape), PLAN, why.message);
  td_sharding_destroy(plan);
  free(json);
}

td_status td_tape_sharding(td_tape *tape, int64_t trace, td_sharding_place **out, td_error *err)
{
  source s = {.tape = tape, .trace = trace, .err = err};
  td_trace_info info;
  td_sharding_place *place = calloc(1, sizeof *place);
  if (!place) return td_fail_nomem(err);
  s.status = td_tape_info(tape, trace, &info, err);
  get_plan(&s, place);
  get_number(&s, WORLD_SIZE, &place->world_size);
  get_number(&s, RANK, &place->rank);
  place->mesh_shape = get_numbers(&s, MESH_SHAPE, &place->n_mesh);
  place->mesh_coords = get_numbers(&s, MESH_COORDS, &place->n_mesh);
  if (s.status)
    td_sharding_place_destroy(place);
  else
    *out = place;
  return s.status;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

/* The first difference of two plans, as a line. */
static int say_first(void *context, const td_sharding_difference *d)
{
  char *text = context;
  snprintf(text, 400, "%.120s%s%.80s%s%.40s is %.60s in the tape, %.60s here", d->module ? d->module : "", d->module ? ": " : "",
           d->name, d->axis ? " over " : "", d->axis ? d->axis : "", d->from ? d->from : "not there", d->to ? d->to : "not there");
  return 1;
}

static td_status check_plan(const char *path, const td_sharding_place *tape, const td_sharding_place *mine, td_error *err)
{
  char text[400] = "";
  td_sharding *theirs = NULL, *ours = NULL;
  if (!mine->plan && !mine->digest) return TD_OK;
  if (!tape->plan)
    return td_fail(err, TD_E_NOT_FOUND, "%s carries no sharding plan; tapedeck sharding attach gives it one", path);
  if (!mine->plan) {
    if (strcmp(tape->digest, mine->digest) == 0) return TD_OK;
    return td_fail(err, TD_E_DIVERGED, "%s: the sharding plan has digest %s in the tape, %.40s here", path, tape->digest,
                   mine->digest);
  }
  td_status status = td_sharding_read(&theirs, tape->plan, err);
  if (!status) status = td_sharding_read(&ours, mine->plan, err);
  if (!status) status = td_sharding_diff(theirs, ours, say_first, text, err);
  if (!status && *text) status = td_fail(err, TD_E_DIVERGED, "%s was recorded under another sharding plan: %s", path, text);
  td_sharding_destroy(theirs);
  td_sharding_destroy(ours);
  return status;
}

static td_status check_numbers(const char *path, const char *what, const uint64_t *tape, size_t n_tape, const uint64_t *mine,
                               size_t n_mine, td_error *err)
{
  if (!mine || !n_mine) return TD_OK;
  if (!tape)
    return td_fail(err, TD_E_NOT_FOUND, "%s does not say its %s; tapedeck sharding attach can add them", path, what);
  if (n_tape != n_mine)
    return td_fail(err, TD_E_DIVERGED, "%s: the %s have %zu axes in the tape, %zu here", path, what, n_tape, n_mine);
  for (size_t i = 0; i < n_mine; i++)
    if (tape[i] != mine[i])
      return td_fail(err, TD_E_DIVERGED, "%s: the %s are %llu on axis %zu in the tape, %llu here", path, what,
                     (unsigned long long)tape[i], i, (unsigned long long)mine[i]);
  return TD_OK;
}

static td_status check_world(const char *path, const td_sharding_place *tape, const td_sharding_place *mine, td_error *err)
{
  if (!mine->world_size || !tape->world_size || mine->world_size == tape->world_size) return TD_OK;
  return td_fail(err, TD_E_DIVERGED, "%s: the job has %llu processes in the tape, %llu here", path,
                 (unsigned long long)tape->world_size, (unsigned long long)mine->world_size);
}

td_status td_tape_check_sharding(const char *path, int64_t trace, const td_sharding_place *mine, td_error *err)
{
  td_tape *tape = NULL;
  td_sharding_place *theirs = NULL;
  td_status status = check_mesh(mine, err);
  if (!status) status = td_tape_open(&tape, path, err);
  if (!status) status = td_tape_sharding(tape, trace, &theirs, err);
  td_tape_close(tape);
  if (!status) status = check_plan(path, theirs, mine, err);
  if (!status) status = check_world(path, theirs, mine, err);
  if (!status)
    status = check_numbers(path, "sizes of the mesh", theirs->mesh_shape, theirs->n_mesh, mine->mesh_shape, mine->n_mesh, err);
  if (!status)
    status = check_numbers(path, "mesh coordinates", theirs->mesh_coords, theirs->n_mesh, mine->mesh_coords, mine->n_mesh, err);
  td_sharding_place_destroy(theirs);
  return status;
}
