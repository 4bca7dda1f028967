/* Filling a caller's td_error. */
#ifndef TD_BASE_FAIL_H
#define TD_BASE_FAIL_H

#include <tapedeck/error.h>

/* Writes `status` and the formatted message to `err` (NULL allowed) and returns `status`. A message that is too long is
 * cut; control bytes, which a file's names may bring in, become '?', so that it stays one line. */
td_status td_fail(td_error *err, td_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The same for memory that ran out. Inline, so that compilers and analysers see that it never returns TD_OK. */
static inline td_status td_fail_nomem(td_error *err)
{
  td_fail(err, TD_E_NOMEM, "out of memory");
  return TD_E_NOMEM;
}

#endif
