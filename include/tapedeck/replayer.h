/* The replayer: a deck that plays a schedule on a device while a step runs. */
#ifndef TAPEDECK_REPLAYER_H
#define TAPEDECK_REPLAYER_H

#include <tapedeck/deck.h>
#include <tapedeck/sharding.h>
#include <tapedeck/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a replay does with a step that is not the recorded one. In each the data stays right. */
typedef enum td_policy {
  TD_RESYNC = 0,  /* pass ops through until the trace is found again within the window, and follow it from there */
  TD_STRICT,      /* fail with TD_E_DIVERGED */
  TD_PASSTHROUGH, /* pass the rest of the step through, without the schedule */
  TD_RERECORD,    /* the same; a session then records and plans anew */
} td_policy;

#define TD_LIMIT_OF_SCHEDULE UINT64_MAX
#define TD_EVERY (-1) /* in place of a trace's number */

typedef struct td_replayer_options {
  const char *path;  /* the tape; it is read here and not kept open */
  int64_t trace;     /* TD_NEWEST, its number, or TD_EVERY: all that have a schedule, each a variant of the step */
  int64_t schedule;  /* TD_NEWEST or its number */
  td_device *device; /* required. Must outlive the deck */
  td_policy policy;
  uint64_t limit_bytes; /* the most bytes on the device; 0: its capacity; TD_LIMIT_OF_SCHEDULE: what the schedule was made for */
  unsigned window;   /* TD_RESYNC: how far from its place the trace is looked for, in ops; 0: 64 */
  const td_sharding_place *sharding; /* the caller's: a trace of another is refused, see td_tape_check_sharding; NULL: none */
} td_replayer_options;

/* TD_E_DIVERGED: it was recorded under another sharding plan.
 * Each op of a step is checked against the trace: its name, its leaves, and the sizes of its outputs. Under TD_STRICT a step that is
 * not the recorded one fails with TD_E_DIVERGED. Under the others it goes on: while ops are passed through no action is carried out,
 * and what is away is brought back when it is used; td_step_stats counts these ops. Of several traces all are followed as long as the
 * step is theirs, and the actions of one that still is are carried out; a step diverges when it has left all of them.
 * A copy to the device that came too late in one step is begun earlier in the next.
 * TD_E_INPUT: the schedule does not fit the trace, as an action that is no COPY_H2D in a pre phase. */
TD_API td_status td_replayer_create(td_deck **out, const td_replayer_options *options, td_error *err);

/* Where the latest step first left the trace: the op number, what was expected and found, and the ops around it. "" if it did
 * not. Valid until the next step begins. */
TD_API const char *td_replayer_divergence(const td_deck *deck);

#ifdef __cplusplus
}
#endif
#endif
