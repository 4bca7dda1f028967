/* From plans to actions on a device, op by op, each checked against the guide.
 *
 * Of several variants all that still are the step are followed; one of them leads, and its actions are carried out. When the step leaves the
 * one that leads, another that still is the step leads on. When it has left all, the policy holds. */
#include <tapedeck/replayer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "replayer/advance.h"
#include "replayer/follower.h"
#include "replayer/role.h"

#define DEFAULT_WINDOW 64

typedef struct replayer {
  td_role role;
  td_follower *followers;
  size_t n_followers, n_following; /* n_following: that still are the step */
  td_follower *lead;
  uint64_t limit_bytes; /* what the schedule of the first was made for */
  td_policy policy;
  uint64_t window;
  bool lost;                 /* ops are passed through */
  uint64_t passed;           /* since the trace was lost */
  uint64_t latest[TD_AGREE]; /* hashes of the latest ops that were passed through, the last one first */
  td_error divergence;       /* of this step: the first */
  bool refused;              /* it is of an op that `strict` refused, which never was */
  struct {
    td_follower *lead;
    bool lost, told; /* told: there was a divergence */
  } before; /* the op that is open */
} replayer;

static void destroy(td_role *role)
{
  replayer *r = (replayer *)role;
  for (size_t i = 0; i < r->n_followers; i++) td_follower_finish(&r->followers[i]);
  free(r->followers);
  free(r);
}

/* Host memory for the greediest of the plans. Where it cannot be had at once, it is asked for as it is needed. */
static void attached(td_role *role, td_deck *deck)
{
  replayer *r = (replayer *)role;
  uint64_t bytes = 0;
  for (size_t i = 0; i < r->n_followers; i++)
    if (r->followers[i].plan.host_bytes > bytes) bytes = r->followers[i].plan.host_bytes;
  td_residency_reserve_host(deck->residency, bytes, NULL);
}

static td_status step_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)deck, (void)err;
  replayer *r = (replayer *)role;
  for (size_t i = 0; i < r->n_followers; i++) td_follower_reset(&r->followers[i]);
  r->n_following = r->n_followers;
  r->lost = r->refused = false;
  r->divergence.message[0] = '\0';
  return TD_OK;
}

/* Under `strict` the actions are the plan's to the letter, since the step is. */
static td_status act(replayer *r, td_deck *deck, uint64_t op, td_phase phase)
{
  return td_follower_act(r->lead, deck, op, phase, r->policy == TD_STRICT && r->n_followers == 1);
}

/* ---- divergence ----------------------------------------------------------------------------------------------- */

/* The names of the guide's ops around one. */
static void recorded_around(const td_follower *f, char *text, size_t size)
{
  size_t n = 0;
  *text = '\0';
  for (uint64_t i = f->at > 2 ? f->at - 2 : 0; i < f->at + 3 && i < f->plan.n_ops && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%s%.30s%s", *text ? ", " : "", i == f->at ? "[" : "",
                          td_follower_name(f, i)->bytes, i == f->at ? "]" : "");
  if (f->at >= f->plan.n_ops && n < size) snprintf(text + n, size - n, "%s[the end]", *text ? ", " : "");
}

/* The ops of the step that ran before, which were the recorded ones, and the one that is not. */
static void run_around(const td_follower *f, const td_deck *deck, bool ended, char *text, size_t size)
{
  size_t n = 0;
  *text = '\0';
  for (uint64_t i = f->at > 2 ? f->at - 2 : 0; i < f->at && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%.30s, ", td_follower_name(f, i)->bytes);
  int length = deck->op.name.length > 30 ? 30 : (int)deck->op.name.length;
  if (n < size && ended) snprintf(text + n, size - n, "[the end]");
  else if (n < size) snprintf(text + n, size - n, "[%.*s]", length, (const char *)deck->op.name.bytes);
}

/* The step is not a recorded one: an error, or the beginning of ops that are passed through. `why` says what and where. */
static td_status diverge(replayer *r, const td_deck *deck, const td_error *why, bool ended, td_error *err)
{
  char recorded[160], run[100];
  td_error message;
  recorded_around(r->lead, recorded, sizeof recorded);
  run_around(r->lead, deck, ended, run, sizeof run);
  td_fail(&message, TD_E_DIVERGED, "%.220s; recorded: %s; run: %s", why->message, recorded, run);
  if (!*r->divergence.message) r->divergence = message;
  if (r->policy == TD_STRICT) {
    if (err) *err = message;
    return TD_E_DIVERGED;
  }
  r->lost = true;
  r->passed = 0;
  r->n_following = 0;
  for (size_t i = 0; i < r->n_followers; i++) r->followers[i].current = TD_NOWHERE;
  return TD_OK;
}

/* Those that the op is not of are left; one of the others leads on. False, and nothing has changed, if it is of none. */
static bool keep_those_that_agree(replayer *r)
{
  td_follower *lead = r->lead->agrees ? r->lead : NULL;
  for (size_t i = 0; i < r->n_followers && !lead; i++)
    if (r->followers[i].agrees) lead = &r->followers[i];
  if (!lead) return false;
  r->lead = lead;
  r->n_following = 0;
  for (size_t i = 0; i < r->n_followers; i++) {
    td_follower *f = &r->followers[i];
    f->follows = f->agrees;
    f->current = f->agrees ? f->at : TD_NOWHERE;
    r->n_following += f->agrees;
  }
  return true;
}

static void follow_from(replayer *r, td_follower *f, uint64_t place)
{
  r->lead = f;
  r->lost = false;
  r->n_following = 1;
  for (size_t i = 0; i < r->n_followers; i++) r->followers[i].follows = &r->followers[i] == f;
  f->at = place + 1;
}

/* After an op that was passed through: follows a trace again if its ops are found near where they should be; the one that led is tried
 * first. */
static void find_again(replayer *r, const td_open_op *op)
{
  memmove(r->latest + 1, r->latest, sizeof r->latest - sizeof *r->latest);
  r->latest[0] = td_guide_hash(td_name_hash((const char *)op->name.bytes, op->name.length), op->leaves);
  r->passed++;
  if (r->policy != TD_RESYNC || r->passed < TD_AGREE) return;
  for (size_t i = 0; i <= r->n_followers; i++) {
    td_follower *f = i ? &r->followers[i - 1] : r->lead;
    /* The op that this one would be, had none been left out or added. */
    uint64_t place = td_follower_find(f, r->lead->at + r->passed - 1, r->window, r->latest);
    if (place == TD_NOWHERE) continue;
    follow_from(r, f, place);
    return;
  }
}

/* ---- the step ------------------------------------------------------------------------------------------------- */

/* The lead expects another op. */
static td_status op_unexpected(replayer *r, td_deck *deck, td_error *err)
{
  const char *found = (const char *)deck->op.name.bytes;
  int length = deck->op.name.length > 100 ? 100 : (int)deck->op.name.length;
  unsigned long long number = (unsigned long long)deck->op_number;
  td_error why;
  if (r->lead->at >= r->lead->plan.n_ops)
    td_fail(&why, TD_E_DIVERGED, "op %llu: expected the end of the step, found '%.*s'", number, length, found);
  else
    td_fail(&why, TD_E_DIVERGED, "op %llu: expected '%.100s', found '%.*s'", number, td_follower_name(r->lead, r->lead->at)->bytes,
            length, found);
  return diverge(r, deck, &why, false, err);
}

static void forget_refused(replayer *r)
{
  if (r->refused) r->divergence.message[0] = '\0';
  r->refused = false;
}

/* An op that is aborted may be any: the step is what it was before. */
static void remember(replayer *r)
{
  r->before.lead = r->lead;
  r->before.lost = r->lost;
  r->before.told = *r->divergence.message;
  for (size_t i = 0; i < r->n_followers; i++) r->followers[i].followed = r->followers[i].follows;
}

static void op_abort(td_role *role, td_deck *deck)
{
  (void)deck;
  replayer *r = (replayer *)role;
  r->lead = r->before.lead;
  r->lost = r->before.lost;
  if (!r->before.told) r->divergence.message[0] = '\0';
  r->n_following = 0;
  for (size_t i = 0; i < r->n_followers; i++) {
    td_follower *f = &r->followers[i];
    f->follows = f->followed;
    f->current = TD_NOWHERE;
    r->n_following += f->follows && !r->lost;
  }
}

static td_status op_begin(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  forget_refused(r);
  remember(r);
  if (r->lost) return TD_OK;
  const char *name = (const char *)deck->op.name.bytes;
  size_t length = deck->op.name.length;
  if (r->n_following == 1 && td_follower_expects(r->lead, name, length)) {
    r->lead->current = r->lead->at;
    return act(r, deck, r->lead->at, TD_PRE);
  }
  for (size_t i = 0; i < r->n_followers; i++)
    r->followers[i].agrees = r->followers[i].follows && td_follower_expects(&r->followers[i], name, length);
  if (keep_those_that_agree(r)) return act(r, deck, r->lead->at, TD_PRE);
  td_status status = op_unexpected(r, deck, err);
  r->refused = status && !r->before.told; /* told of until the step is seen to go on as recorded */
  if (status) r->before.told = true;
  return status;
}

static uint64_t output_bytes(td_role *role, td_deck *deck)
{
  (void)deck;
  const replayer *r = (const replayer *)role;
  return r->lost ? 0 : td_follower_output_bytes(r->lead);
}

/* The op is of none that was followed. */
static td_status op_of_none(replayer *r, td_deck *deck, td_error *err)
{
  td_error why;
  td_follower_check(r->lead, deck, &why);
  return diverge(r, deck, &why, false, err);
}

static td_status op_check(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  if (r->lost || (r->n_following == 1 && td_follower_agrees(r->lead, &deck->op))) return TD_OK;
  for (size_t i = 0; i < r->n_followers; i++)
    r->followers[i].agrees = r->followers[i].follows && td_follower_agrees(&r->followers[i], &deck->op);
  return keep_those_that_agree(r) ? TD_OK : op_of_none(r, deck, err);
}

static td_status op_end(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  replayer *r = (replayer *)role;
  if (r->lost) {
    deck->stats.diverged_ops++;
    find_again(r, &deck->op);
    return TD_OK;
  }
  for (size_t i = 0; i < r->n_followers; i++) {
    td_follower *f = &r->followers[i];
    if (!f->follows) continue;
    td_follower_bind(f, deck);
    f->at = f->current + 1;
  }
  return act(r, deck, r->lead->current, TD_POST);
}

/* One that leads beyond the end gives way to one that ends here. */
static void settle_at_end(replayer *r)
{
  for (size_t i = 0; i < r->n_followers && r->lead->at < r->lead->plan.n_ops; i++) {
    td_follower *f = &r->followers[i];
    if (f->follows && f->at >= f->plan.n_ops) r->lead = f;
  }
}

static td_status step_end(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  forget_refused(r);
  if (r->lost) return TD_OK;
  settle_at_end(r);
  const td_plan_arrays *plan = &r->lead->plan;
  if (r->lead->at >= plan->n_ops) {
    deck->stats.trace = plan->trace;
    deck->stats.schedule = plan->schedule;
    td_status status = act(r, deck, plan->n_ops, TD_PRE);
    return status ? status : td_advance(r->lead, deck, err);
  }
  td_error why;
  td_fail(&why, TD_E_DIVERGED, "the step ended after %llu of %llu ops; expected '%.100s'", (unsigned long long)deck->op_number + 1,
          (unsigned long long)plan->n_ops, td_follower_name(r->lead, r->lead->at)->bytes);
  deck->stats.diverged_ops += plan->n_ops - r->lead->at;
  return diverge(r, deck, &why, true, err);
}

static void step_abort(td_role *role, td_deck *deck)
{
  (void)role, (void)deck;
}

static const td_role_ops replayer_ops = {
    .name = "replayer",
    .replays = true,
    .attached = attached,
    .step_begin = step_begin,
    .op_begin = op_begin,
    .output_bytes = output_bytes,
    .op_check = op_check,
    .op_abort = op_abort,
    .op_end = op_end,
    .step_end = step_end,
    .step_abort = step_abort,
    .destroy = destroy,
};

/* ---- creation ------------------------------------------------------------------------------------------------- */

static td_status add_trace(replayer *r, const td_replayer_options *options, int64_t trace, td_error *err)
{
  td_plan_arrays plan = {0};
  td_follower *grown = realloc(r->followers, (r->n_followers + 1) * sizeof *grown);
  if (!grown) return td_fail_nomem(err);
  r->followers = grown;
  td_status status = options->sharding ? td_tape_check_sharding(options->path, trace, options->sharding, err) : TD_OK;
  if (!status) status = td_plan_arrays_load(&plan, options->path, trace, options->schedule, err);
  if (status) return status;
  if (!r->n_followers) r->limit_bytes = plan.limit_bytes;
  return td_follower_init(&r->followers[r->n_followers++], &plan, err);
}

/* Those that have no schedule are left out. */
static td_status add_every_trace(replayer *r, const td_replayer_options *options, td_error *err)
{
  td_tape *tape = NULL;
  int64_t n = 0, *ids = NULL;
  td_status status = td_tape_open(&tape, options->path, err);
  if (!status) status = td_tape_trace_count(tape, &n, err);
  for (int64_t trace = n; trace > 0 && !status; trace--) { /* the newest leads */
    size_t n_ids = 0;
    status = td_tape_schedules(tape, trace, &ids, &n_ids, err);
    if (!status && n_ids) status = add_trace(r, options, trace, err);
    free(ids);
    ids = NULL;
  }
  td_tape_close(tape);
  return !status && !r->n_followers ? td_fail(err, TD_E_NOT_FOUND, "%s: no trace has a schedule", options->path) : status;
}

td_status td_replayer_role_create(td_role **out, const td_replayer_options *options, td_error *err)
{
  if (options->trace == TD_EVERY && options->schedule != TD_NEWEST)
    return td_fail(err, TD_E_ARG, "one schedule cannot be of every trace");
  replayer *r = calloc(1, sizeof *r);
  if (!r) return td_fail_nomem(err);
  r->role.ops = &replayer_ops;
  r->policy = options->policy;
  r->window = options->window ? options->window : DEFAULT_WINDOW;
  td_status status = options->trace == TD_EVERY ? add_every_trace(r, options, err) : add_trace(r, options, options->trace, err);
  r->lead = r->followers;
  if (status)
    destroy(&r->role);
  else
    *out = &r->role;
  return status;
}

td_status td_replayer_create(td_deck **out, const td_replayer_options *options, td_error *err)
{
  if (!options->device) return td_fail(err, TD_E_ARG, "a replayer needs a device");
  td_role *role = NULL;
  td_status status = td_replayer_role_create(&role, options, err);
  if (status || !role) return status;
  bool of_schedule = options->limit_bytes == TD_LIMIT_OF_SCHEDULE;
  uint64_t limit = of_schedule ? ((const replayer *)role)->limit_bytes : options->limit_bytes;
  return td_deck_create(out, role, options->device, limit, err);
}

const char *td_replayer_divergence(const td_deck *deck)
{
  return deck->role->ops == &replayer_ops ? ((const replayer *)deck->role)->divergence.message : deck->divergence;
}
