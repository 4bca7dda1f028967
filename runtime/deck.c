/* The deck itself: creation, steps, what happened. */
#include "runtime/deck.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"

td_status td_deck_fail(td_deck *deck, td_status status, const char *format, ...)
{
  char message[sizeof deck->error.message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  return td_fail(&deck->error, status, "%s", message);
}

const td_error *td_deck_error(const td_deck *deck)
{
  return &deck->error;
}

/* ---- creation ------------------------------------------------------------------------------------------------- */

td_status td_deck_create(td_deck **out, td_role *role, td_device *device, uint64_t limit_bytes, td_error *err)
{
  td_deck *deck = calloc(1, sizeof *deck);
  td_status status = deck ? TD_OK : td_fail_nomem(err);
  if (!status && device) {
    uint64_t capacity = device->ops->capacity_bytes(device);
    deck->limit_bytes = limit_bytes && limit_bytes < capacity ? limit_bytes : capacity;
    status = td_residency_create(&deck->residency, device, deck->limit_bytes, err);
  }
  if (status) {
    free(deck);
    role->ops->destroy(role);
    return status;
  }
  deck->role = role;
  deck->device = device;
  deck->free_slot = TD_MAP_NONE;
  deck->op_number = -1;
  if (device && role->ops->attached) role->ops->attached(role, deck);
  *out = deck;
  return TD_OK;
}

void td_deck_set_role(td_deck *deck, td_role *role)
{
  deck->role->ops->destroy(deck->role);
  deck->role = role;
  if (!deck->device) return;
  td_residency_reserve_host(deck->residency, 0, NULL);
  if (role->ops->attached) role->ops->attached(role, deck);
}

void td_deck_destroy(td_deck *deck)
{
  if (!deck) return;
  td_step_abort(deck);
  if (deck->listener.destroy) deck->listener.destroy(deck->listener.context);
  deck->role->ops->destroy(deck->role);
  td_storages_finish(deck);
  td_residency_destroy(deck->residency);
  td_buffer_finish(&deck->op.name);
  free(deck->op.accesses);
  free(deck->op.outputs);
  free(deck->regions);
  td_buffer_finish(&deck->region_names);
  free(deck);
}

/* ---- steps ---------------------------------------------------------------------------------------------------- */

bool td_in_step(const td_deck *deck)
{
  return deck->in_step;
}

int64_t td_op_number(const td_deck *deck)
{
  return deck->op_number;
}

td_status td_step_mark(td_deck *deck, const char *name)
{
  if (!deck->in_step) return td_deck_fail(deck, TD_E_STATE, "a mark outside a step");
  return deck->role->ops->mark ? deck->role->ops->mark(deck->role, deck, name, &deck->error) : TD_OK;
}

td_status td_step_begin(td_deck *deck)
{
  if (deck->in_step) return td_deck_fail(deck, TD_E_STATE, "a step begins inside a step");
  deck->step++;
  deck->next_sid = 0;
  deck->op_number = -1;
  deck->n_waits = 0;
  deck->divergence[0] = '\0';
  deck->stats = (td_step_stats){.replayed = deck->role->ops->replays};
  if (deck->residency) td_residency_stats_reset(deck->residency);
  deck->step_began_ns = td_now_ns();
  td_status status = deck->role->ops->step_begin(deck->role, deck, &deck->error);
  if (status) return status;
  deck->in_step = true;
  if (deck->listener.entered) deck->listener.entered(deck->listener.context, deck);
  return TD_OK;
}

/* After a copy that failed no host copy is known to be whole: better an error at the next use than wrong bytes. */
static void distrust_host_copies(td_deck *deck)
{
  for (uint32_t i = 0; i < deck->n_slots; i++) {
    td_slot *slot = td_deck_slot_at(deck, i);
    if (td_slot_living(slot) && slot->owned && slot->resident.host) slot->resident.version++;
  }
}

/* What is away comes back, as far as there is room, and no host copy outlives the step. What was adopted comes back in every case, and
 * is the caller's alone. */
static td_status bring_home(td_deck *deck)
{
  if (!deck->residency) return TD_OK;
  td_status status = td_residency_settle(deck->residency, &deck->error);
  if (status) distrust_host_copies(deck);
  if (!deck->has_memory && !td_residency_host_bytes(deck->residency)) return status;
  td_error why = deck->error; /* of the first that failed; the others come back all the same */
  for (uint32_t i = 0; i < deck->n_slots; i++) {
    td_slot *slot = td_deck_slot_at(deck, i);
    if (!td_slot_living(slot) || !slot->owned) continue;
    if (slot->resident.key) {
      td_status one = slot->resident.gone ? TD_OK : td_deck_disown(deck, slot);
      if (one && !status) {
        status = one;
        why = deck->error;
      }
      continue;
    }
    if (status) continue;
    if (!slot->resident.host) continue;
    status = td_deck_prefetch(deck, slot);
    if (status) why = deck->error;
    if (!status && slot->resident.device) td_residency_release_host(deck->residency, &slot->resident);
  }
  if (status) deck->error = why;
  td_status settled = td_residency_settle(deck->residency, status ? NULL : &deck->error);
  return status ? status : settled;
}

static void take_stats(td_deck *deck)
{
  td_step_stats *stats = &deck->stats;
  stats->step_ns = td_now_ns() - deck->step_began_ns;
  if (!deck->residency) return;
  td_residency_stats moved;
  td_residency_stats_get(deck->residency, &moved);
  stats->peak_bytes = moved.peak_bytes;
  stats->host_peak_bytes = moved.host_peak_bytes;
  stats->d2h_bytes = moved.d2h_bytes;
  stats->h2d_bytes = moved.h2d_bytes;
  stats->stall_ns = moved.stall_ns;
}

static void step_left(td_deck *deck)
{
  td_regions_reset(deck);
  deck->op_number = -1;
  deck->in_step = false;
  if (deck->listener.left) deck->listener.left(deck->listener.context, deck);
}

/* A replay ends with copies of its own, which belong to the step; a recording ends with work on its file, which does not. */
static td_status end_whole_step(td_deck *deck)
{
  bool replays = deck->role->ops->replays;
  td_status ended = replays ? deck->role->ops->step_end(deck->role, deck, &deck->error) : TD_OK;
  td_error why = deck->error;
  td_status home = bring_home(deck);
  if (ended) deck->error = why;
  take_stats(deck);
  if (!replays) ended = deck->role->ops->step_end(deck->role, deck, &deck->error);
  return ended ? ended : home;
}

td_status td_step_end(td_deck *deck)
{
  if (!deck->in_step) return td_deck_fail(deck, TD_E_STATE, "no step to end");
  if (deck->op.open && !deck->open_regions) {
    td_step_abort(deck);
    return td_deck_fail(deck, TD_E_STATE, "the step ended inside an op, and was aborted");
  }
  td_status closed = td_regions_close(deck);
  td_error why = deck->error;
  td_status ended = end_whole_step(deck);
  if (closed) deck->error = why;
  step_left(deck);
  if (closed) return closed;
  if (!ended && deck->listener.ended) ended = deck->listener.ended(deck->listener.context, deck, &deck->error);
  return ended;
}

/* What a broken step produced is gone, whoever still holds it. */
static void forget_produced(td_deck *deck)
{
  for (uint32_t i = 0; i < deck->n_slots; i++) {
    td_slot *slot = td_deck_slot_at(deck, i);
    if (!td_slot_living(slot)) continue;
    if (slot->resident.key) { /* who holds it has its bytes */
      if (!slot->resident.gone) td_deck_disown(deck, slot);
      continue;
    }
    bool activation = slot->step == deck->step && slot->activation;
    if (activation || (slot->owned && slot->born_step == deck->step)) td_deck_free_slot(deck, slot);
  }
}

td_status td_step_abort(td_deck *deck)
{
  if (!deck->in_step) return TD_OK;
  deck->inner_op = false;
  if (deck->op.open) td_deck_op_drop(deck);
  td_status status = deck->residency ? td_residency_settle(deck->residency, &deck->error) : TD_OK;
  if (status) distrust_host_copies(deck);
  deck->role->ops->step_abort(deck->role, deck);
  forget_produced(deck);
  td_error why = deck->error;
  td_status home = bring_home(deck);
  if (status) deck->error = why;
  take_stats(deck);
  step_left(deck);
  return status ? status : home;
}

const td_wait *td_deck_waits(const td_deck *deck, size_t *count)
{
  *count = deck->n_waits;
  return deck->waits;
}

void td_deck_stats(const td_deck *deck, td_step_stats *out)
{
  *out = deck->stats;
}
