/* plan: make a schedule for a budget and store it in the tape. */
#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "verbs.h"

static bool size_arg(const args *args, const char *name, uint64_t whole, uint64_t *bytes)
{
  td_error err;
  const char *text = arg(args, name);
  if (!text || !td_parse_size(text, whole, bytes, &err)) return true;
  trouble(args, "--%s: %s", name, err.message);
  return false;
}

static bool read_options(const args *args, const td_trace_info *info, td_plan_options *options)
{
  *options = (td_plan_options){.planner = arg(args, "planner"), .early = arg(args, "early"), .host_limited = arg(args, "host-budget")};
  if (!arg(args, "budget")) {
    trouble(args, "expected --budget SIZE, in bytes, KiB, MiB, GiB or N%% of the peak");
    return false;
  }
  return size_arg(args, "budget", info->peak_bytes, &options->budget_bytes) &&
         size_arg(args, "host-budget", info->peak_bytes, &options->host_bytes) &&
         rate_arg(args, "d2h", &options->d2h_bytes_per_s) && rate_arg(args, "h2d", &options->h2d_bytes_per_s);
}

static int print_json(const args *args, const td_schedule *schedule, const td_plan_report *report, const td_trace_info *info)
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
  putchar('\n');
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
  if (!open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  td_tape_close(tape);
  int exit_code = EXIT_TROUBLE;
  if (read_options(args, &info, &options)) {
    td_status status = td_plan(trace, &options, &schedule, &report, &err);
    if (!status) status = td_tape_add_schedule(args->operands[0], info.trace, schedule, &err);
    if (status == TD_E_BUDGET)
      exit_code = cannot(args, &err, &options, &report);
    else if (status)
      exit_code = failed(args, &err);
    else
      exit_code = arg(args, "json") ? print_json(args, schedule, &report, &info) : print_text(schedule, &report, &info);
  }
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return exit_code;
}

static const option_def options[] = {{"budget", "SIZE", "most bytes of activations on the device; N% is of the peak", '\0'},
                                     {"host-budget", "SIZE", "most bytes of copies on the host; default: no limit", '\0'},
                                     {"d2h", "RATE", "device to host, bytes a second; default: 16GiB", '\0'},
                                     {"h2d", "RATE", "host to device, bytes a second; default: 16GiB", '\0'},
                                     {"planner", "NAME", "timed (default) or greedy", '\0'},
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
