/* The replayer: a deck that plays a schedule on a device while a step runs. */
#ifndef TAPEDECK_REPLAYER_H
#define TAPEDECK_REPLAYER_H

#include <tapedeck/deck.h>
#include <tapedeck/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_replayer_options {
  const char *path;  /* the tape; it is read here and not kept open */
  int64_t trace;     /* TD_NEWEST or its number */
  int64_t schedule;  /* TD_NEWEST or its number */
  td_device *device; /* required. Must outlive the deck */
} td_replayer_options;

/* Each op of a step is checked against the trace: its name, its leaves, and the sizes of its outputs. A step that is not
 * the recorded one fails with TD_E_DIVERGED and the op number, what was expected and what was found.
 * TD_E_INPUT: the schedule does not fit the trace, as an action that is no COPY_H2D in a pre phase. */
TD_API td_status td_replayer_create(td_deck **out, const td_replayer_options *options, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
