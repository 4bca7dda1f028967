/* Whatever JSON import takes, interchange or an execution trace, the tape is sound, and what export gives is taken again and comes back
 * as the same bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/trace.h>

#include "fuzz.h"

static char *export_tape(const char *path, size_t *length)
{
  td_tape *tape;
  char *text = NULL;
  FILE *out = open_memstream(&text, length);
  if (td_tape_open(&tape, path, NULL) || td_export(tape, TD_NEWEST, out, NULL)) fuzz_fail("an imported tape cannot be exported");
  fclose(out);
  td_tape_close(tape);
  return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  const char *in = fuzz_file("in.json"), *tape = fuzz_file("x.tape"), *again = fuzz_file("y.tape");
  size_t n, m;
  uint64_t damages;
  fuzz_write(in, data, size);
  if (td_import(in, tape, NULL, NULL, NULL)) return 0;
  if (td_tape_verify(tape, NULL, NULL, &damages, NULL) || damages) fuzz_fail("an imported tape is not sound");
  char *first = export_tape(tape, &n);
  fuzz_write(in, first, n);
  if (td_import(in, again, NULL, NULL, NULL)) fuzz_fail("what was exported is not taken");
  char *second = export_tape(again, &m);
  if (n != m || memcmp(first, second, n) != 0) fuzz_fail("what was exported does not come back");
  free(first);
  free(second);
  return 0;
}
