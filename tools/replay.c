/* replay: run the recorded step on a device with real allocations and copies.
 *
 * The step's ops do not compute. Each write fills its storage with a pattern made from SID and version, and each read checks
 * every byte of it, so a byte that came back wrong, late or not at all is found. */
#include <stdlib.h>
#include <string.h>

#include <tapedeck/device.h>
#include <tapedeck/replayer.h>
#include <tapedeck/size.h>

#include "place.h"
#include "verbs.h"

typedef struct player {
  const args *args;
  const td_trace *trace;
  td_deck *deck;
  td_storage *storage; /* by index into the trace's storages; {0}: not there */
  uint64_t *version;   /* likewise: writes so far */
  uint32_t *frees;     /* storages in the order in which they go */
  uint64_t *end;       /* the op before which each goes */
  size_t n_frees, next_free;
  uint64_t wrong_bytes, checked_bytes;
  uint64_t first_wrong_op, first_wrong_sid;
} player;

/* ---- the pattern ---------------------------------------------------------------------------------------------- */

/* Word number `i` of a version; the multipliers are those of splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t word(uint64_t sid, uint64_t version, uint64_t i)
{
  uint64_t x = (sid + 1) * 0xbf58476d1ce4e5b9u + version * 0x94d049bb133111ebu + i * 0x9e3779b97f4a7c15u;
  return x ^ x >> 31;
}

static void fill(uint8_t *at, uint64_t bytes, uint64_t sid, uint64_t version)
{
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t value = word(sid, version, i / 8);
    memcpy(at + i, &value, bytes - i < 8 ? (size_t)(bytes - i) : 8);
  }
}

static uint64_t count_wrong(const uint8_t *at, uint64_t bytes, uint64_t sid, uint64_t version)
{
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < bytes; i += 8) {
    uint64_t value = word(sid, version, i / 8);
    size_t n = bytes - i < 8 ? (size_t)(bytes - i) : 8;
    if (memcmp(at + i, &value, n) == 0) continue;
    for (size_t k = 0; k < n; k++) wrong += at[i + k] != (uint8_t)(value >> (8 * k));
  }
  return wrong;
}

/* ---- the step ------------------------------------------------------------------------------------------------- */

static td_status name_accesses(player *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  td_status status = TD_OK;
  for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access && !status; i++) {
    uint32_t number = trace->accesses[i].storage;
    if (p->storage[number].id == 0 && trace->storages[number].activation)
      status = td_storage_alloc(p->deck, trace->storages[number].bytes, &p->storage[number]);
    if (!status)
      status = trace->accesses[i].kind == TD_READ ? td_read(p->deck, p->storage[number]) : td_write(p->deck, p->storage[number]);
  }
  return status;
}

static td_status name_outputs(player *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  td_status status = td_leaves(p->deck, trace->ops[op].leaves);
  for (uint64_t i = trace->ops[op].first_output; i < trace->ops[op + 1].first_output && !status; i++) {
    uint32_t number = trace->outputs[i].storage;
    if (p->storage[number].id == 0) status = td_storage_alloc(p->deck, trace->storages[number].bytes, &p->storage[number]);
    if (!status) status = td_output(p->deck, trace->outputs[i].leaf, p->storage[number]);
  }
  return status;
}

static void check(player *p, uint64_t op, uint32_t number)
{
  const td_storage_info *storage = &p->trace->storages[number];
  const uint8_t *at = td_data(p->deck, p->storage[number]);
  uint64_t wrong = !storage->bytes ? 0 : at ? count_wrong(at, storage->bytes, storage->sid, p->version[number]) : storage->bytes;
  if (wrong && !p->wrong_bytes) {
    p->first_wrong_op = op;
    p->first_wrong_sid = storage->sid;
  }
  p->wrong_bytes += wrong;
  p->checked_bytes += storage->bytes;
}

/* What the op would compute: it reads everything, then writes. */
static void touch(player *p, uint64_t op)
{
  const td_trace *trace = p->trace;
  for (int kind = TD_READ; kind <= TD_WRITE; kind++) {
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
      uint32_t number = trace->accesses[i].storage;
      const td_storage_info *storage = &trace->storages[number];
      if (!storage->activation || (int)trace->accesses[i].kind != kind) continue;
      if (kind == TD_READ && p->version[number]) check(p, op, number);
      uint8_t *at = td_data(p->deck, p->storage[number]);
      if (kind == TD_WRITE && at) fill(at, storage->bytes, storage->sid, ++p->version[number]);
    }
  }
}

static td_status play_op(player *p, uint64_t op)
{
  const td_name *name = &p->trace->names[p->trace->ops[op].name];
  td_status status = td_op_begin_n(p->deck, name->bytes, name->length);
  if (!status) status = name_accesses(p, op);
  if (!status) status = name_outputs(p, op);
  if (!status) status = td_op_run(p->deck);
  if (status) return status;
  touch(p, op);
  return td_op_end(p->deck, TD_MEASURE);
}

static td_status play_frees(player *p, uint64_t op)
{
  td_status status = TD_OK;
  for (; p->next_free < p->n_frees && p->end[p->frees[p->next_free]] <= op && !status; p->next_free++) {
    uint32_t number = p->frees[p->next_free];
    if (p->storage[number].id) status = td_storage_freed(p->deck, p->storage[number]);
  }
  return status;
}

static td_status born(player *p)
{
  td_status status = TD_OK;
  for (uint32_t i = 0; i < p->trace->n_storages && !status; i++)
    if (!p->trace->storages[i].activation) status = td_storage_born(p->deck, 0, p->trace->storages[i].bytes, &p->storage[i]);
  return status;
}

/* What is retained must be whole at the end, wherever it is. */
static void check_retained(player *p)
{
  for (uint32_t i = 0; i < p->trace->n_retained; i++) {
    uint32_t number = p->trace->retained[i];
    if (p->storage[number].id && p->version[number]) check(p, p->trace->n_ops, number);
  }
}

static td_status play_step(player *p)
{
  td_status status = born(p);
  if (!status) status = td_step_begin(p->deck);
  for (uint64_t op = 0; op < p->trace->n_ops && !status; op++) {
    status = play_frees(p, op);
    if (!status) status = play_op(p, op);
  }
  if (!status) status = play_frees(p, p->trace->n_ops);
  if (!status) status = td_step_end(p->deck);
  if (!status) check_retained(p);
  return status;
}

/* ---- preparing ------------------------------------------------------------------------------------------------ */

static const uint64_t *ends; /* for by_end, which qsort gives no context */

static int by_end(const void *a, const void *b)
{
  uint64_t x = ends[*(const uint32_t *)a], y = ends[*(const uint32_t *)b];
  return (x > y) - (x < y);
}

/* A storage goes when the framework freed it; where the trace does not say, after its last access. */
static bool prepare(player *p)
{
  const td_trace *trace = p->trace;
  p->storage = calloc((size_t)trace->n_storages + 1, sizeof *p->storage);
  p->version = calloc((size_t)trace->n_storages + 1, sizeof *p->version);
  p->end = calloc((size_t)trace->n_storages + 1, sizeof *p->end);
  p->frees = calloc((size_t)trace->n_activations + 1, sizeof *p->frees);
  if (!p->storage || !p->version || !p->end || !p->frees) return false;
  for (uint64_t op = 0; op < trace->n_ops; op++)
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      p->end[trace->accesses[i].storage] = op + 1;
  for (uint32_t i = 0; i < trace->n_activations; i++) {
    const td_storage_info *storage = &trace->storages[trace->activations[i]];
    if (storage->retained) continue;
    if (storage->freed_before_op != TD_NEVER && storage->freed_before_op > p->end[trace->activations[i]])
      p->end[trace->activations[i]] = storage->freed_before_op;
    p->frees[p->n_frees++] = trace->activations[i];
  }
  ends = p->end;
  qsort(p->frees, p->n_frees, sizeof *p->frees, by_end);
  return true;
}

/* ---- the verb ------------------------------------------------------------------------------------------------- */

static void report_json(const player *p, const td_schedule *schedule, const td_step_stats *stats, uint64_t capacity,
                        const char *trouble_text)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "ok", !trouble_text && !p->wrong_bytes);
  json_u64(json, "schedule_id", (uint64_t)schedule->id);
  json_u64(json, "capacity_bytes", capacity);
  json_u64(json, "ops", stats->ops);
  json_u64(json, "checked_bytes", p->checked_bytes);
  json_u64(json, "wrong_bytes", p->wrong_bytes);
  json_u64(json, "peak_bytes", stats->peak_bytes);
  json_u64(json, "host_peak_bytes", stats->host_peak_bytes);
  json_u64(json, "d2h_bytes", stats->d2h_bytes);
  json_u64(json, "h2d_bytes", stats->h2d_bytes);
  json_u64(json, "stall_ns", stats->stall_ns);
  json_u64(json, "demand_faults", stats->demand_faults);
  json_u64(json, "step_ns", stats->step_ns);
  if (trouble_text) json_string(json, "error", trouble_text);
  json_print(p->args, json);
}

static void report_text(const player *p, const td_step_stats *stats, uint64_t capacity)
{
  char a[32], b[32];
  printf("peak    %s of %s\n", td_format_size(stats->peak_bytes, a, sizeof a),
         capacity ? td_format_size(capacity, b, sizeof b) : "any size");
  printf("copies  %s out, %s in", td_format_size(stats->d2h_bytes, a, sizeof a), td_format_size(stats->h2d_bytes, b, sizeof b));
  printf("; at most %s on the host\n", td_format_size(stats->host_peak_bytes, a, sizeof a));
  printf("stall   %s of a step of %s\n", as_time(stats->stall_ns, a), as_time(stats->step_ns, b));
  if (stats->demand_faults) printf("faults  %s storages were needed while away\n", with_commas(stats->demand_faults, a));
  printf("checked %s: %s\n", td_format_size(p->checked_bytes, a, sizeof a), p->wrong_bytes ? "WRONG" : "every byte right");
  if (p->wrong_bytes)
    printf("wrong   %s bytes, first at op %llu in SID %llu\n", with_commas(p->wrong_bytes, a),
           (unsigned long long)p->first_wrong_op, (unsigned long long)p->first_wrong_sid);
}

static int replay(player *p, const td_schedule *schedule, td_device *device, int64_t trace, uint64_t capacity)
{
  td_error err;
  td_step_stats stats = {0};
  td_replayer_options options = {
      .path = p->args->operands[0], .trace = trace, .schedule = schedule->id, .device = device, .policy = TD_STRICT};
  if (td_replayer_create(&p->deck, &options, &err)) return failed(p->args, &err);
  td_status status = prepare(p) ? play_step(p) : TD_E_NOMEM;
  if (status) err = *td_deck_error(p->deck);
  if (status && td_in_step(p->deck)) td_step_abort(p->deck);
  td_deck_stats(p->deck, &stats);
  const char *what = status ? err.message : NULL;
  if (status) trouble(p->args, "%s", what);
  if (arg(p->args, "json")) report_json(p, schedule, &stats, capacity, what);
  else if (!status) report_text(p, &stats, capacity);
  td_deck_destroy(p->deck);
  free(p->storage);
  free(p->version);
  free(p->end);
  free(p->frees);
  return status || p->wrong_bytes ? EXIT_NO : EXIT_DONE;
}

static bool open_device(const args *args, const td_schedule *schedule, td_device **device, uint64_t *capacity)
{
  td_error err;
  td_device_options options = {.capacity_bytes = schedule->memory_limit_bytes};
  const char *text = arg(args, "capacity"), *name = arg(args, "device");
  if (text && td_parse_size(text, schedule->memory_limit_bytes, &options.capacity_bytes, &err)) {
    trouble(args, "--capacity: %s", err.message);
    return false;
  }
  if (!rate_arg(args, "d2h", &options.d2h_bytes_per_s) || !rate_arg(args, "h2d", &options.h2d_bytes_per_s)) return false;
  if (options.capacity_bytes == UINT64_MAX) options.capacity_bytes = 0;
  *capacity = options.capacity_bytes;
  if (!td_device_open(device, name ? name : "host", &options, &err)) return true;
  failed(args, &err);
  return false;
}

/* Refuses a tape of another plan or another place in the mesh than the caller's. */
static bool check_place(const args *args)
{
  place_args place = {0};
  const char *path = arg(args, "sharding");
  int64_t trace;
  td_error err;
  if (!place_from_args(args, &place) || !number_arg(args, "trace", TD_NEWEST, &trace)) return false;
  char *plan = path ? read_plan_text(args, path) : NULL;
  place.place.plan = plan;
  bool refused = (path && !plan) || td_tape_check_sharding(args->operands[0], trace, &place.place, &err);
  if (refused && (!path || plan)) failed(args, &err);
  free(plan);
  return !refused;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule = NULL;
  td_device *device = NULL;
  td_error err;
  int64_t number;
  uint64_t capacity;
  int exit_code = EXIT_TROUBLE;
  if (!number_arg(args, "schedule", TD_NEWEST, &number) || !check_place(args)) return EXIT_TROUBLE;
  if (!open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  if (td_tape_load_schedule(tape, info.trace, number, &schedule, &err)) {
    failed(args, &err);
  } else if (open_device(args, schedule, &device, &capacity)) {
    player p = {.args = args, .trace = trace};
    exit_code = replay(&p, schedule, device, info.trace, capacity);
  }
  td_device_close(device);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {
    {"schedule", "ID", "the schedule to replay; default: the newest", '\0'},
    {"device", "NAME", "where to run; default: host", '\0'},
    {"capacity", "SIZE", "memory of the device; default: the schedule's budget", '\0'},
    {"d2h", "RATE", "slow copies to the host down to this rate", '\0'},
    {"h2d", "RATE", "slow copies to the device down to this rate", '\0'},
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
    .details = "Every byte that is read is checked. Exit code 1: a byte was wrong, or the device could not hold the step.",
    .example = "tapedeck replay step.tape --device host",
    .options = options,
    .run = run,
};
