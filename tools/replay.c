/* replay: run the recorded step on a device with real allocations and copies, as a dry run for production. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapedeck/device.h>
#include <tapedeck/replayer.h>
#include <tapedeck/run.h>
#include <tapedeck/size.h>

#include "place.h"
#include "play.h"
#include "progress.h"
#include "verbs.h"

/* What the verb was asked for, and what it works on. */
typedef struct job {
  const args *args;
  const td_trace *trace;
  const td_schedule *schedule;
  int64_t trace_number, steps;
  double time_scale;
  uint64_t capacity; /* of the device; 0: as it is */
  uint64_t done;     /* ops */
  td_device *device;
  uint64_t op_began_ns;
} job;

/* ---- computing ------------------------------------------------------------------------------------------------ */

static uint64_t now_ns(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void op_started(void *context)
{
  ((job *)context)->op_began_ns = now_ns();
}

/* In place of the op's own work, of which filling and checking the bytes is a part. Sleeping is not exact to less than a tenth of a
 * millisecond: the rest is waited for awake. */
static void wait_as_long(void *context, uint64_t ns)
{
  job *job = context;
  progress_show(job->done++, job->trace->n_ops * (uint64_t)job->steps, "ops");
  uint64_t end = job->op_began_ns + (uint64_t)((double)ns * job->time_scale);
  for (uint64_t now = now_ns(); now < end; now = now_ns()) {
    if (end - now < 200000) continue;
    uint64_t nap = end - now - 100000;
    nanosleep(&(struct timespec){.tv_sec = (time_t)(nap / 1000000000u), .tv_nsec = (long)(nap % 1000000000u)}, NULL);
  }
}

/* ---- answers -------------------------------------------------------------------------------------------------- */

static void waits_json(cJSON *json, const td_deck *deck)
{
  size_t n;
  const td_wait *waits = td_deck_waits(deck, &n);
  cJSON *list = cJSON_AddArrayToObject(json, "waits");
  for (size_t i = 0; i < n; i++) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddNumberToObject(item, "op", (double)waits[i].op);
    json_u64(item, "sid", waits[i].sid);
    json_u64(item, "bytes", waits[i].bytes);
    json_u64(item, "waited_ns", waits[i].waited_ns);
    cJSON_AddBoolToObject(item, "was_away", waits[i].was_away);
    cJSON_AddItemToArray(list, item);
  }
}

static void report_json(const job *job, const play *played, const td_step_stats *stats, const char *trouble_text)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "ok", !trouble_text && !played->wrong_bytes);
  json_u64(json, "schedule_id", (uint64_t)job->schedule->id);
  json_string(json, "device", td_device_name(job->device));
  json_u64(json, "capacity_bytes", job->capacity);
  json_u64(json, "ops", stats->ops);
  json_u64(json, "checked_bytes", played->checked_bytes);
  json_u64(json, "wrong_bytes", played->wrong_bytes);
  json_u64(json, "peak_bytes", stats->peak_bytes);
  json_u64(json, "host_peak_bytes", stats->host_peak_bytes);
  json_u64(json, "d2h_bytes", stats->d2h_bytes);
  json_u64(json, "h2d_bytes", stats->h2d_bytes);
  json_u64(json, "stall_ns", stats->stall_ns);
  json_u64(json, "demand_faults", stats->demand_faults);
  json_u64(json, "late_prefetches", stats->late_prefetches);
  json_u64(json, "step_ns", stats->step_ns);
  waits_json(json, played->deck);
  if (trouble_text) json_string(json, "error", trouble_text);
  json_print(job->args, json);
}

static void report_text(const job *job, const play *played, const td_step_stats *stats)
{
  char a[32], b[32];
  printf("peak    %s of %s\n", td_format_size(stats->peak_bytes, a, sizeof a),
         job->capacity ? td_format_size(job->capacity, b, sizeof b) : "any size");
  printf("copies  %s out, %s in", td_format_size(stats->d2h_bytes, a, sizeof a), td_format_size(stats->h2d_bytes, b, sizeof b));
  printf("; at most %s on the host\n", td_format_size(stats->host_peak_bytes, a, sizeof a));
  printf("stall   %s of a step of %s\n", as_time(stats->stall_ns, a), as_time(stats->step_ns, b));
  if (stats->late_prefetches) printf("late    %s storages were waited for\n", with_commas(stats->late_prefetches, a));
  if (stats->demand_faults) printf("faults  %s storages were needed while away\n", with_commas(stats->demand_faults, a));
  printf("checked %s: %s\n", td_format_size(played->checked_bytes, a, sizeof a), played->wrong_bytes ? "WRONG" : "every byte right");
  if (played->wrong_bytes)
    printf("wrong   %s bytes, first at op %llu in SID %llu\n", with_commas(played->wrong_bytes, a),
           (unsigned long long)played->first_wrong_op, (unsigned long long)played->first_wrong_sid);
}

/* ---- the steps ------------------------------------------------------------------------------------------------ */

static bool keep_run(const job *job, const td_deck *deck, const td_step_stats *stats)
{
  td_error err;
  td_run run = {.at_unix = (int64_t)time(NULL), .stats = *stats};
  run.waits = (td_wait *)td_deck_waits(deck, &run.n_waits);
  snprintf(run.device, sizeof run.device, "%s", td_device_name(job->device));
  if (!td_tape_add_run(job->args->operands[0], &run, &err)) return true;
  failed(job->args, &err);
  return false;
}

/* The last step's figures are the ones that count: those before warm up, and bring late copies forward. */
static int play_steps(const job *job, play *played)
{
  td_step_stats stats = {0};
  td_status status = play_init(played) ? TD_OK : TD_E_NOMEM;
  bool kept = true;
  if (status) snprintf(played->error.message, sizeof played->error.message, "out of memory");
  progress_begin("replaying");
  for (int64_t i = 0; i < job->steps && !status && kept; i++) {
    status = play_step(played);
    td_deck_stats(played->deck, &stats);
    if (!status && arg(job->args, "report")) kept = keep_run(job, played->deck, &stats);
  }
  progress_end();
  const char *what = status ? played->error.message : NULL;
  if (status) trouble(job->args, "%s", what);
  if (arg(job->args, "json")) report_json(job, played, &stats, what);
  else if (!status) report_text(job, played, &stats);
  return !kept ? EXIT_TROUBLE : status || played->wrong_bytes ? EXIT_NO : EXIT_DONE;
}

static int replay(job *job)
{
  td_error err;
  play played = {.trace = job->trace,
                 .on_host = !strcmp(td_device_name(job->device), "host"),
                 .started = op_started,
                 .compute = wait_as_long,
                 .context = job};
  td_replayer_options options = {.path = job->args->operands[0],
                                 .trace = job->trace_number,
                                 .schedule = job->schedule->id,
                                 .device = job->device,
                                 .limit_bytes = job->capacity,
                                 .policy = TD_STRICT};
  if (td_replayer_create(&played.deck, &options, &err)) return failed(job->args, &err);
  int exit_code = play_steps(job, &played);
  play_finish(&played);
  td_deck_destroy(played.deck);
  return exit_code;
}

/* ---- the verb ------------------------------------------------------------------------------------------------- */

static bool open_device(job *job)
{
  td_error err;
  td_device_options options = {0};
  const char *text = arg(job->args, "capacity"), *name = arg(job->args, "device");
  job->capacity = job->schedule->memory_limit_bytes;
  if (text && td_parse_size(text, job->schedule->memory_limit_bytes, &job->capacity, &err)) {
    trouble(job->args, "--capacity: %s", err.message);
    return false;
  }
  if (!rate_arg(job->args, "d2h", &options.d2h_bytes_per_s) || !rate_arg(job->args, "h2d", &options.h2d_bytes_per_s)) return false;
  if (job->capacity == UINT64_MAX) job->capacity = 0;
  options.capacity_bytes = job->capacity;
  if (!td_device_open(&job->device, name ? name : "host", &options, &err)) return true;
  failed(job->args, &err);
  return false;
}

static bool read_numbers(job *job)
{
  const char *text = arg(job->args, "time-scale");
  char *end = NULL;
  job->time_scale = text ? strtod(text, &end) : 0;
  if (text && (end == text || *end || !(job->time_scale >= 0 && job->time_scale <= 1e6))) {
    trouble(job->args, "--time-scale %s: expected a factor for the recorded durations, such as 1 or 0.1", text);
    return false;
  }
  return number_arg(job->args, "steps", 1, &job->steps);
}

static int run(const args *args)
{
  job job = {.args = args};
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule = NULL;
  td_error err;
  int64_t number;
  int exit_code = EXIT_TROUBLE;
  if (!read_numbers(&job) || !number_arg(args, "schedule", TD_NEWEST, &number)) return EXIT_TROUBLE;
  if (!place_is_tapes(args) || !open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  job.trace = trace;
  job.trace_number = info.trace;
  td_status status = td_tape_load_schedule(tape, info.trace, number, &schedule, &err);
  td_tape_close(tape);
  job.schedule = schedule;
  if (status) failed(args, &err);
  else if (open_device(&job)) exit_code = replay(&job);
  td_device_close(job.device);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return exit_code;
}

static const option_def options[] = {
    {"schedule", "ID", "the schedule to replay; default: the newest", '\0'},
    {"device", "DEVICE", "where to run; tapedeck devices lists them; default: host", '\0'},
    {"capacity", "SIZE", "memory of the device; default: the schedule's budget", '\0'},
    {"d2h", "RATE", "slow the host device's copies to the host down to this rate", '\0'},
    {"h2d", "RATE", "slow the host device's copies to the device down to this rate", '\0'},
    {"time-scale", "X", "let each op take X times its recorded duration; default: no time", '\0'},
    {"steps", "N", "run the step so many times and report the last; default: 1", '\0'},
    {"report", NULL, "append what happened in each step to the tape", '\0'},
    {"sharding", "PLAN", "refuse a tape that was recorded under another sharding plan", '\0'},
    PLACE_OPTIONS,
    OPTION_TRACE,
    OPTION_JSON,
    {0},
};

const verb verb_replay = {
    .name = "replay",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Run the recorded step on a device with real allocations and copies",
    .details = "A dry run for production: the ops do not compute, but every byte that is read is checked. Exit code 1: a byte was wrong,\n"
               "or the device could not hold the step.",
    .example = "tapedeck replay step.tape --time-scale 1 --d2h 20GiB --h2d 20GiB",
    .options = options,
    .run = run,
};
