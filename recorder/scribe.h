/* The scribe: writes one step to a tape on a thread of its own, from what the caller's thread tells it through a queue.
 *
 * Telling costs no lock, no system call and no allocation in the steady state. A file that cannot be written stops the
 * writing, not the step: what is told afterwards is thrown away, and td_scribe_finish says what happened. */
#ifndef TD_RECORDER_SCRIBE_H
#define TD_RECORDER_SCRIBE_H

#include <tapedeck/recorder.h>
#include <tapedeck/trace.h>

typedef struct td_scribe td_scribe;

/* The values of `meta` are JSON here. */
td_status td_scribe_start(td_scribe **out, const char *path, const td_meta *meta, size_t n_meta, int level, td_error *err);

/* Waits until all is written and the tape has its name. Gone afterwards in every case. `digest` has 33 bytes. */
td_status td_scribe_finish(td_scribe *scribe, char *digest, td_error *err);

/* Writes no more and removes what it wrote. NULL is allowed. */
void td_scribe_abandon(td_scribe *scribe);

/* False in a child of the process that started it, where nothing else may be called. */
bool td_scribe_is_here(const td_scribe *scribe);

/* Each name is told once, before its first use; names are numbered from 0 in this order. */
void td_scribe_name(td_scribe *scribe, const char *bytes, size_t length);
void td_scribe_storage(td_scribe *scribe, const td_storage_info *storage);
void td_scribe_activation(td_scribe *scribe, uint64_t sid);
void td_scribe_retained(td_scribe *scribe, uint64_t sid);
void td_scribe_mark(td_scribe *scribe, uint32_t name, uint64_t op);

/* An op, then its accesses and outputs, as many as it said, then td_scribe_op_told. */
void td_scribe_op(td_scribe *scribe, uint32_t name, bool opaque, uint64_t dur_ns, uint64_t leaves, size_t n_accesses,
                  size_t n_outputs);
void td_scribe_access(td_scribe *scribe, uint64_t sid, uint32_t kind);
void td_scribe_output(td_scribe *scribe, uint64_t leaf, uint64_t sid);
void td_scribe_op_told(td_scribe *scribe);

#endif
