/* The README's lines as a whole program: a chain of eight layers on a device that holds four. */
#include <stdint.h>
#include <stdio.h>

#include <tapedeck/planner.h>
#include <tapedeck/recorder.h>
#include <tapedeck/replayer.h>

static float input[1024] = {1};
static int wrong;

static void forward(const float *from, float *to)
{
  for (int i = 0; i < 1024; i++) to[i] = from[i] + (float)i;
}

static void backward(const float *at, int layer)
{
  for (int i = 1; i < 1024; i++) wrong += at[i] != (float)(layer * i);
}

#include "readme_2.inc"

int main(void)
{
  td_device *large = NULL, *small = NULL;
  td_deck *deck = NULL;
  td_tape *tape = NULL;
  td_trace *trace = NULL;
  td_schedule *schedule = NULL;
  td_step_stats stats = {0};
  td_error err = {0};
  td_device_open(&large, "host", NULL, &err);
  td_device_open(&small, "host", &(td_device_options){.capacity_bytes = 16 << 10}, &err);
#define td_deck_destroy(deck) (td_deck_stats(deck, &stats), td_deck_destroy(deck)) /* a look at the last step before it goes */
#include "readme_1.inc"
#undef td_deck_destroy
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  td_tape_close(tape);
  td_device_close(small);
  td_device_close(large);
  int good = !err.status && !wrong && stats.replayed && stats.ops == 16 && stats.peak_bytes <= 16 << 10 && stats.d2h_bytes;
  if (!good) fprintf(stderr, "%s, %d numbers wrong, %d ops\n", err.message, wrong, (int)stats.ops);
  return !good;
}
