#include "base/progress.h"

#include <stddef.h>

static _Thread_local td_progress_function listener;
static _Thread_local void *listener_context;

void td_on_progress(td_progress_function progress, void *context)
{
  listener = progress;
  listener_context = context;
}

void td_progress(uint64_t done, uint64_t total, const char *unit)
{
  if (listener) listener(listener_context, done, total, unit);
}
