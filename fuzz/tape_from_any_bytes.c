/* Any bytes, and a sound tape with any of its bytes changed: every call ends with an answer or an error, verify and load agree, and
 * what recover saves is sound. An input that begins with E is edits: an offset of four bytes and a new value each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/trace.h>

#include "fuzz.h"

static void use_trace(td_tape *tape, bool sound)
{
  td_trace *trace = NULL;
  td_trace_info info;
  td_schedule *schedule = NULL;
  td_simulation *simulation = NULL;
  td_status status = td_tape_info(tape, TD_NEWEST, &info, NULL);
  if (!status) status = td_tape_load_trace(tape, TD_NEWEST, &trace, NULL);
  if (sound && status && status != TD_E_NOT_FOUND) fuzz_fail("a sound tape cannot be loaded");
  if (trace && !td_tape_load_schedule(tape, TD_NEWEST, TD_NEWEST, &schedule, NULL))
    td_simulate(trace, schedule, true, &simulation, NULL);
  td_simulation_destroy(simulation);
  td_schedule_destroy(schedule);
  schedule = NULL;
  if (trace) td_plan(trace, &(td_plan_options){.budget_bytes = 1300}, &schedule, NULL, NULL);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static uint8_t *base;
  static size_t base_length;
  const char *path = fuzz_file("any.tape"), *saved = fuzz_file("saved.tape");
  uint64_t damages = 1;
  td_tape *tape;
  td_recover_report report;
  if (!base) {
    fuzz_make_tape(path);
    base = fuzz_read(path, &base_length);
  }
  if (size && data[0] == 'E') {
    uint8_t *copy = malloc(base_length);
    memcpy(copy, base, base_length);
    for (size_t i = 1; i + 5 <= size; i += 5) {
      uint32_t offset;
      memcpy(&offset, data + i, 4);
      copy[offset % base_length] = data[i + 4];
    }
    fuzz_write(path, copy, base_length);
    free(copy);
  } else {
    fuzz_write(path, data, size);
  }
  bool sound = !td_tape_verify(path, NULL, NULL, &damages, NULL) && !damages;
  if (!td_tape_open(&tape, path, NULL)) {
    use_trace(tape, sound);
    FILE *out = fopen("/dev/null", "w");
    if (td_export(tape, TD_NEWEST, out, NULL) && sound) fuzz_fail("a sound tape cannot be exported");
    fclose(out);
    td_tape_close(tape);
  } else if (sound) {
    fuzz_fail("a sound tape cannot be opened");
  }
  if (!td_recover(path, saved, TD_NEWEST, NULL, NULL, &report, NULL) &&
      (td_tape_verify(saved, NULL, NULL, &damages, NULL) || damages))
    fuzz_fail("what was recovered is not sound");
  return 0;
}
