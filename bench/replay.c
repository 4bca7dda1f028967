/* Replaying: what an op costs at which nothing is due, beside the same op on a recorder. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/recorder.h>
#include <tapedeck/replayer.h>
#include <tapedeck/trace.h>

#include "bench.h"

enum { OPS = 1000000 };

static td_error err;

/* Ops that touch nothing: what every op costs. */
static double bare_step(void *context)
{
  td_deck *deck = context;
  td_step_begin(deck);
  uint64_t wall = bench_wall_ns();
  for (int i = 0; i < OPS; i++) {
    td_op_begin_n(deck, "aten.add_.Tensor", 16);
    td_op_end(deck, 1000);
  }
  double result = (double)(bench_wall_ns() - wall) / OPS;
  if (td_step_end(deck)) fprintf(stderr, "bench: %s\n", td_deck_error(deck)->message);
  return result;
}

/* A step of ops that read two storages and bind one output; ns an op. */
static double step(td_deck *deck)
{
  td_storage a, b;
  td_storage_born(deck, 1, 4096, &a);
  td_storage_born(deck, 2, 4096, &b);
  td_step_begin(deck);
  uint64_t wall = bench_wall_ns();
  for (int i = 0; i < OPS; i++) {
    td_op_begin_n(deck, "aten.add_.Tensor", 16);
    td_read(deck, a);
    td_write(deck, b);
    td_output(deck, 0, b);
    td_op_end(deck, 1000);
  }
  double result = (double)(bench_wall_ns() - wall) / OPS;
  if (td_step_end(deck)) fprintf(stderr, "bench: %s\n", td_deck_error(deck)->message);
  return result;
}

static double replay(void *context)
{
  return step(context);
}

static double record(void *context)
{
  td_deck *deck;
  if (td_recorder_create(&deck, &(td_recorder_options){.path = context}, &err)) return -1;
  double result = step(deck);
  td_deck_destroy(deck);
  return result;
}

static void add_empty_schedule(const char *path)
{
  td_schedule *schedule = calloc(1, sizeof *schedule);
  schedule->planner = strdup("none");
  schedule->memory_limit_bytes = schedule->host_limit_bytes = UINT64_MAX;
  if (td_tape_add_schedule(path, TD_NEWEST, schedule, &err)) fprintf(stderr, "bench: %s\n", err.message);
  td_schedule_destroy(schedule);
}

typedef struct opening {
  const char *path;
  td_device *device;
  double ops;
} opening;

static double load(void *context)
{
  const opening *o = context;
  td_deck *deck;
  uint64_t wall = bench_wall_ns();
  if (td_replayer_create(&deck, &(td_replayer_options){.path = o->path, .device = o->device}, &err)) return -1;
  double result = (double)(bench_wall_ns() - wall) / o->ops;
  td_deck_destroy(deck);
  return result;
}

static double load_whole(void *context)
{
  const opening *o = context;
  td_tape *tape;
  td_trace *trace;
  uint64_t wall = bench_wall_ns();
  if (td_tape_open(&tape, o->path, &err) || td_tape_load_trace(tape, TD_NEWEST, &trace, &err)) return -1;
  double result = (double)(bench_wall_ns() - wall) / o->ops;
  td_trace_destroy(trace);
  td_tape_close(tape);
  return result;
}

static td_deck *open_replay(const char *path, td_device *device)
{
  td_deck *deck;
  if (!td_replayer_create(&deck, &(td_replayer_options){.path = path, .device = device}, &err)) return deck;
  fprintf(stderr, "bench: %s\n", err.message);
  exit(2);
}

static double record_bare(void *context)
{
  td_deck *deck;
  if (td_recorder_create(&deck, &(td_recorder_options){.path = context}, &err)) return -1;
  double result = bare_step(deck);
  td_deck_destroy(deck);
  return result;
}

void bench_replay(void)
{
  td_device *device;
  if (td_device_open(&device, "host", NULL, &err)) exit(2);
  const char *path = bench_file("replay.tape"), *bare_path = bench_file("bare.tape");
  double recorded = bench_median(record, (void *)path), recorded_bare = bench_median(record_bare, (void *)bare_path);
  add_empty_schedule(path);
  add_empty_schedule(bare_path);
  opening o = {.path = path, .device = device, .ops = OPS};
  bench_row("load for replay, a million ops", "ns/op", bench_median(load, &o), bench_median(load_whole, &o), "loading the trace whole");
  td_deck *deck = open_replay(path, device), *bare = open_replay(bare_path, device);
  bench_row("replay, an op that touches three storages", "ns/op", bench_median(replay, deck), recorded, "recording it");
  bench_row("replay, an op that touches none", "ns/op", bench_median(bare_step, bare), recorded_bare, "recording it");
  td_deck_destroy(deck);
  td_deck_destroy(bare);
  td_device_close(device);
}
