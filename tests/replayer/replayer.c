/* From a tape with a schedule to a step under a limit, and what is refused. */
#include <criterion/criterion.h>

#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/recorder.h>
#include <tapedeck/replayer.h>

#include "program.h"
#include "temp_dir.h"

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", td_deck_error(deck)->message)
#define REFUSED(call, status) cr_assert_eq((call), (status), "%s", td_deck_error(deck)->message)
#define EXPECT_MESSAGE(text) cr_expect_str_eq(td_deck_error(deck)->message, (text))
#define EXPECT_MESSAGE_BEGINS(text)                                                                                     \
  cr_expect(strncmp(td_deck_error(deck)->message, (text), sizeof(text) - 1) == 0, "%s", td_deck_error(deck)->message)

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

static void open_device(uint64_t capacity)
{
  cr_assert_eq(td_device_open(&device, "host", &(td_device_options){.capacity_bytes = capacity}, &err), TD_OK, "%s",
               err.message);
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

TestSuite(replayer, .init = create, .fini = destroy);

static void start_recording(void)
{
  open_device(0);
  cr_assert_eq(td_recorder_create(&deck, &(td_recorder_options){.path = path, .device = device}, &err), TD_OK, "%s",
               err.message);
}

static void start_replay_by(td_policy policy, uint64_t capacity)
{
  open_device(capacity);
  td_replayer_options options = {.path = path, .device = device, .policy = policy};
  cr_assert_eq(td_replayer_create(&deck, &options, &err), TD_OK, "%s", err.message);
}

static void start_replay(uint64_t capacity)
{
  start_replay_by(TD_STRICT, capacity);
}

static uint64_t plan(unsigned percent)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule;
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_info(tape, TD_NEWEST, &info, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_load_trace(tape, TD_NEWEST, &trace, &err), TD_OK, "%s", err.message);
  td_tape_close(tape);
  td_plan_options options = {.budget_bytes = info.peak_bytes * percent / 100};
  cr_assert_eq(td_plan(trace, &options, &schedule, NULL, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_add_schedule(path, TD_NEWEST, schedule, &err), TD_OK, "%s", err.message);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return options.budget_bytes;
}

static void store(const td_action *actions, size_t n)
{
  td_schedule *schedule = calloc(1, sizeof *schedule);
  schedule->planner = strdup("by hand");
  schedule->memory_limit_bytes = 1 << 20;
  schedule->host_limit_bytes = UINT64_MAX;
  schedule->d2h_bytes_per_s = schedule->h2d_bytes_per_s = 1e9;
  schedule->early = true;
  schedule->n_actions = n;
  schedule->actions = calloc(n, sizeof *actions);
  if (n) memcpy(schedule->actions, actions, n * sizeof *actions);
  cr_assert_eq(td_tape_add_schedule(path, TD_NEWEST, schedule, &err), TD_OK, "%s", err.message);
  td_schedule_destroy(schedule);
}

/* The program's steps without a limit, recording each; what they must be. */
static void reference(program *p, int steps)
{
  start_recording();
  CHECK(program_init(p, deck));
  for (int i = 0; i < steps; i++) CHECK(program_step(p, deck));
  close_deck();
}

Test(replayer, a_planned_step_gives_the_same_bits_inside_the_budget)
{
  program wanted, got;
  reference(&wanted, 3);
  for (unsigned percent = 90; percent >= 40; percent -= 10) {
    uint64_t budget = plan(percent);
    start_replay(budget);
    CHECK(program_init(&got, deck));
    for (int i = 0; i < 3; i++) {
      CHECK(program_step(&got, deck));
      td_step_stats stats;
      td_deck_stats(deck, &stats);
      cr_expect(stats.replayed);
      cr_expect_leq(stats.peak_bytes, budget);
      cr_expect_gt(stats.d2h_bytes, 0);
      cr_expect_eq(stats.demand_faults, 0, "the schedule foresaw everything");
    }
    cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0, "at %u%%", percent);
    cr_expect_eq(got.loss_value, wanted.loss_value);
    close_deck();
  }
}

Test(replayer, a_step_that_is_left_half_way_is_forgotten_and_the_next_is_whole)
{
  program wanted, got;
  reference(&wanted, 1);
  start_replay(plan(50));
  CHECK(program_init(&got, deck));
  got.stop_half_way = true;
  CHECK(program_step(&got, deck));
  CHECK(program_init(&got, deck));
  CHECK(program_step(&got, deck));
  cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
  cr_expect_eq(got.loss_value, wanted.loss_value);
}

/* ---- one storage, by hand ------------------------------------------------------------------------------------- */

static td_storage make(char with)
{
  td_storage storage;
  CHECK(td_op_begin(deck, "make"));
  CHECK(td_storage_alloc(deck, 1000, &storage));
  CHECK(td_output(deck, 0, storage));
  CHECK(td_op_run(deck));
  memset(td_data(deck, storage), with, 1000);
  CHECK(td_op_end(deck, 0));
  return storage;
}

static void use(td_storage storage, char expected)
{
  CHECK(td_op_begin(deck, "use"));
  CHECK(td_read(deck, storage));
  CHECK(td_op_run(deck));
  const char *bytes = td_data(deck, storage);
  for (int i = 0; i < 1000; i++) cr_assert_eq(bytes[i], expected);
  CHECK(td_op_end(deck, 0));
}

static void overwrite(td_storage storage, char with)
{
  CHECK(td_op_begin(deck, "overwrite"));
  CHECK(td_write(deck, storage));
  CHECK(td_op_run(deck));
  memset(td_data(deck, storage), with, 1000);
  CHECK(td_op_end(deck, 0));
}

static void nothing(void)
{
  CHECK(td_op_begin(deck, "nothing"));
  CHECK(td_op_end(deck, 0));
}

/* W0, R2, W3, R5; the storage is SID 0 and kept. */
static void one_storage_step(void)
{
  CHECK(td_step_begin(deck));
  td_storage s = make('a');
  nothing();
  use(s, 'a');
  overwrite(s, 'b');
  nothing();
  use(s, 'b');
  CHECK(td_step_end(deck));
  char got[1000];
  CHECK(td_fetch(deck, s, got, sizeof got));
  cr_expect_eq(got[999], 'b');
  CHECK(td_storage_freed(deck, s));
}

static void record_one_storage(void)
{
  start_recording();
  one_storage_step();
  close_deck();
}

/* fault a: evicted, read back, written, evicted again; and fault g: retained, it leaves nothing on the host */
Test(replayer, a_host_copy_from_before_a_write_never_comes_back)
{
  record_one_storage();
  store((td_action[]){{0, 0, TD_POST, TD_COPY_D2H},
                      {0, 0, TD_POST, TD_RELEASE_DEVICE},
                      {2, 0, TD_PRE, TD_COPY_H2D},
                      {3, 0, TD_POST, TD_COPY_D2H},
                      {3, 0, TD_POST, TD_RELEASE_DEVICE},
                      {5, 0, TD_PRE, TD_COPY_H2D}},
        6);
  start_replay(1000);
  for (int i = 0; i < 2; i++) {
    one_storage_step();
    td_step_stats stats;
    td_deck_stats(deck, &stats);
    cr_expect_eq(stats.d2h_bytes, 2000);
    cr_expect_eq(stats.h2d_bytes, 2000);
    cr_expect_eq(stats.demand_faults, 0);
    cr_expect_eq(stats.host_peak_bytes, 1024, "one copy, rounded to 64 bytes");
  }
}

/* fault e: one copy out serves both gaps of a version */
Test(replayer, a_current_host_copy_is_not_made_again)
{
  record_one_storage();
  store((td_action[]){{0, 0, TD_POST, TD_COPY_D2H},
                      {0, 0, TD_POST, TD_RELEASE_DEVICE},
                      {2, 0, TD_PRE, TD_COPY_H2D},
                      {2, 0, TD_POST, TD_COPY_D2H},
                      {2, 0, TD_POST, TD_RELEASE_DEVICE},
                      {3, 0, TD_PRE, TD_COPY_H2D}},
        6);
  start_replay(1000);
  one_storage_step();
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  cr_expect_eq(stats.d2h_bytes, 1000);
  cr_expect_eq(stats.h2d_bytes, 2000);
}

/* 24 */
Test(replayer, what_no_prefetch_brought_is_brought_when_needed_and_counted)
{
  record_one_storage();
  store((td_action[]){{0, 0, TD_POST, TD_COPY_D2H}, {0, 0, TD_POST, TD_RELEASE_DEVICE}}, 2);
  start_replay(1000);
  one_storage_step();
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  cr_expect_eq(stats.demand_faults, 1);
}

Test(replayer, retained_storages_are_home_when_the_step_ends)
{
  record_one_storage();
  store((td_action[]){{5, 0, TD_POST, TD_COPY_D2H}, {5, 0, TD_POST, TD_RELEASE_DEVICE}, {6, 0, TD_PRE, TD_COPY_H2D}}, 3);
  start_replay(1000);
  one_storage_step();
  td_step_stats stats;
  td_deck_stats(deck, &stats);
  cr_expect_eq(stats.h2d_bytes, 1000);
}

/* ---- divergence ----------------------------------------------------------------------------------------------- */

/* 26 */
Test(replayer, a_tape_of_another_sharding_plan_is_refused)
{
  record_one_storage();
  store(NULL, 0);
  open_device(0);
  td_sharding_place place = {.plan = "null"};
  td_replayer_options options = {.path = path, .device = device, .sharding = &place};
  cr_expect_eq(td_replayer_create(&deck, &options, &err), TD_E_NOT_FOUND, "%s", err.message);
  cr_assert_eq(td_tape_set_sharding(path, TD_NEWEST, &place, &err), TD_OK, "%s", err.message);
  cr_expect_eq(td_replayer_create(&deck, &options, &err), TD_OK, "%s", err.message);
  td_deck_destroy(deck);
  deck = NULL;
  place.plan = "{\"modules\": {\"m\": {}}}";
  cr_expect_eq(td_replayer_create(&deck, &options, &err), TD_E_DIVERGED);
  cr_expect_not_null(strstr(err.message, "m: module is not there in the tape, {} here"), "%s", err.message);
}

Test(replayer, more_ops_than_the_trace_are_refused)
{
  record_one_storage();
  store(NULL, 0);
  start_replay(0);
  CHECK(td_step_begin(deck));
  td_storage s = make('a');
  nothing(), use(s, 'a'), overwrite(s, 'b'), nothing(), use(s, 'b');
  REFUSED(td_op_begin(deck, "surplus"), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("op 6: expected the end of the step, found 'surplus'; recorded: ");
  CHECK(td_step_end(deck));
}

Test(replayer, another_name_is_refused_and_the_right_one_still_taken)
{
  record_one_storage();
  store(NULL, 0);
  start_replay(0);
  CHECK(td_step_begin(deck));
  REFUSED(td_op_begin(deck, "take"), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("op 0: expected 'make', found 'take'; recorded: ");
  make('a');
  CHECK(td_step_abort(deck));
  one_storage_step();
}

Test(replayer, other_leaves_and_sizes_are_refused)
{
  record_one_storage();
  store(NULL, 0);
  start_replay(0);
  CHECK(td_step_begin(deck));
  td_storage s;
  CHECK(td_op_begin(deck, "make"));
  CHECK(td_leaves(deck, 2));
  REFUSED(td_op_end(deck, 0), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("op 0 'make': expected 1 output leaves, found 2; recorded: ");
  CHECK(td_leaves(deck, 1));
  REFUSED(td_op_end(deck, 0), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("op 0 'make': expected a storage of 1000 bytes at leaf 0, found none; recorded: ");
  CHECK(td_storage_alloc(deck, 999, &s));
  CHECK(td_output(deck, 0, s));
  REFUSED(td_op_end(deck, 0), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("op 0 'make': expected 1000 bytes at leaf 0, found 999; recorded: ");
  CHECK(td_op_abort(deck));
}

Test(replayer, a_step_that_ends_early_is_told_and_over)
{
  record_one_storage();
  store(NULL, 0);
  start_replay(0);
  CHECK(td_step_begin(deck));
  make('a');
  REFUSED(td_step_end(deck), TD_E_DIVERGED);
  EXPECT_MESSAGE_BEGINS("the step ended after 1 of 6 ops; expected 'nothing'; recorded: ");
  cr_expect_not(td_in_step(deck));
  one_storage_step();
}

/* Each way in which a step may differ: other code runs, and the result must be that of this code without a replayer. */
Test(replayer, a_diverging_step_has_the_bits_of_its_own_code_in_every_policy)
{
  program plain;
  reference(&plain, 2);
  uint64_t budget = plan(60);
  const char *other = temp_file(&dir, "other.tape");
  static const td_policy policies[] = {TD_RESYNC, TD_PASSTHROUGH, TD_RERECORD};
  for (unsigned policy = 0; policy < 3; policy++) {
    for (program_change change = PROGRAM_EXTRA_OP; change < PROGRAM_CHANGES; change++) {
      for (unsigned layer = 0; layer < PROGRAM_LAYERS; layer += 5) {
        program wanted, got;
        td_step_stats stats;
        if (change == PROGRAM_SHORT && layer == 0) continue; /* no change */
        /* what the changed code computes, on a deck that only counts */
        open_device(0);
        cr_assert_eq(td_recorder_create(&deck, &(td_recorder_options){.path = other, .device = device}, &err),
                     TD_OK);
        CHECK(program_init(&wanted, deck));
        wanted.change = change;
        wanted.change_at = layer;
        CHECK(program_step(&wanted, deck));
        wanted.change = PROGRAM_UNCHANGED;
        CHECK(program_step(&wanted, deck));
        close_deck();

        start_replay_by(policies[policy], budget);
        CHECK(program_init(&got, deck));
        got.change = change;
        got.change_at = layer;
        CHECK(program_step(&got, deck));
        td_deck_stats(deck, &stats);
        cr_expect_gt(stats.diverged_ops, 0, "change %d at %u", change, layer);
        cr_expect(*td_replayer_divergence(deck));
        if (policies[policy] == TD_RESYNC && layer > 0 && layer < 15 && change != PROGRAM_SHORT)
          cr_expect_lt(stats.diverged_ops, 30, "change %d at %u: %d", change, layer, (int)stats.diverged_ops);
        got.change = PROGRAM_UNCHANGED;
        CHECK(program_step(&got, deck));
        td_deck_stats(deck, &stats);
        cr_expect_eq(stats.diverged_ops, 0, "the next step is clean");
        cr_expect_str_eq(td_replayer_divergence(deck), "");
        cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0, "policy %u, change %d at %u", policy, change, layer);
        cr_expect_eq(got.loss_value, wanted.loss_value);
        close_deck();
      }
    }
  }
}

Test(replayer, the_message_shows_the_ops_around)
{
  program p;
  reference(&p, 1);
  plan(60);
  start_replay_by(TD_RESYNC, 0);
  CHECK(program_init(&p, deck));
  p.change = PROGRAM_RENAMED;
  p.change_at = 3;
  CHECK(program_step(&p, deck));
  cr_expect_str_eq(td_replayer_divergence(deck),
                   "op 3: expected 'forward', found 'renamed'; recorded: forward, forward, [forward], forward, forward; run: forward, forward, [renamed]");
}

/* ---- schedules that fit no trace ------------------------------------------------------------------------------ */

static void refuse_schedule(td_action action, const char *message)
{
  store(&action, 1);
  open_device(0);
  td_deck *none = NULL;
  cr_expect_eq(td_replayer_create(&none, &(td_replayer_options){.path = path, .device = device}, &err), TD_E_INPUT);
  cr_expect_str_eq(err.message, message);
  cr_expect_null(none);
  close_deck();
}

/* 27 */
Test(replayer, pre_carries_copy_h2d_only_and_post_never_does)
{
  record_one_storage();
  refuse_schedule((td_action){0, 0, TD_PRE, TD_COPY_D2H},
                  "op 0: a COPY_D2H for SID 0 before the op, where there can be none");
  refuse_schedule((td_action){0, 0, TD_PRE, TD_RELEASE_HOST},
                  "op 0: a RELEASE_HOST for SID 0 before the op, where there can be none");
  refuse_schedule((td_action){0, 0, TD_POST, TD_COPY_H2D},
                  "op 0: a COPY_H2D for SID 0 after the op, where there can be none");
}

Test(replayer, actions_outside_the_trace_are_refused)
{
  record_one_storage();
  refuse_schedule((td_action){7, 0, TD_PRE, TD_COPY_H2D}, "the schedule has an action at op 7, of 6 ops");
  refuse_schedule((td_action){6, 0, TD_POST, TD_COPY_D2H}, "the schedule has an action at op 6, of 6 ops");
  refuse_schedule((td_action){0, 9, TD_POST, TD_COPY_D2H},
                  "op 0: an action for SID 9, which is no activation of the trace");
}

Test(replayer, a_tape_without_a_schedule_is_refused)
{
  record_one_storage();
  open_device(0);
  cr_expect_eq(td_replayer_create(&deck, &(td_replayer_options){.path = path, .device = device}, &err), TD_E_NOT_FOUND);
}

/* An op that raises was never there, whatever it was. */
Test(replayer, an_aborted_op_is_no_divergence)
{
  program wanted, got;
  reference(&wanted, 1);
  for (td_policy policy = TD_RESYNC; policy <= TD_RERECORD; policy++) {
    start_replay_by(policy, plan(50));
    CHECK(program_init(&got, deck));
    CHECK(td_step_begin(deck));
    td_status begun = td_op_begin(deck, "an op that was not recorded");
    cr_expect_eq(begun, policy == TD_STRICT ? TD_E_DIVERGED : TD_OK);
    if (!begun) CHECK(td_op_abort(deck));
    CHECK(program_body(&got, deck));
    if (!td_op_begin(deck, "one more")) CHECK(td_op_abort(deck));
    CHECK(td_step_end(deck));
    td_step_stats stats;
    td_deck_stats(deck, &stats);
    cr_expect_eq(stats.diverged_ops, 0);
    cr_expect_eq(stats.demand_faults, 0);
    cr_expect_str_empty(td_replayer_divergence(deck));
    cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
    close_deck();
  }
}
