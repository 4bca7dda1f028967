/* How far a long call has come. */
#ifndef TAPEDECK_PROGRESS_H
#define TAPEDECK_PROGRESS_H

#include <stdint.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `done` of `total` `unit` ("bytes", "ops"); total 0: it cannot be told. A call may do several things one after the other, each
 * from 0 on. */
typedef void (*td_progress_function)(void *context, uint64_t done, uint64_t total, const char *unit);

/* From now on, calls of this thread that read or write whole tapes tell `progress` how far they are: td_import, td_tape_verify,
 * td_recover, td_merge and td_compact. It is called often, on this thread, and must not call the library. NULL: no more. */
TD_API void td_on_progress(td_progress_function progress, void *context);

#ifdef __cplusplus
}
#endif
#endif
