/* The recorder: a deck that writes each step to a tape. */
#ifndef TAPEDECK_RECORDER_H
#define TAPEDECK_RECORDER_H

#include <tapedeck/deck.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_recorder_options {
  const char *path;      /* the tape; written beside this name and renamed when the step ends */
  const char *meta;      /* the text of a JSON object kept in the tape, or NULL */
  td_device *device;     /* where td_storage_alloc allocates; NULL: nowhere. Must outlive the deck */
  uint64_t limit_bytes;  /* with a device: the most bytes on it; the oldest activations are evicted to stay inside.
                            0: the device's capacity */
} td_recorder_options;

/* Each step replaces the tape, so that it holds the last whole one. The tape is opened when a step begins; an error of the
 * file is reported there and by td_step_end, and never stops the step itself. */
TD_API td_status td_recorder_create(td_deck **out, const td_recorder_options *options, td_error *err);

/* The digest of the last step that was recorded whole, in hexadecimal; "" before the first. Valid until the next step. */
TD_API const char *td_recorder_digest(const td_deck *recorder);

#ifdef __cplusplus
}
#endif
#endif
