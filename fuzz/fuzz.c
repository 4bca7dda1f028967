#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapedeck/planner.h>

static char folder[64];

static void remove_folder(void)
{
  char command[100];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  if (system(command)) _exit(1);
}

const char *fuzz_file(const char *name)
{
  static char files[8][128];
  static unsigned next;
  struct stat info;
  if (!*folder) {
    snprintf(folder, sizeof folder, "%s/tapedeck-fuzz-XXXXXX", stat("/dev/shm", &info) ? "/tmp" : "/dev/shm");
    if (!mkdtemp(folder)) abort();
    atexit(remove_folder);
  }
  char *file = files[next++ % 8];
  snprintf(file, sizeof files[0], "%s/%s", folder, name);
  return file;
}

void fuzz_write(const char *path, const void *bytes, size_t length)
{
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) abort();
}

uint8_t *fuzz_read(const char *path, size_t *length)
{
  struct stat info;
  FILE *file = fopen(path, "rb");
  if (!file || stat(path, &info)) abort();
  uint8_t *bytes = malloc((size_t)info.st_size + 1);
  *length = fread(bytes, 1, (size_t)info.st_size, file);
  fclose(file);
  return bytes;
}

void fuzz_fail(const char *what)
{
  fprintf(stderr, "property broken: %s\n", what);
  abort();
}

static const char json[] =
    "{\"meta\": {\"model\": \"x\"}, \"ops\": ["
    "{\"name\": \"a\", \"dur_ns\": 100, \"leaves\": 1, \"out\": [[0, 2]], \"acc\": [[1, \"R\"], [2, \"W\"]]},"
    "{\"name\": \"b\", \"dur_ns\": 200, \"leaves\": 2, \"out\": [[1, 3]], \"acc\": [[1, \"R\"], [3, \"W\"]]},"
    "{\"name\": \"b\", \"dur_ns\": 300, \"leaves\": 1, \"out\": [[0, 4]], \"acc\": [[3, \"R\"], [4, \"W\"]], \"opaque\": true},"
    "{\"name\": \"c\", \"dur_ns\": 70000, \"leaves\": 0, \"out\": [], \"acc\": [[2, \"R\"], [4, \"R\"]]}],"
    "\"storages\": {\"1\": 10, \"2\": 1000, \"3\": 500, \"4\": 600}, \"activation_sids\": [2, 3, 4], \"retained\": [4],"
    "\"freed_before_op\": {\"2\": 4, \"3\": 3}, \"marks\": [[\"half\", 2]], \"extra\": [1]}";

void fuzz_make_tape(const char *path)
{
  const char *in = fuzz_file("base.json");
  td_tape *tape;
  td_trace *trace;
  td_schedule *schedule;
  fuzz_write(in, json, sizeof json - 1);
  if (td_import(in, path, NULL, NULL, NULL) || td_tape_open(&tape, path, NULL) || td_tape_load_trace(tape, TD_NEWEST, &trace, NULL) ||
      td_plan(trace, &(td_plan_options){.budget_bytes = 1600}, &schedule, NULL, NULL) ||
      td_tape_add_schedule(path, TD_NEWEST, schedule, NULL))
    abort();
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  td_tape_close(tape);
}
