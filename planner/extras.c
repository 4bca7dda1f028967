#include "planner/extras.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/fail.h"

/* ---- further members ------------------------------------------------------------------------------------------ */

static uint64_t read_number(const cJSON *object, const char *key)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
  double number = cJSON_IsNumber(item) ? item->valuedouble : 0;
  return number > 0 && number < 0x1p62 ? (uint64_t)number : 0;
}

void td_extras_read(const char *text, td_extras *extras)
{
  *extras = (td_extras){0};
  size_t length = text ? strlen(text) : 0;
  char *braced = length ? malloc(length + 3) : NULL;
  if (!braced) return;
  sprintf(braced, "{%s}", text);
  cJSON *object = cJSON_Parse(braced);
  free(braced);
  const char *moves = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "moves"));
  extras->latency_ns[TD_COPY_D2H] = read_number(object, "d2h_latency_ns");
  extras->latency_ns[TD_COPY_H2D] = read_number(object, "h2d_latency_ns");
  extras->align_bytes = read_number(object, "align_bytes");
  extras->moves_found = moves && strcmp(moves, "all") == 0;
  cJSON_Delete(object);
}

bool td_extras_write(const td_extras *extras, char **text)
{
  char members[200] = "";
  const uint64_t *ns = extras->latency_ns;
  int n = 0;
  if (ns[TD_COPY_D2H] || ns[TD_COPY_H2D])
    n += sprintf(members, ", \"d2h_latency_ns\": %" PRIu64 ", \"h2d_latency_ns\": %" PRIu64, ns[TD_COPY_D2H], ns[TD_COPY_H2D]);
  if (extras->align_bytes > 1) n += sprintf(members + n, ", \"align_bytes\": %" PRIu64, extras->align_bytes);
  if (extras->moves_found) sprintf(members + n, ", \"moves\": \"all\"");
  *text = *members ? strdup(members + 2) : NULL;
  return *text || !*members;
}

/* ---- the trace as it is seen ---------------------------------------------------------------------------------- */

static void round_up(td_storage_info *storage, uint64_t align)
{
  uint64_t over = align > 1 ? storage->bytes % align : 0;
  if (over) storage->bytes = storage->bytes > UINT64_MAX - align ? UINT64_MAX : storage->bytes + align - over;
}

/* The found storages that the step accesses; all others have nothing to do with it. */
static uint32_t list_found(const td_trace *trace, bool *found)
{
  uint32_t n = 0;
  for (uint64_t i = 0; i < trace->n_accesses; i++) {
    uint32_t storage = trace->accesses[i].storage;
    if (trace->storages[storage].activation || found[storage]) continue;
    found[storage] = true;
    n++;
  }
  return n;
}

static td_status adopt(td_seen *seen, const bool *found, uint32_t n, td_error *err)
{
  td_trace *t = &seen->trace;
  const td_trace from = *t;
  seen->ops = malloc(((size_t)from.n_ops + 1) * sizeof *seen->ops);
  seen->accesses = malloc((size_t)(from.n_accesses + n) * sizeof *seen->accesses);
  seen->activations = malloc(((size_t)from.n_activations + n) * sizeof *seen->activations);
  seen->retained = malloc(((size_t)from.n_retained + n) * sizeof *seen->retained);
  if (!seen->ops || !seen->accesses || !seen->activations || !seen->retained) return td_fail_nomem(err);
  for (uint64_t op = 0; op <= from.n_ops; op++) {
    seen->ops[op] = from.ops[op];
    if (op) seen->ops[op].first_access += n;
  }
  for (uint64_t i = 0; i < from.n_accesses; i++) seen->accesses[n + i] = from.accesses[i];
  for (uint32_t i = 0; i < from.n_activations; i++) seen->activations[i] = from.activations[i];
  for (uint32_t i = 0; i < from.n_retained; i++) seen->retained[i] = from.retained[i];
  uint32_t at = 0;
  for (uint32_t i = 0; i < from.n_storages; i++) {
    if (!found[i]) continue;
    seen->storages[i].activation = seen->storages[i].retained = true;
    seen->accesses[at] = (td_access){.storage = i, .kind = TD_WRITE};
    seen->activations[from.n_activations + at] = i;
    seen->retained[from.n_retained + at++] = i;
  }
  t->ops = seen->ops;
  t->accesses = seen->accesses;
  t->activations = seen->activations;
  t->retained = seen->retained;
  t->n_accesses += n;
  t->n_activations += n;
  t->n_retained += n;
  return TD_OK;
}

td_status td_seen_init(td_seen *seen, const td_trace *trace, const td_extras *extras, td_error *err)
{
  *seen = (td_seen){.trace = *trace, .storages = malloc(((size_t)trace->n_storages + 1) * sizeof *seen->storages)};
  if (!seen->storages) return td_fail_nomem(err);
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    seen->storages[i] = trace->storages[i];
    round_up(&seen->storages[i], extras->align_bytes);
  }
  seen->trace.storages = seen->storages;
  if (!extras->moves_found || !trace->n_accesses) return TD_OK;
  bool *list = calloc((size_t)trace->n_storages + 1, sizeof *list);
  if (!list) return td_fail_nomem(err);
  uint32_t n = list_found(trace, list);
  td_status status = n ? adopt(seen, list, n, err) : TD_OK;
  free(list);
  return status;
}

void td_seen_finish(td_seen *seen)
{
  free(seen->storages);
  free(seen->ops);
  free(seen->accesses);
  free(seen->activations);
  free(seen->retained);
}
