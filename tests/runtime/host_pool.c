/* Host memory for copies: no rounding up to powers of two, best fit, everything given back. */
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/host_pool.h"

static td_error err;
static td_device *device;
static td_host_pool *pool;

static void create(void)
{
  cr_assert_eq(td_device_open(&device, "host", NULL, &err), TD_OK);
  cr_assert_eq(td_host_pool_create(&pool, device, &err), TD_OK);
}

static void destroy(void)
{
  td_host_pool_destroy(pool);
  td_device_close(device);
}

TestSuite(host_pool, .init = create, .fini = destroy);

static void *get(uint64_t bytes)
{
  void *out;
  cr_assert_eq(td_host_pool_alloc(pool, bytes, &out, &err), TD_OK, "%s", err.message);
  memset(out, 0x5a, bytes);
  return out;
}

/* Fault i of the original: 65 bytes took 128, a megabyte and a byte took two megabytes. */
Test(host_pool, sizes_are_not_rounded_to_powers_of_two)
{
  enum { BYTES = (1 << 20) + 1 };
  void *blocks[64];
  for (int i = 0; i < 64; i++) blocks[i] = get(BYTES);
  cr_expect_lt(td_host_pool_reserved(pool), 64ull * BYTES * 3 / 2);
  cr_expect_leq(td_host_pool_used(pool), 64ull * (BYTES + 64));
  for (int i = 0; i < 64; i++) td_host_pool_free(pool, blocks[i], BYTES);
  cr_expect_eq(td_host_pool_used(pool), 0);
}

Test(host_pool, a_small_request_takes_the_smallest_block_that_fits)
{
  void *large = get(1 << 20), *wall = get(64), *small = get(4096), *wall2 = get(64);
  td_host_pool_free(pool, large, 1 << 20);
  td_host_pool_free(pool, small, 4096);
  cr_expect_eq(get(4096), small);
  cr_expect_eq(get(1 << 20), large);
  td_host_pool_free(pool, wall, 64);
  td_host_pool_free(pool, wall2, 64);
}

Test(host_pool, neighbours_are_joined)
{
  void *a = get(5000), *b = get(5000), *c = get(5000);
  uint64_t reserved = td_host_pool_reserved(pool);
  td_host_pool_free(pool, a, 5000);
  td_host_pool_free(pool, c, 5000);
  td_host_pool_free(pool, b, 5000);
  cr_expect_eq(get(15000), a);
  cr_expect_eq(td_host_pool_reserved(pool), reserved);
}

Test(host_pool, what_holds_nothing_goes_back_to_the_device)
{
  void *a = get(8 << 20), *b = get(100);
  td_host_pool_free(pool, a, 8 << 20);
  td_host_pool_free(pool, b, 100);
  td_host_pool_trim(pool);
  cr_expect_eq(td_host_pool_reserved(pool), 0);
}

Test(host_pool, blocks_never_overlap)
{
  enum { N = 200 };
  struct {
    uint8_t *at;
    uint64_t bytes;
    uint8_t mark;
  } held[N] = {0};
  uint32_t state = 7;
  for (int round = 0; round < 20000; round++) {
    state = state * 1664525u + 1013904223u;
    int i = (int)(state >> 8) % N;
    if (held[i].at) {
      for (uint64_t k = 0; k < held[i].bytes; k++) cr_assert_eq(held[i].at[k], held[i].mark);
      td_host_pool_free(pool, held[i].at, held[i].bytes);
      held[i].at = NULL;
    } else {
      held[i].bytes = 1 + (state >> 16) % (state % 5 ? 300 : 30000);
      held[i].mark = (uint8_t)round;
      held[i].at = get(held[i].bytes);
      memset(held[i].at, held[i].mark, held[i].bytes);
    }
    if (round % 5000 == 0) td_host_pool_trim(pool);
  }
  for (int i = 0; i < N; i++)
    if (held[i].at) td_host_pool_free(pool, held[i].at, held[i].bytes);
  cr_expect_eq(td_host_pool_used(pool), 0);
}

Test(host_pool, more_than_there_is_is_refused)
{
  void *out = NULL;
  cr_expect_neq(td_host_pool_alloc(pool, UINT64_MAX, &out, &err), TD_OK);
  cr_expect_neq(td_host_pool_alloc(pool, UINT64_MAX - 100, &out, &err), TD_OK);
  cr_expect_null(out);
}
