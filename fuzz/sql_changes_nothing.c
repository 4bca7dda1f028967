/* Any statement over a tape ends, and changes nothing. */
#include <stdlib.h>
#include <string.h>

#include <tapedeck/trace.h>

#include "format/tape.h"
#include "fuzz.h"

static int row(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names, (void)values;
  return ++*(int *)context > 1000;
}

/* A statement may run for ever; that is its author's affair. */
static int give_up(void *context)
{
  return ++*(int *)context > 200;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static uint8_t *before;
  static size_t length;
  const char *path = fuzz_file("sql.tape");
  int rows = 0, looks = 0;
  td_tape *tape;
  if (!before) {
    fuzz_make_tape(path);
    before = fuzz_read(path, &length);
    sqlite3_hard_heap_limit64(64 << 20);
  }
  char *sql = malloc(size + 1);
  memcpy(sql, data, size);
  sql[size] = '\0';
  if (td_tape_open(&tape, path, NULL)) fuzz_fail("the tape cannot be opened");
  sqlite3_limit(tape->db.handle, SQLITE_LIMIT_LENGTH, 1 << 20);
  sqlite3_progress_handler(tape->db.handle, 10000, give_up, &looks);
  td_tape_sql(tape, sql, row, &rows, NULL);
  td_tape_close(tape);
  free(sql);
  size_t now;
  uint8_t *after = fuzz_read(path, &now);
  if (now != length || memcmp(before, after, now) != 0) fuzz_fail("a statement changed the tape");
  free(after);
  return 0;
}
