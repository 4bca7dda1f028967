/* From the calls of a runtime to a tape. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tapedeck/recorder.h>
#include <tapedeck/trace.h>

#include "temp_dir.h"

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", td_deck_error(deck)->message)

static temp_dir dir;
static td_deck *deck;
static const char *path;

static void create(void)
{
  dir = temp_dir_create();
  path = temp_file(&dir, "step.tape");
  td_meta meta[] = {{"model", "a \"small\" one\n"}};
  td_error err;
  cr_assert_eq(td_recorder_create(&deck, &(td_recorder_options){.path = path, .meta = meta, .n_meta = 1}, &err), TD_OK,
               "%s", err.message);
}

static void destroy(void)
{
  td_deck_destroy(deck);
  temp_dir_remove(&dir);
}

TestSuite(recorder, .init = create, .fini = destroy);

static td_trace *load(void)
{
  td_tape *tape;
  td_trace *trace;
  td_error err;
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_load_trace(tape, TD_NEWEST, &trace, &err), TD_OK, "%s", err.message);
  td_tape_close(tape);
  return trace;
}

static td_storage born(uint64_t bytes)
{
  td_storage storage;
  CHECK(td_storage_born(deck, 0, bytes, &storage));
  return storage;
}

/* weight -> a (freed after b) -> b (kept) */
static void two_ops(td_storage weight, uint64_t dur_ns, uint64_t bytes)
{
  td_storage a = born(bytes), b;
  CHECK(td_step_begin(deck));
  CHECK(td_storage_freed(deck, a)); /* what no op touches is not recorded */
  CHECK(td_op_begin(deck, "first"));
  CHECK(td_read(deck, weight));
  a = born(bytes);
  CHECK(td_output(deck, 1, a));
  CHECK(td_op_end(deck, dur_ns));
  CHECK(td_step_mark(deck, "forward_end"));
  CHECK(td_op_begin_n(deck, "s\0cond", 6));
  CHECK(td_read(deck, a));
  CHECK(td_write(deck, weight));
  b = born(16);
  CHECK(td_output(deck, 0, b));
  CHECK(td_leaves(deck, 3));
  CHECK(td_op_end(deck, dur_ns + 1));
  CHECK(td_storage_freed(deck, a));
  CHECK(td_step_end(deck));
  CHECK(td_storage_freed(deck, b));
}

Test(recorder, a_tape_holds_what_was_told)
{
  two_ops(born(4096), 100, 64);
  td_trace *trace = load();
  cr_assert(trace->complete && trace->has_frees);
  cr_assert_eq(trace->n_ops, 2);
  cr_assert_eq(trace->n_accesses, 5);
  cr_assert_eq(trace->n_outputs, 2);
  cr_assert_eq(trace->n_storages, 3);
  cr_expect_eq(trace->ops[0].dur_ns, 100);
  cr_expect_eq(trace->ops[0].leaves, 2);
  cr_expect_eq(trace->ops[1].dur_ns, 101);
  cr_expect_eq(trace->ops[1].leaves, 3);
  cr_expect_eq(trace->names[trace->ops[1].name].length, 6);
  cr_expect_eq(memcmp(trace->names[trace->ops[1].name].bytes, "s\0cond", 6), 0);
  static const uint64_t sids[] = {0, 1, 1, 0, 2};
  static const uint32_t kinds[] = {TD_READ, TD_WRITE, TD_READ, TD_WRITE, TD_WRITE};
  for (int i = 0; i < 5; i++) {
    cr_expect_eq(trace->storages[trace->accesses[i].storage].sid, sids[i]);
    cr_expect_eq(trace->accesses[i].kind, kinds[i]);
  }
  const td_storage_info *weight = &trace->storages[trace->accesses[0].storage];
  const td_storage_info *a = &trace->storages[trace->accesses[1].storage];
  const td_storage_info *b = &trace->storages[trace->accesses[4].storage];
  cr_expect(weight->bytes == 4096 && !weight->activation && !weight->retained);
  cr_expect(a->bytes == 64 && a->activation && !a->retained && a->freed_before_op == 2);
  cr_expect(b->bytes == 16 && b->activation && b->retained && b->freed_before_op == TD_NEVER);
  cr_expect_eq(trace->n_activations, 2);
  cr_expect_eq(trace->n_retained, 1);
  cr_assert_eq(trace->n_marks, 1);
  cr_expect_eq(trace->marks[0].op, 1);
  cr_expect_str_eq(trace->names[trace->marks[0].name].bytes, "forward_end");
  td_trace_destroy(trace);
  cr_expect_eq(temp_dir_count(&dir), 1, "nothing beside the tape");
}

/* A runtime that names its parameters finds their SIDs when the step is over. */
Test(recorder, a_storage_has_the_sid_that_the_trace_gives_it)
{
  td_storage untouched = born(8), weight = born(4096);
  uint64_t sid = 99;
  cr_expect_eq(td_storage_sid(deck, weight, &sid), TD_E_NOT_FOUND);
  for (int i = 0; i < 2; i++) {
    two_ops(weight, 100, 64);
    CHECK(td_storage_sid(deck, weight, &sid));
    td_trace *trace = load();
    cr_expect_eq(trace->storages[trace->accesses[0].storage].sid, sid);
    td_trace_destroy(trace);
    cr_expect_eq(td_storage_sid(deck, untouched, &sid), TD_E_NOT_FOUND);
  }
  CHECK(td_step_begin(deck)); /* another step, other SIDs */
  cr_expect_eq(td_storage_sid(deck, weight, &sid), TD_E_NOT_FOUND);
  CHECK(td_step_end(deck));
  cr_expect_neq(td_storage_sid(deck, (td_storage){12345}, &sid), TD_OK);
}

Test(recorder, the_sharding_plan_is_kept_frozen)
{
  static const uint64_t shape[] = {2, 2}, coords[] = {0, 1};
  td_error err;
  td_tape *tape;
  char *json;
  const td_sharding_place place = {.plan = "{\"modules\": {\"m\": {\"params\": {\"w\": {\"tp\": {\"type\": \"Shard\", \"dim\": 0}}}}}}",
                                   .world_size = 4, .rank = 1, .n_mesh = 2, .mesh_shape = shape, .mesh_coords = coords};
  td_recorder_options options = {.path = path, .sharding = &place};
  td_deck_destroy(deck);
  cr_assert_eq(td_recorder_create(&deck, &options, &err), TD_OK, "%s", err.message);
  two_ops(born(4096), 100, 64);
  static const char *const wanted[][2] = {{"rank", "1"}, {"world_size", "4"}, {"mesh_shape", "[2, 2]"}, {"mesh_coords", "[0, 1]"}};
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  for (size_t i = 0; i < 4; i++) {
    cr_assert_eq(td_tape_get_meta(tape, TD_NEWEST, wanted[i][0], &json, &err), TD_OK, "%s", err.message);
    cr_expect_str_eq(json, wanted[i][1]);
    free(json);
  }
  cr_assert_eq(td_tape_get_meta(tape, TD_NEWEST, "sharding_plan", &json, &err), TD_OK, "%s", err.message);
  cr_expect_eq(strncmp(json, "{\"param_plan\":{\"m\":{\"params\":{\"w\":{\"tp\":\"S(0)\"}}}}", 50), 0, "%s", json);
  free(json);
  td_tape_close(tape);
  td_meta rank = {"rank", "1"};
  options.meta = &rank;
  options.n_meta = 1;
  td_deck *second = NULL;
  cr_expect_eq(td_recorder_create(&second, &options, &err), TD_E_ARG);
}

Test(recorder, steps_that_differ_in_time_alone_have_the_same_digest)
{
  char first[33];
  cr_expect_str_eq(td_recorder_digest(deck), "");
  td_storage weight = born(4096);
  two_ops(weight, 100, 64);
  strcpy(first, td_recorder_digest(deck));
  cr_expect_eq(strlen(first), 32);
  two_ops(weight, 999, 64);
  cr_expect_str_eq(td_recorder_digest(deck), first);
  two_ops(weight, 100, 65);
  cr_expect_str_neq(td_recorder_digest(deck), first);
}

/* fault n */
Test(recorder, a_size_that_changes_is_recorded_as_it_became)
{
  td_storage a = born(8);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "grow"));
  CHECK(td_read(deck, a));
  CHECK(td_op_end(deck, 0));
  CHECK(td_storage_resized(deck, a, 1 << 20));
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_expect_eq(trace->storages[0].bytes, 1 << 20);
  td_trace_destroy(trace);
}

Test(recorder, an_aborted_step_leaves_no_file_and_an_older_tape_as_it_was)
{
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "x"));
  CHECK(td_step_abort(deck));
  cr_expect_eq(temp_dir_count(&dir), 0);
  two_ops(born(4096), 1, 64);
  CHECK(td_step_begin(deck));
  CHECK(td_step_abort(deck));
  cr_expect_eq(temp_dir_count(&dir), 1);
  td_trace *trace = load();
  cr_expect_eq(trace->n_ops, 2);
  td_trace_destroy(trace);
}

Test(recorder, an_empty_step_is_a_tape)
{
  CHECK(td_step_begin(deck));
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_expect(trace->complete && trace->n_ops == 0);
  td_trace_destroy(trace);
}

Test(recorder, a_folder_that_is_not_there_is_told_at_once)
{
  td_deck *none = NULL;
  td_error err;
  td_status status = td_recorder_create(&none, &(td_recorder_options){.path = "/no/such/folder/x.tape"}, &err);
  cr_expect_eq(status, TD_E_IO);
  cr_expect_not_null(strstr(err.message, "/no/such/folder"), "%s", err.message);
  cr_expect_null(none);
}

Test(recorder, more_ops_than_the_queue_holds_are_all_there)
{
  CHECK(td_step_begin(deck));
  td_storage last = born(8);
  for (int i = 0; i < 60000; i++) {
    CHECK(td_op_begin(deck, i % 2 ? "odd" : "even"));
    CHECK(td_read(deck, last));
    td_storage next = born((uint64_t)i);
    CHECK(td_output(deck, 0, next));
    CHECK(td_op_end(deck, (uint64_t)i));
    CHECK(td_storage_freed(deck, last));
    last = next;
  }
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_assert_eq(trace->n_ops, 60000);
  for (uint64_t i = 0; i < trace->n_ops; i++) {
    cr_assert_eq(trace->ops[i].dur_ns, i);
    cr_assert_eq(trace->storages[trace->accesses[2 * i + 1].storage].bytes, i);
  }
  cr_expect_eq(trace->n_retained, 1);
  td_trace_destroy(trace);
}

Test(recorder, one_op_may_be_longer_than_the_queue)
{
  enum { N = 400000 };
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "foreach"));
  for (int i = 0; i < N; i++) CHECK(td_read(deck, born(1)));
  CHECK(td_op_end(deck, 5));
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_expect_eq(trace->n_ops, 1);
  cr_expect_eq(trace->n_accesses, N);
  td_trace_destroy(trace);
}

static void *op_on_another_thread(void *storage)
{
  CHECK(td_op_begin(deck, "backward"));
  CHECK(td_read(deck, *(td_storage *)storage));
  CHECK(td_op_end(deck, 1));
  return NULL;
}

Test(recorder, ops_from_another_thread_join_the_step)
{
  td_storage weight = born(8);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "forward"));
  CHECK(td_op_end(deck, 1));
  pthread_t thread;
  cr_assert_eq(pthread_create(&thread, NULL, op_on_another_thread, &weight), 0);
  pthread_join(thread, NULL);
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_assert_eq(trace->n_ops, 2);
  cr_expect_str_eq(trace->names[trace->ops[1].name].bytes, "backward");
  td_trace_destroy(trace);
}

static void record_noise(td_storage storage)
{
  uint64_t noise = 88172645463325252u;
  for (int i = 0; i < 100000; i++) {
    noise ^= noise << 13, noise ^= noise >> 7, noise ^= noise << 17;
    CHECK(td_op_begin(deck, "op"));
    CHECK(td_read(deck, storage));
    CHECK(td_op_end(deck, noise));
  }
}

/* What was committed before the file could not grow stays readable. */
static void expect_unfinished(void)
{
  td_tape *tape;
  td_trace_info info;
  td_error err;
  cr_assert_eq(td_tape_open(&tape, temp_file(&dir, "step.tape.part"), &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_tape_info(tape, TD_NEWEST, &info, &err), TD_OK, "%s", err.message);
  cr_expect_not(info.complete);
  cr_expect_gt(info.ops, 0);
  td_tape_close(tape);
}

Test(recorder, a_file_that_cannot_grow_does_not_stop_the_step)
{
  struct rlimit limit = {.rlim_cur = 256 << 10, .rlim_max = RLIM_INFINITY};
  CHECK(td_step_begin(deck));
  setrlimit(RLIMIT_FSIZE, &limit);
  td_storage storage = born(8);
  record_noise(storage);
  td_status status = td_step_end(deck);
  limit.rlim_cur = RLIM_INFINITY;
  setrlimit(RLIMIT_FSIZE, &limit);
  cr_expect_eq(status, TD_E_IO);
  cr_expect_not_null(strstr(td_deck_error(deck)->message, "step.tape: File too large"), "%s", td_deck_error(deck)->message);
  expect_unfinished();
  two_ops(storage, 1, 64); /* the next step is clean */
  cr_expect_eq(temp_dir_count(&dir), 1);
}

/* A real full disk, where this process may mount one. */
Test(recorder, a_full_disk_does_not_stop_the_step)
{
  if (mount("tmpfs", dir.path, "tmpfs", 0, "size=256k")) cr_skip_test("no permission to mount a small file system");
  td_storage storage = born(8);
  CHECK(td_step_begin(deck));
  record_noise(storage);
  cr_expect_eq(td_step_end(deck), TD_E_IO);
  cr_expect_not_null(strstr(td_deck_error(deck)->message, "step.tape"), "%s", td_deck_error(deck)->message);
  expect_unfinished();
  two_ops(storage, 1, 64);
  umount(dir.path);
}

/* Two processes must not write one tape: the child goes on without recording, the parent as if nothing had been. */
Test(recorder, a_fork_leaves_the_tape_to_the_parent)
{
  td_storage weight = born(8);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "before"));
  CHECK(td_read(deck, weight));
  CHECK(td_op_end(deck, 1));
  pid_t child = fork();
  if (child == 0) {
    bool good = !td_op_begin(deck, "in the child") && !td_read(deck, weight) && !td_op_end(deck, 1);
    good = good && td_step_end(deck) == TD_E_STATE && strstr(td_deck_error(deck)->message, "fork");
    td_deck_destroy(deck);
    _exit(!good);
  }
  int how;
  waitpid(child, &how, 0);
  cr_expect_eq(how, 0);
  CHECK(td_op_begin(deck, "after"));
  CHECK(td_read(deck, weight));
  CHECK(td_op_end(deck, 1));
  CHECK(td_step_end(deck));
  td_trace *trace = load();
  cr_assert_eq(trace->n_ops, 2);
  cr_expect_str_eq(trace->names[trace->ops[1].name].bytes, "after");
  td_trace_destroy(trace);
}
