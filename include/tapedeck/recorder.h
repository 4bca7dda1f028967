/* The recorder: a deck that writes each step to a tape. */
#ifndef TAPEDECK_RECORDER_H
#define TAPEDECK_RECORDER_H

#include <tapedeck/deck.h>
#include <tapedeck/sharding.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Something to keep in the tape, such as {"model", "gpt-24"}. */
typedef struct td_meta {
  const char *key, *value; /* UTF-8 */
} td_meta;

typedef struct td_recorder_options {
  const char *path;      /* the tape; written beside this name and renamed when the step ends */
  const td_meta *meta;   /* kept in the tape; NULL: nothing */
  size_t n_meta;
  td_device *device;     /* where td_storage_alloc allocates; NULL: nowhere. Must outlive the deck */
  uint64_t limit_bytes;  /* with a device: the most bytes on it; the oldest activations are evicted to stay inside.
                            0: the device's capacity */
  int zstd_level;        /* of the tape's compression: 1 fast to 19 small; 0: 9 */
  const td_sharding_place *sharding; /* kept in the tape, its plan frozen; NULL: nothing */
} td_recorder_options;

/* Each step replaces the tape, so that it holds the last whole one. A path where no file can be made is an error here. An
 * error of the file during a step never stops the step: it goes on unrecorded, and td_step_end reports it. */
TD_API td_status td_recorder_create(td_deck **out, const td_recorder_options *options, td_error *err);

/* The digest of the last step that was recorded whole, in hexadecimal; "" before the first. Valid until the next step. */
TD_API const char *td_recorder_digest(const td_deck *recorder);

#ifdef __cplusplus
}
#endif
#endif
