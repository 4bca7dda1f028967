/* Record, plan and replay in one object. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <string.h>

#include <tapedeck/recorder.h>
#include <tapedeck/session.h>
#include <tapedeck/trace.h>

#include "program.h"
#include "temp_dir.h"

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", td_deck_error(deck)->message)

static temp_dir dir;
static const char *path;
static td_device *device;
static td_deck *deck;
static td_error err;

static void create(void)
{
  dir = temp_dir_create();
  path = temp_file(&dir, "step.tape");
}

static void close_deck(void)
{
  td_deck_destroy(deck);
  td_device_close(device);
  deck = NULL;
  device = NULL;
}

static void destroy(void)
{
  close_deck();
  temp_dir_remove(&dir);
}

TestSuite(session, .init = create, .fini = destroy);

static void open_device(uint64_t capacity)
{
  cr_assert_eq(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = capacity}, &err), TD_OK, "%s",
               err.message);
}

static void start(uint64_t budget, unsigned max_warmups)
{
  open_device(budget);
  td_session_options options = {.path = path, .device = device, .max_warmups = max_warmups};
  cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK, "%s", err.message);
}

static uint64_t reference(program *p, int steps)
{
  open_device(0);
  td_recorder_options options = {.path = path, .device = device};
  cr_assert_eq(td_recorder_create(&deck, &options, &err), TD_OK, "%s", err.message);
  CHECK(program_init(p, deck));
  for (int i = 0; i < steps; i++) CHECK(program_step(p, deck));
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  close_deck();
  return stats.peak_bytes;
}

static bool replayed(void)
{
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  return stats.replayed;
}

/* 7 */
Test(session, warms_up_until_two_steps_are_alike_then_replays_the_same_bits)
{
  program wanted, got;
  uint64_t peak = reference(&wanted, 6);
  start(peak * 2 / 5, 0);
  CHECK(program_init(&got, deck));
  for (int i = 0; i < 6; i++) {
    CHECK(program_step(&got, deck));
    cr_expect_eq(replayed(), i >= 2, "step %d", i);
    td_step_stats stats;
    td_deck_stats(deck, &stats);
    cr_expect_leq(stats.peak_bytes, peak * 2 / 5, "the warm-up stays inside the budget too");
  }
  cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
  cr_expect_eq(got.loss_value, wanted.loss_value);
}

/* The program changes for good: three steps pass through, two are recorded, and then the new step is replayed; all with the bits
 * that the same program has without a session. */
Test(session, records_anew_when_the_program_has_changed)
{
  program wanted, got;
  uint64_t peak;
  open_device(0);
  cr_assert_eq(td_recorder_create(&deck, &(td_recorder_options){.path = path, .device = device}, &err), TD_OK);
  CHECK(program_init(&wanted, deck));
  for (int i = 0; i < 12; i++) {
    wanted.change = i < 4 ? PROGRAM_UNCHANGED : PROGRAM_NO_DROPOUT;
    CHECK(program_step(&wanted, deck));
  }
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  peak = stats.peak_bytes;
  close_deck();

  start(peak / 2, 0);
  CHECK(program_init(&got, deck));
  for (int i = 0; i < 12; i++) {
    got.change = i < 4 ? PROGRAM_UNCHANGED : PROGRAM_NO_DROPOUT;
    CHECK(program_step(&got, deck));
    td_deck_stats(deck, &stats);
    bool recorded = i < 2 || i == 7 || i == 8, diverged = i >= 4 && i < 7;
    cr_expect_eq(stats.replayed, !recorded, "step %d", i);
    cr_expect_eq(stats.diverged_ops > 0, diverged, "step %d", i);
  }
  cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
  cr_expect_eq(got.loss_value, wanted.loss_value);
}

Test(session, plans_after_an_empty_step_too)
{
  start(1000, 1);
  CHECK(td_step_begin(deck));
  CHECK(td_step_end(deck));
  CHECK(td_step_begin(deck));
  CHECK(td_step_end(deck));
  cr_expect(replayed());
}

/* Steps that are never alike: each has one op more. */
Test(session, plans_after_the_last_warm_up_that_it_is_allowed)
{
  start(1000, 3);
  for (int step = 0; step < 3; step++) {
    CHECK(td_step_begin(deck));
    for (int op = 0; op <= step; op++) {
      CHECK(td_op_begin(deck, "op"));
      CHECK(td_op_end(deck, 0));
    }
    CHECK(td_step_end(deck));
    cr_expect_not(replayed());
  }
  CHECK(td_step_begin(deck));
  CHECK(td_step_abort(deck));
  cr_expect(replayed());
}

Test(session, an_exception_leaves_the_next_step_clean)
{
  program wanted, got;
  uint64_t peak = reference(&wanted, 1);
  start(peak / 2, 0);
  for (int i = 0; i < 4; i++) { /* in the warm-up, and in replay */
    CHECK(program_init(&got, deck));
    got.stop_half_way = true;
    CHECK(program_step(&got, deck));
    CHECK(program_init(&got, deck));
    CHECK(program_step(&got, deck));
    cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
    cr_expect_eq(got.loss_value, wanted.loss_value);
  }
  cr_expect(replayed());
}

Test(session, is_active_inside_a_step_only)
{
  start(1000, 0);
  cr_expect_null(td_session_active());
  CHECK(td_step_begin(deck));
  cr_expect_eq(td_session_active(), deck);
  cr_expect_eq(td_step_begin(deck), TD_E_STATE, "steps do not nest");
  CHECK(td_step_end(deck));
  cr_expect_null(td_session_active());
  CHECK(td_step_begin(deck));
  CHECK(td_step_abort(deck));
  cr_expect_null(td_session_active());
}

/* fault d: two outputs that are kept, of which only one fits */
Test(session, a_budget_that_cannot_be_met_is_told)
{
  program p;
  uint64_t peak = reference(&p, 1);
  open_device(peak);
  td_session_options options = {.path = path, .device = device, .max_warmups = 1};
  cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK);
  CHECK(td_step_begin(deck));
  td_storage kept[3];
  for (int i = 0; i < 3; i++) {
    CHECK(td_op_begin(deck, "keep"));
    CHECK(td_storage_alloc(deck, peak / 2, &kept[i]));
    CHECK(td_output(deck, 0, kept[i]));
    CHECK(td_op_end(deck, 0));
  }
  cr_expect_eq(td_step_end(deck), TD_E_BUDGET);
  cr_expect_not(td_in_step(deck), "the step itself was whole");
  char byte;
  for (int i = 0; i < 3; i++) CHECK(td_fetch(deck, kept[i], &byte, 1));
}

Test(session, the_tape_holds_the_schedule)
{
  program p;
  uint64_t peak = reference(&p, 1);
  start(peak / 2, 1);
  CHECK(program_init(&p, deck));
  CHECK(program_step(&p, deck));
  td_tape *tape;
  td_schedule *schedule;
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_load_schedule(tape, TD_NEWEST, TD_NEWEST, &schedule, &err), TD_OK, "%s", err.message);
  cr_expect_eq(schedule->memory_limit_bytes, peak / 2);
  td_schedule_destroy(schedule);
  td_tape_close(tape);
}

Test(session, options_that_say_nothing_are_refused)
{
  cr_expect_eq(td_session_create(&deck, &(td_session_options){.path = path}, &err), TD_E_ARG);
  open_device(10);
  cr_expect_eq(td_session_create(&deck, &(td_session_options){.device = device}, &err), TD_E_ARG);
  cr_expect_null(deck);
}
