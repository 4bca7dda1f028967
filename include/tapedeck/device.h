/* Devices: memory with a capacity and a copy engine in each direction. */
#ifndef TAPEDECK_DEVICE_H
#define TAPEDECK_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_device td_device;

typedef struct td_device_options {
  uint64_t capacity_bytes; /* hard limit on device memory; 0: as much as the device has */
  double d2h_bytes_per_s;  /* slow copies down to this rate, to play a slower link; 0: as fast as it goes */
  double h2d_bytes_per_s;
} td_device_options;

/* Opens the device called `name` ("host"). `options` may be NULL. TD_E_NOT_FOUND: no such device; the message lists them.
 * The host device is main memory: its compute queue is the calling thread, its copy engines are two threads. */
TD_API td_status td_device_open(td_device **out, const char *name, const td_device_options *options, td_error *err);

/* Waits for all copies and closes it. What was allocated on it must have been given back. NULL is allowed. */
TD_API void td_device_close(td_device *device);

TD_API const char *td_device_name(const td_device *device);

/* The names td_device_open knows, NULL last. */
TD_API const char *const *td_device_names(void);

/* ---- a device of the caller's own --------------------------------------------------------------------------------- */

/* For frameworks that have their own streams, events and pinned memory. Copies of one direction end in the order in which they were
 * queued. `direction`: 0 to the host, 1 to the device. A call that returns a bool says false where it failed. */
typedef struct td_device_calls {
  void *context;
  const char *name; /* copied */
  uint64_t capacity_bytes; /* 0: no limit known */
  /* Host memory that copies at full speed. NULL: there is none left. */
  void *(*host_alloc)(void *context, size_t bytes);
  void (*host_free)(void *context, void *memory, size_t bytes);
  /* Queues a copy behind all computing that was queued before it and behind the copy number `after_ticket` of the other direction (0:
   * none). Tickets of a direction count from 1. */
  bool (*copy)(void *context, int direction, void *to, const void *from, uint64_t bytes, uint64_t after_ticket);
  bool (*passed)(void *context, int direction, uint64_t ticket);
  /* The calling thread waits for it. */
  bool (*wait)(void *context, int direction, uint64_t ticket);
  /* Computing that is queued from here on waits for it. NULL: the same as wait. */
  bool (*join)(void *context, int direction, uint64_t ticket);
} td_device_calls;

/* `calls` is copied; its context must outlive the device. td_storage_alloc does not work on it: it holds what td_storage_adopt is told. */
TD_API td_status td_device_from_calls(td_device **out, const td_device_calls *calls, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
