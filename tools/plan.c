/* plan: make a schedule for a budget and store it in the tape. */
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "plan.h"
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
  bool any = false, fits = true;
  if (*item && item[strspn(item, "0123456789")] == '\0') {
    errno = 0;
    unsigned long long sid = strtoull(item, NULL, 10);
    if (!errno) return add_sid(sids, n, sid);
  }
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

static bool time_arg(const args *args, const char *name, uint64_t *ns)
{
  td_error err;
  const char *text = arg(args, name);
  if (!text || !td_parse_time(text, ns, &err)) return true;
  trouble(args, "--%s: %s", name, err.message);
  return false;
}

/* A number in the trace's meta; 0 if there is none, or none that makes sense. */
static double number_of_meta(td_tape *tape, int64_t trace, const char *key)
{
  char *json = NULL, *end;
  if (td_tape_get_meta(tape, trace, key, &json, NULL)) return 0;
  double number = strtod(json, &end);
  bool good = end != json && !*end && isfinite(number) && number > 0 && number < 0x1p53;
  free(json);
  return good ? number : 0;
}

/* What the tape says of the link, for what the command line does not. */
static void read_link(td_tape *tape, int64_t trace, td_plan_options *options)
{
  options->d2h_bytes_per_s = number_of_meta(tape, trace, "d2h_bytes_per_s");
  options->h2d_bytes_per_s = number_of_meta(tape, trace, "h2d_bytes_per_s");
  options->d2h_latency_ns = (uint64_t)number_of_meta(tape, trace, "d2h_latency_ns");
  options->h2d_latency_ns = (uint64_t)number_of_meta(tape, trace, "h2d_latency_ns");
}

static bool read_choices(const args *args, td_plan_options *options)
{
  int64_t effort;
  const char *move = arg(args, "move");
  options->planner = arg(args, "planner");
  options->early = arg(args, "early");
  options->host_limited = arg(args, "host-budget");
  options->move_found = move && strcmp(move, "all") == 0;
  if (move && !options->move_found && strcmp(move, "activations") != 0) {
    trouble(args, "--move %s: expected activations or all", move);
    return false;
  }
  if (!number_arg(args, "effort", 0, &effort)) return false;
  options->effort = effort < UINT32_MAX ? (uint32_t)effort : UINT32_MAX;
  return true;
}

static bool read_options(const args *args, const td_trace_info *info, td_plan_options *options)
{
  const char *budget = arg(args, "budget");
  if (!budget) {
    trouble(args, "expected --budget SIZE, in bytes, KiB, MiB, GiB or N%% of the peak, or auto");
    return false;
  }
  if (!read_choices(args, options)) return false;
  uint64_t peak = info->peak_bytes + (options->move_found ? info->other_bytes : 0);
  return (strcmp(budget, "auto") == 0 || size_arg(args, "budget", peak, &options->budget_bytes)) &&
         size_arg(args, "host-budget", peak, &options->host_bytes) && size_arg(args, "align", peak, &options->align_bytes) &&
         rate_arg(args, "d2h", &options->d2h_bytes_per_s) && rate_arg(args, "h2d", &options->h2d_bytes_per_s) &&
         time_arg(args, "d2h-latency", &options->d2h_latency_ns) && time_arg(args, "h2d-latency", &options->h2d_latency_ns);
}

/* ---- the verb ------------------------------------------------------------------------------------------------- */

/* Plans, stores and tells. */
static int answer_it(const args *args, const td_trace *trace, const td_trace_info *info, const td_plan_options *options,
                     const curve *curve)
{
  td_schedule *schedule = NULL;
  td_plan_report report;
  td_error err;
  answer a = {.trace = trace, .info = info, .options = options, .report = &report, .curve = curve, .speedup = 1};
  a.peak_bytes = info->peak_bytes + (options->move_found ? info->other_bytes : 0);
  td_status status = td_plan(trace, options, &schedule, &report, &err);
  if (!status && report.predicted_stall_ns && info->compute_ns) status = td_plan_speedup(trace, schedule, &a.speedup, &err);
  if (!status) status = td_tape_add_schedule(args->operands[0], info->trace, schedule, &err);
  a.schedule = schedule;
  int exit_code;
  if (status) {
    exit_code = failed(args, &err);
    if (status == TD_E_BUDGET) exit_code = arg(args, "json") ? print_cannot_json(args, &a) : print_cannot(&a);
  } else {
    exit_code = arg(args, "json") ? print_answer_json(args, &a) : print_answer(&a);
  }
  td_schedule_destroy(schedule);
  return exit_code;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_plan_options options = {0};
  uint64_t *keep = NULL;
  curve curve = {0};
  if (!open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  read_link(tape, info.trace, &options);
  td_tape_close(tape);
  int exit_code = EXIT_TROUBLE;
  if (read_options(args, &info, &options) && read_keep(args, trace, &keep, &options.n_keep)) {
    options.keep = keep;
    if (settle_budget(args, trace, &info, &options, &curve)) exit_code = answer_it(args, trace, &info, &options, &curve);
  }
  td_trace_destroy(trace);
  free(keep);
  return exit_code;
}

static const option_def options[] = {{"budget", "SIZE", "most bytes of activations on the device; N% is of the peak; or auto", '\0'},
                                     {"max-stall", "P%", "with --budget auto: the smallest that stalls no more; default: 1%", '\0'},
                                     {"align", "SIZE", "round sizes up to multiples of this, as the device does", '\0'},
                                     {"keep", "LIST", "SIDs, or names of ops with * and ?, whose activations stay", '\0'},
                                     {"move", "WHAT", "activations (default), or all: parameters and optimizer states too", '\0'},
                                     {"host-budget", "SIZE", "most bytes of copies on the host; default: no limit", '\0'},
                                     {"d2h", "RATE", "device to host, bytes a second; default: the tape's, else 16GiB", '\0'},
                                     {"h2d", "RATE", "host to device, bytes a second; likewise", '\0'},
                                     {"d2h-latency", "TIME", "what a copy takes beside its bytes; default: the tape's, else 0", '\0'},
                                     {"h2d-latency", "TIME", "likewise", '\0'},
                                     {"planner", "PLANNER", "timed (default), greedy, or exact for small traces", '\0'},
                                     {"effort", "N", "try to improve the schedule for N times as long; default: hardly", '\0'},
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
