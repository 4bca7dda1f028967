#include "base/fail.h"

#include <stdarg.h>
#include <stdio.h>

td_status td_fail(td_error *err, td_status status, const char *format, ...)
{
  if (!err) return status;
  char message[sizeof err->message]; /* apart, since an argument may point into err */
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  size_t i = 0;
  for (; message[i]; i++) {
    unsigned char c = (unsigned char)message[i];
    err->message[i] = c < 0x20 || c == 0x7f ? '?' : message[i];
  }
  err->message[i] = '\0';
  err->status = status;
  return status;
}

const char *td_status_name(td_status status)
{
  switch (status) {
  case TD_OK: return "ok";
  case TD_E_NOMEM: return "out of memory";
  case TD_E_IO: return "input or output failed";
  case TD_E_FORMAT: return "not of the expected form";
  case TD_E_DAMAGED: return "damaged";
  case TD_E_VERSION: return "from a newer version";
  case TD_E_INPUT: return "contradictory input";
  case TD_E_ARG: return "invalid argument";
  case TD_E_STATE: return "not valid now";
  case TD_E_NOT_FOUND: return "not found";
  case TD_E_BUDGET: return "memory limit cannot be met";
  case TD_E_DEVICE: return "device failed";
  case TD_E_DIVERGED: return "diverged from the recorded step";
  }
  return "unknown status";
}

const char *td_version(void)
{
  return TD_VERSION;
}
