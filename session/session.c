/* Record until two steps are alike, plan, then replay; and learn steps that are new. */
#include <tapedeck/session.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapedeck/planner.h>

#include "base/fail.h"
#include "format/sharding_place.h"
#include "recorder/role.h"
#include "replayer/role.h"

#define DEFAULT_WARMUPS 5
#define DEFAULT_VARIANTS 4
#define STRAYS 3 /* diverged steps before the session learns */
#define TRIES 8  /* recorded steps until it gives up finding a new one */

typedef enum phase { WARMING_UP, REPLAYING, LEARNING } phase;

typedef struct session {
  char *path, *planner;
  char *learned, *merged; /* beside the tape: a step that may be new, and the tape with it */
  td_meta *meta;
  size_t n_meta;
  td_sharding_place *sharding;
  td_plan_options plan;
  td_device *device;
  td_policy policy;
  unsigned window, max_warmups, max_variants;
  phase phase;
  unsigned recorded; /* steps in this phase */
  unsigned strays;   /* diverged steps since the tape last changed */
  unsigned tried;    /* steps in this phase, those included whose recording failed */
  bool measured;
  td_link_speed speed;
  char digest[33];   /* of the step before */

  struct session *next; /* while it is inside a step */
  td_deck *deck;
  pthread_t thread;
} session;

/* Sessions inside a step, each by the thread that began it; it may end on another. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static session *inside;

td_deck *td_session_active(void)
{
  td_deck *deck = NULL;
  pthread_mutex_lock(&lock);
  for (session *s = inside; s && !deck; s = s->next)
    if (pthread_equal(s->thread, pthread_self())) deck = s->deck;
  pthread_mutex_unlock(&lock);
  return deck;
}

static void entered(void *context, td_deck *deck)
{
  session *s = context;
  pthread_mutex_lock(&lock);
  s->deck = deck;
  s->thread = pthread_self();
  s->next = inside;
  inside = s;
  pthread_mutex_unlock(&lock);
}

static void no_longer_inside(session *s)
{
  pthread_mutex_lock(&lock);
  session **at = &inside;
  while (*at && *at != s) at = &(*at)->next;
  if (*at) *at = s->next;
  pthread_mutex_unlock(&lock);
}

/* ---- planning ------------------------------------------------------------------------------------------------- */

static bool is_for(const td_schedule *schedule, const td_plan_options *plan)
{
  return schedule->memory_limit_bytes == plan->budget_bytes && (!plan->planner || strcmp(schedule->planner, plan->planner) == 0);
}

/* True if the trace's newest schedule is for the session's budget. */
static bool is_planned(const session *s, td_tape *tape, int64_t trace)
{
  td_schedule *schedule;
  if (td_tape_load_schedule(tape, trace, TD_NEWEST, &schedule, NULL)) return false;
  bool planned = is_for(schedule, &s->plan);
  td_schedule_destroy(schedule);
  return planned;
}

static td_status keep_number(const session *s, int64_t trace, const char *key, double value, td_error *err)
{
  char text[32];
  snprintf(text, sizeof text, "%.0f", value);
  return td_tape_set_meta(s->path, trace, key, text, err);
}

/* Speeds that the caller did not give are measured once. A device whose memory is the caller's cannot be measured: the planner's default. */
static td_status measure(session *s, int64_t trace, td_error *err)
{
  if (!s->measured) {
    if ((s->plan.d2h_bytes_per_s > 0 && s->plan.h2d_bytes_per_s > 0) || td_device_measure(s->device, &s->speed, NULL)) return TD_OK;
    if (!(s->plan.d2h_bytes_per_s > 0)) s->plan.d2h_bytes_per_s = s->speed.d2h_bytes_per_s;
    if (!(s->plan.h2d_bytes_per_s > 0)) s->plan.h2d_bytes_per_s = s->speed.h2d_bytes_per_s;
    s->measured = true;
  }
  td_status status = keep_number(s, trace, "d2h_bytes_per_s", s->plan.d2h_bytes_per_s, err);
  if (!status) status = keep_number(s, trace, "h2d_bytes_per_s", s->plan.h2d_bytes_per_s, err);
  if (!status) status = keep_number(s, trace, "d2h_latency_ns", (double)s->speed.d2h_latency_ns, err);
  return status ? status : keep_number(s, trace, "h2d_latency_ns", (double)s->speed.h2d_latency_ns, err);
}

static td_status plan_trace(session *s, td_tape *tape, int64_t number, td_error *err)
{
  td_trace *trace = NULL;
  td_schedule *schedule = NULL;
  td_status status = measure(s, number, err);
  if (!status) status = td_tape_load_trace(tape, number, &trace, err);
  if (!status) status = td_plan(trace, &s->plan, &schedule, NULL, err);
  if (!status) status = td_tape_add_schedule(s->path, number, schedule, err);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return status;
}

static td_status plan_tape(session *s, td_error *err)
{
  td_tape *tape = NULL;
  int64_t n = 0;
  td_status status = td_tape_open(&tape, s->path, err);
  if (!status) status = td_tape_trace_count(tape, &n, err);
  for (int64_t trace = 1; trace <= n && !status; trace++)
    if (!is_planned(s, tape, trace)) status = plan_trace(s, tape, trace, err);
  td_tape_close(tape);
  return status;
}

/* ---- phases --------------------------------------------------------------------------------------------------- */

static void enter(session *s, phase phase)
{
  s->phase = phase;
  s->recorded = s->strays = s->tried = 0;
  s->digest[0] = '\0';
}

static td_status replaying_role(session *s, td_role **out, td_error *err)
{
  td_replayer_options options = {
      .path = s->path, .trace = TD_EVERY, .sharding = s->sharding, .policy = s->policy, .window = s->window};
  td_status status = s->sharding ? td_tape_check_sharding(s->path, TD_NEWEST, s->sharding, err) : TD_OK;
  if (!status) status = plan_tape(s, err);
  return status ? status : td_replayer_role_create(out, &options, err);
}

static td_status turn_to_replay(session *s, td_deck *deck, td_error *err)
{
  td_role *replayer;
  td_status status = replaying_role(s, &replayer, err);
  if (status) return status;
  td_deck_set_role(deck, replayer);
  enter(s, REPLAYING);
  return TD_OK;
}

static td_status recording_role(const session *s, const char *path, td_role **out, td_error *err)
{
  const td_recorder_options options = {.path = path, .meta = s->meta, .n_meta = s->n_meta, .sharding = s->sharding};
  return td_recorder_role_create(out, &options, err);
}

static td_status turn_to_recording(session *s, td_deck *deck, phase phase, td_error *err)
{
  td_role *recorder;
  td_status status = recording_role(s, phase == LEARNING ? s->learned : s->path, &recorder, err);
  if (status) return status;
  snprintf(deck->divergence, sizeof deck->divergence, "%s", td_replayer_divergence(deck));
  td_deck_set_role(deck, recorder);
  enter(s, phase);
  return TD_OK;
}

/* Steps that are in none of the traces: they are added, or where the tape is full it begins anew. */
static td_status strayed(session *s, td_deck *deck, td_error *err)
{
  td_tape *tape = NULL;
  int64_t n = 0;
  td_status status = td_tape_open(&tape, s->path, err);
  if (!status) status = td_tape_trace_count(tape, &n, err);
  td_tape_close(tape);
  return status ? status : turn_to_recording(s, deck, n < s->max_variants ? LEARNING : WARMING_UP, err);
}

static td_status replayed(session *s, td_deck *deck, td_error *err)
{
  if (deck->stats.diverged_ops) s->strays++;
  bool enough = s->strays >= (s->policy == TD_RERECORD ? 1 : STRAYS);
  if (!enough || s->policy == TD_STRICT) return TD_OK;
  td_status status = strayed(s, deck, err);
  if (status) s->strays = 0; /* told once; the next strays try again */
  return status;
}

static td_status warmed_up(session *s, td_deck *deck, td_error *err)
{
  const char *digest = td_recorder_digest(deck);
  bool alike = strcmp(digest, s->digest) == 0;
  memcpy(s->digest, digest, sizeof s->digest);
  s->recorded++;
  return alike || s->recorded >= s->max_warmups ? turn_to_replay(s, deck, err) : TD_OK;
}

static td_status is_known(const session *s, const char *digest, bool *known, td_error *err)
{
  td_tape *tape = NULL;
  td_trace_info info;
  int64_t n = 0;
  *known = false;
  td_status status = td_tape_open(&tape, s->path, err);
  if (!status) status = td_tape_trace_count(tape, &n, err);
  for (int64_t trace = 1; trace <= n && !status && !*known; trace++) {
    status = td_tape_info(tape, trace, &info, err);
    *known = !status && strcmp(info.digest, digest) == 0;
  }
  td_tape_close(tape);
  return status;
}

/* The tape is replaced at once, when the new one is whole. */
static td_status add_learned(const session *s, td_error *err)
{
  const char *const both[] = {s->path, s->learned};
  td_status status = td_merge(both, 2, s->merged, err);
  if (!status && rename(s->merged, s->path))
    status = td_fail(err, TD_E_IO, "cannot rename %s to %s: %s", s->merged, s->path, strerror(errno));
  return status;
}

/* A step was recorded beside the tape: one that is new joins it. */
static td_status learned(session *s, td_deck *deck, td_error *err)
{
  bool known;
  td_status status = is_known(s, td_recorder_digest(deck), &known, err);
  s->recorded++;
  if (!status && known && s->recorded < TRIES) return TD_OK;
  if (!status && !known) status = add_learned(s, err);
  if (!status || s->tried >= TRIES) {
    td_status back = turn_to_replay(s, deck, status ? NULL : err);
    if (!status) status = back;
  }
  unlink(s->learned);
  return status;
}

/* A file that cannot be written must not keep the session from its plan: where recording itself fails, `ended` does not come. */
static void left(void *context, td_deck *deck)
{
  session *s = context;
  no_longer_inside(s);
  if (s->phase == LEARNING && ++s->tried > TRIES) turn_to_replay(s, deck, NULL);
}

static td_status ended(void *context, td_deck *deck, td_error *err)
{
  session *s = context;
  switch (s->phase) {
  case REPLAYING: return replayed(s, deck, err);
  case LEARNING: return learned(s, deck, err);
  default: return warmed_up(s, deck, err);
  }
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void destroy(void *context)
{
  session *s = context;
  if (s->phase == LEARNING) unlink(s->learned);
  td_meta_free(s->meta, s->n_meta);
  td_sharding_place_destroy(s->sharding);
  free(s->path);
  free(s->learned);
  free(s->merged);
  free(s->planner);
  free(s);
}

static char *with_suffix(const char *path, const char *suffix)
{
  char *text = malloc(strlen(path) + strlen(suffix) + 1);
  if (text) sprintf(text, "%s%s", path, suffix);
  return text;
}

static bool copy_strings(session *s, const td_session_options *options)
{
  s->path = strdup(options->path);
  s->learned = with_suffix(options->path, ".new");
  s->merged = with_suffix(options->path, ".merged");
  s->planner = options->planner ? strdup(options->planner) : NULL;
  s->n_meta = options->n_meta;
  if (!td_meta_copy(&s->meta, options->meta, options->n_meta) || !s->path || !s->learned || !s->merged)
    return false;
  if (td_sharding_place_copy(&s->sharding, options->sharding, NULL)) return false;
  return !options->planner || s->planner;
}

static td_status session_new(session **out, const td_session_options *options, td_error *err)
{
  session *s = calloc(1, sizeof *s);
  if (!s || !copy_strings(s, options)) {
    if (s) destroy(s);
    return td_fail_nomem(err);
  }
  uint64_t capacity = options->device->ops->capacity_bytes(options->device);
  s->device = options->device;
  s->policy = options->policy;
  s->window = options->window;
  s->max_warmups = options->max_warmups ? options->max_warmups : DEFAULT_WARMUPS;
  s->max_variants = options->max_variants ? options->max_variants : DEFAULT_VARIANTS;
  s->plan = (td_plan_options){.budget_bytes = options->budget_bytes ? options->budget_bytes : capacity,
                              .d2h_bytes_per_s = options->d2h_bytes_per_s,
                              .h2d_bytes_per_s = options->h2d_bytes_per_s,
                              .planner = s->planner};
  *out = s;
  return TD_OK;
}

static td_status first_role(session *s, bool resume, td_role **out, td_error *err)
{
  if (!resume || access(s->path, F_OK) != 0) return recording_role(s, s->path, out, err);
  enter(s, REPLAYING);
  return replaying_role(s, out, err);
}

td_status td_session_create(td_deck **out, const td_session_options *options, td_error *err)
{
  if (!options->path || !*options->path) return td_fail(err, TD_E_ARG, "a session needs a path for its tape");
  if (!options->device) return td_fail(err, TD_E_ARG, "a session needs a device");
  session *s = NULL;
  td_role *role;
  td_deck *deck;
  td_status status = session_new(&s, options, err);
  if (status) return status;
  status = first_role(s, options->resume, &role, err);
  if (!status) status = td_deck_create(&deck, role, options->device, options->budget_bytes, err);
  if (status) {
    destroy(s);
    return status;
  }
  deck->listener =
      (td_step_listener){.context = s, .entered = entered, .left = left, .ended = ended, .destroy = destroy};
  *out = deck;
  return TD_OK;
}
