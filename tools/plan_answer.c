/* plan: what came of it, beside what no schedule can better. */
#include <stdlib.h>

#include <tapedeck/size.h>

#include "plan.h"

/* ---- what sets a smallest budget ------------------------------------------------------------------------------ */

typedef struct weight {
  uint64_t sid, bytes;
} weight;

static int by_weight(const void *a, const void *b)
{
  const weight *x = a, *y = b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return (x->sid > y->sid) - (x->sid < y->sid);
}

static void mark_accessed(const td_trace *trace, uint64_t from, uint64_t to, bool activations, bool found, bool *marks)
{
  for (uint64_t i = trace->ops[from].first_access; i < trace->ops[to].first_access; i++) {
    uint32_t storage = trace->accesses[i].storage;
    if (trace->storages[storage].activation ? activations : found) marks[storage] = true;
  }
}

#define WEIGHTS_IN_JSON 20
#define WEIGHTS_SHOWN 4

/* The storages that must be on the device while op number `op` runs, the largest first; NULL if memory ran out. */
static weight *list_weights(const answer *a, uint64_t op, size_t *n)
{
  const td_trace *trace = a->trace;
  bool *marks = calloc((size_t)trace->n_storages + 1, sizeof *marks), found = a->options->move_found;
  weight *list = malloc(((size_t)trace->n_storages + 1) * sizeof *list);
  *n = 0;
  if (op < trace->n_ops && marks) mark_accessed(trace, op, op + 1, true, found, marks);
  if ((op == 0 || op == trace->n_ops) && found && marks) mark_accessed(trace, 0, trace->n_ops, false, true, marks);
  for (uint32_t i = 0; i < trace->n_storages && list && marks; i++) {
    const td_storage_info *storage = &trace->storages[i];
    if (storage->bytes && (marks[i] || (op == trace->n_ops && storage->retained)))
      list[(*n)++] = (weight){storage->sid, storage->bytes};
  }
  free(marks);
  if (list && *n) qsort(list, *n, sizeof *list, by_weight);
  return list;
}

/* The largest, as [SID, bytes]. */
static cJSON *weights_json(const answer *a, uint64_t op)
{
  size_t n;
  weight *list = list_weights(a, op, &n);
  cJSON *array = cJSON_CreateArray();
  for (size_t i = 0; i < n && i < WEIGHTS_IN_JSON && list; i++) {
    char pair[64];
    snprintf(pair, sizeof pair, "[%llu, %llu]", (unsigned long long)list[i].sid, (unsigned long long)list[i].bytes);
    cJSON_AddItemToArray(array, cJSON_CreateRaw(pair));
  }
  free(list);
  return array;
}

static void print_setter(const answer *a, uint64_t op)
{
  size_t n;
  char size[32];
  weight *list = list_weights(a, op, &n);
  if (op < a->trace->n_ops)
    printf("op %llu (%.60s)", (unsigned long long)op, a->trace->names[a->trace->ops[op].name].bytes);
  else
    printf("the end of the step");
  for (size_t i = 0; i < n && i < WEIGHTS_SHOWN && list; i++)
    printf("%s SID %llu (%s)", i ? "," : " with", (unsigned long long)list[i].sid, td_format_size(list[i].bytes, size, sizeof size));
  if (n > WEIGHTS_SHOWN) printf(" and %zu more", n - WEIGHTS_SHOWN);
  putchar('\n');
  free(list);
}

/* ---- a schedule ----------------------------------------------------------------------------------------------- */

/* The speed at which the stall would vanish; null if none would do. */
static void add_vanishing(cJSON *json, const char *key, double rate, double speedup)
{
  if (speedup > 0) cJSON_AddNumberToObject(json, key, rate * speedup);
  else cJSON_AddNullToObject(json, key);
}

static void add_bounds(cJSON *json, const answer *a)
{
  const td_plan_report *report = a->report;
  json_u64(json, "floor_bytes", report->floor_bytes);
  json_u64(json, "floor_op", report->floor_op);
  cJSON_AddItemToObject(json, "floor_storages", weights_json(a, report->floor_op));
  json_u64(json, "bound_stall_ns", report->bound_stall_ns);
  json_u64(json, "bound_d2h_bytes", report->bound_d2h_bytes);
  json_u64(json, "bound_h2d_bytes", report->bound_h2d_bytes);
}

static void add_link(cJSON *json, const answer *a)
{
  cJSON_AddNumberToObject(json, "d2h_bytes_per_s", a->schedule->d2h_bytes_per_s);
  cJSON_AddNumberToObject(json, "h2d_bytes_per_s", a->schedule->h2d_bytes_per_s);
  json_u64(json, "d2h_latency_ns", a->options->d2h_latency_ns);
  json_u64(json, "h2d_latency_ns", a->options->h2d_latency_ns);
  add_vanishing(json, "stall_free_d2h_bytes_per_s", a->schedule->d2h_bytes_per_s, a->speedup);
  add_vanishing(json, "stall_free_h2d_bytes_per_s", a->schedule->h2d_bytes_per_s, a->speedup);
}

int print_answer_json(const args *args, const answer *a)
{
  const td_plan_report *report = a->report;
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "schedule_id", (uint64_t)a->schedule->id);
  json_string(json, "planner", a->schedule->planner);
  json_u64(json, "memory_limit_bytes", a->schedule->memory_limit_bytes);
  json_u64(json, "predicted_peak_bytes", report->predicted_peak_bytes);
  json_u64(json, "predicted_host_peak_bytes", report->predicted_host_peak_bytes);
  json_u64(json, "predicted_stall_ns", report->predicted_stall_ns);
  if (a->info->compute_ns)
    cJSON_AddNumberToObject(json, "predicted_stall_share", (double)report->predicted_stall_ns / (double)a->info->compute_ns);
  else
    cJSON_AddNullToObject(json, "predicted_stall_share");
  cJSON_AddStringToObject(json, "time", a->info->compute_ns ? "durations" : "ops");
  json_u64(json, "d2h_bytes", report->d2h_bytes);
  json_u64(json, "h2d_bytes", report->h2d_bytes);
  add_bounds(json, a);
  add_link(json, a);
  if (a->curve->drawn) cJSON_AddItemToObject(json, "curve", curve_json(a->curve));
  json_u64(json, "actions", a->schedule->n_actions);
  cJSON_AddBoolToObject(json, "early", a->schedule->early);
  cJSON_AddStringToObject(json, "moves", a->options->move_found ? "all" : "activations");
  return json_print(args, json);
}

static void print_stall(const answer *a)
{
  char s[32], t[32];
  const td_plan_report *report = a->report;
  if (!a->info->compute_ns) {
    printf("time    counted in ops, since the trace has no durations\n");
    return;
  }
  printf("stall   %s, %.1f%% of %s; no schedule can do with less than ", as_time(report->predicted_stall_ns, s),
         100 * (double)report->predicted_stall_ns / (double)a->info->compute_ns, as_time(a->info->compute_ns, t));
  puts(as_time(report->bound_stall_ns, s));
  if (a->speedup > 1)
    printf("link    %s out and %s in a second would do without stall, %.3g times as fast\n",
           td_format_size((uint64_t)(a->speedup * a->schedule->d2h_bytes_per_s), s, sizeof s),
           td_format_size((uint64_t)(a->speedup * a->schedule->h2d_bytes_per_s), t, sizeof t), a->speedup);
  if (a->speedup == 0) puts("link    no speed would do without stall: copies wait for room or latency");
}

int print_answer(const answer *a)
{
  char s[32], t[32], u[32];
  const td_plan_report *report = a->report;
  if (a->curve->drawn) print_curve(a->curve, a->peak_bytes);
  printf("schedule %lld by %s: %s actions\n", (long long)a->schedule->id, a->schedule->planner,
         with_commas(a->schedule->n_actions, s));
  printf("peak    %s of a budget of %s; %s without a schedule\n", td_format_size(report->predicted_peak_bytes, s, sizeof s),
         td_format_size(a->schedule->memory_limit_bytes, t, sizeof t), td_format_size(a->peak_bytes, u, sizeof u));
  printf("floor   %s, set by ", td_format_size(report->floor_bytes, s, sizeof s));
  print_setter(a, report->floor_op);
  printf("copies  %s out, %s in; at most %s on the host\n", td_format_size(report->d2h_bytes, s, sizeof s),
         td_format_size(report->h2d_bytes, t, sizeof t), td_format_size(report->predicted_host_peak_bytes, u, sizeof u));
  printf("bound   %s out, %s in: no schedule moves less\n", td_format_size(report->bound_d2h_bytes, s, sizeof s),
         td_format_size(report->bound_h2d_bytes, t, sizeof t));
  print_stall(a);
  return EXIT_DONE;
}

/* ---- none ----------------------------------------------------------------------------------------------------- */

int print_cannot_json(const args *args, const answer *a)
{
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "memory_limit_bytes", a->options->budget_bytes);
  json_u64(json, "min_budget_bytes", a->report->min_budget_bytes);
  json_u64(json, "min_budget_op", a->report->min_budget_op);
  cJSON_AddItemToObject(json, "min_budget_storages", weights_json(a, a->report->min_budget_op));
  json_print(args, json);
  return EXIT_CANNOT;
}

int print_cannot(const answer *a)
{
  char s[32];
  if (a->options->host_limited) return EXIT_CANNOT;
  printf("smallest budget %s, set by ", td_format_size(a->report->min_budget_bytes, s, sizeof s));
  print_setter(a, a->report->min_budget_op);
  return EXIT_CANNOT;
}
