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

static int differs(void *context, const td_sharding_difference *difference)
{
  (void)context, (void)difference;
  fuzz_fail("a plan differs from itself");
}

static void remark(void *context, const char *line)
{
  *(size_t *)context += strlen(line);
}

/* As objects the plan and what it froze to are the same. */
static void use_objects(const char *text, const char *frozen)
{
  td_sharding *plan, *again;
  char digest[33], other[33];
  size_t length = 0;
  if (td_sharding_read(&plan, text, NULL)) return;
  if (td_sharding_read(&again, frozen, NULL)) fuzz_fail("what was frozen cannot be read");
  if (td_sharding_digest(plan, digest, NULL) || td_sharding_digest(again, other, NULL) || strcmp(digest, other) != 0)
    fuzz_fail("the frozen plan has another digest");
  if (td_sharding_diff(plan, again, differs, NULL, NULL) || td_sharding_remarks(plan, remark, &length, NULL))
    fuzz_fail("a plan cannot be compared");
  td_sharding_destroy(plan);
  td_sharding_destroy(again);
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
    use_objects(text, frozen);
    free(frozen);
    free(again);
  }
  free(text);
  return 0;
}
