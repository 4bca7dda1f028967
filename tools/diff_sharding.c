#include "diff_sharding.h"

#include <stdlib.h>
#include <string.h>

#include <tapedeck/sharding.h>

typedef struct explainer {
  const td_trace *a, *b;
  td_diff *diff;
  td_sharding_sizes *sizes;
  sizes_explained *out;
  td_size_reason *reason; /* by storage of A, where its counterpart has another size */
} explainer;

static bool differs(const explainer *e, uint32_t x)
{
  uint32_t y = e->diff->partner[x];
  return y != TD_NO_STORAGE && e->a->storages[x].bytes != e->b->storages[y].bytes;
}

static void keep_line(sizes_explained *out, const char *line)
{
  for (size_t i = 0; i < out->n_lines; i++)
    if (strcmp(out->lines[i], line) == 0) return;
  if (out->n_lines < EXPLAINED_SHOWN) snprintf(out->lines[out->n_lines++], sizeof *out->lines, "%s", line);
}

static void explain_storage(explainer *e, uint32_t x)
{
  const td_storage_info *a = &e->a->storages[x], *b = &e->b->storages[e->diff->partner[x]];
  char text[200], line[256];
  e->reason[x] = td_sharding_sizes_explain(e->sizes, a->sid, a->bytes, b->sid, b->bytes, text, sizeof text);
  e->out->by_name += e->reason[x] == TD_SIZE_BY_NAME;
  e->out->by_ratio += e->reason[x] == TD_SIZE_BY_RATIO;
  e->out->unexplained += e->reason[x] == TD_SIZE_UNEXPLAINED;
  if (e->reason[x] == TD_SIZE_UNEXPLAINED) return;
  snprintf(line, sizeof line, "%s%s", e->reason[x] == TD_SIZE_BY_RATIO ? "likely " : "", text);
  keep_line(e->out, line);
}

/* True if an op touches storages of other sizes, and each of these is explained by its parameter's name. */
static bool is_explained(const explainer *e, uint64_t op)
{
  bool any = false;
  for (uint64_t i = e->a->ops[op].first_access; i < e->a->ops[op + 1].first_access; i++) {
    uint32_t x = e->a->accesses[i].storage;
    if (!differs(e, x)) continue;
    if (e->reason[x] != TD_SIZE_BY_NAME) return false;
    any = true;
  }
  return any;
}

bool explain_sizes(const args *args, td_tape *a, int64_t number_a, td_tape *b, int64_t number_b, const td_trace *trace_a,
                   const td_trace *trace_b, td_diff *diff, sizes_explained *out)
{
  explainer e = {.a = trace_a, .b = trace_b, .diff = diff, .out = out};
  td_error err;
  *out = (sizes_explained){0};
  if (!diff->sizes) return true;
  td_status status = td_sharding_sizes_create(&e.sizes, a, number_a, b, number_b, &err);
  if (status == TD_E_NOT_FOUND) return true;
  if (status) {
    failed(args, &err);
    return false;
  }
  out->asked = true;
  e.reason = calloc((size_t)trace_a->n_storages + 1, sizeof *e.reason);
  for (uint32_t x = 0; e.reason && x < trace_a->n_storages; x++)
    if (differs(&e, x)) explain_storage(&e, x);
  for (size_t i = 0; e.reason && i < diff->n_rows; i++) {
    td_diff_row *row = &diff->rows[i];
    if ((row->changes & TD_DIFF_SIZES) && is_explained(&e, row->a)) row->changes &= ~(uint32_t)TD_DIFF_SIZES;
  }
  bool fits = e.reason;
  if (!fits) trouble(args, "out of memory");
  free(e.reason);
  td_sharding_sizes_destroy(e.sizes);
  return fits;
}

void print_explained(const sizes_explained *explained)
{
  char a[32], b[32], c[32];
  if (!explained->asked) return;
  printf("of these sizes, %s by the sharding plans, %s likely so, %s unexplained\n", with_commas(explained->by_name, a),
         with_commas(explained->by_ratio, b), with_commas(explained->unexplained, c));
  for (size_t i = 0; i < explained->n_lines; i++) printf("  %s\n", explained->lines[i]);
}

void explained_json(cJSON *json, const sizes_explained *explained)
{
  if (!explained->asked) return;
  json_u64(json, "sizes_by_sharding", explained->by_name);
  json_u64(json, "sizes_likely_by_sharding", explained->by_ratio);
  json_u64(json, "sizes_unexplained", explained->unexplained);
  cJSON *list = cJSON_AddArrayToObject(json, "sharding_reasons");
  for (size_t i = 0; i < explained->n_lines; i++) cJSON_AddItemToArray(list, cJSON_CreateString(explained->lines[i]));
}
