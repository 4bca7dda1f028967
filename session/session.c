/* Record until two steps are alike, plan, then replay. */
#include <tapedeck/session.h>

#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>

#include "base/fail.h"
#include "recorder/role.h"
#include "replayer/role.h"

#define DEFAULT_WARMUPS 5
#define DIVERGED_STEPS 3 /* in a row, and it records anew */

typedef struct session {
  char *path, *planner;
  td_plan_options plan;
  unsigned max_warmups, warmups;
  td_policy policy;
  unsigned window, diverged; /* diverged: steps in a row */
  bool planned;
  char digest[33]; /* of the step before */
} session;

static _Thread_local td_deck *active;

td_deck *td_session_active(void)
{
  return active;
}

static void entered(void *context, td_deck *deck)
{
  (void)context;
  active = deck;
}

static void left(void *context, td_deck *deck)
{
  (void)context;
  if (active == deck) active = NULL;
}

static td_status plan_tape(const session *s, td_error *err)
{
  td_tape *tape = NULL;
  td_trace *trace = NULL;
  td_schedule *schedule = NULL;
  td_status status = td_tape_open(&tape, s->path, err);
  if (!status) status = td_tape_load_trace(tape, TD_NEWEST, &trace, err);
  if (!status) status = td_plan(trace, &s->plan, &schedule, NULL, err);
  td_tape_close(tape);
  if (!status) status = td_tape_add_schedule(s->path, TD_NEWEST, schedule, err);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return status;
}

static td_status turn_to_replay(session *s, td_deck *deck, td_error *err)
{
  td_role *replayer;
  td_status status = plan_tape(s, err);
  if (!status) status = td_replayer_role_create(
        &replayer, &(td_replayer_options){.path = s->path, .policy = s->policy, .window = s->window}, err);
  if (status) return status;
  td_deck_set_role(deck, replayer);
  s->planned = true;
  return TD_OK;
}

/* Steps are not what was recorded any more. */
static td_status record_anew(session *s, td_deck *deck, td_error *err)
{
  td_role *recorder;
  td_status status = td_recorder_role_create(&recorder, &(td_recorder_options){.path = s->path}, err);
  if (status) return status;
  td_deck_set_role(deck, recorder);
  s->planned = false;
  s->warmups = s->diverged = 0;
  s->digest[0] = '\0';
  return TD_OK;
}

static td_status replayed(session *s, td_deck *deck, td_error *err)
{
  s->diverged = deck->stats.diverged_ops ? s->diverged + 1 : 0;
  bool enough = s->diverged >= (s->policy == TD_RERECORD ? 1 : DIVERGED_STEPS);
  return enough && s->policy != TD_STRICT ? record_anew(s, deck, err) : TD_OK;
}

static td_status ended(void *context, td_deck *deck, td_error *err)
{
  session *s = context;
  if (s->planned) return replayed(s, deck, err);
  const char *digest = td_recorder_digest(deck);
  bool alike = strcmp(digest, s->digest) == 0;
  memcpy(s->digest, digest, sizeof s->digest);
  s->warmups++;
  return alike || s->warmups >= s->max_warmups ? turn_to_replay(s, deck, err) : TD_OK;
}

static void destroy(void *context)
{
  session *s = context;
  free(s->path);
  free(s->planner);
  free(s);
}

static td_status session_new(session **out, const td_session_options *options, td_error *err)
{
  session *s = calloc(1, sizeof *s);
  if (s) s->path = strdup(options->path);
  if (s && options->planner) s->planner = strdup(options->planner);
  if (!s || !s->path || (options->planner && !s->planner)) {
    if (s) destroy(s);
    return td_fail_nomem(err);
  }
  uint64_t capacity = options->device->ops->capacity_bytes(options->device);
  s->policy = options->policy;
  s->window = options->window;
  s->max_warmups = options->max_warmups ? options->max_warmups : DEFAULT_WARMUPS;
  s->plan = (td_plan_options){.budget_bytes = options->budget_bytes ? options->budget_bytes : capacity,
                              .d2h_bytes_per_s = options->d2h_bytes_per_s,
                              .h2d_bytes_per_s = options->h2d_bytes_per_s,
                              .planner = s->planner};
  *out = s;
  return TD_OK;
}

td_status td_session_create(td_deck **out, const td_session_options *options, td_error *err)
{
  if (!options->path || !*options->path) return td_fail(err, TD_E_ARG, "a session needs a path for its tape");
  if (!options->device) return td_fail(err, TD_E_ARG, "a session needs a device");
  session *s = NULL;
  td_role *recorder;
  td_deck *deck;
  td_status status = session_new(&s, options, err);
  if (status) return status;
  status = td_recorder_role_create(&recorder, &(td_recorder_options){.path = options->path}, err);
  if (!status) status = td_deck_create(&deck, recorder, options->device, options->budget_bytes, err);
  if (status) {
    destroy(s);
    return status;
  }
  deck->listener =
      (td_step_listener){.context = s, .entered = entered, .left = left, .ended = ended, .destroy = destroy};
  *out = deck;
  return TD_OK;
}
