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

static int take_number(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names;
  *(int64_t *)context = values[0].integer;
  return 0;
}

static int64_t number(td_tape *tape, const char *sql)
{
  int64_t result = -1;
  cr_assert_eq(td_tape_sql(tape, sql, take_number, &result, &err), TD_OK, "%s", err.message);
  return result;
}

/* A number among the tape's meta, or the length of a text there. */
static int64_t meta_number(td_tape *tape, const char *what)
{
  char sql[200];
  bool length = strncmp(what, "length(", 7) == 0;
  snprintf(sql, sizeof sql, length ? "SELECT length(value) FROM meta WHERE key = '%.*s'" : "SELECT CAST(value AS INTEGER) FROM meta WHERE key = '%.*s'",
           length ? (int)strlen(what) - 8 : (int)strlen(what), what + (length ? 7 : 0));
  return number(tape, sql);
}

static void expect_traces(int64_t n)
{
  td_tape *tape;
  int64_t count;
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_trace_count(tape, &count, &err), TD_OK);
  cr_expect_eq(count, n);
  td_tape_close(tape);
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

/* The program changes for good: three steps pass through, one is recorded, and then the new step is replayed; all with the bits
 * that the same program has without a session. Where the tape may hold one step only, it begins anew with two that are alike. */
static void change_for_good(unsigned max_variants, int n_recorded, int64_t n_traces)
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

  open_device(peak / 2);
  td_session_options options = {.path = path, .device = device, .max_variants = max_variants};
  cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK, "%s", err.message);
  CHECK(program_init(&got, deck));
  for (int i = 0; i < 12; i++) {
    got.change = i < 4 ? PROGRAM_UNCHANGED : PROGRAM_NO_DROPOUT;
    CHECK(program_step(&got, deck));
    td_deck_stats(deck, &stats);
    bool recorded = i < 2 || (i >= 7 && i < 7 + n_recorded), diverged = i >= 4 && i < 7;
    cr_expect_eq(stats.replayed, !recorded, "step %d", i);
    cr_expect_eq(stats.diverged_ops > 0, diverged, "step %d", i);
  }
  cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
  cr_expect_eq(got.loss_value, wanted.loss_value);
  expect_traces(n_traces);
}

Test(session, learns_a_step_when_the_program_has_changed)
{
  change_for_good(0, 1, 2);
}

Test(session, begins_anew_where_the_tape_is_full)
{
  change_for_good(1, 2, 1);
}

/* Two programs by turns: both are in the tape in the end, each is replayed, and nothing diverges any more. */
Test(session, replays_variants_by_turns)
{
  enum { STEPS = 24 };
  program wanted, got;
  td_step_stats stats;
  open_device(0);
  cr_assert_eq(td_recorder_create(&deck, &(td_recorder_options){.path = path, .device = device}, &err), TD_OK);
  CHECK(program_init(&wanted, deck));
  for (int i = 0; i < STEPS; i++) {
    wanted.change = i > 3 && i % 2 ? PROGRAM_NO_DROPOUT : PROGRAM_UNCHANGED;
    CHECK(program_step(&wanted, deck));
  }
  td_deck_stats(deck, &stats);
  uint64_t peak = stats.peak_bytes;
  close_deck();
  start(peak / 2, 0);
  CHECK(program_init(&got, deck));
  for (int i = 0; i < STEPS; i++) {
    got.change = i > 3 && i % 2 ? PROGRAM_NO_DROPOUT : PROGRAM_UNCHANGED;
    CHECK(program_step(&got, deck));
    td_deck_stats(deck, &stats);
    if (i < 14) continue;
    cr_expect(stats.replayed, "step %d", i);
    cr_expect_eq(stats.diverged_ops, 0, "step %d: %s", i, td_replayer_divergence(deck));
    cr_expect_eq(stats.trace, i % 2 ? 2 : 1);
  }
  cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
  cr_expect_eq(got.loss_value, wanted.loss_value);
  expect_traces(2);
  cr_expect_eq(temp_dir_count(&dir), 1, "nothing is left beside the tape");
}

/* The second run of a job needs no warm-up. */
Test(session, resumes_a_tape)
{
  program wanted, got;
  uint64_t peak = reference(&wanted, 3);
  for (int run = 0; run < 2; run++) {
    open_device(peak / 2);
    td_session_options options = {.path = path, .device = device, .resume = true, .budget_bytes = peak / 2 + (unsigned)run};
    cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK, "%s", err.message);
    CHECK(program_init(&got, deck));
    for (int i = 0; i < 3; i++) {
      CHECK(program_step(&got, deck));
      cr_expect(replayed());
    }
    cr_expect_eq(memcmp(got.weights, wanted.weights, sizeof got.weights), 0);
    close_deck();
  }
}

Test(session, what_cannot_be_resumed_is_told_and_left_alone)
{
  FILE *file = fopen(path, "w");
  fputs("a letter", file);
  fclose(file);
  open_device(1000);
  td_session_options options = {.path = path, .device = device, .resume = true};
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_E_FORMAT);
  char text[16] = "";
  file = fopen(path, "r");
  cr_expect_not_null(fgets(text, sizeof text, file));
  fclose(file);
  cr_expect_str_eq(text, "a letter");
  options.path = temp_file(&dir, "none.tape"); /* what is not there is recorded */
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_OK);
}

/* The plan of the sharding is in the tape, and a run under another one does not resume it. */
Test(session, resumes_a_tape_of_its_own_sharding_plan_alone)
{
  static const uint64_t shape[] = {4}, mine[] = {1}, other[] = {2};
  program p;
  td_sharding_place place = {.plan = "{\"mesh_dim_names\": [\"tp\"]}", .world_size = 4, .rank = 1, .n_mesh = 1, .mesh_shape = shape, .mesh_coords = mine};
  open_device(1 << 20);
  td_session_options options = {.path = path, .device = device, .resume = true, .max_warmups = 1, .sharding = &place};
  cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK, "%s", err.message);
  CHECK(program_init(&p, deck));
  CHECK(program_step(&p, deck));
  CHECK(program_step(&p, deck));
  cr_expect(replayed());
  td_deck_destroy(deck);
  deck = NULL;
  place.mesh_coords = other;
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_E_DIVERGED);
  cr_expect_not_null(strstr(err.message, "the mesh coordinates are 1 on axis 0 in the tape, 2 here"), "%s", err.message);
  place.mesh_coords = mine;
  place.plan = "{\"mesh_dim_names\": [\"dp\"]}";
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_E_DIVERGED);
  cr_expect_not_null(strstr(err.message, "mesh_dim_names is [\"tp\"] in the tape, [\"dp\"] here"), "%s", err.message);
  place.plan = "[1]";
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_E_INPUT);
  options.path = temp_file(&dir, "new.tape");
  cr_expect_eq(td_session_create(&deck, &options, &err), TD_E_INPUT); /* before a step is recorded under it */
  cr_expect_eq(temp_dir_count(&dir), 1);
}

Test(session, keeps_meta_and_the_link_that_it_measured)
{
  program p;
  td_tape *tape;
  td_schedule *schedule;
  uint64_t peak = reference(&p, 1);
  open_device(0);
  td_session_options options = {
      .path = path, .device = device, .budget_bytes = peak / 2, .max_warmups = 1, .meta = &(td_meta){"model", "small"}, .n_meta = 1};
  cr_assert_eq(td_session_create(&deck, &options, &err), TD_OK, "%s", err.message);
  CHECK(program_init(&p, deck));
  CHECK(program_step(&p, deck));
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_load_schedule(tape, TD_NEWEST, TD_NEWEST, &schedule, &err), TD_OK);
  cr_expect_eq(meta_number(tape, "d2h_bytes_per_s"), (int64_t)(schedule->d2h_bytes_per_s + 0.5));
  cr_expect_eq(meta_number(tape, "h2d_bytes_per_s"), (int64_t)(schedule->h2d_bytes_per_s + 0.5));
  cr_expect_geq(meta_number(tape, "d2h_latency_ns"), 0);
  cr_expect_eq(meta_number(tape, "length(model)"), 5);
  td_schedule_destroy(schedule);
  td_tape_close(tape);
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

static void *end_step(void *context)
{
  (void)context;
  CHECK(td_step_end(deck));
  cr_expect_null(td_session_active());
  return NULL;
}

Test(session, a_step_may_end_on_another_thread)
{
  pthread_t thread;
  start(1000, 0);
  CHECK(td_step_begin(deck));
  cr_expect_eq(td_session_active(), deck);
  cr_assert_eq(pthread_create(&thread, NULL, end_step, NULL), 0);
  pthread_join(thread, NULL);
  cr_expect_null(td_session_active());
  CHECK(td_step_begin(deck));
  td_deck_destroy(deck);
  cr_expect_null(td_session_active());
  deck = NULL;
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
