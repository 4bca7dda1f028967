/* Residency: where the bytes of each storage are, and moving them.
 *
 * A storage's bytes have a version that grows with every write. The host copy remembers the version it was taken from, so a
 * copy made before a write is never taken for the current bytes.
 *
 *     state     device  host       bind    written   copy_d2h  copy_h2d  need      rel. device  rel. host
 *     NOWHERE   -       -          DEVICE  .         error     error     error     .            .
 *     DEVICE    yes     -          .       .         BOTH      .         .         NOWHERE      .
 *     BOTH      yes     current    .       STALE     .         .         .         HOST         DEVICE
 *     STALE     yes     outdated   .       .         BOTH      .         .         OUTDATED     DEVICE
 *     HOST      -       current    OUTDATED with device bytes: STALE     BOTH      BOTH         .       NOWHERE
 *     OUTDATED  -       outdated   STALE   .         error     error     error     .            NOWHERE
 *
 * A dot: nothing changes. (To bind what is on the host gives it bytes that are not the current ones: the caller writes them.) Copies
 * only take time; the states speak of what will be when those that are queued have ended. While one is in flight these edges hold,
 * each by an event: D2H before the device bytes are free, D2H before H2D of the same bytes, H2D before the consumer, both before a
 * write, H2D before the host bytes are used again.
 *
 * Releases never wait: bytes that a copy still uses are put on a list and given back when it has ended, and count as taken
 * until then. A storage that is needed before its device bytes have left gets them back without a copy. */
#ifndef TD_RUNTIME_RESIDENCY_H
#define TD_RUNTIME_RESIDENCY_H

#include <tapedeck/deck.h>

#include "runtime/device_ops.h"
#include "runtime/host_pool.h"

/* One storage. All zero (but for bytes and key) is a storage with no bytes anywhere. Owned by the caller, who keeps it in place. */
typedef struct td_resident {
  uint64_t bytes;
  uint64_t key;          /* in the caller's memory under this key; 0: in the device's */
  void *device;          /* NULL: not on the device */
  void *host;            /* NULL: no host copy */
  uint64_t version;      /* grows with each write */
  uint64_t host_version; /* the version that `host` holds or is being given */
  bool gone;             /* the caller's storage died when the deck let go of it */
  uint64_t leaving;      /* the number on the list of its device bytes that were released last */
  td_event d2h, h2d;     /* the end of its latest copy in each direction */
} td_resident;

typedef struct td_residency td_residency;

/* Of a caller's storage that is gone nothing is anywhere, and copies and releases of it are no-ops. */

typedef struct td_residency_stats {
  uint64_t peak_bytes, host_peak_bytes; /* the most taken at once */
  uint64_t d2h_bytes, h2d_bytes;        /* queued */
  uint64_t stall_ns;                    /* waited for copies, and for room while bytes were being given back */
} td_residency_stats;

/* `limit_bytes`: the most device bytes to take, below the device's own capacity; UINT64_MAX: no limit. */
td_status td_residency_create(td_residency **out, td_device *device, uint64_t limit_bytes, td_error *err);
/* Waits for all copies. Residents that are still somewhere must have been dropped before. NULL is allowed. */
void td_residency_destroy(td_residency *residency);

/* Where residents with a key have their device bytes. */
void td_residency_set_memory(td_residency *residency, const td_memory *memory);

/* Takes `bytes` of pinned host memory at once, so that no copy of a step has to. What was reserved before and is not in use goes. */
td_status td_residency_reserve_host(td_residency *residency, uint64_t bytes, td_error *err);

/* Gives the storage device bytes, undefined. Already there: nothing happens. Waits for bytes that are already being given
 * back. TD_E_NOMEM if they do not fit into limit and capacity even so. */
td_status td_residency_bind(td_residency *residency, td_resident *resident, td_error *err);

/* The caller's storage has its bytes on the device: they are counted, over the limit too. */
void td_residency_adopt(td_residency *residency, td_resident *resident);
/* Its bytes are the caller's alone from here on. They are on the device. */
void td_residency_disown(td_residency *residency, td_resident *resident);
/* The caller's storage is gone, and its device bytes with it. */
void td_residency_gone(td_residency *residency, td_resident *resident);

/* Sets another limit and returns the one before. */
uint64_t td_residency_limit(td_residency *residency, uint64_t limit_bytes);

/* Waits until `bytes` more fit, as far as bytes are being given back. */
td_status td_residency_wait_for_room(td_residency *residency, uint64_t bytes, td_error *err);

/* The device bytes are about to be, or have been, written. Waits for copies that still read or write them. */
td_status td_residency_written(td_residency *residency, td_resident *resident, td_error *err);

/* Queues a copy to the host. A host copy that is current makes it a no-op. TD_E_STATE: nothing on the device. */
td_status td_residency_copy_d2h(td_residency *residency, td_resident *resident, td_error *err);

/* Takes device bytes (as bind does) and queues a copy from the host. Already there: no-op. TD_E_STATE: no host copy, or one
 * that is not current. */
td_status td_residency_copy_h2d(td_residency *residency, td_resident *resident, td_error *err);

/* What td_residency_need had to do. */
typedef struct td_needed {
  bool away;          /* the bytes were not on the device, nor on their way there */
  uint64_t waited_ns; /* for the copy that brought them */
} td_needed;

/* The consumer's edge: computing that is queued from here on finds the bytes on the device, and no copy writing them. Brings them back if
 * they are away. `needed` may be NULL. TD_E_STATE: no bytes anywhere. */
td_status td_residency_need(td_residency *residency, td_resident *resident, td_needed *needed, td_error *err);

/* Releases of what is not there are no-ops. */
void td_residency_release_device(td_residency *residency, td_resident *resident);
void td_residency_release_host(td_residency *residency, td_resident *resident);

/* Both releases: the storage is freed. */
void td_residency_drop(td_residency *residency, td_resident *resident);

/* Copies the first bytes to `to`, from wherever they are; waits for the copies involved. TD_E_STATE: no bytes anywhere. */
td_status td_residency_fetch(td_residency *residency, td_resident *resident, void *to, uint64_t bytes, td_error *err);
/* Copies to the first bytes, which are on the device. `from` may be used again on return. */
td_status td_residency_store(td_residency *residency, td_resident *resident, const void *from, uint64_t bytes, td_error *err);

/* Waits for all queued copies and gives back what was waiting for them. */
td_status td_residency_settle(td_residency *residency, td_error *err);

bool td_residency_current_on_host(const td_resident *resident);
/* Where the device bytes are; NULL if they are not there. */
void *td_residency_pointer(const td_residency *residency, const td_resident *resident);

uint64_t td_residency_bytes(const td_residency *residency);         /* device bytes taken, those being given back included */
uint64_t td_residency_leaving_bytes(const td_residency *residency); /* those being given back */
uint64_t td_residency_host_bytes(const td_residency *residency);

/* What happened since the last call of reset; peaks start again from what is taken now. */
void td_residency_stats_get(const td_residency *residency, td_residency_stats *out);
void td_residency_stats_reset(td_residency *residency);

#endif
