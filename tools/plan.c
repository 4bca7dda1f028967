/* plan: make a schedule for a budget and store it in the tape. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "progress.h"
#include "verbs.h"

static bool size_arg(const args *args, const char *name, uint64_t whole, uint64_t *bytes)
{
  td_error err;
  const char *text = arg(args, name);
  if (!text || !td_parse_size(text, whole, bytes, &err)) return true;
  trouble(args, "--%s: %s", name, err.message);
  return false;
}

/* ---- what must stay ------------------------------------------------------------------------------------------- */

static bool add_sid(uint64_t **sids, size_t *n, uint64_t sid)
{
  uint64_t *grown = realloc(*sids, (*n + 1) * sizeof *grown);
  if (!grown) return false;
  *sids = grown;
  grown[(*n)++] = sid;
  return true;
}

/* An item of --keep: a SID, or a pattern for the names of ops whose outputs stay. */
static bool keep_item(const args *args, const td_trace *trace, const char *item, uint64_t **sids, size_t *n)
{
  char *end;
  bool any = false, fits = true;
  unsigned long long sid = strtoull(item, &end, 10);
  if (*item && !*end) return add_sid(sids, n, sid);
  for (uint64_t op = 0; op < trace->n_ops && fits; op++) {
    if (fnmatch(item, trace->names[trace->ops[op].name].bytes, 0) != 0) continue;
    for (uint64_t i = trace->ops[op].first_output; i < trace->ops[op + 1].first_output && fits; i++) {
      const td_storage_info *storage = &trace->storages[trace->outputs[i].storage];
      if (!storage->activation) continue;
      any = true;
      fits = add_sid(sids, n, storage->sid);
    }
  }
  if (!any) trouble(args, "--keep %s: neither a SID nor the name of an op that makes an activation", item);
  return any && fits;
}

static bool read_keep(const args *args, const td_trace *trace, uint64_t **sids, size_t *n)
{
  const char *list = arg(args, "keep");
  char *copy = list ? strdup(list) : NULL, *rest = copy;
  bool good = true;
  for (char *item; rest && good && (item = strsep(&rest, ","));) good = keep_item(args, trace, item, sids, n);
  free(copy);
  return good;
}

/* ---- options -------------------------------------------------------------------------------------------------- */

static bool read_options(const args *args, const td_trace_info *info, td_plan_options *options)
{
  *options = (td_plan_options){.planner = arg(args, "planner"), .early = arg(args, "early"), .host_limited = arg(args, "host-budget")};
  const char *budget = arg(args, "budget");
  if (!budget) {
    trouble(args, "expected --budget SIZE, in bytes, KiB, MiB, GiB or N%% of the peak, or auto");
    return false;
  }
  return (strcmp(budget, "auto") == 0 || size_arg(args, "budget", info->peak_bytes, &options->budget_bytes)) &&
         size_arg(args, "host-budget", info->peak_bytes, &options->host_bytes) &&
         size_arg(args, "align", info->peak_bytes, &options->align_bytes) &&
         rate_arg(args, "d2h", &options->d2h_bytes_per_s) && rate_arg(args, "h2d", &options->h2d_bytes_per_s);
}

/* ---- a budget of its own choice ------------------------------------------------------------------------------- */

#define CURVE_POINTS 20

typedef struct point {
  uint64_t budget, stall_ns;
  bool met;
} point;

static td_status try_budget(const td_trace *trace, td_plan_options options, point *p, td_error *err)
{
  td_plan_report report;
  td_schedule *schedule = NULL;
  options.budget_bytes = p->budget;
  td_status status = td_plan(trace, &options, &schedule, &report, err);
  td_schedule_destroy(schedule);
  p->met = status == TD_OK;
  p->stall_ns = p->met ? report.predicted_stall_ns : 0;
  return status == TD_E_BUDGET ? TD_OK : status;
}

/* The curve from the floor to the peak; then the smallest budget whose stall is allowed, by bisection between two of its points. */
static td_status choose_budget(const td_trace *trace, const td_trace_info *info, td_plan_options *options, uint64_t max_stall_ns,
                               point *curve, td_error *err)
{
  uint64_t low = info->floor_bytes, high = info->peak_bytes;
  td_status status = TD_OK;
  for (int i = 0; i <= CURVE_POINTS && !status; i++) {
    curve[i].budget = info->floor_bytes + (info->peak_bytes - info->floor_bytes) / CURVE_POINTS * (uint64_t)i;
    if (i == CURVE_POINTS) curve[i].budget = info->peak_bytes;
    status = try_budget(trace, *options, &curve[i], err);
    progress_show((uint64_t)i + 1, CURVE_POINTS + 11, "budgets"); /* the search between two points halves about ten times */
  }
  for (int i = CURVE_POINTS; i >= 0; i--) {
    if (!curve[i].met || curve[i].stall_ns > max_stall_ns) break;
    high = curve[i].budget;
    low = i ? curve[i - 1].budget : high;
  }
  while (!status && high - low > high / 1000) {
    point middle = {.budget = low + (high - low) / 2};
    status = try_budget(trace, *options, &middle, err);
    if (middle.met && middle.stall_ns <= max_stall_ns) high = middle.budget;
    else low = middle.budget;
  }
  options->budget_bytes = high;
  return status;
}

static void print_curve(const td_trace_info *info, const point *curve)
{
  char a[32], b[32];
  uint64_t most = 1;
  for (int i = 0; i <= CURVE_POINTS; i++)
    if (curve[i].stall_ns > most) most = curve[i].stall_ns;
  puts("    budget  of peak      stall");
  for (int i = 0; i <= CURVE_POINTS; i++) {
    if (!curve[i].met) continue;
    int bar = (int)(30 * (double)curve[i].stall_ns / (double)most + 0.5);
    printf("%10s  %6.1f%% %10s  %.*s\n", td_format_size(curve[i].budget, a, sizeof a),
           info->peak_bytes ? 100 * (double)curve[i].budget / (double)info->peak_bytes : 0, as_time(curve[i].stall_ns, b), bar,
           "##############################");
  }
  putchar('\n');
}

static cJSON *curve_json(const point *curve)
{
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i <= CURVE_POINTS; i++) {
    if (!curve[i].met) continue;
    cJSON *item = cJSON_CreateObject();
    json_u64(item, "budget_bytes", curve[i].budget);
    json_u64(item, "stall_ns", curve[i].stall_ns);
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

/* False, with a message, on failure. `curve` is filled if the budget is "auto". */
static bool settle_budget(const args *args, const td_trace *trace, const td_trace_info *info, td_plan_options *options, point *curve)
{
  td_error err;
  double percent = 1;
  char *end = NULL;
  const char *text = arg(args, "max-stall");
  if (strcmp(arg(args, "budget"), "auto") != 0) {
    if (text) trouble(args, "--max-stall goes with --budget auto");
    return !text;
  }
  if (text) percent = strtod(text, &end);
  if (text && (end == text || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 10000))) {
    trouble(args, "--max-stall %s: expected a share of the step, such as 2%%", text);
    return false;
  }
  progress_begin("planning");
  td_status status = choose_budget(trace, info, options, (uint64_t)((double)info->compute_ns * percent / 100), curve, &err);
  progress_end();
  if (!status) return true;
  failed(args, &err);
  return false;
}

/* ---- answers -------------------------------------------------------------------------------------------------- */

static int print_json(const args *args, const td_schedule *schedule, const td_plan_report *report, const td_trace_info *info,
                      const point *curve)
{
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "schedule_id", (uint64_t)schedule->id);
  json_string(json, "planner", schedule->planner);
  json_u64(json, "memory_limit_bytes", schedule->memory_limit_bytes);
  json_u64(json, "predicted_peak_bytes", report->predicted_peak_bytes);
  json_u64(json, "predicted_host_peak_bytes", report->predicted_host_peak_bytes);
  json_u64(json, "predicted_stall_ns", report->predicted_stall_ns);
  if (info->compute_ns)
    cJSON_AddNumberToObject(json, "predicted_stall_share", (double)report->predicted_stall_ns / (double)info->compute_ns);
  else
    cJSON_AddNullToObject(json, "predicted_stall_share");
  json_u64(json, "d2h_bytes", report->d2h_bytes);
  json_u64(json, "h2d_bytes", report->h2d_bytes);
  json_u64(json, "floor_bytes", info->floor_bytes);
  json_u64(json, "bound_stall_ns", report->bound_stall_ns);
  json_u64(json, "bound_d2h_bytes", report->bound_d2h_bytes);
  json_u64(json, "bound_h2d_bytes", report->bound_h2d_bytes);
  if (curve[CURVE_POINTS].budget) cJSON_AddItemToObject(json, "curve", curve_json(curve));
  json_u64(json, "actions", schedule->n_actions);
  cJSON_AddBoolToObject(json, "early", schedule->early);
  return json_print(args, json);
}

static int print_text(const td_schedule *schedule, const td_plan_report *report, const td_trace_info *info)
{
  char a[32], b[32], c[32];
  printf("schedule %lld by %s: %s actions\n", (long long)schedule->id, schedule->planner, with_commas(schedule->n_actions, a));
  printf("peak    %s of a budget of %s; %s without a schedule\n", td_format_size(report->predicted_peak_bytes, a, sizeof a),
         td_format_size(schedule->memory_limit_bytes, b, sizeof b), td_format_size(info->peak_bytes, c, sizeof c));
  printf("copies  %s out, %s in; at most %s on the host\n", td_format_size(report->d2h_bytes, a, sizeof a),
         td_format_size(report->h2d_bytes, b, sizeof b), td_format_size(report->predicted_host_peak_bytes, c, sizeof c));
  printf("stall   %s", as_time(report->predicted_stall_ns, a));
  if (info->compute_ns)
    printf(", %.1f%% of %s", 100 * (double)report->predicted_stall_ns / (double)info->compute_ns, as_time(info->compute_ns, b));
  printf("; no schedule can do with less than %s\n", as_time(report->bound_stall_ns, a));
  return EXIT_DONE;
}

static int cannot(const args *args, const td_error *err, const td_plan_options *options, const td_plan_report *report)
{
  failed(args, err);
  if (!arg(args, "json")) return EXIT_CANNOT;
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "memory_limit_bytes", options->budget_bytes);
  json_u64(json, "min_budget_bytes", report->min_budget_bytes);
  json_u64(json, "min_budget_op", report->min_budget_op);
  json_print(args, json);
  return EXIT_CANNOT;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_plan_options options;
  td_plan_report report;
  td_schedule *schedule = NULL;
  td_error err;
  uint64_t *keep = NULL;
  size_t n_keep = 0;
  point curve[CURVE_POINTS + 1] = {0};
  if (!open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  td_tape_close(tape);
  int exit_code = EXIT_TROUBLE;
  bool ready = read_options(args, &info, &options) && read_keep(args, trace, &keep, &n_keep);
  options.keep = keep;
  options.n_keep = n_keep;
  if (ready && settle_budget(args, trace, &info, &options, curve)) {
    if (curve[CURVE_POINTS].budget && !arg(args, "json")) print_curve(&info, curve);
    td_status status = td_plan(trace, &options, &schedule, &report, &err);
    if (!status) status = td_tape_add_schedule(args->operands[0], info.trace, schedule, &err);
    if (status == TD_E_BUDGET)
      exit_code = cannot(args, &err, &options, &report);
    else if (status)
      exit_code = failed(args, &err);
    else
      exit_code = arg(args, "json") ? print_json(args, schedule, &report, &info, curve) : print_text(schedule, &report, &info);
  }
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  free(keep);
  return exit_code;
}

static const option_def options[] = {{"budget", "SIZE", "most bytes of activations on the device; N% is of the peak; or auto", '\0'},
                                     {"max-stall", "P%", "with --budget auto: the smallest that stalls no more; default: 1%", '\0'},
                                     {"align", "SIZE", "round sizes up to multiples of this, as the device does", '\0'},
                                     {"keep", "LIST", "SIDs, or names of ops with * and ?, whose activations stay", '\0'},
                                     {"host-budget", "SIZE", "most bytes of copies on the host; default: no limit", '\0'},
                                     {"d2h", "RATE", "device to host, bytes a second; default: 16GiB", '\0'},
                                     {"h2d", "RATE", "host to device, bytes a second; default: 16GiB", '\0'},
                                     {"planner", "PLANNER", "timed (default) or greedy", '\0'},
                                     {"early", NULL, "end a storage at its last access, even where it is freed later", '\0'},
                                     OPTION_TRACE,
                                     OPTION_JSON,
                                     {0}};

const verb verb_plan = {
    .name = "plan",
    .operands = "TAPE --budget SIZE",
    .n_operands = 1,
    .summary = "Make a schedule of copies for a budget and store it in the tape",
    .details = "Exit code 3 and the smallest budget that works, if the budget cannot be met.",
    .example = "tapedeck plan step.tape --budget 8GiB --d2h 20GiB --h2d 20GiB",
    .options = options,
    .run = run,
};
