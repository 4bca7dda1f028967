/* Host memory for copies, cut from large pieces of a device's host memory.
 *
 * Best fit among the free extents, neighbours joined when they are given back; sizes are rounded to 64 bytes and no more.
 * Only the owner's thread calls it; nothing waits in it. */
#ifndef TD_RUNTIME_HOST_POOL_H
#define TD_RUNTIME_HOST_POOL_H

#include "runtime/device_ops.h"

typedef struct td_host_pool td_host_pool;

td_status td_host_pool_create(td_host_pool **out, td_device *device, td_error *err);
/* Gives everything back to the device, what is still in use included. NULL is allowed. */
void td_host_pool_destroy(td_host_pool *pool);

/* Takes one piece of `bytes` from the device, which stays until the next call or the end. 0: none. */
td_status td_host_pool_reserve(td_host_pool *pool, uint64_t bytes, td_error *err);

/* Can `bytes` be had without asking the device? True where nothing is reserved, since then nobody counts on it. */
bool td_host_pool_fits(const td_host_pool *pool, uint64_t bytes);

td_status td_host_pool_alloc(td_host_pool *pool, uint64_t bytes, void **out, td_error *err);
void td_host_pool_free(td_host_pool *pool, void *memory, uint64_t bytes);

/* Gives pieces back to the device that hold nothing in use. */
void td_host_pool_trim(td_host_pool *pool);

uint64_t td_host_pool_used(const td_host_pool *pool);     /* bytes handed out */
/* What an allocation of `bytes` takes. */
uint64_t td_host_pool_rounded(uint64_t bytes);

uint64_t td_host_pool_reserved(const td_host_pool *pool); /* bytes taken from the device */

#endif
