/* Storages of a deck: birth, holds, freeing, and keeping the device within its limit. */
#include "runtime/deck.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"

/* ---- slots ---------------------------------------------------------------------------------------------------- */

/* A handle is the slot's number plus one in the lower half, and above it how often the slot was used. */
static uint32_t slot_number(td_storage storage)
{
  return (uint32_t)storage.id - 1;
}

td_slot *td_deck_slot_at(const td_deck *deck, uint32_t number)
{
  return &deck->chunks[number / TD_SLOT_CHUNK][number % TD_SLOT_CHUNK];
}

td_slot *td_deck_find(const td_deck *deck, td_storage storage)
{
  if (slot_number(storage) >= deck->n_slots) return NULL;
  td_slot *slot = td_deck_slot_at(deck, slot_number(storage));
  return slot->handle.id == storage.id && td_slot_living(slot) ? slot : NULL;
}

td_slot *td_deck_slot(td_deck *deck, td_storage storage)
{
  td_slot *slot = td_deck_find(deck, storage);
  if (!slot) td_deck_fail(deck, TD_E_NOT_FOUND, "no such storage: it was freed, or belongs to another deck");
  return slot;
}

static bool more_slots(td_deck *deck)
{
  if (deck->n_slots > UINT32_MAX - 2 * TD_SLOT_CHUNK || !TD_GROW(deck->chunks, deck->chunks_capacity, deck->n_chunks + 1))
    return false;
  td_slot *chunk = calloc(TD_SLOT_CHUNK, sizeof *chunk);
  if (!chunk) return false;
  deck->chunks[deck->n_chunks++] = chunk;
  for (uint32_t i = TD_SLOT_CHUNK; i-- > 0;) {
    chunk[i].next_free = deck->free_slot;
    chunk[i].handle.id = TD_SLOT_FREE | (deck->n_slots + i + 1);
    deck->free_slot = deck->n_slots + i;
  }
  deck->n_slots += TD_SLOT_CHUNK;
  return true;
}

static td_slot *new_slot(td_deck *deck)
{
  if (deck->free_slot == TD_MAP_NONE && !more_slots(deck)) return NULL;
  td_slot *slot = td_deck_slot_at(deck, deck->free_slot);
  deck->free_slot = slot->next_free;
  uint64_t used = ((slot->handle.id & ~TD_SLOT_FREE) >> 32) + 1;
  uint32_t number = (uint32_t)slot->handle.id - 1;
  *slot = (td_slot){.handle = {(used << 32 | (number + 1)) & ~TD_SLOT_FREE}, .holds = 1, .next_free = TD_MAP_NONE};
  slot->touched = deck->touch_stamp;
  slot->born_step = deck->in_step ? deck->step : 0;
  slot->born_op = deck->op.open ? deck->op_stamp : 0;
  return slot;
}

static void give_back_slot(td_deck *deck, td_slot *slot)
{
  uint32_t number = slot_number(slot->handle);
  slot->handle.id |= TD_SLOT_FREE;
  slot->next_free = deck->free_slot;
  deck->free_slot = number;
}

void td_deck_free_slot(td_deck *deck, td_slot *slot)
{
  if (slot->step == deck->step && deck->in_step && deck->role->ops->storage_freed)
    deck->role->ops->storage_freed(deck->role, deck, slot);
  if (slot->key && td_map_get(&deck->keys, slot->key) == slot_number(slot->handle))
    td_map_remove(&deck->keys, slot->key);
  if (slot->owned) {
    td_victims_remove(&deck->victims, &slot->victim);
    if (slot->resident.key) td_residency_gone(deck->residency, &slot->resident);
    td_residency_drop(deck->residency, &slot->resident);
  }
  give_back_slot(deck, slot);
}

static bool in_open_op(const td_deck *deck, const td_slot *slot)
{
  uint64_t op = deck->op_stamp;
  return deck->op.open && (slot->read_op == op || slot->written_op == op || slot->output_op == op);
}

static void free_now_or_later(td_deck *deck, td_slot *slot)
{
  if (!in_open_op(deck, slot)) {
    td_deck_free_slot(deck, slot);
  } else if (!slot->freeing) {
    slot->freeing = true;
    deck->n_freeing++;
  }
}

/* The op that is closing named every storage that waits for its end. */
void td_deck_free_pending(td_deck *deck)
{
  if (!deck->n_freeing) return;
  deck->n_freeing = 0;
  for (size_t i = 0; i < deck->op.n_accesses + deck->op.n_outputs; i++) {
    td_slot *slot = i < deck->op.n_accesses ? deck->op.accesses[i].slot : deck->op.outputs[i - deck->op.n_accesses].slot;
    if (!slot->freeing) continue;
    slot->freeing = false; /* it may be named again further on */
    td_deck_free_slot(deck, slot);
  }
}

void td_storages_finish(td_deck *deck)
{
  for (uint32_t i = 0; i < deck->n_slots; i++) {
    td_slot *slot = td_deck_slot_at(deck, i);
    if (!td_slot_living(slot) || !slot->owned) continue;
    if (slot->resident.key && !slot->resident.gone) td_deck_disown(deck, slot);
    else td_residency_drop(deck->residency, &slot->resident);
  }
  for (size_t i = 0; i < deck->n_chunks; i++) free(deck->chunks[i]);
  free(deck->chunks);
  td_map_finish(&deck->keys);
  td_victims_finish(&deck->victims);
}

/* ---- room on the device --------------------------------------------------------------------------------------- */

/* Copies out what is not on the host yet, and lets the device bytes go when that is done. */
static td_status evict(td_deck *deck, td_slot *slot)
{
  td_status status = td_residency_copy_d2h(deck->residency, &slot->resident, &deck->error);
  if (!status) td_residency_release_device(deck->residency, &slot->resident);
  else td_victims_add(&deck->victims, &slot->victim); /* there is room, since it was just taken out */
  return status;
}

static td_slot *slot_of(td_victim *victim)
{
  return (td_slot *)(void *)((char *)victim - offsetof(td_slot, victim));
}

/* Bytes that would be over the limit with `more`, were all that is leaving gone. */
static uint64_t lacking(const td_deck *deck, uint64_t more)
{
  uint64_t staying = td_residency_bytes(deck->residency) - td_residency_leaving_bytes(deck->residency);
  if (more > deck->limit_bytes) return UINT64_MAX;
  return staying > deck->limit_bytes - more ? staying - (deck->limit_bytes - more) : 0;
}

/* Code inside a region may hold on to the caller's memory, whichever of its ops named it. */
static bool in_use_now(const td_deck *deck, const td_slot *slot)
{
  if (slot->touched == deck->touch_stamp) return true;
  return deck->open_regions && slot->resident.key && (in_open_op(deck, slot) || slot->born_op == deck->op_stamp);
}

td_status td_deck_make_room(td_deck *deck, uint64_t bytes)
{
  td_victim *victim = NULL, **in_use = NULL; /* set aside while looking, since the op uses them */
  size_t n_in_use = 0, capacity = 0;
  uint64_t in_use_bytes = 0;
  td_status status = TD_OK;
  while (!status && bytes <= deck->limit_bytes && lacking(deck, bytes) && (victim = td_victims_pop(&deck->victims))) {
    if (!in_use_now(deck, slot_of(victim))) {
      status = evict(deck, slot_of(victim));
      continue;
    }
    in_use_bytes += victim->bytes;
    if (TD_GROW(in_use, capacity, n_in_use + 1))
      in_use[n_in_use++] = victim;
    else
      status = td_fail_nomem(&deck->error);
  }
  if (!status && lacking(deck, bytes))
    status = td_deck_fail(deck, TD_E_BUDGET,
                          "no room on the device for %llu bytes: %llu of %llu are taken, %llu of them by what the op itself"
                          " uses, and nothing else can be evicted",
                          (unsigned long long)bytes, (unsigned long long)td_residency_bytes(deck->residency),
                          (unsigned long long)deck->limit_bytes, (unsigned long long)in_use_bytes);
  while (n_in_use > 0) td_victims_add(&deck->victims, in_use[--n_in_use]);
  free(in_use);
  return status;
}

td_status td_deck_squeeze(td_deck *deck)
{
  td_victim *victim;
  td_status status = TD_OK;
  while (!status && lacking(deck, 0) && (victim = td_victims_pop(&deck->victims))) status = evict(deck, slot_of(victim));
  return status ? status : td_residency_wait_for_room(deck->residency, 0, &deck->error);
}

td_status td_deck_expect(td_deck *deck, uint64_t bytes)
{
  if (lacking(deck, bytes)) {
    td_error before = deck->error;
    td_status status = td_deck_make_room(deck, bytes);
    if (status && status != TD_E_BUDGET) return status;
    if (status) deck->error = before; /* nothing failed */
  }
  return td_residency_wait_for_room(deck->residency, bytes, &deck->error);
}

static td_status made_resident(td_deck *deck, td_slot *slot)
{
  return td_victims_add(&deck->victims, &slot->victim) ? TD_OK : td_fail_nomem(&deck->error);
}

/* For the statistics; the first ones of a step by name. */
static void note_wait(td_deck *deck, const td_slot *slot, const td_needed *needed)
{
  td_step_stats *stats = &deck->stats;
  if (needed->away) stats->demand_faults++;
  else stats->late_prefetches++;
  if (deck->n_waits == TD_WAITS_KEPT) return;
  deck->waits[deck->n_waits++] = (td_wait){.op = deck->op_number,
                                           .sid = slot->step == deck->step ? slot->sid : TD_SID_NONE,
                                           .bytes = slot->resident.bytes,
                                           .waited_ns = needed->waited_ns,
                                           .was_away = needed->away};
  deck->wait_storage[deck->n_waits - 1] = slot->handle;
}

td_status td_deck_need(td_deck *deck, td_slot *slot)
{
  slot->touched = deck->touch_stamp;
  td_status status = slot->resident.device ? TD_OK : td_deck_make_room(deck, slot->resident.bytes);
  td_needed needed = {0};
  if (!status) status = td_residency_need(deck->residency, &slot->resident, &needed, &deck->error);
  if (!status && (needed.away || needed.waited_ns)) note_wait(deck, slot, &needed);
  return !status && needed.away ? made_resident(deck, slot) : status;
}

td_status td_deck_prefetch(td_deck *deck, td_slot *slot)
{
  if (slot->resident.device || lacking(deck, slot->resident.bytes) > 0) return TD_OK;
  td_status status = td_residency_copy_h2d(deck->residency, &slot->resident, &deck->error);
  if (!status && !slot->resident.device) return TD_OK; /* the caller's, and gone meanwhile */
  return status == TD_OK ? made_resident(deck, slot) : status == TD_E_NOMEM ? TD_OK : status;
}

/* Bytes that have to come back come back, over the limit too: the storage is the caller's, who may read it next. */
td_status td_deck_disown(td_deck *deck, td_slot *slot)
{
  td_status status = TD_OK;
  if (!slot->resident.device) {
    td_error before = deck->error;
    if (td_deck_make_room(deck, slot->resident.bytes)) deck->error = before; /* as far as that can be */
    uint64_t limit = td_residency_limit(deck->residency, UINT64_MAX);
    status = td_residency_need(deck->residency, &slot->resident, NULL, &deck->error);
    td_residency_limit(deck->residency, limit);
  }
  if (!status) status = td_residency_written(deck->residency, &slot->resident, &deck->error); /* no copy uses it any more */
  if (status) return status;
  td_victims_remove(&deck->victims, &slot->victim);
  td_residency_release_host(deck->residency, &slot->resident);
  td_residency_disown(deck->residency, &slot->resident);
  slot->owned = false;
  return TD_OK;
}

void td_deck_release_device(td_deck *deck, td_slot *slot)
{
  td_victims_remove(&deck->victims, &slot->victim);
  td_residency_release_device(deck->residency, &slot->resident);
}

/* ---- the public calls ----------------------------------------------------------------------------------------- */

td_status td_storage_born(td_deck *deck, uint64_t key, uint64_t bytes, td_storage *storage)
{
  if (key) { /* an address that came back: whatever had it is gone */
    uint32_t old = td_map_get(&deck->keys, key);
    if (old != TD_MAP_NONE) free_now_or_later(deck, td_deck_slot_at(deck, old));
  }
  td_slot *slot = new_slot(deck);
  if (!slot) return td_fail_nomem(&deck->error);
  if (key && !td_map_put(&deck->keys, key, slot_number(slot->handle))) {
    give_back_slot(deck, slot);
    return td_fail_nomem(&deck->error);
  }
  slot->key = key;
  slot->resident.bytes = bytes;
  *storage = slot->handle;
  return TD_OK;
}

td_status td_storage_alloc(td_deck *deck, uint64_t bytes, td_storage *storage)
{
  if (!deck->device) return td_deck_fail(deck, TD_E_STATE, "this deck has no device to allocate on");
  td_status status = td_deck_make_room(deck, bytes);
  if (status) return status;
  td_slot *slot = new_slot(deck);
  if (!slot) return td_fail_nomem(&deck->error);
  slot->owned = true;
  slot->resident.bytes = bytes;
  slot->victim = (td_victim){.op = deck->op_stamp, .bytes = bytes};
  status = td_residency_bind(deck->residency, &slot->resident, &deck->error);
  if (!status) status = made_resident(deck, slot);
  if (status) {
    td_residency_drop(deck->residency, &slot->resident);
    give_back_slot(deck, slot);
    return status;
  }
  *storage = slot->handle;
  return TD_OK;
}

td_status td_deck_set_memory(td_deck *deck, const td_memory *memory)
{
  if (!deck->device) return td_deck_fail(deck, TD_E_STATE, "this deck has no device to copy from and to");
  if (deck->in_step || deck->has_memory) return td_deck_fail(deck, TD_E_STATE, "memory is set once, outside a step");
  if (!memory->alloc || !memory->free || !memory->pointer || !memory->hold || !memory->drop)
    return td_deck_fail(deck, TD_E_ARG, "memory needs alloc, free, pointer, hold and drop");
  td_residency_set_memory(deck->residency, memory);
  deck->has_memory = true;
  return TD_OK;
}

td_status td_storage_adopt(td_deck *deck, uint64_t key, uint64_t bytes, td_storage *storage)
{
  if (!deck->has_memory) return td_deck_fail(deck, TD_E_STATE, "this deck has no memory of the caller's to move storages in");
  uint32_t old = key ? td_map_get(&deck->keys, key) : TD_MAP_NONE;
  if (!key || (old != TD_MAP_NONE && !td_deck_slot_at(deck, old)->freeing))
    return td_deck_fail(deck, TD_E_ARG, "a storage is adopted under a key of its own");
  td_storage born;
  td_status status = td_storage_born(deck, key, bytes, &born);
  if (status) return status;
  td_slot *slot = td_deck_find(deck, born);
  slot->owned = true;
  slot->resident.key = key;
  slot->victim = (td_victim){.op = deck->op_stamp, .bytes = bytes};
  td_residency_adopt(deck->residency, &slot->resident);
  status = made_resident(deck, slot);
  if (!status && !deck->op.open) status = td_deck_expect(deck, 0); /* what was restored stays */
  if (status)
    td_deck_free_slot(deck, slot);
  else
    *storage = born;
  return status;
}

td_status td_storage_restore(td_deck *deck, td_storage storage)
{
  td_slot *slot = td_deck_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  return slot->owned ? td_deck_need(deck, slot) : TD_OK;
}

td_status td_storage_find(td_deck *deck, uint64_t key, td_storage *storage)
{
  uint32_t number = key ? td_map_get(&deck->keys, key) : TD_MAP_NONE;
  if (number == TD_MAP_NONE || td_deck_slot_at(deck, number)->freeing) return td_deck_fail(deck, TD_E_NOT_FOUND, "no storage has this key");
  *storage = td_deck_slot_at(deck, number)->handle;
  return TD_OK;
}

/* A storage that the caller gave other bytes: a host copy is not of them. */
static td_status resize_adopted(td_deck *deck, td_slot *slot, uint64_t bytes)
{
  if (!slot->resident.device) return td_deck_fail(deck, TD_E_STATE, "the size of a storage that is away does not change");
  td_status status = td_residency_written(deck->residency, &slot->resident, &deck->error);
  if (status) return status;
  td_residency_release_host(deck->residency, &slot->resident);
  td_victims_remove(&deck->victims, &slot->victim);
  td_residency_disown(deck->residency, &slot->resident);
  slot->resident.key = slot->key;
  slot->resident.bytes = slot->victim.bytes = bytes;
  td_residency_adopt(deck->residency, &slot->resident);
  return made_resident(deck, slot);
}

td_status td_storage_sid(td_deck *deck, td_storage storage, uint64_t *sid)
{
  const td_slot *slot = td_deck_slot(deck, storage);
  if (!slot) return deck->error.status;
  if (!deck->step || slot->step != deck->step || slot->sid == TD_SID_NONE)
    return td_deck_fail(deck, TD_E_NOT_FOUND, "the step has not touched storage %llu", (unsigned long long)storage.id);
  *sid = slot->sid;
  return TD_OK;
}

td_status td_storage_resized(td_deck *deck, td_storage storage, uint64_t bytes)
{
  td_slot *slot = td_deck_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  if (slot->owned && !slot->resident.key)
    return td_deck_fail(deck, TD_E_STATE, "the size of a storage in the deck's own memory does not change");
  if (slot->owned) {
    td_status status = resize_adopted(deck, slot, bytes);
    if (status) return status;
  }
  slot->resident.bytes = bytes;
  if (slot->step == deck->step && deck->in_step && deck->role->ops->storage_changed)
    deck->role->ops->storage_changed(deck->role, deck, slot);
  return TD_OK;
}

/* A storage that was freed in the open op lives until the op ends, but nobody holds it. */
static td_slot *held_slot(td_deck *deck, td_storage storage)
{
  td_slot *slot = td_deck_slot(deck, storage);
  if (slot && slot->freeing) {
    td_deck_fail(deck, TD_E_NOT_FOUND, "no such storage: it was freed in this op");
    return NULL;
  }
  return slot;
}

td_status td_acquire(td_deck *deck, td_storage storage)
{
  td_slot *slot = held_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  slot->holds++;
  return TD_OK;
}

td_status td_release(td_deck *deck, td_storage storage)
{
  td_slot *slot = held_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  if (--slot->holds == 0) free_now_or_later(deck, slot);
  return TD_OK;
}

td_status td_storage_freed(td_deck *deck, td_storage storage)
{
  td_slot *slot = held_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  free_now_or_later(deck, slot);
  return TD_OK;
}

void *td_data(td_deck *deck, td_storage storage)
{
  td_slot *slot = td_deck_find(deck, storage);
  return slot && slot->owned ? td_residency_pointer(deck->residency, &slot->resident) : NULL;
}

/* The storage, if `bytes` of it can be copied. */
static td_slot *slot_to_copy(td_deck *deck, td_storage storage, uint64_t bytes)
{
  td_slot *slot = td_deck_slot(deck, storage);
  if (slot && !slot->owned) {
    td_deck_fail(deck, TD_E_STATE, "the bytes of this storage are the caller's");
    return NULL;
  }
  if (slot && bytes > slot->resident.bytes) {
    td_deck_fail(deck, TD_E_ARG, "%llu bytes asked for of a storage of %llu", (unsigned long long)bytes,
                 (unsigned long long)slot->resident.bytes);
    return NULL;
  }
  return slot;
}

td_status td_fetch(td_deck *deck, td_storage storage, void *to, uint64_t bytes)
{
  td_slot *slot = slot_to_copy(deck, storage, bytes);
  return slot ? td_residency_fetch(deck->residency, &slot->resident, to, bytes, &deck->error) : deck->error.status;
}

td_status td_store(td_deck *deck, td_storage storage, const void *from, uint64_t bytes)
{
  td_slot *slot = slot_to_copy(deck, storage, bytes);
  return slot ? td_residency_store(deck->residency, &slot->resident, from, bytes, &deck->error) : deck->error.status;
}
