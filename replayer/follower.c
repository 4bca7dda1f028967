#include "replayer/follower.h"

#include <stdlib.h>

#include "base/fail.h"

td_status td_follower_init(td_follower *f, td_plan_arrays *plan, td_error *err)
{
  *f = (td_follower){.plan = *plan, .storage = calloc((size_t)plan->n_storages + 1, sizeof *f->storage)};
  *plan = (td_plan_arrays){0};
  return f->storage ? TD_OK : td_fail_nomem(err);
}

void td_follower_finish(td_follower *f)
{
  td_plan_arrays_finish(&f->plan);
  free(f->storage);
}

void td_follower_reset(td_follower *f)
{
  f->at = 0;
  f->current = TD_NOWHERE;
  f->follows = true;
  memset(f->storage, 0, ((size_t)f->plan.n_storages + 1) * sizeof *f->storage);
}

/* ---- the guide ------------------------------------------------------------------------------------------------ */

static td_status check_output(const td_follower *f, const td_deck *deck, uint32_t number, td_error *why)
{
  const td_planned_op *op = &f->plan.ops[f->current];
  const td_planned_output *output = &f->plan.outputs[number];
  const td_storage_info *storage = &f->plan.storages[output->storage];
  const td_slot *slot = td_follower_output_at(&deck->op, number - op->first_output, output->leaf);
  if (slot && (!storage->activation || slot->resident.bytes == storage->bytes)) return TD_OK;
  unsigned long long at = (unsigned long long)deck->op_number, leaf = output->leaf, bytes = storage->bytes;
  const char *name = f->plan.names[op->name].bytes;
  if (!slot)
    return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected a storage of %llu bytes at leaf %llu, found none", at, name, bytes,
                   leaf);
  return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected %llu bytes at leaf %llu, found %llu", at, name, bytes, leaf,
                 (unsigned long long)slot->resident.bytes);
}

td_status td_follower_check(const td_follower *f, const td_deck *deck, td_error *why)
{
  const td_planned_op *op = &f->plan.ops[f->current];
  if (deck->op.leaves != op->leaves)
    return td_fail(why, TD_E_DIVERGED, "op %llu '%.100s': expected %llu output leaves, found %llu", (unsigned long long)deck->op_number,
                   f->plan.names[op->name].bytes, (unsigned long long)op->leaves, (unsigned long long)deck->op.leaves);
  td_status status = TD_OK;
  for (uint32_t i = op->first_output; i < op[1].first_output && !status; i++) status = check_output(f, deck, i, why);
  return status;
}

void td_follower_bind(td_follower *f, td_deck *deck)
{
  const td_planned_op *op = &f->plan.ops[f->current];
  for (uint32_t i = op->first_output; i < op[1].first_output; i++) {
    const td_planned_output *output = &f->plan.outputs[i];
    if (f->storage[output->storage].id) continue;
    f->storage[output->storage] = td_follower_output_at(&deck->op, i - op->first_output, output->leaf)->handle;
  }
}

uint64_t td_follower_output_bytes(const td_follower *f)
{
  const td_planned_op *op = &f->plan.ops[f->current];
  uint64_t bytes = 0;
  for (uint32_t i = op->first_output; i < op[1].first_output; i++) {
    uint32_t number = f->plan.outputs[i].storage;
    if (!f->storage[number].id && f->plan.storages[number].activation) bytes += f->plan.storages[number].bytes;
  }
  return bytes;
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

td_status td_follower_act_due(td_follower *f, td_deck *deck, uint64_t op, td_phase phase, bool literal)
{
  td_status status = TD_OK;
  for (uint32_t i = f->plan.ops[op].first_action; i < f->plan.ops[op + 1].first_action && !status; i++) {
    const td_planned_action *action = &f->plan.actions[i];
    if (action->phase != phase) continue;
    td_slot *slot = td_deck_find(deck, f->storage[action->storage]);
    if (slot && slot->owned && (literal || is_harmless(slot, action->kind))) status = act(deck, slot, action->kind);
  }
  return status;
}

/* ---- finding the trace again ---------------------------------------------------------------------------------- */

static bool agrees(const td_plan_arrays *plan, uint64_t place, const uint64_t latest[TD_AGREE])
{
  for (uint64_t back = 0; back < TD_AGREE; back++) {
    const td_planned_op *op = &plan->ops[place - back];
    if (td_guide_hash(plan->hashes[op->name], op->leaves) != latest[back]) return false;
  }
  return true;
}

uint64_t td_follower_find(const td_follower *f, uint64_t expected, uint64_t window, const uint64_t latest[TD_AGREE])
{
  for (uint64_t distance = 0; distance <= window; distance++) {
    for (int side = 0; side < 2; side++) {
      uint64_t place = side ? expected + distance : expected - distance;
      if ((!side && distance > expected) || place < TD_AGREE - 1 || place >= f->plan.n_ops) continue;
      if (agrees(&f->plan, place, latest)) return place;
    }
  }
  return TD_NOWHERE;
}
