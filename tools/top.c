/* top: where the time and the memory of a step go, by the name of the op. */
#include <stdlib.h>

#include "listing.h"
#include "uses.h"
#include "verbs.h"

static const column columns[] = {{"ops", "ops", COLUMN_COUNT},          {"time_ns", "time", COLUMN_TIME},
                                 {"share", "share", COLUMN_SHARE},      {"mean_ns", "mean", COLUMN_TIME},
                                 {"new_bytes", "makes", COLUMN_BYTES},  {"retained_bytes", "retained", COLUMN_BYTES},
                                 {"name", "name", COLUMN_TEXT}};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

typedef struct sums {
  uint64_t ops, time_ns, made, retained;
} sums;

static void add_op(const td_trace *trace, const use *uses, uint64_t op, sums *s)
{
  const td_op *o = &trace->ops[op];
  s->ops++;
  s->time_ns += o->dur_ns;
  for (uint64_t i = o->first_access; i < o[1].first_access; i++) {
    uint32_t storage = trace->accesses[i].storage;
    if (trace->accesses[i].kind != TD_WRITE || !trace->storages[storage].activation || uses[storage].first_op != op) continue;
    s->made += trace->storages[storage].bytes;
    if (trace->storages[storage].retained) s->retained += trace->storages[storage].bytes;
  }
}

static bool add_rows(const args *args, const td_trace *trace, const sums *by_name, uint64_t all_ns, listing *list)
{
  for (uint32_t i = 0; i < trace->n_names; i++) {
    const sums *s = &by_name[i];
    if (!s->ops || !name_matches(args, &trace->names[i])) continue;
    const cell row[N_COLUMNS] = {{.number = s->ops},
                                 {.number = s->time_ns},
                                 {.number = all_ns ? (uint64_t)((double)s->time_ns * 1e6 / (double)all_ns + 0.5) : 0, .none = !all_ns},
                                 {.number = s->time_ns / s->ops},
                                 {.number = s->made},
                                 {.number = s->retained},
                                 {.text = trace->names[i]}};
    if (!listing_add(list, row)) return false;
  }
  return true;
}

static int list_names(const args *args, const td_trace *trace, uint64_t first, uint64_t end)
{
  listing list = {.columns = columns, .n_columns = N_COLUMNS};
  use *uses = list_uses(trace);
  sums *by_name = calloc((size_t)trace->n_names + 1, sizeof *by_name);
  uint64_t all_ns = 0;
  for (uint64_t op = first; op < end && op < trace->n_ops && uses && by_name; op++) {
    add_op(trace, uses, op, &by_name[trace->ops[op].name]);
    all_ns += trace->ops[op].dur_ns;
  }
  bool fits = uses && by_name && add_rows(args, trace, by_name, all_ns, &list);
  int exit_code = fits ? listing_print(args, &list, "names", all_ns ? "time_ns" : "new_bytes", 20) : trouble(args, "out of memory");
  listing_finish(&list);
  free(by_name);
  free(uses);
  return exit_code;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  uint64_t first = 0, end = UINT64_MAX;
  if (!range_arg(args, "ops", &first, &end) || !open_trace(args, &tape, &trace, NULL)) return EXIT_TROUBLE;
  int exit_code = list_names(args, trace, first, end);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {OPTION_NAME,
                                     OPTION_OPS,
                                     OPTIONS_LISTING("ops|time_ns|share|mean_ns|new_bytes|retained_bytes|name"),
                                     OPTION_TRACE,
                                     OPTION_JSON,
                                     {0}};

const verb verb_top = {
    .name = "top",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Say where the time and the memory of a step go, by the name of the op",
    .details = "makes: bytes of activations that these ops make; retained: those of them that the step holds at its end. Where no op has a\n"
               "duration, the most bytes stand first.",
    .example = "tapedeck top step.tape --sort new_bytes",
    .options = options,
    .run = run,
};
