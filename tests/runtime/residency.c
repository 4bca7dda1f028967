/* Residency: where bytes are, and that they are never the wrong ones. */
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/residency.h"

static td_error err;
static td_device *device;
static td_residency *residency;

static void start(uint64_t capacity, double rate)
{
  td_device_options options = {.capacity_bytes = capacity, .d2h_bytes_per_s = rate, .h2d_bytes_per_s = rate};
  cr_assert_eq(td_device_open(&device, "host", &options, &err), TD_OK);
  cr_assert_eq(td_residency_create(&residency, device, UINT64_MAX, &err), TD_OK);
}

static void destroy(void)
{
  td_residency_destroy(residency);
  cr_expect_eq(device->ops->used_bytes(device), 0, "25: nothing is left");
  td_device_close(device);
}

TestSuite(residency, .fini = destroy);

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", err.message)

static void write_bytes(td_resident *r, uint8_t value)
{
  CHECK(td_residency_bind(residency, r, &err));
  CHECK(td_residency_written(residency, r, &err));
  memset(r->device, value, r->bytes);
}

static void expect_bytes(td_resident *r, uint8_t value)
{
  const uint8_t *at = r->device;
  cr_assert_not_null(at);
  for (uint64_t i = 0; i < r->bytes; i++) cr_assert_eq(at[i], value, "byte %d is %d, not %d", (int)i, at[i], value);
}

/* 20 */
Test(residency, bind_again_gives_the_same_bytes_and_resident_bytes_are_their_sum)
{
  start(0, 0);
  td_resident a = {.bytes = 1000}, b = {.bytes = 500};
  CHECK(td_residency_bind(residency, &a, &err));
  void *first = a.device;
  CHECK(td_residency_bind(residency, &a, &err));
  CHECK(td_residency_bind(residency, &b, &err));
  cr_expect_eq(a.device, first);
  cr_expect_eq(td_residency_bytes(residency), 1500);
  td_residency_drop(residency, &a);
  cr_expect_eq(td_residency_bytes(residency), 500);
  td_residency_drop(residency, &b);
  cr_expect_eq(td_residency_bytes(residency), 0);
}

/* 21 */
Test(residency, copies_of_what_is_not_there_are_errors_and_releases_are_not)
{
  start(0, 0);
  td_resident a = {.bytes = 1000};
  cr_expect_eq(td_residency_copy_d2h(residency, &a, &err), TD_E_STATE);
  cr_expect_eq(td_residency_copy_h2d(residency, &a, &err), TD_E_STATE);
  cr_expect_eq(td_residency_need(residency, &a, NULL, &err), TD_E_STATE); /* 24: nothing anywhere */
  td_residency_release_device(residency, &a);
  td_residency_release_host(residency, &a);
  write_bytes(&a, 1);
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  CHECK(td_residency_copy_d2h(residency, &a, &err)); /* current: a no-op */
  CHECK(td_residency_copy_h2d(residency, &a, &err)); /* there already */
  td_residency_stats stats;
  td_residency_stats_get(residency, &stats);
  cr_expect_eq(stats.d2h_bytes, 1000);
  cr_expect_eq(stats.h2d_bytes, 0);
  td_residency_drop(residency, &a);
}

/* 22, 24, 25 */
Test(residency, any_number_of_round_trips_gives_the_same_bytes)
{
  start(0, 0);
  td_resident a = {.bytes = 70000};
  write_bytes(&a, 77);
  for (int i = 0; i < 50; i++) {
    td_needed needed;
    CHECK(td_residency_copy_d2h(residency, &a, &err));
    td_residency_release_device(residency, &a);
    cr_expect_null(a.device);
    cr_expect(td_residency_current_on_host(&a), "the host copy stays");
    CHECK(td_residency_need(residency, &a, &needed, &err));
    cr_expect(needed.away);
    expect_bytes(&a, 77);
  }
  td_residency_drop(residency, &a);
}

/* Fault a of the original: W, evict, read back, W again, evict, read: the second bytes. */
Test(residency, a_host_copy_does_not_survive_a_write)
{
  start(0, 0);
  td_resident a = {.bytes = 1000};
  write_bytes(&a, 1);
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  td_residency_release_device(residency, &a);
  CHECK(td_residency_need(residency, &a, NULL, &err));
  expect_bytes(&a, 1);
  write_bytes(&a, 5);
  cr_expect_not(td_residency_current_on_host(&a));
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  td_residency_release_device(residency, &a);
  CHECK(td_residency_need(residency, &a, NULL, &err));
  expect_bytes(&a, 5);
  td_residency_drop(residency, &a);
}

/* A copy out takes 10 ms here: a write right after it was queued must not get into it. */
Test(residency, a_write_waits_for_the_copy_out_that_reads)
{
  start(0, 1e7);
  td_resident a = {.bytes = 100000};
  write_bytes(&a, 1);
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  CHECK(td_residency_written(residency, &a, &err));
  const uint8_t *host = a.host;
  for (uint64_t i = 0; i < a.bytes; i++) cr_assert_eq(host[i], 1);
  td_residency_drop(residency, &a);
}

/* 23: the device bytes count until the copy out has ended, and the next bind waits for them. */
Test(residency, bytes_that_are_leaving_are_taken_until_they_have_left)
{
  start(100000, 1e7);
  td_resident a = {.bytes = 100000}, b = {.bytes = 100000};
  write_bytes(&a, 9);
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  td_residency_release_device(residency, &a);
  cr_expect_eq(td_residency_bytes(residency), 100000);
  cr_expect_eq(td_residency_leaving_bytes(residency), 100000);
  CHECK(td_residency_bind(residency, &b, &err));
  cr_expect_eq(td_residency_bytes(residency), 100000);
  td_residency_stats stats;
  td_residency_stats_get(residency, &stats);
  cr_expect_eq(stats.peak_bytes, 100000);
  cr_expect_gt(stats.stall_ns, 1000000);
  td_residency_drop(residency, &b);
  CHECK(td_residency_need(residency, &a, NULL, &err));
  expect_bytes(&a, 9);
  td_residency_drop(residency, &a);
}

/* 23: released while the copy into it runs; the host bytes are not reused before. */
Test(residency, releases_wait_for_copies_in_flight)
{
  start(0, 2e7);
  td_resident a = {.bytes = 50000}, b = {.bytes = 50000};
  write_bytes(&a, 3);
  write_bytes(&b, 4);
  CHECK(td_residency_copy_d2h(residency, &a, &err));
  td_residency_release_device(residency, &a);
  CHECK(td_residency_copy_h2d(residency, &a, &err));
  td_residency_release_host(residency, &a);
  CHECK(td_residency_copy_d2h(residency, &b, &err)); /* must not take a's host bytes */
  CHECK(td_residency_need(residency, &a, NULL, &err));
  expect_bytes(&a, 3);
  td_residency_release_device(residency, &b);
  CHECK(td_residency_need(residency, &b, NULL, &err));
  expect_bytes(&b, 4);
  td_residency_drop(residency, &a);
  td_residency_drop(residency, &b);
}
