/* From a plan to actions on a device, op by op, each checked against the guide. */
#include <tapedeck/replayer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "replayer/plan.h"
#include "replayer/role.h"

#define DEFAULT_WINDOW 64
#define AGREE 4       /* ops in a row that must be the trace's before it is followed again */
#define SEEN 16       /* the latest ops that are remembered; a power of two */
#define NOWHERE UINT64_MAX

typedef struct replayer {
  td_role role;
  td_plan_arrays plan;
  td_policy policy;
  uint64_t window;
  size_t next;         /* the next action */
  td_storage *storage; /* in this step, for each storage of the guide; {0}: not seen yet */
  uint64_t at;         /* the guide's op that is expected next */
  uint64_t current;    /* the guide's op that is open; NOWHERE: passed through */
  bool lost;           /* ops are passed through */
  uint64_t passed;     /* since the trace was lost */
  uint64_t seen[SEEN]; /* hashes of the latest ops that were passed through */
  td_error divergence; /* of this step: the first */
} replayer;

static void destroy(td_role *role)
{
  replayer *r = (replayer *)role;
  td_plan_arrays_finish(&r->plan);
  free(r->storage);
  free(r);
}

static td_status step_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)deck, (void)err;
  replayer *r = (replayer *)role;
  r->next = 0;
  r->at = 0;
  r->lost = false;
  r->divergence.message[0] = '\0';
  if (r->plan.guide->n_storages) memset(r->storage, 0, r->plan.guide->n_storages * sizeof *r->storage);
  return TD_OK;
}

/* ---- actions -------------------------------------------------------------------------------------------------- */

/* Where a step may leave the trace, an action may come to a storage that is not as it was planned: what would lose bytes, or cannot be
 * done, is left out. */
static bool is_harmless(const td_slot *slot, uint8_t kind)
{
  switch (kind) {
  case TD_COPY_D2H: return slot->resident.device;
  case TD_COPY_H2D: return slot->resident.device || td_residency_current_on_host(&slot->resident);
  case TD_RELEASE_DEVICE: return td_residency_current_on_host(&slot->resident);
  default: return slot->resident.device;
  }
}

static td_status act(td_deck *deck, td_slot *slot, uint8_t kind)
{
  switch (kind) {
  case TD_COPY_D2H: return td_residency_copy_d2h(deck->residency, &slot->resident, &deck->error);
  case TD_COPY_H2D: return td_deck_prefetch(deck, slot);
  case TD_RELEASE_DEVICE: td_deck_release_device(deck, slot); return TD_OK;
  default: td_residency_release_host(deck->residency, &slot->resident); return TD_OK;
  }
}

/* Carries out what is due at this op and phase. A storage that was freed since, or is the caller's, is passed over. */
static td_status act_all(replayer *r, td_deck *deck, uint64_t op, uint8_t phase)
{
  const td_planned_action *actions = r->plan.actions;
  td_status status = TD_OK;
  for (; actions[r->next].op == op && actions[r->next].phase == phase && !status; r->next++) {
    td_slot *slot = td_deck_find(deck, r->storage[actions[r->next].storage]);
    if (!slot || !slot->owned) continue;
    if (r->policy == TD_STRICT || is_harmless(slot, actions[r->next].kind)) status = act(deck, slot, actions[r->next].kind);
  }
  return status;
}

/* The first action at or behind an op. */
static size_t actions_from(const replayer *r, uint64_t op)
{
  size_t low = 0, high = r->plan.n_actions;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (r->plan.actions[middle].op < op) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* ---- divergence ----------------------------------------------------------------------------------------------- */

/* The names of the guide's ops around one, for a message. */
static void around(const td_trace *guide, uint64_t op, char *text, size_t size)
{
  size_t n = 0;
  *text = '\0';
  for (uint64_t i = op > 2 ? op - 2 : 0; i < op + 3 && i < guide->n_ops && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%s%.40s%s", *text ? ", " : "", i == op ? "[" : "",
                          guide->names[guide->ops[i].name].bytes, i == op ? "]" : "");
}

/* The step is not the recorded one: an error, or the beginning of ops that are passed through. `why` says what and where. */
static td_status diverge(replayer *r, const td_error *why, td_error *err)
{
  char ops[256];
  around(r->plan.guide, r->at, ops, sizeof ops);
  td_error message;
  td_fail(&message, TD_E_DIVERGED, "%.250s; recorded there: %s", why->message, *ops ? ops : "the end");
  if (!*r->divergence.message) r->divergence = message;
  if (r->policy == TD_STRICT) {
    if (err) *err = message;
    return TD_E_DIVERGED;
  }
  r->lost = true;
  r->passed = 0;
  r->current = NOWHERE;
  return TD_OK;
}

static bool agrees(const replayer *r, uint64_t place)
{
  for (uint64_t back = 0; back < AGREE; back++)
    if (r->plan.hashes[place - back] != r->seen[(r->passed - 1 - back) % SEEN]) return false;
  return true;
}

/* After an op that was passed through: follows the trace again if its latest ops are found near where they should be, the nearest
 * place first. */
static void find_again(replayer *r, const td_open_op *op)
{
  const td_trace *guide = r->plan.guide;
  r->seen[r->passed++ % SEEN] = td_guide_hash((const char *)op->name.bytes, op->name.length, op->leaves);
  if (r->policy != TD_RESYNC || r->passed < AGREE) return;
  uint64_t expected = r->at + r->passed - 1; /* the guide's op that this one would be, had none been left out or added */
  for (uint64_t distance = 0; distance <= r->window; distance++) {
    for (int side = 0; side < 2; side++) {
      uint64_t place = side ? expected + distance : expected - distance;
      if ((!side && distance > expected) || place < AGREE - 1 || place >= guide->n_ops || !agrees(r, place)) continue;
      r->at = place + 1;
      r->lost = false;
      r->next = actions_from(r, r->at);
      return;
    }
  }
}

/* ---- the guide ------------------------------------------------------------------------------------------------ */

static td_status op_begin(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  const td_trace *guide = r->plan.guide;
  unsigned long long number = (unsigned long long)deck->op_number;
  const char *found = (const char *)deck->op.name.bytes;
  int found_length = deck->op.name.length > 100 ? 100 : (int)deck->op.name.length;
  td_error why;
  r->current = NOWHERE;
  if (r->lost) return TD_OK;
  if (r->at >= guide->n_ops) {
    td_fail(&why, TD_E_DIVERGED, "op %llu: expected the end of the step, found '%.*s'", number, found_length, found);
    return diverge(r, &why, err);
  }
  const td_name *expected = &guide->names[guide->ops[r->at].name];
  if (expected->length != deck->op.name.length || memcmp(expected->bytes, found, expected->length) != 0) {
    td_fail(&why, TD_E_DIVERGED, "op %llu: expected '%.100s', found '%.*s'", number, expected->bytes, found_length, found);
    return diverge(r, &why, err);
  }
  r->current = r->at;
  return act_all(r, deck, r->at, TD_PRE);
}

/* Storages that the op is to make. Called only where the caller's memory makes them, so nothing is kept of it. */
static uint64_t output_bytes(td_role *role, td_deck *deck)
{
  (void)deck;
  const replayer *r = (const replayer *)role;
  uint64_t bytes = 0;
  if (r->current == NOWHERE) return 0;
  const td_op *op = &r->plan.guide->ops[r->current];
  for (uint64_t i = op->first_output; i < op[1].first_output; i++) {
    uint32_t number = r->plan.guide->outputs[i].storage;
    if (r->storage[number].id == 0 && r->plan.guide->storages[number].activation) bytes += r->plan.guide->storages[number].bytes;
  }
  return bytes;
}

/* What the op bound to a leaf; outputs nearly always come in the recorded order, so output number `at` is tried first. */
static const td_slot *output_at(const td_open_op *op, uint64_t at, uint64_t leaf)
{
  if (at < op->n_outputs && op->outputs[at].leaf == leaf) return op->outputs[at].slot;
  for (size_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].leaf == leaf) return op->outputs[i].slot;
  return NULL;
}

static td_status check_outputs(const replayer *r, const td_deck *deck, td_error *why)
{
  const td_trace *guide = r->plan.guide;
  const td_open_op *op = &deck->op;
  const td_op *expected = &guide->ops[r->current];
  unsigned long long number = (unsigned long long)deck->op_number;
  const char *name = guide->names[expected->name].bytes;
  if (op->leaves != expected->leaves)
    return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected %llu output leaves, found %llu", number, name,
                   (unsigned long long)expected->leaves, (unsigned long long)op->leaves);
  for (uint64_t i = expected->first_output; i < expected[1].first_output; i++) {
    const td_storage_info *storage = &guide->storages[guide->outputs[i].storage];
    const td_slot *slot = output_at(op, i - expected->first_output, guide->outputs[i].leaf);
    unsigned long long leaf = guide->outputs[i].leaf;
    if (!slot)
      return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected a storage of %llu bytes at leaf %llu, found none",
                     number, name, (unsigned long long)storage->bytes, leaf);
    if (storage->activation && slot->resident.bytes != storage->bytes)
      return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected %llu bytes at leaf %llu, found %llu", number, name,
                     (unsigned long long)storage->bytes, leaf, (unsigned long long)slot->resident.bytes);
  }
  return TD_OK;
}

static td_status op_check(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  td_error why;
  if (r->current == NOWHERE || !check_outputs(r, deck, &why)) return TD_OK;
  return diverge(r, &why, err);
}

/* A storage that is bound already stays what it is. */
static void bind_outputs(replayer *r, td_deck *deck)
{
  const td_trace *guide = r->plan.guide;
  const td_op *op = &guide->ops[r->current];
  for (uint64_t i = op->first_output; i < op[1].first_output; i++) {
    uint32_t number = guide->outputs[i].storage;
    if (r->storage[number].id == 0)
      r->storage[number] = output_at(&deck->op, i - op->first_output, guide->outputs[i].leaf)->handle;
  }
}

static td_status op_end(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  replayer *r = (replayer *)role;
  if (r->current == NOWHERE) {
    deck->stats.diverged_ops++;
    find_again(r, &deck->op);
    return TD_OK;
  }
  bind_outputs(r, deck);
  r->at = r->current + 1;
  return act_all(r, deck, r->current, TD_POST);
}

static td_status step_end(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  uint64_t n_ops = r->plan.guide->n_ops;
  if (r->lost) return TD_OK;
  if (r->at >= n_ops) return act_all(r, deck, n_ops, TD_PRE);
  td_error why;
  td_fail(&why, TD_E_DIVERGED, "the step ended after %llu of %llu ops; expected '%.100s'",
          (unsigned long long)deck->op_number + 1, (unsigned long long)n_ops,
          r->plan.guide->names[r->plan.guide->ops[r->at].name].bytes);
  deck->stats.diverged_ops += n_ops - r->at;
  return diverge(r, &why, err);
}

static void step_abort(td_role *role, td_deck *deck)
{
  (void)role, (void)deck;
}

static const td_role_ops replayer_ops = {
    .name = "replayer",
    .replays = true,
    .step_begin = step_begin,
    .op_begin = op_begin,
    .output_bytes = output_bytes,
    .op_check = op_check,
    .op_end = op_end,
    .step_end = step_end,
    .step_abort = step_abort,
    .destroy = destroy,
};

td_status td_replayer_role_create(td_role **out, const td_replayer_options *options, td_error *err)
{
  replayer *r = calloc(1, sizeof *r);
  if (!r) return td_fail_nomem(err);
  r->role.ops = &replayer_ops;
  r->policy = options->policy;
  r->window = options->window ? options->window : DEFAULT_WINDOW;
  td_status status = td_plan_arrays_load(&r->plan, options->path, options->trace, options->schedule, err);
  if (!status) {
    r->storage = calloc((size_t)r->plan.guide->n_storages + 1, sizeof *r->storage);
    if (!r->storage) status = td_fail_nomem(err);
  }
  if (status)
    destroy(&r->role);
  else
    *out = &r->role;
  return status;
}

td_status td_replayer_create(td_deck **out, const td_replayer_options *options, td_error *err)
{
  if (!options->device) return td_fail(err, TD_E_ARG, "a replayer needs a device");
  td_role *role;
  td_status status = td_replayer_role_create(&role, options, err);
  if (status) return status;
  bool of_schedule = options->limit_bytes == TD_LIMIT_OF_SCHEDULE;
  uint64_t limit = of_schedule ? ((const replayer *)role)->plan.limit_bytes : options->limit_bytes;
  return td_deck_create(out, role, options->device, limit, err);
}

const char *td_replayer_divergence(const td_deck *deck)
{
  return deck->role->ops == &replayer_ops ? ((const replayer *)deck->role)->divergence.message : "";
}
