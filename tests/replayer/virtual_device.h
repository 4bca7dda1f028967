/* A device whose copies take their time on a clock that only the test moves: the machine model's own device. */
#ifndef TD_TESTS_VIRTUAL_DEVICE_H
#define TD_TESTS_VIRTUAL_DEVICE_H

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "runtime/device_ops.h"

typedef struct virtual_device {
  td_device device;
  double bytes_per_s[2];
  double now_ns, free_at_ns[2];
  double *ends_ns[2]; /* of each ticket, from 1 */
  size_t n[2], capacity[2];
  uint64_t used;
} virtual_device;

static inline td_status virtual_mem_alloc(td_device *device, uint64_t bytes, void **out, td_error *err)
{
  (void)err;
  ((virtual_device *)device)->used += bytes;
  *out = malloc(bytes ? bytes : 1);
  return TD_OK;
}

static inline void virtual_mem_free(td_device *device, void *memory, uint64_t bytes)
{
  ((virtual_device *)device)->used -= bytes;
  free(memory);
}

static inline td_status virtual_host_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  (void)device, (void)err;
  *out = malloc(bytes);
  return TD_OK;
}

static inline void virtual_host_free(td_device *device, void *memory, size_t bytes)
{
  (void)device, (void)bytes;
  free(memory);
}

static inline double virtual_end(const virtual_device *v, td_event event)
{
  return event.ticket ? v->ends_ns[event.engine][event.ticket - 1] : 0;
}

static inline td_status virtual_copy(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes,
                                     td_event after, td_event *done, td_error *err)
{
  (void)err;
  virtual_device *v = (virtual_device *)device;
  double start = v->now_ns;
  if (v->free_at_ns[direction] > start) start = v->free_at_ns[direction];
  if (virtual_end(v, after) > start) start = virtual_end(v, after);
  if (v->n[direction] == v->capacity[direction]) {
    v->capacity[direction] = v->capacity[direction] ? v->capacity[direction] * 2 : 64;
    v->ends_ns[direction] = realloc(v->ends_ns[direction], v->capacity[direction] * sizeof(double));
  }
  memcpy(to, from, bytes);
  v->free_at_ns[direction] = v->ends_ns[direction][v->n[direction]++] = start + (double)bytes / v->bytes_per_s[direction] * 1e9;
  *done = (td_event){.ticket = v->n[direction], .engine = (uint32_t)direction};
  return TD_OK;
}

static inline bool virtual_passed(td_device *device, td_event event)
{
  return virtual_end((virtual_device *)device, event) <= ((virtual_device *)device)->now_ns;
}

static inline td_status virtual_wait(td_device *device, td_event event, td_error *err)
{
  (void)err;
  virtual_device *v = (virtual_device *)device;
  if (virtual_end(v, event) > v->now_ns) v->now_ns = virtual_end(v, event);
  return TD_OK;
}

static inline uint64_t virtual_used(const td_device *device)
{
  return ((const virtual_device *)device)->used;
}

static inline uint64_t virtual_capacity(const td_device *device)
{
  (void)device;
  return UINT64_MAX;
}

static inline void *virtual_stream(td_device *device)
{
  (void)device;
  return NULL;
}

static inline const char *virtual_description(const td_device *device)
{
  (void)device;
  return "a clock";
}

static const td_device_ops virtual_device_ops = {
    .name = "virtual",
    .mem_alloc = virtual_mem_alloc,
    .mem_free = virtual_mem_free,
    .host_alloc = virtual_host_alloc,
    .host_free = virtual_host_free,
    .copy = virtual_copy,
    .passed = virtual_passed,
    .wait = virtual_wait,
    .join = virtual_wait,
    .used_bytes = virtual_used,
    .capacity_bytes = virtual_capacity,
    .stream = virtual_stream,
    .description = virtual_description,
};

static inline void virtual_finish(virtual_device *v)
{
  free(v->ends_ns[TD_D2H]);
  free(v->ends_ns[TD_H2D]);
}

#endif
