/* Devices: memory with a capacity and a copy engine in each direction. */
#ifndef TAPEDECK_DEVICE_H
#define TAPEDECK_DEVICE_H

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

#ifdef __cplusplus
}
#endif
#endif
