/* Whatever plan freezes, thaws, and freezes to the same bytes; whatever text thaws, freezes or is refused. */
#include <stdlib.h>
#include <string.h>

#include <tapedeck/sharding.h>

#include "fuzz.h"

/* The freeze of a thaw of `frozen`; NULL if there is none. */
static char *round_trip(const char *frozen)
{
  char *live, *again = NULL;
  if (td_sharding_thaw(frozen, &live, NULL)) return NULL;
  if (td_sharding_freeze(live, &again, NULL)) again = NULL;
  free(live);
  return again;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  char *text = malloc(size + 1), *frozen;
  memcpy(text, data, size);
  text[size] = '\0';
  free(round_trip(text));
  if (!td_sharding_freeze(text, &frozen, NULL)) {
    char *again = round_trip(frozen);
    if (!again) fuzz_fail("what was frozen does not thaw and freeze again");
    if (strcmp(frozen, again) != 0) fuzz_fail("it freezes to other bytes");
    free(frozen);
    free(again);
  }
  free(text);
  return 0;
}
