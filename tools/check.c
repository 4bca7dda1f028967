/* check: everything in a tape that is suspicious, with the reason and what to do. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "listing.h"
#include "uses.h"
#include "verbs.h"

#define DOMINATES 0.5       /* of all time: one op */
#define UNREAD 0.01         /* of the peak: storages that nothing reads */
#define SLOW_LINK 1e9       /* bytes a second: below, memory is not pinned or the link is not what it should be */
#define SLOW_START 1000000u /* ns */
#define LOPSIDED 4.0        /* one way so many times as fast as the other */
#define STALLS 0.2          /* of the compute */
#define OFF 2.0             /* a schedule's link speed by so much beside what was measured */
#define SCHEDULES_MAX 100   /* the newest ones are looked at */

typedef struct doctor {
  const args *args;
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  use *uses;
  double link[4]; /* as `links` names them; 0: not measured */
  cJSON *json;    /* NULL: print */
  size_t n;
} doctor;

static const char *const links[] = {"d2h_bytes_per_s", "h2d_bytes_per_s", "d2h_latency_ns", "h2d_latency_ns"};

/* One finding: a word for it, what to do, and what is wrong. */
static void find(doctor *d, const char *code, const char *advice, const char *format, ...) __attribute__((format(printf, 4, 5)));

static void find(doctor *d, const char *code, const char *advice, const char *format, ...)
{
  char text[600];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  d->n++;
  if (d->json) {
    cJSON *item = cJSON_CreateObject();
    json_string(item, "code", code);
    json_string(item, "what", text);
    json_string(item, "advice", advice);
    cJSON_AddItemToArray(d->json, item);
  } else {
    printf("%s: %s.\n    %s.\n", code, text, advice);
  }
}

/* ---- the recording ------------------------------------------------------------------------------------------------- */

static void check_whole(doctor *d)
{
  if (!d->info.complete)
    find(d, "unfinished", "Record the step again; tapedeck recover saves what is there", "the recorder did not finish trace %" PRId64, d->info.trace);
  if (!d->trace->n_ops) find(d, "empty", "Call the recorder's ops between step_begin and step_end", "trace %" PRId64 " has no ops", d->info.trace);
}

static void check_durations(doctor *d)
{
  const td_trace *trace = d->trace;
  uint64_t longest = 0, zero = 0;
  char op[128], a[32], b[32];
  for (uint64_t i = 0; i < trace->n_ops; i++) {
    if (trace->ops[i].dur_ns > trace->ops[longest].dur_ns) longest = i;
    zero += trace->ops[i].dur_ns == 0;
  }
  if (!trace->n_ops) return;
  if (zero == trace->n_ops) {
    find(d, "no-durations", "Record with TD_MEASURE, or import with a profile of the same run; until then plans count ops",
         "no op has a duration");
    return;
  }
  if (zero > trace->n_ops / 2)
    find(d, "few-durations", "See that every op ends with its duration or with TD_MEASURE", "%s of %s ops have no duration", with_commas(zero, a),
         with_commas(trace->n_ops, b));
  if (trace->n_ops >= 8 && (double)trace->ops[longest].dur_ns > DOMINATES * (double)d->info.compute_ns)
    find(d, "one-op-dominates", "If it compiles or warms up there, record a later step; plans hide all copies behind this one op",
         "%s takes %s of %s", op_text(trace, longest, op, sizeof op), as_time(trace->ops[longest].dur_ns, a), as_time(d->info.compute_ns, b));
}

static void check_storages(doctor *d)
{
  const td_trace *trace = d->trace;
  uint64_t unread = 0, unread_bytes = 0, unused = 0, largest = 0;
  uint32_t worst = 0;
  char size[24], a[32], op[128];
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    const td_storage_info *storage = &trace->storages[i];
    if (!storage->activation || !storage->bytes) continue;
    if (d->uses[i].first_op == TD_NEVER) {
      unused++;
    } else if (!d->uses[i].reads && !storage->retained) {
      unread++;
      unread_bytes += storage->bytes;
      if (storage->bytes >= largest) largest = storage->bytes, worst = i;
    }
  }
  if (unused)
    find(d, "unused-storages", "See that the ops that use them name them", "no op accesses %s of the %" PRIu32 " activations", with_commas(unused, a),
         trace->n_activations);
  if (unread && (double)unread_bytes >= UNREAD * (double)d->info.peak_bytes)
    find(d, "never-read", "See whether the op that makes them can do without, or an op that reads them is not recorded",
         "%s of activations, %s of %" PRIu32 ", are made and never read; the largest is SID %" PRIu64 " of %s",
         td_format_size(unread_bytes, size, sizeof size), with_commas(unread, a), trace->n_activations, trace->storages[worst].sid, op_text(trace, d->uses[worst].first_op, op, sizeof op));
}

static void check_frees(doctor *d)
{
  if (d->info.activations && !d->trace->has_frees)
    find(d, "no-frees", "Record with td_storage_freed or td_release; until then a plan drops storages after their last access, though the program may hold them",
         "the trace does not tell when storages were freed");
}

/* Each trace holds more at its end than the one before, with as many ops: something is kept from step to step. */
static td_status check_growth(doctor *d, td_error *err)
{
  int64_t n;
  uint64_t first = 0, last = 0;
  char a[24], b[24];
  td_status status = td_tape_trace_count(d->tape, &n, err);
  for (int64_t i = 1; i <= n && !status; i++) {
    td_trace_info info;
    status = td_tape_info(d->tape, i, &info, err);
    if (status || info.ops != d->info.ops || (i > 1 && info.retained_bytes <= last)) return status;
    if (i == 1) first = info.retained_bytes;
    last = info.retained_bytes;
  }
  if (!status && n > 1)
    find(d, "retained-grows", "Look for tensors that are kept from step to step: tapedeck diff --traces 1:2, tapedeck storages --kind retained",
         "what is held at the end of the step grows from %s in trace 1 to %s in trace %" PRId64, td_format_size(first, a, sizeof a),
         td_format_size(last, b, sizeof b), n);
  return status;
}

/* ---- the links ------------------------------------------------------------------------------------------------------- */

static int take_link(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names;
  doctor *d = context;
  for (int i = 0; i < 4; i++)
    if (values[0].type == TD_TEXT && strcmp(values[0].bytes, links[i]) == 0) {
      d->link[i] = values[1].type == TD_TEXT ? strtod(values[1].bytes, NULL) : values[1].type == TD_REAL ? values[1].real : (double)values[1].integer;
    }
  return 0;
}

static td_status check_links(doctor *d, td_error *err)
{
  static const char *const ways[] = {"device to host", "host to device"};
  char a[24], b[24];
  td_status status = td_tape_sql(d->tape, "SELECT key, value FROM meta", take_link, d, err);
  for (int i = 0; i < 2 && !status; i++) {
    if (d->link[i] > 0 && d->link[i] < SLOW_LINK)
      find(d, "slow-link", "See that host memory is pinned and nothing else used the link, and measure again", "%s was measured at %s/s", ways[i],
           td_format_size((uint64_t)d->link[i], a, sizeof a));
    if (d->link[i + 2] > SLOW_START)
      find(d, "late-link", "See that host memory is pinned and nothing else used the link, and measure again",
           "a copy %s takes %s before its first byte", ways[i], as_time((uint64_t)d->link[i + 2], a));
  }
  if (d->link[0] > 0 && d->link[1] > 0 && (d->link[0] > LOPSIDED * d->link[1] || d->link[1] > LOPSIDED * d->link[0]))
    find(d, "lopsided-link", "Measure again; a link is about as fast both ways", "%s/s to the host stand beside %s/s to the device",
         td_format_size((uint64_t)d->link[0], a, sizeof a), td_format_size((uint64_t)d->link[1], b, sizeof b));
  return status;
}

/* ---- schedules --------------------------------------------------------------------------------------------------------- */

static bool is_foreign(const td_fault *fault)
{
  return strcmp(fault->what, "no activation of the trace") == 0 || strcmp(fault->what, "at an op that the trace has not got") == 0;
}

static void check_faults(doctor *d, const td_schedule *schedule, const td_simulation *s)
{
  char a[32];
  bool foreign = false;
  size_t kept = s->n_faults < 1000 ? s->n_faults : 1000;
  for (size_t i = 0; i < kept; i++) foreign |= is_foreign(&s->faults[i]);
  if (foreign)
    find(d, "foreign-schedule", "Plan again for this trace; tapedeck simulate lists all faults", "schedule %" PRId64 " was made for another trace: it names ops or storages that this one has not got",
         schedule->id);
  else if (!s->ok)
    find(d, "faulty-schedule", "Plan again; tapedeck simulate lists all faults", "schedule %" PRId64 " has %s faults, the first at op %" PRIu64 ": %s", schedule->id,
         with_commas(s->n_faults, a), s->faults[0].op, s->faults[0].what);
}

static void check_budget(doctor *d, const td_schedule *schedule, const td_simulation *s)
{
  char a[24], b[24];
  if (schedule->memory_limit_bytes < d->info.floor_bytes)
    find(d, "floor-above-budget", "Give it more, or make the op that sets the floor smaller; tapedeck plan names it",
         "schedule %" PRId64 " has a budget of %s, but no schedule can do with less than %s", schedule->id,
         td_format_size(schedule->memory_limit_bytes, a, sizeof a), td_format_size(d->info.floor_bytes, b, sizeof b));
  if (schedule->memory_limit_bytes >= d->info.peak_bytes && s->d2h_bytes)
    find(d, "needless-copies", "Plan again: nothing has to leave the device", "schedule %" PRId64 " copies %s though its budget holds the peak of %s", schedule->id,
         td_format_size(s->d2h_bytes, a, sizeof a), td_format_size(d->info.peak_bytes, b, sizeof b));
}

static void check_speed(doctor *d, const td_schedule *schedule, const td_simulation *s)
{
  char a[32], b[32];
  const double rates[] = {schedule->d2h_bytes_per_s, schedule->h2d_bytes_per_s};
  if (d->info.compute_ns && (double)s->stall_ns > STALLS * (double)d->info.compute_ns)
    find(d, "stalls", "Give it a larger budget (tapedeck plan --budget auto draws the curve) or a faster link",
         "with schedule %" PRId64 " the step waits %s beside %s of compute", schedule->id, as_time(s->stall_ns, a), as_time(d->info.compute_ns, b));
  for (int i = 0; i < 2; i++)
    if (d->link[i] > 0 && rates[i] > 0 && (rates[i] > OFF * d->link[i] || d->link[i] > OFF * rates[i])) {
      find(d, "other-link-speed", "Plan again with the measured speed", "schedule %" PRId64 " was made for %s/s %s, but %s/s were measured", schedule->id,
           td_format_size((uint64_t)rates[i], a, sizeof a), i ? "to the device" : "to the host", td_format_size((uint64_t)d->link[i], b, sizeof b));
      return;
    }
}

static td_status check_schedules(doctor *d, td_error *err)
{
  int64_t *ids = NULL;
  size_t n = 0;
  td_status status = td_tape_schedules(d->tape, d->info.trace, &ids, &n, err);
  for (size_t i = n > SCHEDULES_MAX ? n - SCHEDULES_MAX : 0; i < n && !status; i++) {
    td_schedule *schedule = NULL;
    td_simulation *simulation = NULL;
    status = td_tape_load_schedule(d->tape, d->info.trace, ids[i], &schedule, err);
    if (!status) status = td_simulate(d->trace, schedule, false, &simulation, err);
    if (!status) {
      check_budget(d, schedule, simulation);
      check_faults(d, schedule, simulation);
      if (simulation->ok) check_speed(d, schedule, simulation);
    }
    td_simulation_destroy(simulation);
    td_schedule_destroy(schedule);
  }
  free(ids);
  return status;
}

/* ---- the verb ------------------------------------------------------------------------------------------------------------ */

static td_status check_all(doctor *d, td_error *err)
{
  check_whole(d);
  check_durations(d);
  check_storages(d);
  check_frees(d);
  td_status status = check_growth(d, err);
  if (!status) status = check_links(d, err);
  return status ? status : check_schedules(d, err);
}

static int print_json(doctor *d)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "ok", d->n == 0);
  cJSON_AddItemToObject(json, "findings", d->json);
  d->json = NULL;
  return json_print(d->args, json) ? EXIT_TROUBLE : d->n ? EXIT_NO : EXIT_DONE;
}

static int run(const args *args)
{
  doctor d = {.args = args};
  td_error err;
  if (!open_trace(args, &d.tape, &d.trace, &d.info)) return EXIT_TROUBLE;
  d.uses = list_uses(d.trace);
  if (arg(args, "json")) d.json = cJSON_CreateArray();
  td_status status = d.uses ? check_all(&d, &err) : TD_E_NOMEM;
  int exit_code = d.n ? EXIT_NO : EXIT_DONE;
  if (!d.uses) exit_code = trouble(args, "out of memory");
  else if (status) exit_code = failed(args, &err);
  else if (d.json) exit_code = print_json(&d);
  else if (!d.n) printf("%s: nothing suspicious\n", args->operands[0]);
  cJSON_Delete(d.json);
  free(d.uses);
  td_trace_destroy(d.trace);
  td_tape_close(d.tape);
  return exit_code;
}

static const option_def options[] = {OPTION_TRACE, OPTION_JSON, {0}};

const verb verb_check = {
    .name = "check",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "List everything in a tape that is suspicious, and what to do",
    .details = "It looks at the newest trace, at how traces follow each other, at the measured links and at the schedules. Exit code 1: something was\n"
               "found. Whether the file itself is sound, tapedeck verify tells.",
    .example = "tapedeck check step.tape",
    .options = options,
    .run = run,
};
