/* Whatever is given as a profile of an execution trace, the tape is sound or there is none. */
#include <string.h>
#include <unistd.h>

#include <tapedeck/trace.h>

#include "fuzz.h"

static const char trace[] =
    "{\"schema\": \"1.0.1\", \"nodes\": [{\"id\": 1, \"name\": \"a\", \"parent\": 1, \"rf_id\": 3, \"op_schema\": \"f()\", \"inputs\": [], "
    "\"outputs\": []}, {\"id\": 2, \"name\": \"b\", \"parent\": 2, \"rf_id\": 4, \"op_schema\": \"f()\", \"inputs\": [], \"outputs\": []}]}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *in = fuzz_file("et.json"), *profile = fuzz_file("profile.json"), *tape = fuzz_file("timed.tape");
  uint64_t damages;
  td_import_report report;
  fuzz_write(in, trace, strlen(trace));
  fuzz_write(profile, data, size);
  unlink(tape);
  if (td_import(in, tape, &(td_import_options){.profile = profile}, &report, NULL)) {
    if (!access(tape, F_OK)) fuzz_fail("a profile that was refused left a tape");
    return 0;
  }
  if (!report.timed_ops) fuzz_fail("a profile that times no op was taken");
  if (td_tape_verify(tape, NULL, NULL, &damages, NULL) || damages) fuzz_fail("a tape with a profile's durations is not sound");
  return 0;
}
