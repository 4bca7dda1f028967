/* The session: record, plan and replay in one deck. */
#ifndef TAPEDECK_SESSION_H
#define TAPEDECK_SESSION_H

#include <tapedeck/recorder.h>
#include <tapedeck/replayer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_session_options {
  const char *path;       /* the tape that warm-up writes and replay reads */
  const td_meta *meta;    /* kept in the tape, whenever it is recorded; NULL: nothing */
  size_t n_meta;
  bool resume;            /* a tape that is at `path` already is replayed from the first step on */
  td_device *device;      /* required. Must outlive the deck */
  uint64_t budget_bytes;  /* for activations on the device; 0: the device's capacity */
  double d2h_bytes_per_s; /* link speeds to plan with; 0: measured on the device, and kept in the tape's meta */
  double h2d_bytes_per_s;
  const char *planner;    /* NULL: the default */
  td_policy policy;       /* for steps that are not the recorded one */
  unsigned window;        /* as in td_replayer_options */
  unsigned max_variants;  /* how many different steps the tape keeps; 0: four */
  unsigned max_warmups;   /* plan after so many steps even if no two in a row were alike; 0: five */
  const td_sharding_place *sharding; /* kept in the tape, and a tape of another is refused; NULL: none */
} td_session_options;

/* The first steps are recorded, inside the budget, until two in a row have the same digest, since the first step of an
 * optimizer differs from the rest. Then the session plans, and later steps are replayed. The td_step_end that plans fails
 * with TD_E_BUDGET if the budget cannot be met; the step itself was whole.
 * After three diverged steps, or one under TD_RERECORD, the session records until it has seen a step that the tape has not got, and
 * replays both from then on: another sequence length, a branch that was not taken before. It looks for eight steps at most. When the tape
 * holds max_variants steps, it begins anew. Under TD_STRICT it does neither.
 * With `resume`, a tape at `path` is planned for the budget where it has no such schedule, and replayed at once. */
TD_API td_status td_session_create(td_deck **out, const td_session_options *options, td_error *err);

/* The session that is inside a step on this thread, or NULL. */
TD_API td_deck *td_session_active(void);

#ifdef __cplusplus
}
#endif
#endif
