/* The host device: capacity, copies in order on two engines, events, rates. */
#include <criterion/criterion.h>

#include <string.h>

#include "base/clock.h"
#include "runtime/device_ops.h"

static td_error err;

static td_device *open_host(uint64_t capacity, double rate)
{
  td_device *device;
  td_device_options options = {.capacity_bytes = capacity, .d2h_bytes_per_s = rate, .h2d_bytes_per_s = rate};
  cr_assert_eq(td_device_open(&device, "host", &options, &err), TD_OK, "%s", err.message);
  return device;
}

Test(host_device, the_capacity_is_hard)
{
  td_device *device = open_host(1000, 0);
  void *a, *b = NULL, *none;
  cr_assert_eq(device->ops->mem_alloc(device, 600, &a, &err), TD_OK);
  cr_expect_eq(device->ops->mem_alloc(device, 401, &b, &err), TD_E_NOMEM);
  cr_expect_null(b, "an output is untouched on failure");
  cr_assert_eq(device->ops->mem_alloc(device, 400, &b, &err), TD_OK);
  cr_expect_eq((uintptr_t)a % 64, 0);
  cr_expect_eq(device->ops->used_bytes(device), 1000);
  cr_assert_eq(device->ops->mem_alloc(device, 0, &none, &err), TD_OK);
  cr_expect_not_null(none);
  device->ops->mem_free(device, a, 600);
  cr_expect_eq(device->ops->used_bytes(device), 400);
  device->ops->mem_free(device, b, 400);
  device->ops->mem_free(device, none, 0);
  cr_expect_eq(device->ops->capacity_bytes(device), 1000);
  td_device_close(device);
}

Test(host_device, sizes_beyond_all_memory_are_refused)
{
  td_device *device = open_host(0, 0);
  void *out;
  cr_expect_neq(device->ops->mem_alloc(device, UINT64_MAX, &out, &err), TD_OK);
  cr_expect_neq(device->ops->mem_alloc(device, UINT64_MAX / 2, &out, &err), TD_OK);
  td_device_close(device);
}

Test(host_device, copies_happen_in_order_and_after_what_they_wait_for)
{
  enum { BYTES = 100000 };
  td_device *device = open_host(0, 0);
  void *on_device, *host, *back;
  td_event out, in;
  cr_assert_eq(device->ops->mem_alloc(device, BYTES, &on_device, &err), TD_OK);
  cr_assert_eq(device->ops->host_alloc(device, BYTES, &host, &err), TD_OK);
  cr_assert_eq(device->ops->mem_alloc(device, BYTES, &back, &err), TD_OK);
  for (int round = 0; round < 200; round++) {
    memset(on_device, round, BYTES);
    memset(back, 255, BYTES);
    cr_assert_eq(device->ops->copy(device, TD_D2H, host, on_device, BYTES, (td_event){0}, &out, &err), TD_OK);
    cr_assert_eq(device->ops->copy(device, TD_H2D, back, host, BYTES, out, &in, &err), TD_OK);
    cr_assert_eq(device->ops->wait(device, in, &err), TD_OK);
    cr_assert(device->ops->passed(device, out), "its copy in has ended, so the copy out has");
    cr_assert_eq(memcmp(back, on_device, BYTES), 0);
  }
  cr_expect(device->ops->passed(device, (td_event){0}));
  device->ops->mem_free(device, on_device, BYTES);
  device->ops->mem_free(device, back, BYTES);
  device->ops->host_free(device, host, BYTES);
  td_device_close(device);
}

/* A copy at 10 MB/s takes 10 ms for 100 KB. Only the lower bound can be relied on. */
Test(host_device, a_rate_slows_copies_down)
{
  enum { BYTES = 100000 };
  td_device *device = open_host(0, 1e7);
  void *on_device, *host;
  td_event done;
  cr_assert_eq(device->ops->mem_alloc(device, BYTES, &on_device, &err), TD_OK);
  cr_assert_eq(device->ops->host_alloc(device, BYTES, &host, &err), TD_OK);
  memset(on_device, 1, BYTES);
  uint64_t before = td_now_ns();
  cr_assert_eq(device->ops->copy(device, TD_D2H, host, on_device, BYTES, (td_event){0}, &done, &err), TD_OK);
  cr_assert_eq(device->ops->wait(device, done, &err), TD_OK);
  cr_expect_geq(td_now_ns() - before, 10000000);
  device->ops->mem_free(device, on_device, BYTES);
  device->ops->host_free(device, host, BYTES);
  td_device_close(device);
}

Test(host_device, an_unknown_device_is_told)
{
  td_device *device = NULL;
  cr_expect_eq(td_device_open(&device, "abacus", NULL, &err), TD_E_NOT_FOUND);
  cr_expect_not_null(strstr(err.message, "abacus"), "%s", err.message);
  cr_expect_not_null(strstr(err.message, "host"), "%s", err.message);
  cr_expect_null(device);
  cr_expect_str_eq(td_device_names()[0], "host");
}
