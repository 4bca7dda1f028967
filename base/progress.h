/* Telling the thread's listener how far a call has come. */
#ifndef TD_BASE_PROGRESS_H
#define TD_BASE_PROGRESS_H

#include <tapedeck/progress.h>

/* Does nothing where nobody listens. */
void td_progress(uint64_t done, uint64_t total, const char *unit);

#endif
