/* What a tape survives, and what it refuses. */
#include <criterion/criterion.h>

#include <signal.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/fixture.h"
#include "format/writer.h"
#include "temp_dir.h"

static temp_dir dir;
static td_error err;
static const char *path;

static void create(void)
{
  dir = temp_dir_create();
  path = temp_file(&dir, "step.tape");
}

static void destroy(void)
{
  temp_dir_remove(&dir);
}

TestSuite(tape, .init = create, .fini = destroy);

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", err.message)

static void make_full_tape(void)
{
  const char *json = temp_file(&dir, "in.json");
  write_file(json, FULL_TRACE, sizeof FULL_TRACE - 1);
  CHECK(td_import(json, path, NULL, NULL, &err));
  unlink(json);
}

/* Appends `n` ops, each reading the one before and writing a storage of its own. */
static void write_ops(td_writer *writer, uint64_t first, uint64_t n)
{
  uint32_t name;
  CHECK(td_writer_name(writer, "op", 2, &name, &err));
  for (uint64_t i = first; i < first + n; i++) {
    td_written_access accesses[] = {{i, TD_READ}, {i + 1, TD_WRITE}};
    td_written_output output = {0, i + 1};
    CHECK(td_writer_storage(writer, &(td_storage_info){.sid = i + 1, .bytes = 4096, .freed_before_op = TD_NEVER}, &err));
    CHECK(td_writer_activation(writer, i + 1, &err));
    CHECK(td_writer_op(writer, name, i * 7919 % 100000, 1, false, accesses, 2, &output, 1, &err));
  }
}

static td_writer *start_writer(void)
{
  td_writer *writer;
  CHECK(td_writer_create(&writer, &(td_writer_options){.path = path, .recording = true}, &err));
  CHECK(td_writer_storage(writer, &(td_storage_info){.sid = 0, .bytes = 1, .freed_before_op = TD_NEVER}, &err));
  return writer;
}

static td_trace *load(const char *file)
{
  td_tape *tape;
  td_trace *trace;
  CHECK(td_tape_open(&tape, file, &err));
  CHECK(td_tape_load_trace(tape, TD_NEWEST, &trace, &err));
  td_tape_close(tape);
  return trace;
}

/* A tape that was being changed when its changer was killed is rolled back by whoever reads it first. */
Test(tape, a_killed_planner_leaves_the_tape_as_it_was)
{
  make_full_tape();
  for (unsigned round = 0; round < 20; round++) {
    pid_t child = fork();
    if (child == 0) {
      td_schedule schedule = {.planner = (char *)"mine", .host_limit_bytes = UINT64_MAX};
      for (;;) td_tape_add_schedule(path, TD_NEWEST, &schedule, NULL);
    }
    usleep(5000 + 300 * round);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    td_trace *trace = load(path);
    cr_expect_eq(trace->n_ops, 2);
    td_trace_destroy(trace);
    uint64_t damages;
    CHECK(td_tape_verify(path, NULL, NULL, &damages, &err));
    cr_expect_eq(damages, 0);
  }
}

/* ---- death ---------------------------------------------------------------------------------------------------- */

Test(tape, a_killed_writer_leaves_a_readable_unfinished_tape)
{
  int ready[2];
  cr_assert_eq(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    td_writer *writer = start_writer();
    write_ops(writer, 0, 1000);
    td_writer_commit(writer, &err);
    write_ops(writer, 1000, 500);
    (void)!write(ready[1], "x", 1);
    pause();
  }
  char byte;
  cr_assert_eq(read(ready[0], &byte, 1), 1);
  const char *part = temp_file(&dir, "step.tape.part");
  td_trace *alive = load(part); /* while it is being written, too */
  cr_expect_eq(alive->n_ops, 1000);
  td_trace_destroy(alive);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);

  td_tape *tape;
  td_trace_info info;
  CHECK(td_tape_open(&tape, part, &err));
  CHECK(td_tape_info(tape, TD_NEWEST, &info, &err));
  cr_expect_not(info.complete);
  cr_expect_eq(info.ops, 1000);
  cr_expect_eq(info.activation_bytes, 1000 * 4096);
  td_tape_close(tape);
  uint64_t damages;
  CHECK(td_tape_verify(part, NULL, NULL, &damages, &err));
  cr_expect_eq(damages, 0);
  cr_expect_neq(access(path, F_OK), 0);

  td_writer *writer = start_writer(); /* the next recording takes its place */
  write_ops(writer, 0, 3);
  CHECK(td_writer_finish(writer, NULL, &err));
  cr_expect_eq(temp_dir_count(&dir), 1);
}

Test(tape, killed_at_any_moment_it_opens)
{
  const char *rounds = getenv("TD_SOAK"); /* 200 in ./run soak */
  for (unsigned round = 0; round < (rounds ? 200u : 20u); round++) {
    pid_t child = fork();
    if (child == 0) {
      td_writer *writer = start_writer();
      for (uint64_t i = 0;; i += 50) {
        write_ops(writer, i, 50);
        td_writer_commit(writer, &err);
      }
    }
    usleep(3000 + 1700 * (round % 20) + 97 * round);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    td_tape *tape;
    td_trace_info info;
    const char *part = temp_file(&dir, "step.tape.part");
    td_status status = td_tape_open(&tape, part, &err);
    if (status == TD_E_IO || status == TD_E_FORMAT) continue; /* before the tables were there */
    cr_assert_eq(status, TD_OK, "%s", err.message);
    CHECK(td_tape_info(tape, TD_NEWEST, &info, &err));
    cr_expect_eq(info.ops % 50, 0);
    td_tape_close(tape);
  }
}

Test(tape, two_writers_of_one_name)
{
  td_writer *first = start_writer(), *second;
  cr_expect_eq(td_writer_create(&second, &(td_writer_options){.path = path, .recording = true}, &err), TD_E_IO);
  cr_expect_not_null(strstr(err.message, "another process is writing it"), "%s", err.message);
  write_ops(first, 0, 5);
  CHECK(td_writer_finish(first, NULL, &err));
  td_trace *trace = load(path);
  cr_expect_eq(trace->n_ops, 5);
  td_trace_destroy(trace);
}

Test(tape, a_finished_tape_is_one_file_and_opens_where_nothing_may_be_written)
{
  make_full_tape();
  cr_expect_eq(temp_dir_count(&dir), 1);
  chmod(path, 0444);
  chmod(dir.path, 0555);
  pid_t child = fork();
  if (child == 0) {
    if (getuid() == 0 && setuid(65534)) _exit(3);
    td_tape *tape;
    td_trace_info info;
    _exit(td_tape_open(&tape, path, NULL) || td_tape_info(tape, TD_NEWEST, &info, NULL) || info.ops != 2);
  }
  int how;
  waitpid(child, &how, 0);
  chmod(dir.path, 0755);
  cr_expect_eq(how, 0);
}

/* ---- damage and versions -------------------------------------------------------------------------------------- */

static uint64_t damages_of(const char *file, td_status *status)
{
  uint64_t n = 0;
  *status = td_tape_verify(file, NULL, NULL, &n, &err);
  return n;
}

static char *export_text(const char *file)
{
  td_tape *tape;
  char *text = NULL;
  size_t length = 0;
  if (td_tape_open(&tape, file, &err)) return NULL;
  FILE *out = open_memstream(&text, &length);
  td_status status = td_export(tape, TD_NEWEST, out, &err);
  fclose(out);
  td_tape_close(tape);
  if (!status) return text;
  free(text);
  return NULL;
}

/* A flipped bit is found, or it changes nothing that anyone can read. */
Test(tape, a_flipped_bit_is_found_or_harmless)
{
  make_full_tape();
  size_t length = 0;
  char *bytes = read_file(path, &length), *right = export_text(path);
  const char *flipped = temp_file(&dir, "flipped.tape");
  unsigned found = 0, harmless = 0;
  bool every = getenv("TD_SOAK");
  for (size_t at = 0; at < length; at += every ? 1 : 1 + at % 5) {
    td_status status;
    bytes[at] ^= (char)(1 << at % 8);
    write_file(flipped, bytes, length);
    bytes[at] ^= (char)(1 << at % 8);
    uint64_t n = damages_of(flipped, &status);
    if (status || n) {
      found++;
      continue;
    }
    char *text = export_text(flipped);
    cr_assert(text && strcmp(text, right) == 0, "byte %zu: not found, and another answer", at);
    harmless++;
    free(text);
  }
  cr_expect_gt(found, 500);
  cr_expect_lt(harmless, 4 * found);
  free(bytes);
  free(right);
}

Test(tape, a_tape_cut_off_anywhere_is_told)
{
  make_full_tape();
  size_t length = 0;
  char *bytes = read_file(path, &length);
  const char *cut = temp_file(&dir, "cut.tape");
  td_tape *tape;
  for (size_t keep = 0; keep < length; keep += 97) {
    write_file(cut, bytes, keep);
    td_status status = td_tape_open(&tape, cut, &err);
    cr_assert(status == TD_E_FORMAT || status == TD_E_DAMAGED, "%zu bytes: %d", keep, status);
  }
  free(bytes);
}

static void change(const char *sql)
{
  sqlite3 *db;
  char *message = NULL;
  cr_assert_eq(sqlite3_open(path, &db), SQLITE_OK);
  cr_assert_eq(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_OK, "%s", message);
  sqlite3_close(db);
}

Test(tape, a_newer_version_is_refused_with_both_named)
{
  make_full_tape();
  change("PRAGMA user_version = 2");
  td_tape *tape;
  cr_expect_eq(td_tape_open(&tape, path, &err), TD_E_VERSION);
  cr_expect_not_null(strstr(err.message, "version 2"), "%s", err.message);
  cr_expect_not_null(strstr(err.message, "up to 1"), "%s", err.message);
}

/* A tape of version 1, as it was written then. Every later version must read it. */
Test(tape, version_1_opens)
{
  size_t length = 0;
  char *sql = read_file(TD_FIXTURES "/version_1.sql", &length), *right = read_file(TD_FIXTURES "/version_1.json", &length);
  cr_assert(sql && right);
  change(sql);
  td_status status;
  cr_expect_eq(damages_of(path, &status), 0);
  cr_expect_eq(status, TD_OK);
  char *text = export_text(path);
  cr_expect(text && strcmp(text, right) == 0);
  free(text);
  free(right);
  free(sql);
}

Test(tape, another_database_is_no_tape)
{
  change("CREATE TABLE t(x)");
  td_tape *tape;
  cr_expect_eq(td_tape_open(&tape, path, &err), TD_E_FORMAT);
  cr_expect_not_null(strstr(err.message, "not a tape"), "%s", err.message);
}

Test(tape, a_changed_row_does_not_match_its_seal)
{
  make_full_tape();
  change("UPDATE summary SET peak_bytes = 1");
  td_tape *tape;
  td_trace_info info;
  CHECK(td_tape_open(&tape, path, &err));
  cr_expect_eq(td_tape_info(tape, TD_NEWEST, &info, &err), TD_E_DAMAGED);
  td_tape_close(tape);
  td_status status;
  cr_expect_eq(damages_of(path, &status), 1);
  cr_expect_eq(status, TD_OK);
}

/* What is in a tape is data: its triggers and views are not run. */
Test(tape, a_hostile_schema_does_nothing)
{
  make_full_tape();
  change("CREATE TRIGGER t AFTER INSERT ON schedule BEGIN DELETE FROM trace; END");
  td_schedule schedule = {.planner = (char *)"mine", .host_limit_bytes = UINT64_MAX};
  CHECK(td_tape_add_schedule(path, TD_NEWEST, &schedule, &err));
  td_trace *trace = load(path);
  td_trace_destroy(trace);
}

Test(tape, a_missing_block_is_found)
{
  make_full_tape();
  change("DELETE FROM block WHERE col = 3");
  td_status status;
  cr_expect_gt(damages_of(path, &status), 0);
}

Test(tape, unknown_tables_do_no_harm)
{
  make_full_tape();
  change("CREATE TABLE notes(text); INSERT INTO notes VALUES('mine')");
  td_trace *trace = load(path);
  td_trace_destroy(trace);
  td_schedule *schedule = calloc(1, sizeof *schedule);
  schedule->planner = strdup("mine");
  CHECK(td_tape_add_schedule(path, TD_NEWEST, schedule, &err));
  cr_expect_eq(schedule->id, 3);
  td_schedule_destroy(schedule);
  td_status status;
  cr_expect_eq(damages_of(path, &status), 0);
}

static int first_number(void *context, int n, char **values, char **names)
{
  (void)n, (void)names;
  *(int *)context = atoi(values[0]);
  return 0;
}

static int count_rows(const char *file, const char *sql)
{
  sqlite3 *db;
  int count = -1;
  sqlite3_open(file, &db);
  sqlite3_exec(db, sql, first_number, &count, NULL);
  sqlite3_close(db);
  return count;
}

Test(tape, unknown_tables_survive_a_rewrite)
{
  make_full_tape();
  change("CREATE TABLE notes(text); INSERT INTO notes VALUES('mine')");
  const char *other = temp_file(&dir, "other.tape"), *both = temp_file(&dir, "both.tape");
  CHECK(td_compact(path, other, &err));
  cr_expect_eq(count_rows(other, "SELECT count(*) FROM notes"), 1);
  CHECK(td_merge((const char *const[]){path, other}, 2, both, &err));
  cr_expect_eq(count_rows(both, "SELECT count(*) FROM notes"), 2);
  cr_expect_eq(count_rows(both, "SELECT count(*) FROM trace_meta"), 2 * count_rows(path, "SELECT count(*) FROM trace_meta"));
  cr_expect_eq(count_rows(both, "SELECT count(*) FROM schedule"), 4);
  change("DROP TABLE notes; CREATE TABLE notes(other)");
  cr_expect_eq(td_merge((const char *const[]){path, other}, 2, both, &err), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "table notes"), "%s", err.message);
  cr_expect_eq(count_rows(both, "SELECT count(*) FROM notes"), 2, "a merge that fails leaves what was there");
}

/* A link to a tape is a tape, and writing through it writes what it names. */
Test(tape, links_are_followed)
{
  make_full_tape();
  const char *link = temp_file(&dir, "link.tape"), *json = temp_file(&dir, "in.json");
  cr_assert_eq(symlink(path, link), 0);
  td_trace *trace = load(link);
  td_trace_destroy(trace);
  write_file(json, FULL_TRACE, sizeof FULL_TRACE - 1);
  unlink(path);
  CHECK(td_import(json, path, NULL, NULL, &err));
  CHECK(td_import(json, link, NULL, NULL, &err));
  struct stat info;
  cr_expect(!lstat(link, &info) && S_ISLNK(info.st_mode));
  trace = load(path);
  td_trace_destroy(trace);
  CHECK(td_compact(link, link, &err));
  cr_expect(!lstat(link, &info) && S_ISLNK(info.st_mode));
}

/* A rename would replace a pipe or a device. */
Test(tape, what_is_no_regular_file_is_left_alone)
{
  make_full_tape();
  const char *pipe = temp_file(&dir, "pipe");
  struct stat info;
  cr_assert_eq(mkfifo(pipe, 0600), 0);
  cr_expect_eq(td_compact(path, pipe, &err), TD_E_IO);
  cr_expect_not_null(strstr(err.message, "not a regular file"), "%s", err.message);
  cr_expect_eq(td_merge(&path, 1, pipe, &err), TD_E_IO);
  cr_expect_eq(td_trim(path, TD_NEWEST, 0, 1, pipe, &err), TD_E_IO);
  cr_expect_eq(td_recover(path, pipe, TD_NEWEST, NULL, NULL, NULL, &err), TD_E_IO);
  cr_expect(!stat(pipe, &info) && S_ISFIFO(info.st_mode));
  cr_expect_eq(temp_dir_count(&dir), 2);
}

/* A count that the file cannot hold is not believed. */
Test(tape, a_huge_count_is_refused_before_memory_is_taken)
{
  make_full_tape();
  change("UPDATE trace SET ops = 9000000000000000000");
  td_tape *tape;
  td_trace *trace;
  CHECK(td_tape_open(&tape, path, &err));
  cr_expect_neq(td_tape_load_trace(tape, TD_NEWEST, &trace, &err), TD_OK);
  td_tape_close(tape);
}

/* ---- schedules and several blocks ----------------------------------------------------------------------------- */

Test(tape, schedules_are_numbered_in_order)
{
  make_full_tape();
  td_tape *tape;
  td_schedule *schedule = NULL;
  int64_t *ids;
  size_t n;
  CHECK(td_tape_open(&tape, path, &err));
  CHECK(td_tape_schedules(tape, TD_NEWEST, &ids, &n, &err));
  cr_assert_eq(n, 2);
  cr_expect(ids[0] == 1 && ids[1] == 2);
  free(ids);
  CHECK(td_tape_load_schedule(tape, TD_NEWEST, 1, &schedule, &err));
  cr_expect_str_eq(schedule->planner, "mine");
  cr_expect(schedule->early);
  cr_expect_eq(schedule->n_actions, 3);
  cr_expect_eq(schedule->actions[2].phase, TD_PRE);
  cr_expect_eq(schedule->actions[2].kind, TD_COPY_H2D);
  td_schedule_destroy(schedule);
  cr_expect_eq(td_tape_load_schedule(tape, TD_NEWEST, 3, &schedule, &err), TD_E_NOT_FOUND);
  cr_expect_eq(td_tape_load_schedule(tape, 2, 1, &schedule, &err), TD_E_NOT_FOUND);
  td_tape_close(tape);
}

Test(tape, members_of_meta_are_told)
{
  make_full_tape();
  td_tape *tape;
  char *json = NULL;
  CHECK(td_tape_set_meta(path, TD_NEWEST, "d2h \"quoted\"", "5e9", &err));
  CHECK(td_tape_open(&tape, path, &err));
  CHECK(td_tape_get_meta(tape, TD_NEWEST, "lr", &json, &err));
  cr_expect_str_eq(json, "1.50e-3");
  free(json);
  CHECK(td_tape_get_meta(tape, 1, "d2h \"quoted\"", &json, &err));
  cr_expect_str_eq(json, "5e9");
  free(json);
  json = NULL;
  cr_expect_eq(td_tape_get_meta(tape, TD_NEWEST, "nothing", &json, &err), TD_E_NOT_FOUND);
  cr_expect_eq(td_tape_get_meta(tape, TD_NEWEST, "stat", &json, &err), TD_E_NOT_FOUND); /* a member beside meta */
  cr_expect_eq(td_tape_get_meta(tape, 2, "lr", &json, &err), TD_E_NOT_FOUND);
  cr_expect_null(json);
  td_tape_close(tape);
}

Test(tape, many_blocks_with_commits_between)
{
  td_writer *writer = start_writer();
  const uint64_t n = 50000;
  for (uint64_t i = 0; i < n; i += 5000) {
    write_ops(writer, i, 5000);
    if (i % 15000 == 0) CHECK(td_writer_commit(writer, &err));
  }
  /* the later word counts */
  CHECK(td_writer_storage(writer, &(td_storage_info){.sid = 17, .bytes = 99, .freed_before_op = 18}, &err));
  CHECK(td_writer_finish(writer, NULL, &err));
  td_trace *trace = load(path);
  cr_assert_eq(trace->n_ops, n);
  cr_expect_eq(trace->n_storages, n + 1);
  for (uint64_t i = 0; i < n; i++) {
    cr_assert_eq(trace->ops[i].dur_ns, i * 7919 % 100000);
    cr_assert_eq(trace->storages[trace->accesses[2 * i].storage].sid, i);
    cr_assert_eq(trace->storages[trace->accesses[2 * i + 1].storage].sid, i + 1);
    cr_assert_eq(trace->accesses[2 * i + 1].kind, TD_WRITE);
    cr_assert_eq(trace->storages[trace->outputs[i].storage].sid, i + 1);
  }
  cr_expect_eq(trace->storages[17].bytes, 99);
  cr_expect_eq(trace->storages[17].freed_before_op, 18);
  cr_expect(trace->has_frees);
  td_trace_destroy(trace);
}

static uint64_t random_number(void)
{
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return state >> (state >> 58);
}

/* Random numbers of all sizes, in every column, written as JSON, come back as the same bytes. */
Test(tape, random_traces_come_back)
{
  const char *json = temp_file(&dir, "in.json");
  for (int round = 0; round < 200; round++) {
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    uint64_t sids[40], n_sids = 1 + random_number() % 40, n_ops = random_number() % 50;
    for (uint64_t i = 0; i < n_sids; i++) sids[i] = random_number() * 64 + i;
    fputs("{\"ops\": [\n", to);
    for (uint64_t i = 0; i < n_ops; i++) {
      uint64_t leaves = 1 + random_number() / 2;
      fprintf(to, "%s{\"name\": \"n%u\", \"dur_ns\": %llu, \"leaves\": %llu, \"out\": [", i ? ",\n" : "",
              (unsigned)(random_number() % 9), (unsigned long long)random_number(), (unsigned long long)leaves);
      for (uint64_t k = 0, n = random_number() % 4; k < n && k < leaves; k++)
        fprintf(to, "%s[%llu, %llu]", k ? ", " : "", (unsigned long long)(leaves - 1 - k),
                (unsigned long long)sids[random_number() % n_sids]);
      fputs("], \"acc\": [", to);
      for (uint64_t k = 0, first = random_number() % n_sids, n = random_number() % 6; k < n && first + k < n_sids; k++)
        fprintf(to, "%s[%llu, \"%c\"]", k ? ", " : "", (unsigned long long)sids[first + k], random_number() % 2 ? 'R' : 'W');
      fputs(random_number() % 7 ? "]}" : "], \"opaque\": true}", to);
    }
    fputs("\n],\n\"storages\": {", to);
    bool any = false;
    for (uint64_t i = 0; i < n_sids; i++) {
      bool again = false;
      for (uint64_t k = 0; k < i; k++) again |= sids[k] == sids[i];
      if (again) continue;
      fprintf(to, "%s\"%llu\": %llu", any ? ", " : "", (unsigned long long)sids[i], (unsigned long long)random_number());
      any = true;
    }
    fprintf(to, "},\n\"activation_sids\": [%llu],\n\"retained\": []}\n", (unsigned long long)sids[0]);
    fclose(to);
    write_file(json, text, length);
    CHECK(td_import(json, path, NULL, NULL, &err));
    char *back = export_text(path);
    cr_assert_str_eq(back, text, "round %d", round);
    uint64_t damages;
    CHECK(td_tape_verify(path, NULL, NULL, &damages, &err));
    cr_assert_eq(damages, 0);
    free(back);
    free(text);
  }
}

/* ---- recovery ------------------------------------------------------------------------------------------------- */

static void collect(void *context, const char *line)
{
  char *all = context;
  strncat(all, line, 4000 - strlen(all));
  strncat(all, "\n", 4000 - strlen(all));
}

Test(tape, recover_saves_every_whole_block_and_names_what_is_missing)
{
  td_writer *writer = start_writer();
  write_ops(writer, 0, 40000);
  CHECK(td_writer_finish(writer, NULL, &err));
  change("UPDATE block SET data = zeroblob(50) WHERE col = 3 AND seq = 1");
  char lines[4096] = "";
  td_recover_report report;
  const char *saved = temp_file(&dir, "saved.tape");
  CHECK(td_recover(path, saved, TD_NEWEST, collect, lines, &report, &err));
  cr_expect_eq(report.ops, 40000 - 16384);
  cr_expect_eq(report.lost_ops, 16384);
  cr_expect_not(report.whole);
  cr_expect_not_null(strstr(lines, "ops 16384 to 32767 are missing"), "%s", lines);
  td_trace *trace = load(saved);
  cr_expect_eq(trace->n_ops, 40000 - 16384);
  cr_expect_not(trace->complete);
  cr_expect_eq(trace->ops[16384].dur_ns, 32768ull * 7919 % 100000);
  td_trace_destroy(trace);
  uint64_t damages;
  CHECK(td_tape_verify(saved, NULL, NULL, &damages, &err));
  cr_expect_eq(damages, 0);
}

Test(tape, recover_of_a_killed_recording_saves_what_was_committed)
{
  pid_t child = fork();
  if (child == 0) {
    td_writer *writer = start_writer();
    write_ops(writer, 0, 20000);
    td_writer_commit(writer, &err);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  td_recover_report report;
  char lines[4096] = "";
  CHECK(td_recover(temp_file(&dir, "step.tape.part"), path, TD_NEWEST, collect, lines, &report, &err));
  cr_expect_eq(report.ops, 20000);
  cr_expect_not(report.whole);
  cr_expect_not_null(strstr(lines, "the recorder did not finish"), "%s", lines);
}

/* Whatever bytes are wrong, nothing crashes, and a second reading finds a sound tape. */
Test(tape, recover_of_anything_gives_a_sound_tape_or_an_error)
{
  td_writer *writer = start_writer();
  write_ops(writer, 0, 2000);
  CHECK(td_writer_finish(writer, NULL, &err));
  size_t length = 0;
  char *bytes = read_file(path, &length);
  const char *bad = temp_file(&dir, "bad.tape"), *saved = temp_file(&dir, "saved.tape");
  unsigned saved_some = 0;
  for (size_t at = 30; at < length; at += 211) {
    for (size_t k = 0; k < 20 && at + k < length; k++) bytes[at + k] ^= 0x55;
    write_file(bad, bytes, length);
    for (size_t k = 0; k < 20 && at + k < length; k++) bytes[at + k] ^= 0x55;
    td_recover_report report;
    if (td_recover(bad, saved, TD_NEWEST, NULL, NULL, &report, &err)) continue;
    td_status status;
    cr_assert_eq(damages_of(saved, &status), 0, "byte %zu", at);
    cr_assert_eq(status, TD_OK);
    saved_some += report.ops > 0;
  }
  cr_expect_gt(saved_some, 5);
  free(bytes);
}
