#include "runtime/residency.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/fail.h"

/* Memory that is given back once both events have passed. */
typedef struct leaving {
  void *memory;
  td_resident *resident; /* of a key, which it keeps at least until the storage dies */
  uint64_t bytes, key;
  td_event d2h, h2d;
  bool stays; /* it is needed again, or its owner took it along: there is nothing to give back */
} leaving;

/* First in, first out: copies end in order, so that what was put first goes about first. */
typedef struct leaving_list {
  leaving *items;
  size_t head, count, capacity;
  uint64_t popped; /* so far; the item at the head has the number popped + 1 */
} leaving_list;

/* A copy that uses the bytes of a caller's storage, which is kept alive meanwhile. */
typedef struct held {
  td_resident *resident;
  uint64_t key;
  uint64_t ticket;
} held;

typedef struct held_list {
  held *items;
  size_t head, count, capacity;
} held_list;

struct td_residency {
  td_device *device;
  td_memory memory; /* of residents with a key */
  td_host_pool *pool;
  leaving_list device_leaving, host_leaving;
  held_list held[2]; /* by direction */
  uint64_t limit_bytes;
  uint64_t device_bytes, leaving_bytes; /* taken, and of those the ones on their way out */
  td_event last[2]; /* the latest copy of each engine */
  td_residency_stats stats;
};

/* ---- giving back ---------------------------------------------------------------------------------------------- */

static bool may_go(const td_residency *r, const leaving *item)
{
  return r->device->ops->passed(r->device, item->d2h) && r->device->ops->passed(r->device, item->h2d);
}

static void give_back_device(td_residency *r, const leaving *item)
{
  if (item->stays) return;
  if (item->key) r->memory.free(r->memory.context, item->key, item->bytes);
  else r->device->ops->mem_free(r->device, item->memory, item->bytes);
  r->device_bytes -= item->bytes;
}

static void give_back_host(td_residency *r, const leaving *item)
{
  td_host_pool_free(r->pool, item->memory, item->bytes);
}

/* The thread waits, or with `join` only the computing that is queued from here on. */
static td_status pause_for(td_residency *r, td_event event, bool join, td_error *err)
{
  if (r->device->ops->passed(r->device, event)) return TD_OK;
  uint64_t began = td_now_ns();
  td_status status = (join ? r->device->ops->join : r->device->ops->wait)(r->device, event, err);
  uint64_t waited = td_now_ns() - began;
  r->stats.stall_ns += waited ? waited : 1; /* a wait is a wait, however coarse the clock */
  return status;
}

static td_status wait_for(td_residency *r, td_event event, td_error *err)
{
  return pause_for(r, event, false, err);
}

static td_status wait_until_it_may_go(td_residency *r, const leaving *item, td_error *err)
{
  td_status status = wait_for(r, item->d2h, err);
  return status ? status : wait_for(r, item->h2d, err);
}

static bool push(leaving_list *list, leaving item)
{
  if (list->head && list->head + list->count == list->capacity) {
    memmove(list->items, list->items + list->head, list->count * sizeof *list->items);
    list->head = 0;
  }
  if (!TD_GROW(list->items, list->capacity, list->head + list->count + 1)) return false;
  list->items[list->head + list->count++] = item;
  return true;
}

static leaving pop(leaving_list *list)
{
  leaving item = list->items[list->head++];
  list->popped++;
  if (--list->count == 0) list->head = 0;
  return item;
}

static void drop_hold(td_residency *r, td_resident *resident, uint64_t key)
{
  if (!key || r->memory.drop(r->memory.context, key) || resident->key != key) return;
  if (resident->device) r->device_bytes -= resident->bytes;
  resident->device = NULL;
  resident->gone = true;
}

static void pop_device(td_residency *r)
{
  leaving item = pop(&r->device_leaving);
  if (!item.stays) r->leaving_bytes -= item.bytes;
  give_back_device(r, &item);
  drop_hold(r, item.resident, item.key);
}

static void pop_host(td_residency *r)
{
  leaving item = pop(&r->host_leaving);
  give_back_host(r, &item);
}

/* The copy that was queued last holds the storage. Room for it was made before. */
static void hold(td_residency *r, td_direction direction, td_resident *resident)
{
  held_list *list = &r->held[direction];
  r->memory.hold(r->memory.context, resident->key);
  list->items[list->head + list->count++] =
      (held){.resident = resident, .key = resident->key, .ticket = r->last[direction].ticket};
}

static bool make_room_to_hold(held_list *list)
{
  if (list->head && list->head + list->count == list->capacity) {
    memmove(list->items, list->items + list->head, list->count * sizeof *list->items);
    list->head = 0;
  }
  return TD_GROW(list->items, list->capacity, list->head + list->count + 1);
}

static void drop_held(td_residency *r, td_direction direction, bool all)
{
  held_list *list = &r->held[direction];
  while (list->count) {
    held first = list->items[list->head];
    if (!all && !r->device->ops->passed(r->device, (td_event){.ticket = first.ticket, .engine = (uint32_t)direction})) break;
    list->head++;
    if (--list->count == 0) list->head = 0;
    drop_hold(r, first.resident, first.key);
  }
}

static void collect(td_residency *r)
{
  while (r->device_leaving.count && may_go(r, &r->device_leaving.items[r->device_leaving.head])) pop_device(r);
  while (r->host_leaving.count && may_go(r, &r->host_leaving.items[r->host_leaving.head])) pop_host(r);
  drop_held(r, TD_D2H, false);
  drop_held(r, TD_H2D, false);
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

td_status td_residency_create(td_residency **out, td_device *device, uint64_t limit_bytes, td_error *err)
{
  td_residency *r = calloc(1, sizeof *r);
  if (!r) return td_fail_nomem(err);
  r->device = device;
  r->limit_bytes = limit_bytes;
  td_status status = td_host_pool_create(&r->pool, device, err);
  if (status)
    free(r);
  else
    *out = r;
  return status;
}

void td_residency_destroy(td_residency *r)
{
  if (!r) return;
  td_residency_settle(r, NULL);
  free(r->device_leaving.items);
  free(r->host_leaving.items);
  free(r->held[TD_D2H].items);
  free(r->held[TD_H2D].items);
  td_host_pool_destroy(r->pool);
  free(r);
}

void td_residency_set_memory(td_residency *r, const td_memory *memory)
{
  r->memory = *memory;
}

uint64_t td_residency_limit(td_residency *r, uint64_t limit_bytes)
{
  uint64_t before = r->limit_bytes;
  r->limit_bytes = limit_bytes;
  return before;
}

td_status td_residency_reserve_host(td_residency *r, uint64_t bytes, td_error *err)
{
  return td_host_pool_reserve(r->pool, bytes, err);
}

td_status td_residency_settle(td_residency *r, td_error *err)
{
  td_status d2h = wait_for(r, r->last[TD_D2H], err), h2d = wait_for(r, r->last[TD_H2D], err);
  while (r->device_leaving.count) pop_device(r); /* after a failed copy too: nothing works on them any more */
  while (r->host_leaving.count) pop_host(r);
  drop_held(r, TD_D2H, true);
  drop_held(r, TD_H2D, true);
  td_host_pool_trim(r->pool);
  return d2h ? d2h : h2d;
}

/* ---- moving --------------------------------------------------------------------------------------------------- */

static bool fits(const td_residency *r, uint64_t bytes)
{
  return bytes <= r->limit_bytes && r->device_bytes <= r->limit_bytes - bytes;
}

static void taken(td_residency *r, uint64_t bytes)
{
  r->device_bytes += bytes;
  if (r->device_bytes > r->stats.peak_bytes) r->stats.peak_bytes = r->device_bytes;
}

static char somewhere; /* stands for the address of a caller's storage */

static td_status take(td_residency *r, const td_resident *resident, void **out, td_error *err)
{
  uint64_t bytes = resident->bytes;
  if (!fits(r, bytes))
    return td_fail(err, TD_E_NOMEM, "no room for %llu bytes: %llu of %llu are taken", (unsigned long long)bytes,
                   (unsigned long long)r->device_bytes, (unsigned long long)r->limit_bytes);
  if (!resident->key) return r->device->ops->mem_alloc(r->device, bytes, out, err);
  if (!r->memory.alloc(r->memory.context, resident->key, bytes))
    return td_fail(err, TD_E_NOMEM, "the caller's memory has no room for %llu bytes", (unsigned long long)bytes);
  *out = &somewhere;
  return TD_OK;
}

/* Device bytes that were released and have not left yet are the storage's again. */
static bool take_back(td_residency *r, td_resident *resident)
{
  leaving_list *list = &r->device_leaving;
  if (resident->leaving <= list->popped) return false;
  leaving *item = &list->items[list->head + (size_t)(resident->leaving - list->popped - 1)];
  item->stays = true;
  r->leaving_bytes -= item->bytes;
  resident->device = item->memory;
  resident->leaving = 0;
  return true;
}

static td_status pop_when_it_may_go(td_residency *r, td_error *err)
{
  td_status status = wait_until_it_may_go(r, &r->device_leaving.items[r->device_leaving.head], err);
  if (!status) pop_device(r);
  return status;
}

td_status td_residency_bind(td_residency *r, td_resident *resident, td_error *err)
{
  if (resident->device) return TD_OK;
  collect(r);
  if (resident->key && take_back(r, resident)) return TD_OK; /* the caller's storage has one place for its bytes */
  void *memory = NULL;
  td_status status;
  while ((status = take(r, resident, &memory, err)) == TD_E_NOMEM && r->device_leaving.count) {
    status = pop_when_it_may_go(r, err);
    if (status) return status;
  }
  if (status) return status;
  resident->device = memory;
  taken(r, resident->bytes);
  return TD_OK;
}

void td_residency_adopt(td_residency *r, td_resident *resident)
{
  resident->device = &somewhere;
  taken(r, resident->bytes);
}

void td_residency_disown(td_residency *r, td_resident *resident)
{
  r->device_bytes -= resident->bytes;
  resident->device = NULL;
  resident->key = 0;
}

void td_residency_gone(td_residency *r, td_resident *resident)
{
  if (resident->device || take_back(r, resident)) td_residency_disown(r, resident);
}

td_status td_residency_wait_for_room(td_residency *r, uint64_t bytes, td_error *err)
{
  collect(r);
  td_status status = TD_OK;
  while (!fits(r, bytes) && r->device_leaving.count && !status) status = pop_when_it_may_go(r, err);
  return status;
}

td_status td_residency_written(td_residency *r, td_resident *resident, td_error *err)
{
  td_status status = pause_for(r, resident->d2h, true, err);
  if (!status) status = pause_for(r, resident->h2d, true, err); /* which would write over the new bytes */
  if (!status) resident->version++;
  return status;
}

bool td_residency_current_on_host(const td_resident *resident)
{
  return resident->host && resident->host_version == resident->version;
}

void *td_residency_pointer(const td_residency *r, const td_resident *resident)
{
  return resident->device && resident->key ? r->memory.pointer(r->memory.context, resident->key) : resident->device;
}

static td_status copy(td_residency *r, td_direction direction, td_resident *resident, td_error *err)
{
  void *device = td_residency_pointer(r, resident);
  void *to = direction == TD_D2H ? resident->host : device;
  const void *from = direction == TD_D2H ? device : resident->host;
  /* Each copy follows the storage's latest one the other way: it reads what that wrote, or writes what that read. */
  td_event after = direction == TD_D2H ? resident->h2d : resident->d2h;
  td_event done;
  if (resident->key && !make_room_to_hold(&r->held[direction])) return td_fail_nomem(err);
  td_status status = r->device->ops->copy(r->device, direction, to, from, resident->bytes, after, &done, err);
  if (status) return status;
  *(direction == TD_D2H ? &resident->d2h : &resident->h2d) = r->last[direction] = done;
  *(direction == TD_D2H ? &r->stats.d2h_bytes : &r->stats.h2d_bytes) += resident->bytes;
  if (resident->key) hold(r, direction, resident);
  return TD_OK;
}

/* Host bytes that are about to be given back serve before more are taken from the device. */
static td_status take_host(td_residency *r, uint64_t bytes, void **out, td_error *err)
{
  while (!td_host_pool_fits(r->pool, bytes) && r->host_leaving.count) {
    td_status status = wait_until_it_may_go(r, &r->host_leaving.items[r->host_leaving.head], err);
    if (status) return status;
    pop_host(r);
  }
  return td_host_pool_alloc(r->pool, bytes, out, err);
}

td_status td_residency_copy_d2h(td_residency *r, td_resident *resident, td_error *err)
{
  collect(r);
  if (resident->gone) return TD_OK;
  if (!resident->device) return td_fail(err, TD_E_STATE, "a copy to the host of a storage that is not on the device");
  if (td_residency_current_on_host(resident)) return TD_OK;
  bool fresh = !resident->host; /* a stale copy's bytes are used again */
  void *host = resident->host;
  td_status status = fresh ? take_host(r, resident->bytes, &host, err) : TD_OK;
  if (status) return status;
  resident->host = host;
  status = copy(r, TD_D2H, resident, err);
  if (status && fresh) {
    td_host_pool_free(r->pool, host, resident->bytes);
    resident->host = NULL;
  }
  if (status) return status;
  resident->host_version = resident->version;
  uint64_t used = td_host_pool_used(r->pool);
  if (used > r->stats.host_peak_bytes) r->stats.host_peak_bytes = used;
  return TD_OK;
}

td_status td_residency_copy_h2d(td_residency *r, td_resident *resident, td_error *err)
{
  if (resident->device) return TD_OK;
  if (!td_residency_current_on_host(resident))
    return td_fail(err, TD_E_STATE, "a copy to the device of a storage whose current bytes are not on the host");
  if (resident->key && take_back(r, resident)) return TD_OK;
  collect(r); /* which may be the last to hold a caller's storage */
  if (resident->gone) return TD_OK;
  td_status status = td_residency_bind(r, resident, err);
  if (status) return status;
  status = copy(r, TD_H2D, resident, err);
  if (status) td_residency_release_device(r, resident);
  return status;
}

td_status td_residency_need(td_residency *r, td_resident *resident, td_needed *needed, td_error *err)
{
  bool away = !resident->device;
  if (away && !td_residency_current_on_host(resident))
    return td_fail(err, TD_E_STATE, "the bytes of the storage are neither on the device nor on the host");
  if (away && !take_back(r, resident)) {
    td_status status = td_residency_copy_h2d(r, resident, err);
    if (status) return status;
  }
  uint64_t stall = r->stats.stall_ns;
  td_status status = pause_for(r, resident->h2d, true, err);
  if (!status && needed) *needed = (td_needed){.away = away, .waited_ns = r->stats.stall_ns - stall};
  return status;
}

td_status td_residency_fetch(td_residency *r, td_resident *resident, void *to, uint64_t bytes, td_error *err)
{
  const void *device = td_residency_pointer(r, resident);
  if (device) {
    td_event done;
    td_status status = r->device->ops->copy(r->device, TD_D2H, to, device, bytes, resident->h2d, &done, err);
    if (status) return status;
    r->last[TD_D2H] = done;
    return r->device->ops->wait(r->device, done, err);
  }
  if (!td_residency_current_on_host(resident))
    return td_fail(err, TD_E_STATE, "the bytes of the storage are neither on the device nor on the host");
  td_status status = r->device->ops->wait(r->device, resident->d2h, err);
  if (!status && bytes) memcpy(to, resident->host, (size_t)bytes);
  return status;
}

td_status td_residency_store(td_residency *r, td_resident *resident, const void *from, uint64_t bytes, td_error *err)
{
  void *device = td_residency_pointer(r, resident);
  td_event done;
  if (!device) return td_fail(err, TD_E_STATE, "the storage is not on the device");
  td_status status = r->device->ops->copy(r->device, TD_H2D, device, from, bytes, resident->d2h, &done, err);
  if (status) return status;
  resident->h2d = r->last[TD_H2D] = done;
  return r->device->ops->wait(r->device, done, err);
}

/* ---- releasing ------------------------------------------------------------------------------------------------ */

void td_residency_release_device(td_residency *r, td_resident *resident)
{
  if (!resident->device) return;
  leaving item = {resident->device, resident, resident->bytes, resident->key, resident->d2h, resident->h2d, false};
  resident->device = NULL;
  if (!may_go(r, &item) && push(&r->device_leaving, item)) {
    if (item.key) r->memory.hold(r->memory.context, item.key);
    resident->leaving = r->device_leaving.popped + r->device_leaving.count;
    r->leaving_bytes += item.bytes;
    return;
  }
  wait_until_it_may_go(r, &item, NULL); /* no wait but where memory for the list ran out */
  give_back_device(r, &item);
}

void td_residency_release_host(td_residency *r, td_resident *resident)
{
  if (!resident->host) return;
  leaving item = {resident->host, resident, resident->bytes, 0, resident->d2h, resident->h2d, false};
  resident->host = NULL;
  if (!may_go(r, &item) && push(&r->host_leaving, item)) return;
  wait_until_it_may_go(r, &item, NULL);
  give_back_host(r, &item);
}

void td_residency_drop(td_residency *r, td_resident *resident)
{
  td_residency_release_device(r, resident);
  td_residency_release_host(r, resident);
}

/* ---- figures -------------------------------------------------------------------------------------------------- */

uint64_t td_residency_bytes(const td_residency *r)
{
  return r->device_bytes;
}

uint64_t td_residency_leaving_bytes(const td_residency *r)
{
  return r->leaving_bytes;
}

uint64_t td_residency_host_bytes(const td_residency *r)
{
  return td_host_pool_used(r->pool);
}

void td_residency_stats_get(const td_residency *r, td_residency_stats *out)
{
  *out = r->stats;
}

void td_residency_stats_reset(td_residency *r)
{
  collect(r);
  r->stats = (td_residency_stats){.peak_bytes = r->device_bytes, .host_peak_bytes = td_host_pool_used(r->pool)};
}
