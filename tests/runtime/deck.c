/* The op lifecycle, regions and limits, as semantics of a deck without a file. */
#include <criterion/criterion.h>

#include <string.h>

#include "runtime/witness.h"

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", td_deck_error(deck)->message)
#define REFUSED(call, status) cr_assert_eq((call), (status), "%s", td_deck_error(deck)->message)

static td_deck *deck;
static witness *w;

static void quiet_deck(void)
{
  deck = witness_deck(&w, NULL, 0);
}

static void destroy_deck(void)
{
  td_deck_destroy(deck);
}

static void saw(const char *text)
{
  cr_expect_str_eq(w->text, text);
  witness_clear(w);
}

static td_storage born(uint64_t bytes)
{
  td_storage storage;
  CHECK(td_storage_born(deck, 0, bytes, &storage));
  return storage;
}

/* An op that reads `in` and makes a new storage. */
static td_storage produce(const char *name, td_storage in)
{
  CHECK(td_op_begin(deck, name));
  if (in.id) CHECK(td_read(deck, in));
  td_storage out = born(64);
  CHECK(td_output(deck, 0, out));
  CHECK(td_op_end(deck, 1));
  return out;
}

TestSuite(deck, .init = quiet_deck, .fini = destroy_deck);

/* 1 */
Test(deck, op_numbers_start_at_minus_one_grow_and_come_back_on_abort)
{
  cr_assert_eq(td_op_number(deck), -1);
  CHECK(td_step_begin(deck));
  cr_assert_eq(td_op_number(deck), -1);
  produce("a", (td_storage){0});
  cr_assert_eq(td_op_number(deck), 0);
  CHECK(td_op_begin(deck, "b"));
  cr_assert_eq(td_op_number(deck), 1);
  CHECK(td_op_abort(deck));
  cr_assert_eq(td_op_number(deck), 0);
  produce("c", (td_storage){0});
  cr_assert_eq(td_op_number(deck), 1);
  CHECK(td_step_end(deck));
  cr_assert_eq(td_op_number(deck), -1);
  saw("step{ 0:a(0W -> 0=0* /1) 1:b 1:c(1W -> 0=1* /1) keep 0 keep 1 }");
}

/* 2 */
Test(deck, calls_out_of_order_are_refused_and_change_nothing)
{
  REFUSED(td_step_end(deck), TD_E_STATE);
  REFUSED(td_op_begin(deck, "early"), TD_E_STATE);
  CHECK(td_step_begin(deck));
  REFUSED(td_step_begin(deck), TD_E_STATE);
  REFUSED(td_op_run(deck), TD_E_STATE);
  REFUSED(td_op_end(deck, 0), TD_E_STATE);
  td_storage s = born(8);
  REFUSED(td_read(deck, s), TD_E_STATE);
  REFUSED(td_output(deck, 0, s), TD_E_STATE);
  CHECK(td_op_begin(deck, "a"));
  REFUSED(td_op_begin(deck, "nested"), TD_E_STATE);
  CHECK(td_op_run(deck));
  REFUSED(td_op_run(deck), TD_E_STATE);
  CHECK(td_op_end(deck, 0));
  CHECK(td_step_end(deck));
  saw("step{ 0:a(-> /0) }");
}

Test(deck, a_step_that_ends_inside_an_op_is_aborted)
{
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "a"));
  REFUSED(td_step_end(deck), TD_E_STATE);
  cr_assert_not(td_in_step(deck));
  saw("step{ 0:a !");
}

/* 8, 9, 10 */
Test(deck, accesses_count_once_a_kind_and_outputs_in_new_storages_are_writes)
{
  td_storage weight = born(64);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "mix"));
  CHECK(td_read(deck, weight));
  CHECK(td_read(deck, weight));
  CHECK(td_write(deck, weight));
  CHECK(td_write(deck, weight));
  CHECK(td_output(deck, 0, weight)); /* in place: no new activation */
  td_storage out = born(64);
  CHECK(td_output(deck, 2, out));
  CHECK(td_op_end(deck, 1));
  CHECK(td_op_begin(deck, "view"));
  CHECK(td_read(deck, out));
  CHECK(td_output(deck, 0, out)); /* a view is no write */
  CHECK(td_op_end(deck, 1));
  CHECK(td_step_end(deck));
  saw("step{ 0:mix(0R 0W 1W -> 0=0 2=1* /3) 1:view(1R -> 0=1* /1) keep 1 }");
}

Test(deck, a_parameter_that_is_only_written_is_no_activation)
{
  td_storage weight = born(64);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "zero_"));
  CHECK(td_output(deck, 0, weight));
  CHECK(td_op_end(deck, 1));
  CHECK(td_step_end(deck));
  saw("step{ 0:zero_(0W -> 0=0 /1) }");
}

/* 4 */
Test(deck, leaves_that_are_no_tensors_count_and_are_not_bound)
{
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "topk"));
  CHECK(td_leaves(deck, 5));
  CHECK(td_output(deck, 3, born(8)));
  REFUSED(td_output(deck, 5, born(8)), TD_E_ARG);
  REFUSED(td_leaves(deck, 3), TD_E_ARG);
  CHECK(td_op_end(deck, 1));
  CHECK(td_step_end(deck));
  saw("step{ 0:topk(0W -> 3=0* /5) keep 0 }");
}

/* 5, and the storage's own life */
Test(deck, retained_is_what_is_still_held)
{
  CHECK(td_step_begin(deck));
  td_storage a = produce("a", (td_storage){0});
  CHECK(td_acquire(deck, a));
  td_storage b = produce("b", a);
  CHECK(td_release(deck, a));
  CHECK(td_release(deck, b));
  CHECK(td_step_end(deck));
  saw("step{ 0:a(0W -> 0=0* /1) 1:b(0R 1W -> 0=1* /1) free 1@2 keep 0 }");
  CHECK(td_release(deck, a));
  REFUSED(td_release(deck, a), TD_E_NOT_FOUND);
}

Test(deck, a_storage_freed_inside_an_op_that_uses_it_goes_when_the_op_ends)
{
  CHECK(td_step_begin(deck));
  td_storage a = produce("a", (td_storage){0});
  CHECK(td_op_begin(deck, "b"));
  CHECK(td_read(deck, a));
  CHECK(td_storage_freed(deck, a));
  REFUSED(td_storage_freed(deck, a), TD_E_NOT_FOUND);
  CHECK(td_op_end(deck, 1));
  REFUSED(td_acquire(deck, a), TD_E_NOT_FOUND);
  CHECK(td_step_end(deck));
  saw("step{ 0:a(0W -> 0=0* /1) 1:b(0R -> /0) free 0@2 }");
}

Test(deck, an_aborted_op_leaves_no_trace_and_its_frees_count_before_the_next)
{
  CHECK(td_step_begin(deck));
  td_storage a = produce("a", (td_storage){0});
  CHECK(td_op_begin(deck, "fails"));
  CHECK(td_read(deck, a));
  CHECK(td_storage_freed(deck, a));
  CHECK(td_output(deck, 0, born(8)));
  CHECK(td_op_abort(deck));
  produce("b", (td_storage){0});
  CHECK(td_step_end(deck));
  saw("step{ 0:a(0W -> 0=0* /1) 1:fails free 0@1 1:b(1W -> 0=1* /1) keep 1 }");
}

Test(deck, a_key_that_comes_back_is_a_new_storage)
{
  td_storage first, second, found;
  CHECK(td_storage_born(deck, 0x1000, 8, &first));
  CHECK(td_storage_find(deck, 0x1000, &found));
  cr_assert_eq(found.id, first.id);
  CHECK(td_storage_born(deck, 0x1000, 16, &second));
  cr_assert_neq(first.id, second.id);
  REFUSED(td_acquire(deck, first), TD_E_NOT_FOUND);
  CHECK(td_storage_freed(deck, second));
  REFUSED(td_storage_find(deck, 0x1000, &found), TD_E_NOT_FOUND);
}

Test(deck, stale_and_foreign_handles_are_refused)
{
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "a"));
  REFUSED(td_read(deck, (td_storage){0}), TD_E_NOT_FOUND);
  REFUSED(td_read(deck, (td_storage){12345}), TD_E_NOT_FOUND);
  REFUSED(td_read(deck, (td_storage){UINT64_MAX}), TD_E_NOT_FOUND);
  for (int i = 0; i < 1000; i++) {
    td_storage s = born(8);
    CHECK(td_storage_freed(deck, s));
    REFUSED(td_read(deck, s), TD_E_NOT_FOUND);
  }
  CHECK(td_op_abort(deck));
}

/* 6 */
Test(deck, an_aborted_step_clears_everything_and_the_next_is_clean)
{
  td_storage weight = born(64);
  CHECK(td_step_begin(deck));
  td_storage a = produce("a", weight);
  td_region region;
  CHECK(td_region_begin(deck, "r", &region));
  CHECK(td_op_begin(deck, "inner"));
  CHECK(td_step_abort(deck));
  cr_assert_not(td_in_step(deck));
  cr_assert_eq(td_op_number(deck), -1);
  REFUSED(td_acquire(deck, a), TD_E_NOT_FOUND);
  witness_clear(w);
  CHECK(td_step_begin(deck));
  produce("a", weight);
  CHECK(td_step_end(deck));
  saw("step{ 0:a(0R 1W -> 0=1* /1) keep 1 }");
}

/* 3 */
Test(deck, a_region_is_one_op_whatever_runs_inside)
{
  for (int inner_ops = 0; inner_ops < 3; inner_ops++) {
    CHECK(td_step_begin(deck));
    td_storage x = produce("in", (td_storage){0});
    td_region region;
    CHECK(td_region_begin(deck, "attn", &region));
    td_storage last = x, made[3];
    for (int i = 0; i < inner_ops; i++) last = made[i] = produce("inner", last);
    td_storage out = born(64);
    CHECK(td_output(deck, 0, out));
    CHECK(td_region_end(deck, region));
    CHECK(td_region_backward_begin(deck, region));
    CHECK(td_read(deck, out));
    td_storage grad = born(64);
    CHECK(td_output(deck, 0, grad));
    CHECK(td_region_backward_end(deck, region));
    for (int i = 0; i < inner_ops; i++) CHECK(td_storage_freed(deck, made[i]));
    CHECK(td_step_end(deck));
    saw(inner_ops ? "step{ 0:in(0W -> 0=0* /1) 1:attn_fwd(0R 1W -> 0=1* /1) 2:attn_bwd(1R 2W -> 0=2* /1)"
                    " keep 0 keep 1 keep 2 }"
                  : "step{ 0:in(0W -> 0=0* /1) 1:attn_fwd(1W -> 0=1* /1) 2:attn_bwd(1R 2W -> 0=2* /1)"
                    " keep 0 keep 1 keep 2 }");
    CHECK(td_storage_freed(deck, x));
    CHECK(td_storage_freed(deck, out));
    CHECK(td_storage_freed(deck, grad));
    witness_clear(w);
  }
}

Test(deck, regions_nest_and_the_outermost_counts)
{
  CHECK(td_step_begin(deck));
  td_storage x = produce("in", (td_storage){0});
  td_region outer, inner;
  CHECK(td_region_begin(deck, "outer", &outer));
  CHECK(td_region_begin(deck, "inner", &inner));
  CHECK(td_read(deck, x)); /* a storage captured from outside is read by the virtual op */
  CHECK(td_region_end(deck, inner));
  CHECK(td_op_begin(deck, "more"));
  CHECK(td_write(deck, x));
  CHECK(td_op_end(deck, 1));
  CHECK(td_region_end(deck, outer));
  CHECK(td_step_end(deck));
  saw("step{ 0:in(0W -> 0=0* /1) 1:outer_fwd(0R 0W -> /0) keep 0 }");
}

/* fault k */
Test(deck, region_ends_without_a_begin_are_refused)
{
  CHECK(td_step_begin(deck));
  td_region a;
  REFUSED(td_region_end(deck, (td_region){0}), TD_E_NOT_FOUND);
  CHECK(td_region_begin(deck, "a", &a));
  REFUSED(td_region_backward_end(deck, a), TD_E_STATE);
  REFUSED(td_region_backward_begin(deck, a), TD_E_STATE);
  CHECK(td_region_end(deck, a));
  REFUSED(td_region_end(deck, a), TD_E_STATE);
  produce("after", (td_storage){0});
  CHECK(td_step_end(deck));
  saw("step{ 0:a_fwd(-> /0) 1:after(0W -> 0=0* /1) keep 0 }");
}

Test(deck, a_backward_pass_that_stops_inside_a_region_ends_with_the_step)
{
  CHECK(td_step_begin(deck));
  td_region a;
  CHECK(td_region_begin(deck, "a", &a));
  CHECK(td_region_end(deck, a));
  CHECK(td_region_backward_begin(deck, a));
  CHECK(td_step_end(deck));
  saw("step{ 0:a_fwd(-> /0) 1:a_bwd(-> /0) }");
  CHECK(td_step_begin(deck));
  produce("clean", (td_storage){0});
  CHECK(td_step_end(deck));
  saw("step{ 0:clean(0W -> 0=0* /1) keep 0 }");
}

Test(deck, siblings_whose_backward_passes_interleave_keep_apart)
{
  CHECK(td_step_begin(deck));
  td_region a, b;
  CHECK(td_region_begin(deck, "a", &a));
  CHECK(td_region_end(deck, a));
  CHECK(td_region_begin(deck, "b", &b));
  CHECK(td_region_end(deck, b));
  CHECK(td_region_backward_begin(deck, b));
  CHECK(td_region_backward_begin(deck, a));
  CHECK(td_region_backward_end(deck, b));
  REFUSED(td_region_backward_end(deck, b), TD_E_STATE);
  CHECK(td_region_backward_end(deck, a));
  produce("after", (td_storage){0});
  CHECK(td_step_end(deck));
  saw("step{ 0:a_fwd(-> /0) 1:b_fwd(-> /0) 2:b_bwd(-> /0) 3:after(0W -> 0=0* /1) keep 0 }");
}

Test(deck, an_exception_in_a_region_leaves_it)
{
  CHECK(td_step_begin(deck));
  td_region a, b;
  CHECK(td_region_begin(deck, "a", &a));
  CHECK(td_region_begin(deck, "b", &b));
  CHECK(td_op_begin(deck, "inner"));
  CHECK(td_region_abort(deck, b));
  CHECK(td_region_abort(deck, a));
  REFUSED(td_region_abort(deck, a), TD_E_STATE);
  produce("after", (td_storage){0});
  CHECK(td_step_end(deck));
  saw("step{ 0:a_fwd 0:after(0W -> 0=0* /1) keep 0 }");
}

Test(deck, allocation_needs_a_device)
{
  td_storage storage = {77};
  REFUSED(td_storage_alloc(deck, 8, &storage), TD_E_STATE);
  cr_assert_eq(storage.id, 77);
  cr_assert_null(td_data(deck, storage));
}

/* ---- with a device and a limit -------------------------------------------------------------------------------- */

static td_device *device;

static void limited_deck(void)
{
  cr_assert_eq(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = 1000}, NULL), TD_OK);
  deck = witness_deck(&w, device, 300);
  CHECK(td_step_begin(deck));
}

static void destroy_limited_deck(void)
{
  td_deck_destroy(deck);
  cr_expect_eq(device->ops->used_bytes(device), 0);
  td_device_close(device);
}

TestSuite(limit, .init = limited_deck, .fini = destroy_limited_deck);

static td_storage fill(const char *name, td_storage in, uint64_t bytes, char with)
{
  td_storage out;
  CHECK(td_op_begin(deck, name));
  if (in.id) CHECK(td_read(deck, in));
  CHECK(td_storage_alloc(deck, bytes, &out));
  CHECK(td_output(deck, 0, out));
  CHECK(td_op_run(deck));
  memset(td_data(deck, out), with, bytes);
  CHECK(td_op_end(deck, TD_MEASURE));
  return out;
}

static void expect_bytes(td_storage storage, uint64_t bytes, char with)
{
  char got[400];
  CHECK(td_fetch(deck, storage, got, bytes));
  for (uint64_t i = 0; i < bytes; i++) cr_assert_eq(got[i], with, "byte %d is %d", (int)i, got[i]);
}

/* 11, fault l: the op's own outputs are inside the limit */
Test(limit, the_oldest_goes_first_and_the_larger_of_one_op)
{
  td_storage small, large;
  CHECK(td_op_begin(deck, "two"));
  CHECK(td_storage_alloc(deck, 50, &small));
  CHECK(td_storage_alloc(deck, 100, &large));
  CHECK(td_output(deck, 0, small));
  CHECK(td_output(deck, 1, large));
  CHECK(td_op_run(deck));
  memset(td_data(deck, small), 's', 50);
  memset(td_data(deck, large), 'l', 100);
  CHECK(td_op_end(deck, 0));
  td_storage next = fill("next", (td_storage){0}, 150, 'n');
  td_storage more = fill("more", (td_storage){0}, 100, 'm'); /* one of 100 must go */
  cr_expect_null(td_data(deck, large));
  cr_expect_not_null(td_data(deck, small));
  cr_expect_not_null(td_data(deck, next));
  td_storage last = fill("last", (td_storage){0}, 60, 'x');
  cr_expect_null(td_data(deck, small), "the next oldest");
  cr_expect_null(td_data(deck, next), "and one more, since 50 were not enough");
  expect_bytes(large, 100, 'l');
  expect_bytes(small, 50, 's');
  expect_bytes(next, 150, 'n');
  expect_bytes(more, 100, 'm');
  expect_bytes(last, 60, 'x');
  CHECK(td_step_end(deck));
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  cr_expect_leq(stats.peak_bytes, 300);
}

Test(limit, what_the_op_reads_is_never_evicted)
{
  td_storage a = fill("a", (td_storage){0}, 200, 'a');
  td_storage b = fill("b", (td_storage){0}, 100, 'b');
  td_storage c = fill("c", a, 100, 'c'); /* a is older, but read: b goes */
  cr_expect_not_null(td_data(deck, a));
  cr_expect_null(td_data(deck, b));
  expect_bytes(b, 100, 'b');
  expect_bytes(c, 100, 'c');
}

Test(limit, nothing_to_evict_says_what_holds_the_memory)
{
  td_storage a = fill("a", (td_storage){0}, 200, 'a'), out;
  CHECK(td_op_begin(deck, "b"));
  CHECK(td_read(deck, a));
  REFUSED(td_storage_alloc(deck, 150, &out), TD_E_BUDGET);
  cr_expect_str_eq(td_deck_error(deck)->message,
                   "no room on the device for 150 bytes: 200 of 300 are taken, 200 of them by what the op itself uses, and "
                   "nothing else can be evicted");
  REFUSED(td_storage_alloc(deck, 301, &out), TD_E_BUDGET);
  CHECK(td_op_abort(deck));
  expect_bytes(a, 200, 'a');
}

/* 24 and fault a */
Test(limit, what_is_read_while_away_comes_back_with_its_latest_bytes)
{
  td_storage a = fill("a", (td_storage){0}, 200, 'a');
  fill("b", (td_storage){0}, 200, 'b');
  cr_expect_null(td_data(deck, a));
  CHECK(td_op_begin(deck, "again"));
  CHECK(td_read(deck, a));
  CHECK(td_write(deck, a));
  CHECK(td_op_run(deck));
  cr_assert_eq(((char *)td_data(deck, a))[199], 'a');
  memset(td_data(deck, a), 'A', 200); /* the host copy is stale from here */
  CHECK(td_op_end(deck, 0));
  fill("c", (td_storage){0}, 200, 'c');
  fill("d", (td_storage){0}, 200, 'd');
  cr_expect_null(td_data(deck, a));
  expect_bytes(a, 200, 'A');
  CHECK(td_step_end(deck));
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  cr_expect_eq(stats.demand_faults, 1);
  cr_expect_leq(stats.peak_bytes, 300);
}

/* fault k: what a region captures may be away, and is served */
Test(limit, a_region_brings_back_what_it_touches)
{
  td_storage a = fill("a", (td_storage){0}, 200, 'a');
  fill("b", (td_storage){0}, 200, 'b');
  cr_expect_null(td_data(deck, a));
  td_region region;
  CHECK(td_region_begin(deck, "r", &region));
  CHECK(td_op_begin(deck, "inner"));
  CHECK(td_read(deck, a));
  CHECK(td_op_run(deck));
  cr_assert_not_null(td_data(deck, a));
  cr_expect_eq(((char *)td_data(deck, a))[0], 'a');
  CHECK(td_op_end(deck, 0));
  CHECK(td_region_end(deck, region));
}

/* 25 and fault g: after the step all is home, and the host holds nothing */
Test(limit, a_step_leaves_no_byte_on_the_host)
{
  td_storage a = fill("a", (td_storage){0}, 150, 'a');
  td_storage b = fill("b", (td_storage){0}, 200, 'b');
  td_storage c = fill("c", (td_storage){0}, 50, 'c');
  CHECK(td_storage_freed(deck, b));
  CHECK(td_step_end(deck));
  cr_expect_eq(td_residency_host_bytes(deck->residency), 0);
  cr_expect_not_null(td_data(deck, a));
  expect_bytes(a, 150, 'a');
  expect_bytes(c, 50, 'c');
  cr_expect_eq(td_residency_bytes(deck->residency), 200);
}

Test(limit, an_aborted_step_gives_all_of_its_memory_back)
{
  fill("a", (td_storage){0}, 200, 'a');
  fill("b", (td_storage){0}, 200, 'b');
  CHECK(td_step_abort(deck));
  cr_expect_eq(td_residency_bytes(deck->residency), 0);
  cr_expect_eq(td_residency_host_bytes(deck->residency), 0);
}

/* fault h: a victim is found without a walk over all storages.. */
Test(limit, eviction_of_many_storages_ends)
{
  td_storage s;
  for (int i = 0; i < 20000; i++) {
    CHECK(td_op_begin(deck, "tiny"));
    CHECK(td_storage_alloc(deck, 1 + (uint64_t)i % 7, &s));
    CHECK(td_output(deck, 0, s));
    CHECK(td_op_end(deck, 0));
  }
  CHECK(td_step_abort(deck));
}
