/* How fast a device's links are: warm copies of a small and of a large size, the median of several. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"
#include "runtime/device_ops.h"

#define SMALL 4096u
#define LARGE ((uint64_t)32 << 20)
#define ROUNDS 7

typedef struct bench {
  td_device *device;
  void *on_device, *on_host;
} bench;

static int by_value(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

/* The median time of a copy, from asking for it to its end; one before does not count. */
static td_status time_copy(const bench *b, td_direction direction, uint64_t bytes, uint64_t *ns, td_error *err)
{
  uint64_t times[ROUNDS + 1];
  td_status status = TD_OK;
  void *to = direction == TD_D2H ? b->on_host : b->on_device;
  const void *from = direction == TD_D2H ? b->on_device : b->on_host;
  for (int i = 0; i <= ROUNDS && !status; i++) {
    td_event done;
    uint64_t began = td_now_ns();
    status = b->device->ops->copy(b->device, direction, to, from, bytes, (td_event){0}, &done, err);
    if (!status) status = b->device->ops->wait(b->device, done, err);
    times[i] = td_now_ns() - began;
  }
  qsort(times + 1, ROUNDS, sizeof *times, by_value);
  *ns = times[1 + ROUNDS / 2];
  return status;
}

/* Two points give a line: what a copy takes whatever its size, and what each byte adds. */
static td_status measure_link(const bench *b, td_direction direction, uint64_t large, double *bytes_per_s, uint64_t *latency_ns,
                              td_error *err)
{
  uint64_t small_ns, large_ns;
  td_status status = time_copy(b, direction, SMALL, &small_ns, err);
  if (!status) status = time_copy(b, direction, large, &large_ns, err);
  if (status) return status;
  uint64_t more_ns = large_ns > small_ns ? large_ns - small_ns : 1;
  *bytes_per_s = (double)(large - SMALL) * 1e9 / (double)more_ns;
  uint64_t of_bytes = (uint64_t)(SMALL * 1e9 / *bytes_per_s);
  *latency_ns = small_ns > of_bytes ? small_ns - of_bytes : 0;
  return TD_OK;
}

td_status td_device_measure(td_device *device, td_link_speed *out, td_error *err)
{
  bench b = {.device = device};
  td_link_speed speed;
  uint64_t large = LARGE, size = 0;
  td_status status = TD_E_NOMEM;
  for (; large >= 16 * SMALL && status == TD_E_NOMEM; large /= 2) { /* a device may be small, or nearly full */
    size = large;
    status = device->ops->mem_alloc(device, size, &b.on_device, err);
  }
  if (status) return status;
  status = device->ops->host_alloc(device, (size_t)size, &b.on_host, err);
  if (!status) {
    memset(b.on_host, 1, (size_t)size);
    status = measure_link(&b, TD_H2D, size, &speed.h2d_bytes_per_s, &speed.h2d_latency_ns, err);
    if (!status) status = measure_link(&b, TD_D2H, size, &speed.d2h_bytes_per_s, &speed.d2h_latency_ns, err);
    device->ops->host_free(device, b.on_host, (size_t)size);
  }
  device->ops->mem_free(device, b.on_device, size);
  if (!status) *out = speed;
  return status;
}
