/* From interchange JSON to a tape and back. */
#include <criterion/criterion.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <zlib.h>
#include <zstd.h>

#include <tapedeck/trace.h>

#include "base/buffer.h"
#include "format/fixture.h"
#include "format/source.h"
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

TestSuite(interchange, .init = create, .fini = destroy);

static const char *import_text(const char *text)
{
  const char *json = temp_file(&dir, "in.json"), *tape = temp_file(&dir, "out.tape");
  write_file(json, text, strlen(text));
  cr_assert_eq(td_import(json, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
  return tape;
}

static char *export_tape(const char *path)
{
  td_tape *tape;
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  cr_assert_eq(td_tape_open(&tape, path, &err), TD_OK, "%s", err.message);
  cr_assert_eq(td_export(tape, TD_NEWEST, out, &err), TD_OK, "%s", err.message);
  td_tape_close(tape);
  fclose(out);
  return text;
}

Test(interchange, everything_that_a_trace_can_have_comes_back_byte_for_byte)
{
  char *text = export_tape(import_text(FULL_TRACE));
  cr_expect_str_eq(text, FULL_TRACE);
  free(text);
}

Test(interchange, the_smallest_trace_comes_back)
{
  const char *empty = "{\"ops\": [\n\n],\n\"storages\": {},\n\"activation_sids\": [],\n\"retained\": []}\n";
  char *text = export_tape(import_text(empty));
  cr_expect_str_eq(text, empty);
  free(text);
}

Test(interchange, empty_optional_members_come_back)
{
  char *text = export_tape(import_text("{\"meta\": {}, \"marks\": [], \"schedules\": [], \"freed_before_op\": {}, "
                                       "\"retained\": [], \"activation_sids\": [], \"storages\": {}, \"ops\": []}"));
  cJSON *json = cJSON_Parse(text);
  const char *keys[] = {"meta", "marks", "schedules", "freed_before_op", "retained", "activation_sids", "storages", "ops"};
  for (size_t i = 0; i < 8; i++) cr_expect(cJSON_HasObjectItem(json, keys[i]), "%s is missing in %s", keys[i], text);
  cr_expect_eq(cJSON_GetArraySize(json), 8);
  cJSON_Delete(json);
  free(text);
}

Test(interchange, keys_and_names_may_be_any_bytes)
{
  char *text = export_tape(import_text("{\"meta\": {\"\\ud83d\\ude00\\u0000\\udc80\\\"\": 1}, \"ops\": [{\"name\": \"\\ud83d\\ude00\", "
                                       "\"dur_ns\": 0, \"leaves\": 0, \"out\": [], \"acc\": [], \"later\": {\"deep\": [[]]}}], "
                                       "\"storages\": {}, \"activation_sids\": [], \"retained\": []}"));
  cr_expect_not_null(strstr(text, "{\"\xf0\x9f\x98\x80\\u0000\\udc80\\\"\": 1}"), "%s", text);
  cr_expect_not_null(strstr(text, "\"name\": \"\xf0\x9f\x98\x80\""), "%s", text);
  free(text);
}

/* ---- compressed input ----------------------------------------------------------------------------------------- */

Test(interchange, zstd_and_gzip_are_told_by_their_content)
{
  const char *in = temp_file(&dir, "in"), *tape = temp_file(&dir, "out.tape");
  char frame[8192];
  size_t n = ZSTD_compress(frame, sizeof frame, FULL_TRACE, sizeof FULL_TRACE - 1, 3);
  write_file(in, frame, n);
  cr_expect_eq(td_import(in, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
  write_file(in, frame, n - 5);
  cr_expect_eq(td_import(in, tape, NULL, NULL, &err), TD_E_IO);
  cr_expect_not_null(strstr(err.message, "cut off"), "%s", err.message);
  gzFile gz = gzopen(in, "wb");
  gzwrite(gz, FULL_TRACE, 100);
  gzclose(gz);
  gz = gzopen(in, "ab"); /* a second member */
  gzwrite(gz, &FULL_TRACE[100], sizeof FULL_TRACE - 101);
  gzclose(gz);
  cr_expect_eq(td_import(in, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
}

/* ---- recorded traces ------------------------------------------------------------------------------------------ */

/* Number for number, members in any order. cJSON's doubles hold every number of these traces. */
static bool same(const cJSON *a, const cJSON *b)
{
  if ((a->type & 0xff) != (b->type & 0xff) || cJSON_GetArraySize(a) != cJSON_GetArraySize(b)) return false;
  if (cJSON_IsNumber(a)) return a->valuedouble == b->valuedouble;
  if (cJSON_IsString(a)) return strcmp(a->valuestring, b->valuestring) == 0;
  const cJSON *y = b->child;
  for (const cJSON *x = a->child; x; x = x->next) {
    if (x->string && (!y || strcmp(x->string, y->string) != 0)) y = cJSON_GetObjectItemCaseSensitive(b, x->string);
    if (!y || !same(x, y)) return false;
    y = y->next;
  }
  return true;
}

static char *read_source(const char *path)
{
  td_source *source;
  const uint8_t *bytes;
  size_t n;
  td_buffer text = {0};
  cr_assert_eq(td_source_open(&source, path, &err), TD_OK, "%s", err.message);
  while (!td_source_read(source, &bytes, &n, &err) && n) td_buffer_append(&text, bytes, n);
  td_source_close(source);
  td_buffer_append(&text, "", 1);
  return (char *)text.bytes;
}

static void check_file(const char *path)
{
  const char *tape = temp_file(&dir, "real.tape");
  uint64_t damages = 0;
  cr_assert_eq(td_import(path, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
  cr_expect_eq(temp_dir_count(&dir), 1);
  char *before = read_source(path), *after = export_tape(tape);
  cJSON *a = cJSON_Parse(before), *b = cJSON_Parse(after);
  cr_expect(a && b && same(a, b), "%s does not come back", path);
  cr_expect_eq(td_tape_verify(tape, NULL, NULL, &damages, &err), TD_OK, "%s", err.message);
  cr_expect_eq(damages, 0, "%s", path);
  cJSON_Delete(a);
  cJSON_Delete(b);
  free(before);
  free(after);
}

Test(interchange, recorded_traces_come_back_number_for_number)
{
  DIR *shared = opendir(TD_SHARED "/traces");
  if (!shared) return;
  for (struct dirent *entry; (entry = readdir(shared));) {
    char path[600];
    snprintf(path, sizeof path, "%s/traces/%s", TD_SHARED, entry->d_name);
    if (strstr(path, ".json.zst")) check_file(path);
  }
  closedir(shared);
}

/* ---- bad input ------------------------------------------------------------------------------------------------ */

#define OP "{\"name\": \"a\", \"dur_ns\": 1, \"leaves\": 1, \"out\": [], \"acc\": [[1, \"R\"]]}"
#define REST ", \"storages\": {\"1\": 4}, \"activation_sids\": [], \"retained\": []}"

static const struct bad {
  const char *text, *message; /* a part of it */
} bad[] = {
    {"", "the file ends where an object was expected"},
    {"[]", "expected an object, found '['"},
    {"{\"ops\": [" OP, "the file ends where ',' or ']' was expected"},
    {"{\"ops\": [" OP "]", "the file ends where ',' or '}' was expected"},
    {"{\"ops\": [" OP "]" REST " {", "expected the end of the file"},
    {"{\"ops\": [" OP ",]" REST, "something after the comma"},
    {"{\"ops\": [" OP "], \"ops\": []" REST, "\"ops\" stands twice"},
    {"{\"ops\": [" OP "]}", "the trace has no \"storages\""},
    {"{\"ops\": [{\"name\": \"a\", \"leaves\": 1, \"out\": [], \"acc\": []}]" REST, "op 0 has no \"dur_ns\""},
    {"{\"ops\": [{\"dur_ns\": 18446744073709551616}]" REST, "18446744073709551616 is no integer from 0 to 2^64-1"},
    {"{\"ops\": [{\"dur_ns\": -1}]" REST, "-1 is no integer"},
    {"{\"ops\": [{\"dur_ns\": 1.0}]" REST, "1.0 is no integer"},
    {"{\"ops\": [{\"dur_ns\": 01}]" REST, "01 is no number"},
    {"{\"ops\": [{\"name\": \"\\ud800x\"}]" REST, "half a surrogate pair"},
    {"{\"ops\": [{\"name\": \"\\udc10\"}]" REST, "stands for no character"},
    {"{\"ops\": [{\"name\": \"\x80\"}]" REST, "not valid UTF-8"},
    {"{\"ops\": [{\"name\": \"a\nb\"}]" REST, "found byte 0x0a"},
    {"{\"ops\": [{\"acc\": [[1, \"X\"]]}]" REST, "an access is \"R\" or \"W\""},
    {"{\"ops\": [{\"acc\": [[1, \"R\", 2]]}]" REST, "an access is [SID"},
    {"{\"ops\": [" OP "], \"storages\": {\"2\": 4}, \"activation_sids\": [], \"retained\": []}",
     "op 0 (a) uses SID 1, which no storage has"},
    {"{\"ops\": [{\"name\": \"a\", \"dur_ns\": 1, \"leaves\": 1, \"out\": [[1, 1]], \"acc\": []}]" REST,
     "op 0 (a) binds leaf 1, but has 1 leaves"},
    {"{\"ops\": [], \"storages\": {\"1\": 4, \"1\": 5}, \"activation_sids\": [], \"retained\": []}", "SID 1 has two sizes"},
    {"{\"ops\": [], \"storages\": {\"x\": 4}, \"activation_sids\": [], \"retained\": []}", "\"x\" is no SID"},
    {"{\"ops\": [], \"storages\": {}, \"activation_sids\": [1], \"retained\": []}", "activation_sid 1 has no size"},
    {"{\"ops\": [], \"storages\": {\"1\": 4}, \"activation_sids\": [1, 1], \"retained\": []}", "SID 1 is twice among"},
    {"{\"ops\": [], \"storages\": {\"1\": 4}, \"activation_sids\": [], \"retained\": [1]}", "retained, but no activation"},
    {"{\"ops\": [], \"freed_before_op\": {\"1\": 2}, \"storages\": {\"1\": 4}, \"activation_sids\": [1], \"retained\": []}",
     "SID 1 is freed before op 2, but there are 0 ops"},
    {"{\"ops\": [], \"freed_before_op\": {\"2\": 0}" REST, "names SID 2, which no storage has"},
    {"{\"ops\": [{\"name\": \"a\", \"dur_ns\": 1, \"leaves\": 1, \"out\": [], \"acc\": [[1, \"R\"], [1, \"W\"], [1, \"R\"]]}]" REST,
     "op 0 (a) reads SID 1 twice"},
    {"{\"ops\": [{\"name\": \"a\", \"dur_ns\": 1, \"leaves\": 3, \"out\": [[2, 1], [1, 1], [2, 1]], \"acc\": []}]" REST,
     "leaf 2 is bound twice"},
    {"{\"ops\": [" OP "], \"freed_before_op\": {\"1\": 0}, \"storages\": {\"1\": 4}, \"activation_sids\": [1], \"retained\": []}",
     "op 0 (a) uses SID 1, which was freed before op 0"},
    {"{\"ops\": [], \"schedules\": [{\"actions\": [], \"actions\": []}]" REST, "\"actions\" stands twice"},
    {"{\"ops\": [], \"schedules\": [{}]" REST, "a schedule has no \"actions\""},
    {"{\"ops\": [], \"schedules\": [{\"actions\": [], \"d2h_bytes_per_s\": -5}]" REST, "a link speed of -5"},
    {"{\"ops\": [], \"schedules\": [{\"actions\": [], \"d2h_bytes_per_s\": 1e999}]" REST, "a link speed of inf"},
    {"{\"ops\": [], \"meta\": {\"x\": 01}" REST, "expected ',' or '}', found '1'"},
    {"{\"ops\": [], \"meta\": {\"x\": NaN}" REST, "expected a value, found 'N'"},
    {"{\"ops\": [], \"marks\": [[\"end\", 1]]" REST, "a mark stands before op 1, but there are 0 ops"},
    {"{\"ops\": [], \"schedules\": [{\"actions\": [[0, \"pre\", \"COPY\", 1]]}]" REST, "\"COPY\" where the kind of an action"},
};

Test(interchange, bad_input_is_told_and_leaves_nothing)
{
  const char *json = temp_file(&dir, "in.json"), *tape = temp_file(&dir, "out.tape");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_file(json, bad[i].text, strlen(bad[i].text));
    cr_expect_eq(td_import(json, tape, NULL, NULL, &err), TD_E_INPUT, "%s", bad[i].text);
    cr_expect_not_null(strstr(err.message, bad[i].message), "%s: %s", bad[i].text, err.message);
    cr_expect_not_null(strstr(err.message, "in.json"), "%s", err.message);
    cr_expect_eq(temp_dir_count(&dir), 1, "%s", bad[i].text);
  }
}

/* Nobody needs to understand what is only kept. */
Test(interchange, what_is_kept_may_be_anything)
{
  size_t n = 3000000;
  char *text = malloc(n + 500), *digits = malloc(1000);
  memset(digits, '7', 999);
  digits[999] = '\0';
  int at = sprintf(text, "{\"meta\": {\"s\": \"\\ud800\", \"n\": -%s.5e-%s, \"deep\": ", digits, "9999999999");
  memset(text + at, '[', 2000);
  memset(text + at + 2000, ']', 2000);
  at += 4000 + sprintf(text + at + 4000, ", \"long\": \"");
  memset(text + at, 'x', 2000000);
  sprintf(text + at + 2000000, "\"},\n\"ops\": [\n\n],\n\"storages\": {},\n\"activation_sids\": [],\n\"retained\": []}\n");
  char *back = export_tape(import_text(text));
  cr_expect(strcmp(back, text) == 0);
  free(back);
  free(text);
  free(digits);
}

Test(interchange, depth_and_length_are_bounded)
{
  const char *json = temp_file(&dir, "in.json"), *tape = temp_file(&dir, "out.tape");
  size_t n = 2 << 20;
  char *text = malloc(n);
  memset(text, '[', n);
  memcpy(text, "{\"x\":", 5);
  write_file(json, text, n);
  cr_expect_eq(td_import(json, tape, NULL, NULL, &err), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "nested deeper"), "%s", err.message);
  memset(text, 'a', n);
  memcpy(text, "{\"ops\": [{\"name\": \"", 19);
  write_file(json, text, n);
  cr_expect_eq(td_import(json, tape, NULL, NULL, &err), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "a string of more than"), "%s", err.message);
  memset(text, '1', n);
  memcpy(text, "{\"ops\": [{\"leaves\": ", 20);
  write_file(json, text, n);
  cr_expect_eq(td_import(json, tape, NULL, NULL, &err), TD_E_INPUT);
  cr_expect_not_null(strstr(err.message, "a number of more than"), "%s", err.message);
  free(text);
}

Test(interchange, a_failed_import_leaves_an_older_tape_as_it_was)
{
  const char *tape = import_text(FULL_TRACE), *json = temp_file(&dir, "in.json");
  write_file(json, "{", 1);
  cr_expect_eq(td_import(json, tape, NULL, NULL, &err), TD_E_INPUT);
  char *text = export_tape(tape);
  cr_expect_str_eq(text, FULL_TRACE);
  free(text);
}

Test(interchange, files_that_are_not_there)
{
  cr_expect_eq(td_import("/nowhere/in.json", temp_file(&dir, "out.tape"), NULL, NULL, &err), TD_E_IO);
  cr_expect_str_eq(err.message, "cannot open /nowhere/in.json: No such file or directory");
  const char *json = temp_file(&dir, "in.json");
  write_file(json, FULL_TRACE, sizeof FULL_TRACE - 1);
  cr_expect_eq(td_import(json, "/nowhere/out.tape", NULL, NULL, &err), TD_E_IO);
  cr_expect_str_eq(err.message, "cannot write /nowhere/out.tape: No such file or directory");
  cr_expect_eq(td_import(json, dir.path, NULL, NULL, &err), TD_E_IO);
  cr_expect_not_null(strstr(err.message, "Is a directory"), "%s", err.message);
}
