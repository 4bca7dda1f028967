/* Long calls tell how far they are, and nobody after the listener is gone. */
#include <criterion/criterion.h>

#include <tapedeck/progress.h>
#include <tapedeck/trace.h>

#include "fixture.h"
#include "temp_dir.h"

typedef struct seen {
  unsigned calls, stages;
  uint64_t done, total;
  const char *unit;
} seen;

static void note(void *context, uint64_t done, uint64_t total, const char *unit)
{
  seen *s = context;
  if (s->calls == 0 || done < s->done) s->stages++;
  s->calls++;
  s->done = done;
  s->total = total;
  s->unit = unit;
  if (total) cr_assert_leq(done, total);
}

enum { OPS = 40000 };

static void write_steps(const char *path)
{
  FILE *to = fopen(path, "wb");
  fputs("{\"ops\": [", to);
  for (int i = 0; i < OPS; i++)
    fprintf(to, "%s{\"name\": \"op\", \"dur_ns\": %d, \"leaves\": 1, \"out\": [], \"acc\": [[%d, \"R\"]]}", i ? ",\n" : "", i, i % 5);
  fputs("], \"storages\": {\"0\": 1, \"1\": 1, \"2\": 1, \"3\": 1, \"4\": 1}, \"activation_sids\": [], \"retained\": []}", to);
  fclose(to);
}

Test(progress, is_told_from_the_beginning_to_the_end)
{
  temp_dir dir = temp_dir_create();
  char json[128], tape[128], other[128];
  td_error err;
  uint64_t damages;
  snprintf(json, sizeof json, "%s/in.json", dir.path);
  snprintf(tape, sizeof tape, "%s/a.tape", dir.path);
  snprintf(other, sizeof other, "%s/b.tape", dir.path);
  write_steps(json);
  seen s = {0};
  td_on_progress(note, &s);
  cr_assert_eq(td_import(json, tape, NULL, NULL, &err), TD_OK, "%s", err.message);
  cr_expect_gt(s.calls, 10);
  cr_expect_eq(s.stages, 1);
  cr_expect_eq(s.done, s.total);
  cr_expect_str_eq(s.unit, "bytes");
  s = (seen){0};
  cr_assert_eq(td_tape_verify(tape, NULL, NULL, &damages, &err), TD_OK);
  cr_expect_eq(damages, 0);
  cr_expect_gt(s.calls, 10);
  cr_expect_eq(s.stages, 1);
  cr_expect_eq(s.done, s.total);
  s = (seen){0};
  cr_assert_eq(td_recover(tape, other, TD_NEWEST, NULL, NULL, NULL, &err), TD_OK, "%s", err.message);
  cr_expect_eq(s.calls, (OPS + 16383) / 16384);
  cr_expect_eq(s.total, OPS);
  cr_expect_str_eq(s.unit, "ops");
  td_on_progress(NULL, NULL);
  s = (seen){0};
  cr_assert_eq(td_tape_verify(tape, NULL, NULL, &damages, &err), TD_OK);
  cr_expect_eq(s.calls, 0);
  temp_dir_remove(&dir);
}
