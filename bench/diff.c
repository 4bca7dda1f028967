/* Comparing two traces of 100,000 ops of which 1% differ; against GNU diff, which compares their names and nothing else. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <tapedeck/diff.h>

#include "bench.h"

enum { OPS = 100000, LAYER = 40 };

typedef struct two {
  const char *tapes[2], *names[2];
} two;

static td_error err;

static void need(td_status status)
{
  if (!status) return;
  fprintf(stderr, "bench: %s\n", err.message);
  exit(2);
}

/* A chain of ops with the names of a layer again and again, as interchange JSON and as lines of names. One op in `one_in` is left out,
 * doubled or renamed; 0: none. */
static void write_step(const char *json, const char *lines, uint32_t one_in)
{
  FILE *to = fopen(json, "w"), *names = fopen(lines, "w");
  uint32_t state = 1, n = 0;
  fputs("{\"ops\": [", to);
  for (uint32_t i = 0; i < OPS; i++) {
    state = state * 1664525u + 1013904223u;
    uint32_t change = one_in && (state >> 8) % one_in == 0 ? 1 + (state >> 4) % 3 : 0;
    for (uint32_t copies = change == 1 ? 0 : change == 2 ? 2 : 1; copies; copies--, n++) {
      char name[32];
      snprintf(name, sizeof name, change == 3 ? "aten.other%u.default" : "aten.op%u.default", i % LAYER);
      fprintf(to, "%s{\"name\": \"%s\", \"dur_ns\": 1000, \"leaves\": 1, \"out\": [[0, %u]], \"acc\": [[%u, \"R\"], [%u, \"W\"]]}",
              n ? ",\n" : "", name, i + 1, i, i + 1);
      fprintf(names, "%s\n", name);
    }
  }
  fputs("], \"storages\": {", to);
  for (uint32_t i = 0; i <= OPS; i++) fprintf(to, "%s\"%u\": %u", i ? ", " : "", i, 4096u << i % 5);
  fputs("}, \"activation_sids\": [", to);
  for (uint32_t i = 1; i <= OPS; i++) fprintf(to, "%s%u", i > 1 ? ", " : "", i);
  fputs("], \"retained\": []}", to);
  fclose(to);
  fclose(names);
}

static void load(const char *path, td_trace **trace)
{
  td_tape *tape;
  need(td_tape_open(&tape, path, &err));
  need(td_tape_load_trace(tape, TD_NEWEST, trace, &err));
  td_tape_close(tape);
}

/* From the files: what `tapedeck diff` does before it prints. */
static double compare(void *context)
{
  const two *t = context;
  td_trace *a, *b;
  td_diff *diff;
  uint64_t wall = bench_wall_ns();
  load(t->tapes[0], &a);
  load(t->tapes[1], &b);
  need(td_diff_traces(a, b, &diff, &err));
  double ms = (double)(bench_wall_ns() - wall) / 1e6;
  td_diff_destroy(diff);
  td_trace_destroy(a);
  td_trace_destroy(b);
  return ms;
}

static double compare_names(void *context)
{
  const two *t = context;
  char command[600];
  snprintf(command, sizeof command, "diff %s %s >/dev/null", t->names[0], t->names[1]);
  uint64_t wall = bench_wall_ns();
  int code = system(command);
  double ms = (double)(bench_wall_ns() - wall) / 1e6;
  if (!WIFEXITED(code) || WEXITSTATUS(code) > 1) fprintf(stderr, "bench: diff failed\n");
  return ms;
}

void bench_diff(void)
{
  static char paths[6][256];
  static const char *const files[] = {"a.json", "a.txt", "a.tape", "b.json", "b.txt", "b.tape"};
  for (int i = 0; i < 6; i++) snprintf(paths[i], sizeof paths[i], "%s", bench_file(files[i]));
  write_step(paths[0], paths[1], 0);
  write_step(paths[3], paths[4], 100);
  need(td_import(paths[0], paths[2], NULL, NULL, &err));
  need(td_import(paths[3], paths[5], NULL, NULL, &err));
  two t = {.tapes = {paths[2], paths[5]}, .names = {paths[1], paths[4]}};
  bench_row("diff, 100,000 ops, 1% differ", "ms", bench_median(compare, &t), bench_median(compare_names, &t), "GNU diff of the names");
}
