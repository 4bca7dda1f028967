/* Devices: memory with a capacity and a copy engine in each direction. */
#ifndef TAPEDECK_DEVICE_H
#define TAPEDECK_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_device td_device;

typedef struct td_device_options {
  uint64_t capacity_bytes; /* hard limit on device memory; 0: as much as the device has */
  double d2h_bytes_per_s;  /* host device: slow copies down to this rate, to play a slower link; 0: as fast as it goes */
  double h2d_bytes_per_s;
} td_device_options;

/* Opens the device called `name`: "host", "opencl", "cuda", or "cuda:1" for the second of its kind. `options` may be NULL.
 * TD_E_NOT_FOUND: no such device; the message lists them. TD_E_DEVICE: no driver, or no device of this kind; the message says what was
 * looked for. Drivers are loaded here, so nothing needs them to build.
 * The host device is main memory: its compute queue is the calling thread, its copy engines are two threads. */
TD_API td_status td_device_open(td_device **out, const char *name, const td_device_options *options, td_error *err);

/* Waits for all copies and closes it. What was allocated on it must have been given back. NULL is allowed. */
TD_API void td_device_close(td_device *device);

TD_API const char *td_device_name(const td_device *device);        /* of its kind */
TD_API const char *td_device_description(const td_device *device); /* what the driver calls it */
TD_API uint64_t td_device_capacity(const td_device *device);       /* bytes; UINT64_MAX: no limit known */

/* The link between the device and the host. */
typedef struct td_link_speed {
  double d2h_bytes_per_s, h2d_bytes_per_s;
  uint64_t d2h_latency_ns, h2d_latency_ns; /* what a copy takes whatever its size */
} td_link_speed;

/* Measures both directions one after the other, with warm copies of a small and a large size, the median of seven. Takes some hundred
 * megabytes of copies; not while others are under way. TD_E_NOMEM: the device has not even 64 KiB left. TD_E_STATE: the memory is the
 * caller's. */
TD_API td_status td_device_measure(td_device *device, td_link_speed *out, td_error *err);

/* Where the caller queues its computing so that copies and computing wait for each other: a cl_command_queue, a CUstream. NULL: the
 * calling thread is the queue, and td_data is memory of the host. */
TD_API void *td_device_stream(td_device *device);

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
