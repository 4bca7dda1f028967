/* bench [--json FILE] [TRACES]: all figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench.h"

#define RUNS 5

static cJSON *rows;
static char folder[] = "/tmp/tapedeck-bench-XXXXXX";
static const char *traces;

static uint64_t clock_ns(clockid_t clock)
{
  struct timespec t;
  clock_gettime(clock, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_wall_ns(void)
{
  return clock_ns(CLOCK_MONOTONIC);
}

uint64_t bench_cpu_ns(void)
{
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double bench_median(double (*f)(void *context), void *context)
{
  double values[RUNS];
  for (int i = 0; i < RUNS; i++) values[i] = f(context);
  qsort(values, RUNS, sizeof *values, by_value);
  return values[RUNS / 2];
}

void bench_row(const char *name, const char *unit, double ours, double other, const char *against)
{
  cJSON *row = cJSON_CreateObject();
  cJSON_AddStringToObject(row, "name", name);
  cJSON_AddStringToObject(row, "unit", unit);
  cJSON_AddNumberToObject(row, "ours", ours);
  cJSON_AddNumberToObject(row, "other", other);
  cJSON_AddNumberToObject(row, "ratio", other ? ours / other : 0);
  cJSON_AddStringToObject(row, "against", against);
  cJSON_AddItemToArray(rows, row);
  printf("%-44s %12.2f %12.2f %8.3f  %-8s %s\n", name, ours, other, other ? ours / other : 0, unit, against);
  fflush(stdout);
}

const char *bench_file(const char *name)
{
  static char files[4][256];
  static unsigned next;
  char *file = files[next++ % 4];
  snprintf(file, sizeof files[0], "%s/%s", folder, name);
  return file;
}

const char *bench_traces(void)
{
  struct stat info;
  return traces && !stat(traces, &info) ? traces : NULL;
}

int main(int argc, char **argv)
{
  const char *json = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--json") == 0 && i + 1 < argc) json = argv[++i];
    else traces = argv[i];
  }
  rows = cJSON_CreateArray();
  if (!mkdtemp(folder)) return 2;
  printf("%-44s %12s %12s %8s  %-8s %s\n", "", "ours", "other", "ratio", "unit", "against");
  bench_tape();
  bench_replay();
  bench_plan();
  bench_diff();
  char command[300];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  int code = system(command);
  if (json) {
    FILE *to = fopen(json, "w");
    char *text = cJSON_Print(rows);
    if (!to || !text || fputs(text, to) < 0 || fclose(to)) code = 2;
    cJSON_free(text);
  }
  cJSON_Delete(rows);
  return code != 0;
}
