/* What follows from the facts of a trace: digest, peak, floor. */
#include <criterion/criterion.h>

#include <tapedeck/trace.h>

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

TestSuite(derive, .init = create, .fini = destroy);

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", err.message)

static td_trace_info info_of(const char *text)
{
  const char *json = temp_file(&dir, "in.json"), *path = temp_file(&dir, "step.tape");
  td_tape *tape;
  td_trace_info info;
  write_file(json, text, strlen(text));
  CHECK(td_import(json, path, NULL, NULL, &err));
  CHECK(td_tape_open(&tape, path, &err));
  CHECK(td_tape_info(tape, TD_NEWEST, &info, &err));
  td_tape_close(tape);
  return info;
}

#define STEP(name, dur, leaves, out, acc, bytes, rest)                                                                 \
  "{\"ops\": [{\"name\": \"" name "\", \"dur_ns\": " dur ", \"leaves\": " leaves ", \"out\": [" out "], \"acc\": [" acc     \
  "]}], \"storages\": {" bytes "}, " rest "}"

#define A STEP("a", "5", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]")

Test(derive, the_digest_is_of_everything_but_time_and_sids)
{
  td_trace_info a = info_of(A);
  cr_expect_eq(strlen(a.digest), 32);
  const char *same[] = {
      STEP("a", "6", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[0, 900]", "[7, \"R\"], [900, \"W\"]", "\"7\": 20, \"900\": 10",
           "\"activation_sids\": [900], \"retained\": [900], \"marks\": [[\"end\", 1]], \"meta\": {\"x\": 1}"),
  };
  const char *other[] = {
      STEP("b", "5", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "3", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[1, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[0, 1]", "[2, \"W\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[0, 1]", "[1, \"W\"], [2, \"R\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 11, \"2\": 20", "\"activation_sids\": [1], \"retained\": [1]"),
      STEP("a", "5", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20", "\"activation_sids\": [1], \"retained\": []"),
      STEP("a", "5", "2", "[0, 1]", "[2, \"R\"], [1, \"W\"]", "\"1\": 10, \"2\": 20",
           "\"activation_sids\": [1], \"retained\": [], \"freed_before_op\": {\"1\": 1}"),
  };
  for (size_t i = 0; i < sizeof same / sizeof *same; i++) cr_expect_str_eq(info_of(same[i]).digest, a.digest, "%zu", i);
  for (size_t i = 0; i < sizeof other / sizeof *other; i++) cr_expect_str_neq(info_of(other[i]).digest, a.digest, "%zu", i);
}

Test(derive, peak_and_floor)
{
#define OP(acc) "{\"name\": \"a\", \"dur_ns\": 3, \"leaves\": 1, \"out\": [], \"acc\": [" acc "]}"
  td_trace_info info = info_of("{\"ops\": [" OP("[1, \"W\"]") "," OP("[1, \"R\"], [2, \"W\"]") "," OP("[9, \"R\"], [3, \"W\"]") ","
                               OP("[3, \"R\"]") "], \"storages\": {\"1\": 100, \"2\": 10, \"3\": 7, \"9\": 1000}, "
                               "\"activation_sids\": [1, 2, 3], \"retained\": [2], \"freed_before_op\": {\"1\": 3, \"3\": 4}}");
  cr_expect_eq(info.peak_bytes, 117); /* during op 2: 1 until its free, 2 retained, 3 new */
  cr_expect_eq(info.floor_bytes, 110); /* op 1 accesses 1 and 2 */
  cr_expect_eq(info.retained_bytes, 10);
  cr_expect_eq(info.other_bytes, 1000);
  cr_expect_eq(info.compute_ns, 12);
}
