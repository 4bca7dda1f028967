/* simulate: play a schedule on the machine model. */
#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "verbs.h"

#define FAULTS_SHOWN 20

static void print_json(const args *args, const td_schedule *schedule, const td_simulation *simulation)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "ok", simulation->ok);
  json_u64(json, "schedule_id", (uint64_t)schedule->id);
  json_u64(json, "peak_bytes", simulation->peak_bytes);
  json_u64(json, "host_peak_bytes", simulation->host_peak_bytes);
  json_u64(json, "stall_ns", simulation->stall_ns);
  json_u64(json, "compute_ns", simulation->compute_ns);
  json_u64(json, "d2h_bytes", simulation->d2h_bytes);
  json_u64(json, "h2d_bytes", simulation->h2d_bytes);
  json_u64(json, "n_faults", simulation->n_faults);
  cJSON *faults = cJSON_AddArrayToObject(json, "faults");
  for (size_t i = 0; i < simulation->n_faults && i < 1000; i++) {
    cJSON *fault = cJSON_CreateObject();
    json_u64(fault, "op", simulation->faults[i].op);
    json_u64(fault, "sid", simulation->faults[i].sid);
    json_string(fault, "what", simulation->faults[i].what);
    cJSON_AddItemToArray(faults, fault);
  }
  json_print(args, json);
}

static void print_text(const td_schedule *schedule, const td_simulation *simulation)
{
  char a[32], b[32];
  printf("schedule %lld: %s\n", (long long)schedule->id, simulation->ok ? "ok" : "faulty");
  printf("peak    %s of a budget of %s\n", td_format_size(simulation->peak_bytes, a, sizeof a),
         schedule->memory_limit_bytes == UINT64_MAX ? "any size" : td_format_size(schedule->memory_limit_bytes, b, sizeof b));
  printf("copies  %s out, %s in", td_format_size(simulation->d2h_bytes, a, sizeof a),
         td_format_size(simulation->h2d_bytes, b, sizeof b));
  printf("; at most %s on the host\n", td_format_size(simulation->host_peak_bytes, a, sizeof a));
  printf("stall   %s beside %s of compute\n", as_time(simulation->stall_ns, a), as_time(simulation->compute_ns, b));
  for (size_t i = 0; i < simulation->n_faults && i < FAULTS_SHOWN; i++)
    printf("fault   op %llu, SID %llu: %s\n", (unsigned long long)simulation->faults[i].op,
           (unsigned long long)simulation->faults[i].sid, simulation->faults[i].what);
  if (simulation->n_faults > FAULTS_SHOWN) printf("        and %s more\n", with_commas(simulation->n_faults - FAULTS_SHOWN, a));
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule = NULL;
  td_simulation *simulation = NULL;
  td_error err;
  int64_t number;
  if (!number_arg(args, "schedule", TD_NEWEST, &number) || !open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  td_status status = td_tape_load_schedule(tape, info.trace, number, &schedule, &err);
  if (!status) status = td_simulate(trace, schedule, false, &simulation, &err);
  int exit_code = EXIT_TROUBLE;
  if (status) {
    failed(args, &err);
  } else {
    exit_code = simulation->ok ? EXIT_DONE : EXIT_NO;
    if (arg(args, "json")) print_json(args, schedule, simulation);
    else print_text(schedule, simulation);
  }
  td_simulation_destroy(simulation);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {{"schedule", "ID", "the schedule to play; default: the newest", '\0'},
                                     OPTION_TRACE,
                                     OPTION_JSON,
                                     {0}};

const verb verb_simulate = {
    .name = "simulate",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Play a schedule on the machine model and list its faults",
    .details = "Exit code 1: the schedule is faulty.",
    .example = "tapedeck simulate step.tape --json",
    .options = options,
    .run = run,
};
