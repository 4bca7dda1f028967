/* info: what can be told of a trace at a glance. */
#include <stdlib.h>
#include <sys/stat.h>

#include <tapedeck/sharding.h>
#include <tapedeck/size.h>

#include "verbs.h"

/* What else there is in the tape. */
typedef struct around {
  int64_t traces;
  size_t schedules; /* of this trace */
  uint64_t file_bytes;
} around;

static void add_numbers(cJSON *json, const char *key, const uint64_t *numbers, size_t n)
{
  cJSON *list = numbers ? cJSON_AddArrayToObject(json, key) : NULL;
  for (size_t i = 0; list && i < n; i++) cJSON_AddItemToArray(list, cJSON_CreateNumber((double)numbers[i]));
}

static void add_place(cJSON *json, const td_sharding_place *place)
{
  if (place->world_size) {
    json_u64(json, "rank", place->rank);
    json_u64(json, "world_size", place->world_size);
  }
  add_numbers(json, "mesh_shape", place->mesh_shape, place->n_mesh);
  add_numbers(json, "mesh_coords", place->mesh_coords, place->n_mesh);
  if (place->digest) json_string(json, "sharding_digest", place->digest);
}

static int print_json(const args *args, const td_trace_info *info, const td_sharding_place *place, const around *around)
{
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "trace", (uint64_t)info->trace);
  json_u64(json, "traces", (uint64_t)around->traces);
  json_u64(json, "schedules", around->schedules);
  cJSON_AddBoolToObject(json, "complete", info->complete);
  json_u64(json, "ops", info->ops);
  json_u64(json, "accesses", info->accesses);
  json_u64(json, "outputs", info->outputs);
  json_u64(json, "storages", info->storages);
  json_u64(json, "activations", info->activations);
  json_u64(json, "retained", info->retained);
  json_u64(json, "compute_ns", info->compute_ns);
  json_u64(json, "activation_bytes", info->activation_bytes);
  json_u64(json, "retained_bytes", info->retained_bytes);
  json_u64(json, "other_bytes", info->other_bytes);
  json_u64(json, "peak_bytes", info->peak_bytes);
  json_u64(json, "floor_bytes", info->floor_bytes);
  json_u64(json, "file_bytes", around->file_bytes);
  json_string(json, "digest", info->digest);
  add_place(json, place);
  return json_print(args, json);
}

static void print_count(const char *what, uint64_t count)
{
  char text[32];
  printf("%-14s %15s\n", what, with_commas(count, text));
}

static void print_bytes(const char *what, uint64_t bytes, const char *note)
{
  char number[32], size[24];
  printf("%-14s %15s bytes  %10s  %s\n", what, with_commas(bytes, number), td_format_size(bytes, size, sizeof size), note);
}

static void print_numbers(const char *what, const char *before, const uint64_t *numbers, size_t n)
{
  if (!numbers) return;
  printf("%s%s", what, before);
  for (size_t i = 0; i < n; i++) printf("%s%llu", i ? "," : "", (unsigned long long)numbers[i]);
}

/* Where in a job the tape was recorded, if it says so. */
static void print_place(const td_sharding_place *place)
{
  bool mesh = place->mesh_shape || place->mesh_coords;
  if (place->world_size)
    printf("rank %llu of %llu%s", (unsigned long long)place->rank, (unsigned long long)place->world_size, mesh ? ", " : "");
  print_numbers("mesh", " ", place->mesh_shape, place->n_mesh);
  print_numbers(place->mesh_shape ? ", coordinates" : "mesh coordinates", " ", place->mesh_coords, place->n_mesh);
  if (place->world_size || mesh) putchar('\n');
  if (place->digest) printf("sharding plan %s\n", place->digest);
}

#define TRACES_SHOWN 50

/* How the traces of the tape follow each other, where there are several. */
static td_status print_traces(td_tape *tape, int64_t n, td_error *err)
{
  char ops[32], time[32], peak[24], retained[24];
  td_status status = TD_OK;
  if (n < 2) return TD_OK;
  printf("\ntrace          ops       time        peak    retained  digest\n");
  for (int64_t i = n > TRACES_SHOWN ? n - TRACES_SHOWN + 1 : 1; i <= n && !status; i++) {
    td_trace_info info;
    status = td_tape_info(tape, i, &info, err);
    if (status) break;
    printf("%5lld %12s %10s %11s %11s  %s%s\n", (long long)i, with_commas(info.ops, ops), as_time(info.compute_ns, time),
           td_format_size(info.peak_bytes, peak, sizeof peak), td_format_size(info.retained_bytes, retained, sizeof retained), info.digest,
           info.complete ? "" : "  unfinished");
  }
  return status;
}

static void print_text(const td_trace_info *info, const td_sharding_place *place, const around *around)
{
  char text[32];
  printf("trace %lld of %lld, %s, digest %s\n", (long long)info->trace, (long long)around->traces,
         info->complete ? "complete" : "unfinished: the recorder did not end it", info->digest);
  print_place(place);
  putchar('\n');
  print_count("ops", info->ops);
  print_count("accesses", info->accesses);
  print_count("storages", info->storages);
  print_count("activations", info->activations);
  print_count("retained", info->retained);
  print_count("schedules", around->schedules);
  printf("%-14s %15s\n\n", "compute", as_time(info->compute_ns, text));
  print_bytes("peak", info->peak_bytes, "activations at once, without a schedule");
  print_bytes("floor", info->floor_bytes, "no schedule can do with less");
  print_bytes("retained", info->retained_bytes, "activations held when the step ends");
  print_bytes("other", info->other_bytes, "parameters and inputs, outside any budget");
  print_bytes("file", around->file_bytes, "on disk");
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace_info info;
  td_sharding_place *place = NULL;
  const td_sharding_place nowhere = {0};
  td_error err;
  int64_t trace, *schedules = NULL;
  around around = {0};
  struct stat file = {0};
  if (!number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  if (td_tape_open(&tape, args->operands[0], &err)) return failed(args, &err);
  td_status status = td_tape_trace_count(tape, &around.traces, &err);
  if (!status) status = td_tape_info(tape, trace, &info, &err);
  if (!status) status = td_tape_schedules(tape, trace, &schedules, &around.schedules, &err);
  free(schedules);
  /* A plan that cannot be read is no reason to say nothing of the trace. */
  if (!status && td_tape_sharding(tape, info.trace, &place, &err)) trouble(args, "%s", err.message);
  stat(args->operands[0], &file);
  around.file_bytes = (uint64_t)file.st_size;
  int exit_code = EXIT_DONE;
  if (!status && arg(args, "json")) {
    exit_code = print_json(args, &info, place ? place : &nowhere, &around);
  } else if (!status) {
    print_text(&info, place ? place : &nowhere, &around);
    status = print_traces(tape, around.traces, &err);
  }
  td_sharding_place_destroy(place);
  td_tape_close(tape);
  return status ? failed(args, &err) : exit_code;
}

static const option_def options[] = {OPTION_TRACE, OPTION_JSON, {0}};

const verb verb_info = {
    .name = "info",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Say what a tape holds: ops, storages, peak, floor, digest",
    .example = "tapedeck info step.tape",
    .options = options,
    .run = run,
};
