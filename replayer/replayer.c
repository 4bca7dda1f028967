/* From a plan to actions on a device, op by op, each checked against the guide. */
#include <tapedeck/replayer.h>

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "replayer/plan.h"
#include "replayer/role.h"

typedef struct replayer {
  td_role role;
  td_plan_arrays plan;
  size_t next;         /* the next action */
  td_storage *storage; /* in this step, for each storage of the guide; {0}: not seen yet */
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
  if (r->plan.guide->n_storages) memset(r->storage, 0, r->plan.guide->n_storages * sizeof *r->storage);
  return TD_OK;
}

/* ---- actions -------------------------------------------------------------------------------------------------- */

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
static td_status act_all(replayer *r, td_deck *deck, uint32_t op, uint8_t phase)
{
  const td_planned_action *actions = r->plan.actions;
  td_status status = TD_OK;
  for (; actions[r->next].op == op && actions[r->next].phase == phase && !status; r->next++) {
    td_slot *slot = td_deck_find(deck, r->storage[actions[r->next].storage]);
    if (slot && slot->owned) status = act(deck, slot, actions[r->next].kind);
  }
  return status;
}

/* ---- the guide ------------------------------------------------------------------------------------------------ */

static td_status op_begin(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  const td_trace *guide = r->plan.guide;
  uint64_t number = (uint64_t)deck->op_number;
  const char *found = (const char *)deck->op.name.bytes;
  int found_length = deck->op.name.length > 200 ? 200 : (int)deck->op.name.length;
  if (number >= guide->n_ops)
    return td_fail(err, TD_E_DIVERGED, "op %llu: expected the end of the step, found '%.*s'", (unsigned long long)number,
                   found_length, found);
  const td_name *expected = &guide->names[guide->ops[number].name];
  if (expected->length != deck->op.name.length || memcmp(expected->bytes, found, expected->length) != 0)
    return td_fail(err, TD_E_DIVERGED, "op %llu: expected '%.200s', found '%.*s'", (unsigned long long)number,
                   expected->bytes, found_length, found);
  return act_all(r, deck, (uint32_t)number, TD_PRE);
}

/* What the op bound to a leaf; outputs nearly always come in the recorded order, so output number `at` is tried first. */
static const td_slot *output_at(const td_open_op *op, uint64_t at, uint64_t leaf)
{
  if (at < op->n_outputs && op->outputs[at].leaf == leaf) return op->outputs[at].slot;
  for (size_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].leaf == leaf) return op->outputs[i].slot;
  return NULL;
}

static td_status op_check(td_role *role, td_deck *deck, td_error *err)
{
  const td_trace *guide = ((replayer *)role)->plan.guide;
  const td_open_op *op = &deck->op;
  const td_op *expected = &guide->ops[deck->op_number];
  unsigned long long number = (unsigned long long)deck->op_number;
  const char *name = guide->names[expected->name].bytes;
  if (op->leaves != expected->leaves)
    return td_fail(err, TD_E_DIVERGED, "op %llu '%.200s': expected %llu output leaves, found %llu", number, name,
                   (unsigned long long)expected->leaves, (unsigned long long)op->leaves);
  for (uint64_t i = expected->first_output; i < expected[1].first_output; i++) {
    const td_storage_info *storage = &guide->storages[guide->outputs[i].storage];
    const td_slot *slot = output_at(op, i - expected->first_output, guide->outputs[i].leaf);
    unsigned long long leaf = guide->outputs[i].leaf;
    if (!slot)
      return td_fail(err, TD_E_DIVERGED, "op %llu '%.200s': expected a storage of %llu bytes at leaf %llu, found none",
                     number, name, (unsigned long long)storage->bytes, leaf);
    if (storage->activation && slot->resident.bytes != storage->bytes)
      return td_fail(err, TD_E_DIVERGED, "op %llu '%.200s': expected %llu bytes at leaf %llu, found %llu", number, name,
                     (unsigned long long)storage->bytes, leaf, (unsigned long long)slot->resident.bytes);
  }
  return TD_OK;
}

/* A storage that is bound already stays what it is. */
static void bind_outputs(replayer *r, td_deck *deck)
{
  const td_trace *guide = r->plan.guide;
  const td_op *op = &guide->ops[deck->op_number];
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
  bind_outputs(r, deck);
  return act_all(r, deck, (uint32_t)deck->op_number, TD_POST);
}

static td_status step_end(td_role *role, td_deck *deck, td_error *err)
{
  replayer *r = (replayer *)role;
  uint64_t n_ops = r->plan.guide->n_ops, found = (uint64_t)(deck->op_number + 1);
  if (found < n_ops)
    return td_fail(err, TD_E_DIVERGED, "the step ended after %llu of %llu ops; expected '%.200s'",
                   (unsigned long long)found, (unsigned long long)n_ops,
                   r->plan.guide->names[r->plan.guide->ops[found].name].bytes);
  return act_all(r, deck, (uint32_t)n_ops, TD_PRE);
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
  return status ? status : td_deck_create(out, role, options->device, 0, err);
}
