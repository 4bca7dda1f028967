/* What a device is to the rest of the library: one const table of functions.
 *
 * Computing is one queue, which the caller fills. Each direction has one copy engine that works first in, first out. Every copy yields
 * an event; waiting for an event that has passed costs next to nothing. Calls come from one thread at a time. */
#ifndef TD_RUNTIME_DEVICE_OPS_H
#define TD_RUNTIME_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/device.h>

typedef enum td_direction { TD_D2H = 0, TD_H2D = 1 } td_direction;

/* A moment on a copy engine: the end of its copy number `ticket`, counted from 1. {0} is long past. */
typedef struct td_event {
  uint64_t ticket;
  uint32_t engine; /* td_direction */
} td_event;

typedef struct td_device_ops {
  const char *name;

  /* The device number `index` of its kind, from 0. */
  td_status (*open)(td_device **out, int index, const td_device_options *options, td_error *err);
  void (*close)(td_device *device);

  /* Device memory, aligned to 64 bytes at least; zero bytes give a valid pointer and take nothing. Computing that is queued after
   * mem_alloc may use it, and so may what was queued before mem_free. TD_E_NOMEM if `bytes` do not fit in the capacity now. mem_free
   * takes the same `bytes`. */
  td_status (*mem_alloc)(td_device *device, uint64_t bytes, void **out, td_error *err);
  void (*mem_free)(td_device *device, void *memory, uint64_t bytes);

  /* Host memory that copies at full speed (pinned, where the device knows that). */
  td_status (*host_alloc)(td_device *device, size_t bytes, void **out, td_error *err);
  void (*host_free)(td_device *device, void *memory, size_t bytes);

  /* Queues a copy that starts when its engine is free, the computing queued so far has ended, and `after` has passed; *done is the
   * moment it ends. */
  td_status (*copy)(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes, td_event after,
                    td_event *done, td_error *err);
  bool (*passed)(td_device *device, td_event event);
  /* TD_E_DEVICE if a copy up to the event failed. */
  td_status (*wait)(td_device *device, td_event event, td_error *err);
  /* Computing that is queued from here on waits for the event. Where computing is the calling thread, that is to wait. */
  td_status (*join)(td_device *device, td_event event, td_error *err);

  uint64_t (*used_bytes)(const td_device *device);     /* device memory taken now */
  uint64_t (*capacity_bytes)(const td_device *device); /* UINT64_MAX: no limit known */
  void *(*stream)(td_device *device); /* the queue of computing, as the driver knows it; NULL: the calling thread */
  const char *(*description)(const td_device *device); /* what it is, for a person */
} td_device_ops;

/* Every device begins with this. */
struct td_device {
  const td_device_ops *ops;
};

extern const td_device_ops td_host_device_ops, td_opencl_device_ops, td_cuda_device_ops;

#endif
