/* Residency: where the bytes of each storage are, and moving them.
 *
 * A storage's bytes have a version that grows with every write. The host copy remembers the version it was taken from, so a
 * copy made before a write is never taken for the current bytes. Edges that must hold, each by an event: D2H before the
 * device bytes are free, D2H before H2D of the same bytes, H2D before the consumer, H2D before the host bytes are reused.
 *
 * Releases never wait: bytes that a copy still uses are put on a list and given back when it has ended, and count as taken
 * until then. */
#ifndef TD_RUNTIME_RESIDENCY_H
#define TD_RUNTIME_RESIDENCY_H

#include "runtime/device_ops.h"
#include "runtime/host_pool.h"

/* One storage. All zero (but for bytes) is a storage with no bytes anywhere. Owned by the caller, who keeps it in place. */
typedef struct td_resident {
  uint64_t bytes;
  void *device;          /* NULL: not on the device */
  void *host;            /* NULL: no host copy */
  uint64_t version;      /* grows with each write */
  uint64_t host_version; /* the version that `host` holds or is being given */
  td_event d2h, h2d;     /* the end of its latest copy in each direction */
} td_resident;

typedef struct td_residency td_residency;

typedef struct td_residency_stats {
  uint64_t peak_bytes, host_peak_bytes; /* the most taken at once */
  uint64_t d2h_bytes, h2d_bytes;        /* queued */
  uint64_t stall_ns;                    /* waited for copies, and for room while bytes were being given back */
} td_residency_stats;

/* `limit_bytes`: the most device bytes to take, below the device's own capacity; UINT64_MAX: no limit. */
td_status td_residency_create(td_residency **out, td_device *device, uint64_t limit_bytes, td_error *err);
/* Waits for all copies. Residents that are still somewhere must have been dropped before. NULL is allowed. */
void td_residency_destroy(td_residency *residency);

/* Gives the storage device bytes, undefined. Already there: nothing happens. Waits for bytes that are already being given
 * back. TD_E_NOMEM if they do not fit into limit and capacity even so. */
td_status td_residency_bind(td_residency *residency, td_resident *resident, td_error *err);

/* The device bytes are about to be, or have been, written. Waits for copies that still read or write them. */
td_status td_residency_written(td_residency *residency, td_resident *resident, td_error *err);

/* Queues a copy to the host. A host copy that is current makes it a no-op. TD_E_STATE: nothing on the device. */
td_status td_residency_copy_d2h(td_residency *residency, td_resident *resident, td_error *err);

/* Takes device bytes (as bind does) and queues a copy from the host. Already there: no-op. TD_E_STATE: no host copy, or one
 * that is not current. */
td_status td_residency_copy_h2d(td_residency *residency, td_resident *resident, td_error *err);

/* The consumer's edge: on return the bytes are on the device and no copy is writing them. Brings them back if they are
 * away; *faulted (may be NULL) says whether it had to. TD_E_STATE: no bytes anywhere. */
td_status td_residency_need(td_residency *residency, td_resident *resident, bool *faulted, td_error *err);

/* Releases of what is not there are no-ops. */
void td_residency_release_device(td_residency *residency, td_resident *resident);
void td_residency_release_host(td_residency *residency, td_resident *resident);

/* Both releases: the storage is freed. */
void td_residency_drop(td_residency *residency, td_resident *resident);

/* Copies the current bytes to `to`, from wherever they are; waits for the copies involved. TD_E_STATE: no bytes anywhere. */
td_status td_residency_fetch(td_residency *residency, td_resident *resident, void *to, uint64_t bytes, td_error *err);

/* Waits for all queued copies and gives back what was waiting for them. */
td_status td_residency_settle(td_residency *residency, td_error *err);

bool td_residency_current_on_host(const td_resident *resident);

uint64_t td_residency_bytes(const td_residency *residency);         /* device bytes taken, those being given back included */
uint64_t td_residency_leaving_bytes(const td_residency *residency); /* those being given back */
uint64_t td_residency_host_bytes(const td_residency *residency);

/* What happened since the last call of reset; peaks start again from what is taken now. */
void td_residency_stats_get(const td_residency *residency, td_residency_stats *out);
void td_residency_stats_reset(td_residency *residency);

#endif
