#include "format/sharding_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

void *td_sharding_fail(td_sharding_job *j, const char *what)
{
  if (j->status) return NULL;
  j->status = td_fail(j->err, TD_E_INPUT, "%s%s%s%s%s", j->module ? j->module : "", j->module ? ": " : "",
                      j->field ? j->field : "", j->field ? ": " : "", what);
  return NULL;
}

void *td_sharding_nomem(td_sharding_job *j)
{
  if (!j->status) j->status = td_fail_nomem(j->err);
  return NULL;
}

cJSON *td_sharding_made(td_sharding_job *j, cJSON *item)
{
  return item ? item : td_sharding_nomem(j);
}

bool td_sharding_attach(td_sharding_job *j, cJSON *to, const char *key, cJSON *item)
{
  if (!item) return false;
  if (key ? cJSON_AddItemToObject(to, key, item) : cJSON_AddItemToArray(to, item)) return true;
  cJSON_Delete(item);
  td_sharding_nomem(j);
  return false;
}

const cJSON *td_sharding_member(const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  return item && !cJSON_IsNull(item) ? item : NULL;
}

bool td_sharding_is_empty(const cJSON *item)
{
  return !item || ((cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child);
}

/* ---- indices -------------------------------------------------------------------------------------------------- */

static const char *key_of(const cJSON *item)
{
  return item->string ? item->string : item->valuestring;
}

static int by_key(const void *a, const void *b)
{
  return strcmp(key_of(*(cJSON *const *)a), key_of(*(cJSON *const *)b));
}

bool td_sharding_index_make(td_sharding_job *j, td_sharding_index *index, const cJSON *of)
{
  size_t n = 0;
  for (const cJSON *item = of ? of->child : NULL; item; item = item->next) n += key_of(item) != NULL;
  index->at = calloc(n + 1, sizeof *index->at);
  if (!index->at) return td_sharding_nomem(j);
  for (const cJSON *item = of ? of->child : NULL; item; item = item->next)
    if (key_of(item)) index->at[index->n++] = item;
  qsort(index->at, index->n, sizeof *index->at, by_key);
  return true;
}

void td_sharding_index_finish(td_sharding_index *index)
{
  free(index->at);
  *index = (td_sharding_index){0};
}

static int compare_key(const void *key, const void *item)
{
  return strcmp(key, key_of(*(cJSON *const *)item));
}

const cJSON *td_sharding_index_find(const td_sharding_index *index, const char *key)
{
  const cJSON *const *found = index->n ? bsearch(key, index->at, index->n, sizeof *index->at, compare_key) : NULL;
  return found ? *found : NULL;
}

const char *td_sharding_index_twice(const td_sharding_index *index)
{
  for (size_t i = 1; i < index->n; i++)
    if (by_key(&index->at[i - 1], &index->at[i]) == 0) return key_of(index->at[i]);
  return NULL;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static bool same_lists(td_sharding_job *j, const cJSON *a, const cJSON *b)
{
  const cJSON *x = a->child, *y = b->child;
  while (x && y && td_sharding_same(j, x, y)) {
    x = x->next;
    y = y->next;
  }
  return !x && !y;
}

static bool same_objects(td_sharding_job *j, const cJSON *a, const cJSON *b)
{
  td_sharding_index x = {0}, y = {0};
  size_t i = 0;
  bool made = td_sharding_index_make(j, &x, a) && td_sharding_index_make(j, &y, b);
  if (made && x.n == y.n)
    while (i < x.n && by_key(&x.at[i], &y.at[i]) == 0 && td_sharding_same(j, x.at[i], y.at[i])) i++;
  bool same = made && x.n == y.n && i == x.n;
  td_sharding_index_finish(&x);
  td_sharding_index_finish(&y);
  return same;
}

bool td_sharding_same(td_sharding_job *j, const cJSON *a, const cJSON *b)
{
  if (!a || !b || (a->type & 0xff) != (b->type & 0xff)) return false;
  if (cJSON_IsArray(a)) return same_lists(j, a, b);
  if (cJSON_IsObject(a)) return same_objects(j, a, b);
  return cJSON_Compare(a, b, true);
}

/* ---- parsing -------------------------------------------------------------------------------------------------- */

/* cJSON ends text at a NUL, so that it would become another. */
static bool has_nul(const char *text)
{
  for (; *text; text++) {
    if (*text != '\\') continue;
    if (strncmp(text, "\\u0000", 6) == 0) return true;
    if (text[1]) text++;
  }
  return false;
}

static bool check_tree(td_sharding_job *j, const cJSON *item)
{
  td_sharding_index keys = {0};
  char what[200];
  if (cJSON_IsNumber(item) && !isfinite(item->valuedouble)) return td_sharding_fail(j, "a number too large to keep");
  if (cJSON_IsObject(item)) {
    if (!td_sharding_index_make(j, &keys, item)) return false;
    const char *twice = td_sharding_index_twice(&keys);
    if (twice) snprintf(what, sizeof what, "\"%.150s\" stands twice in an object", twice);
    td_sharding_index_finish(&keys);
    if (twice) return td_sharding_fail(j, what);
  }
  for (const cJSON *child = item->child; child; child = child->next)
    if (!check_tree(j, child)) return false;
  return true;
}

cJSON *td_sharding_parse(td_sharding_job *j, const char *text)
{
  const char *end = text;
  char what[100];
  if (has_nul(text)) return td_sharding_fail(j, "text that holds a NUL");
  cJSON *tree = cJSON_ParseWithOpts(text, &end, true);
  snprintf(what, sizeof what, "not JSON, or nested deeper than %d, from byte %zu on", CJSON_NESTING_LIMIT, (size_t)(end - text));
  if (!tree) return td_sharding_fail(j, what);
  if (check_tree(j, tree)) return tree;
  cJSON_Delete(tree);
  return NULL;
}
