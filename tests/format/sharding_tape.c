/* Sharding plans in tapes: what was recorded, what may be replayed, and sizes that a placement explains. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <tapedeck/sharding.h>

#include "format/fixture.h"
#include "temp_dir.h"

static temp_dir dir;
static td_error err;

static void create(void)
{
  dir = temp_dir_create();
}

static void destroy(void)
{
  temp_dir_remove(&dir);
}

TestSuite(sharding_tape, .init = create, .fini = destroy);

/* A plan of two axes; `w` is how the weight lies along tp. */
#define PLAN(w)                                                                                                        \
  "{\"param_plan\": {\"m\": {\"params\": {\"q\": {\"tp\": \"" w "\", \"dp\": \"R\"}, \"n\": {\"tp\": \"R\"}}, \"out_src\": {\"y\": {\"dp\": " \
  "\"S(0)\"}}}}, \"mesh_dim_names\": [\"dp\", \"tp\"]}"

static const uint64_t shape[] = {2, 4}, first[] = {0, 0}, last[] = {1, 3};

static const char *make_tape(const char *name, const td_sharding_place *place)
{
  const char *json = temp_file(&dir, "in.json"), *tape = temp_file(&dir, name);
  write_file(json, FULL_TRACE, strlen(FULL_TRACE));
  cr_assert_eq(td_import(json, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
  if (place) cr_assert_eq(td_tape_set_sharding(tape, TD_NEWEST, place, &err), TD_OK, "%s", err.message);
  return tape;
}

static td_sharding_place *read_place(const char *path, td_status wanted)
{
  td_tape *tape;
  td_sharding_place *place = NULL;
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK);
  cr_expect_eq(td_tape_sharding(tape, TD_NEWEST, &place, &err), wanted, "%s", err.message);
  td_tape_close(tape);
  return place;
}

/* ---- places --------------------------------------------------------------------------------------------------- */

Test(sharding_tape, a_tape_says_what_it_was_recorded_under)
{
  td_sharding_place *place = read_place(make_tape("a.tape", NULL), TD_OK);
  cr_expect(!place->plan && !place->digest && !place->world_size && !place->n_mesh && !place->mesh_shape && !place->mesh_coords);
  td_sharding_place_destroy(place);
  place = read_place(make_tape("b.tape", &(td_sharding_place){.plan = PLAN("S(0)"), .world_size = 8, .rank = 7, .n_mesh = 2,
                                                              .mesh_shape = shape, .mesh_coords = last}),
                     TD_OK);
  cr_expect(place->world_size == 8 && place->rank == 7 && place->n_mesh == 2);
  cr_expect(place->mesh_shape[1] == 4 && place->mesh_coords[0] == 1 && place->mesh_coords[1] == 3);
  cr_expect_eq(strlen(place->digest), 32);
  cr_expect_not_null(strstr(place->plan, "\"frozen_sharded_params\":\t[\"m.q\"]"), "%s", place->plan);
  td_sharding_place_destroy(place);
}

Test(sharding_tape, a_place_that_cannot_be_is_refused_and_nothing_written)
{
  static const uint64_t zero[] = {2, 0}, beyond[] = {1, 4}, three[] = {1, 1, 1};
  const td_sharding_place bad[] = {
      {.plan = "{\"modules\": 3}"},
      {.plan = PLAN("S()")},
      {.world_size = 2, .rank = 2},
      {.n_mesh = 2, .mesh_shape = zero},
      {.n_mesh = 2, .mesh_shape = shape, .mesh_coords = beyond},
      {.n_mesh = 2},
      {.n_mesh = 3, .plan = PLAN("R"), .mesh_shape = three},
      {.n_mesh = 2, .mesh_shape = shape, .world_size = 12},
      {.n_mesh = 1000, .mesh_shape = shape},
  };
  const char *path = make_tape("a.tape", NULL);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    cr_expect_neq(td_tape_set_sharding(path, TD_NEWEST, &bad[i], &err), TD_OK, "%d", (int)i);
  td_sharding_place *place = read_place(path, TD_OK);
  cr_expect(!place->plan && !place->world_size && !place->n_mesh);
  td_sharding_place_destroy(place);
}

Test(sharding_tape, members_that_are_no_such_thing_are_told)
{
  static const char *const bad[][2] = {{"sharding_plan", "[1]"}, {"rank", "-1"},          {"rank", "\"x\""},
                                       {"world_size", "1.5"},    {"mesh_shape", "[1, \"\"]"}, {"mesh_coords", "{}"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *path = make_tape("a.tape", NULL);
    cr_assert_eq(td_tape_set_meta(path, TD_NEWEST, bad[i][0], bad[i][1], &err), TD_OK);
    cr_expect_null(read_place(path, TD_E_INPUT));
    cr_expect_not_null(strstr(err.message, bad[i][0]), "%s", err.message);
  }
  const char *path = make_tape("a.tape", NULL); /* text, as td_meta keeps it */
  td_tape_set_meta(path, TD_NEWEST, "rank", "\"3\"", &err);
  td_tape_set_meta(path, TD_NEWEST, "world_size", "\"4\"", &err);
  td_sharding_place *place = read_place(path, TD_OK);
  cr_expect(place->rank == 3 && place->world_size == 4);
  td_sharding_place_destroy(place);
}

/* ---- replay --------------------------------------------------------------------------------------------------- */

static void expect_check(const char *path, const td_sharding_place *mine, td_status status, const char *message)
{
  cr_expect_eq(td_tape_check_sharding(path, TD_NEWEST, mine, &err), status, "%s", status ? message : err.message);
  if (status) cr_expect_not_null(strstr(err.message, message), "%s: %s", message, err.message);
}

Test(sharding_tape, another_plan_mesh_or_place_is_refused_with_the_first_difference)
{
  const td_sharding_place whole = {.plan = PLAN("S(0)"), .world_size = 8, .n_mesh = 2, .mesh_shape = shape, .mesh_coords = first};
  static const uint64_t wider[] = {1, 8}, two[] = {2};
  const char *path = make_tape("a.tape", &whole);
  td_sharding_place mine = whole, *theirs = read_place(path, TD_OK);
  expect_check(path, &mine, TD_OK, NULL);
  mine.rank = 3;
  expect_check(path, &mine, TD_OK, NULL);
  mine.plan = PLAN("S(1)");
  expect_check(path, &mine, TD_E_DIVERGED, "m: q over tp is S(0) in the tape, S(1) here");
  mine.plan = "null";
  expect_check(path, &mine, TD_E_DIVERGED, "m: q over tp is S(0) in the tape, not there here");
  mine.plan = "{";
  expect_check(path, &mine, TD_E_INPUT, "not JSON");
  expect_check(path, &(td_sharding_place){.digest = theirs->digest}, TD_OK, NULL);
  expect_check(path, &(td_sharding_place){.digest = "0123"}, TD_E_DIVERGED, "0123 here");
  expect_check(path, &(td_sharding_place){.n_mesh = 2, .mesh_coords = last}, TD_E_DIVERGED, "the mesh coordinates are 0 on axis 0 in the tape, 1 here");
  expect_check(path, &(td_sharding_place){.n_mesh = 2, .mesh_shape = wider}, TD_E_DIVERGED, "the sizes of the mesh are 2 on axis 0 in the tape, 1 here");
  expect_check(path, &(td_sharding_place){.n_mesh = 1, .mesh_shape = two}, TD_E_DIVERGED, "have 2 axes in the tape, 1 here");
  expect_check(path, &(td_sharding_place){.world_size = 16}, TD_E_DIVERGED, "8 processes in the tape, 16 here");
  expect_check(path, &(td_sharding_place){0}, TD_OK, NULL);
  td_sharding_place_destroy(theirs);
}

Test(sharding_tape, a_tape_that_does_not_say_is_refused)
{
  const char *path = make_tape("a.tape", NULL);
  expect_check(path, &(td_sharding_place){.plan = PLAN("R")}, TD_E_NOT_FOUND, "carries no sharding plan");
  expect_check(path, &(td_sharding_place){.n_mesh = 2, .mesh_coords = first}, TD_E_NOT_FOUND, "does not say its mesh coordinates");
  expect_check(path, &(td_sharding_place){.world_size = 2}, TD_OK, NULL);
}

/* ---- sizes ---------------------------------------------------------------------------------------------------- */

/* In both traces SID 1 is m.q and SID 2 is m.n; others have no name. */
static td_sharding_sizes *compare(const td_sharding_place *a, const td_sharding_place *b)
{
  td_tape *tapes[2];
  td_sharding_sizes *sizes = NULL;
  const td_sharding_place *places[] = {a, b};
  for (int i = 0; i < 2; i++) {
    const char *path = make_tape(i ? "b.tape" : "a.tape", places[i]);
    cr_assert_eq(td_tape_set_meta(path, TD_NEWEST, "parameters", "{\"m.q\": 1, \"m.n\": 2, \"other\": 3}", &err), TD_OK);
    cr_assert_eq(td_tape_open(&tapes[i], path, &err), TD_OK);
  }
  cr_assert_eq(td_sharding_sizes_create(&sizes, tapes[0], TD_NEWEST, tapes[1], TD_NEWEST, &err), TD_OK, "%s", err.message);
  for (int i = 0; i < 2; i++) td_tape_close(tapes[i]);
  return sizes;
}

static void expect_reason(const td_sharding_sizes *sizes, uint64_t sid, uint64_t a, uint64_t b, td_size_reason reason, const char *text)
{
  char got[200];
  cr_expect_eq(td_sharding_sizes_explain(sizes, sid, a, sid, b, got, sizeof got), reason, "%d: %s", (int)sid, got);
  cr_expect_str_eq(got, text);
}

Test(sharding_tape, a_shard_explains_a_size)
{
  const td_sharding_place rank = {.plan = PLAN("S(0)"), .n_mesh = 2, .mesh_shape = shape, .mesh_coords = first};
  td_sharding_sizes *sizes = compare(NULL, &rank);
  expect_reason(sizes, 1, 4096, 1024, TD_SIZE_BY_NAME, "m.q: whole here, S(0) over tp=4 there");
  expect_reason(sizes, 1, 4096, 2048, TD_SIZE_UNEXPLAINED, "");
  expect_reason(sizes, 2, 4096, 1024, TD_SIZE_UNEXPLAINED, "");
  expect_reason(sizes, 9, 4096, 1024, TD_SIZE_BY_RATIO, "m.q: whole here, S(0) over tp=4 there");
  expect_reason(sizes, 9, 4096, 2048, TD_SIZE_BY_RATIO, "m: out_src.y: whole here, S(0) over dp=2 there");
  expect_reason(sizes, 9, 4096, 1365, TD_SIZE_UNEXPLAINED, "");
  expect_reason(sizes, 9, 0, 1365, TD_SIZE_UNEXPLAINED, "");
  expect_reason(sizes, 9, UINT64_MAX, UINT64_MAX / 2, TD_SIZE_UNEXPLAINED, "");
  td_sharding_sizes_destroy(sizes);
}

Test(sharding_tape, a_wider_mesh_explains_a_size)
{
  static const uint64_t wide[] = {2, 8};
  td_sharding_sizes *sizes = compare(&(td_sharding_place){.plan = PLAN("S(0)"), .n_mesh = 2, .mesh_shape = shape},
                                     &(td_sharding_place){.plan = PLAN("SS(1,2)"), .n_mesh = 2, .mesh_shape = wide});
  expect_reason(sizes, 1, 1024, 512, TD_SIZE_BY_NAME, "m.q: S(0) over tp=4 here, SS(1,2) over tp=8 there");
  expect_reason(sizes, 1, 512, 1024, TD_SIZE_UNEXPLAINED, "");
  td_sharding_sizes_destroy(sizes);
}

Test(sharding_tape, uneven_shards_explain_what_they_can_be)
{
  static const uint64_t third[] = {0, 2};
  const td_sharding_place a = {.plan = PLAN("S(-1)"), .n_mesh = 2, .mesh_shape = shape, .mesh_coords = first},
                          b = {.plan = PLAN("S(-1)"), .n_mesh = 2, .mesh_shape = shape, .mesh_coords = third};
  td_sharding_sizes *sizes = compare(&a, &b);
  expect_reason(sizes, 1, 12, 8, TD_SIZE_BY_NAME, "m.q: S(-1) over tp=4 here, S(-1) over tp=4 there");
  expect_reason(sizes, 1, 8, 12, TD_SIZE_UNEXPLAINED, "");  /* the first shard is the largest */
  expect_reason(sizes, 9, 12, 8, TD_SIZE_UNEXPLAINED, "");  /* without a name, bounds would explain too much */
  td_sharding_sizes_destroy(sizes);
}

Test(sharding_tape, without_a_mesh_only_whole_tensors_are_sure)
{
  td_sharding_sizes *sizes = compare(&(td_sharding_place){.plan = PLAN("S(0)")}, NULL);
  expect_reason(sizes, 1, 1024, 4096, TD_SIZE_UNEXPLAINED, "");
  td_sharding_sizes_destroy(sizes);
  td_tape *tape;
  cr_assert_eq(td_tape_open(&tape, make_tape("c.tape", NULL), &err), TD_OK);
  cr_expect_eq(td_sharding_sizes_create(&sizes, tape, TD_NEWEST, tape, TD_NEWEST, &err), TD_E_NOT_FOUND);
  td_tape_close(tape);
}
