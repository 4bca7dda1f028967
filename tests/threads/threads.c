/* What runs on several threads, for ThreadSanitizer, under which Criterion cannot start: the recorder's writer, and the host
 * device's copy engines. */
#include <stdio.h>
#include <stdlib.h>

#include <tapedeck/recorder.h>
#include <tapedeck/session.h>
#include <tapedeck/trace.h>

#include "program.h"
#include "temp_dir.h"

static void check(td_status status, const char *message)
{
  if (!status) return;
  fprintf(stderr, "%s\n", message);
  exit(1);
}

#define DECK(call) check((call), td_deck_error(deck)->message)

/* More ops than the queue holds, so that the caller has to wait for the writer. */
static void record_many_ops(const char *path)
{
  td_deck *deck;
  td_error err;
  td_storage weight, out;
  check(td_recorder_create(&deck, &(td_recorder_options){.path = path}, &err), err.message);
  DECK(td_storage_born(deck, 0, 4096, &weight));
  for (int step = 0; step < 3; step++) {
    DECK(td_step_begin(deck));
    for (int i = 0; i < 50000; i++) {
      DECK(td_op_begin(deck, i % 3 ? "matmul" : "add"));
      DECK(td_storage_born(deck, 0, 64, &out));
      DECK(td_read(deck, weight));
      DECK(td_output(deck, 0, out));
      DECK(td_op_end(deck, (uint64_t)i));
      DECK(td_release(deck, out));
    }
    if (step == 1) DECK(td_step_abort(deck));
    else DECK(td_step_end(deck));
  }
  td_deck_destroy(deck);
}

/* Records, plans and replays inside a budget, with copies both ways; the result does not depend on them. */
static uint64_t train(const char *path, uint64_t budget)
{
  td_device *device;
  td_deck *deck;
  td_error err;
  program p;
  check(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = budget}, &err), err.message);
  check(td_session_create(&deck, &(td_session_options){.path = path, .device = device, .budget_bytes = budget}, &err),
        err.message);
  DECK(program_init(&p, deck));
  for (int step = 0; step < 20; step++) DECK(program_step(&p, deck));
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  if (budget && (!stats.replayed || !stats.d2h_bytes)) check(TD_E_STATE, "nothing was copied out");
  td_deck_destroy(deck);
  td_device_close(device);
  return p.loss_value;
}

int main(void)
{
  temp_dir dir = temp_dir_create();
  record_many_ops(temp_file(&dir, "many.tape"));
  uint64_t with = train(temp_file(&dir, "step.tape"), 30000), without = train(temp_file(&dir, "step.tape"), 0);
  temp_dir_remove(&dir);
  if (with != without) check(TD_E_STATE, "the results differ");
  return 0;
}
