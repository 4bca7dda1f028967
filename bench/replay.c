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

void bench_replay(void)
{
  td_deck *deck;
  td_device *device;
  const char *path = bench_file("replay.tape");
  double recorded = bench_median(record, (void *)path);
  td_schedule *schedule = calloc(1, sizeof *schedule);
  schedule->planner = strdup("none");
  schedule->memory_limit_bytes = schedule->host_limit_bytes = UINT64_MAX;
  if (td_tape_add_schedule(path, TD_NEWEST, schedule, &err) || td_device_open(&device, "host", NULL, &err) ||
      td_replayer_create(&deck, &(td_replayer_options){.path = path, .device = device}, &err)) {
    fprintf(stderr, "bench: %s\n", err.message);
    exit(2);
  }
  td_schedule_destroy(schedule);
  bench_row("replay, an op without actions", "ns/op", bench_median(replay, deck), recorded, "recording it");
  td_deck_destroy(deck);
  td_device_close(device);
}
