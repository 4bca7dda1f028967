/* ops: the ops of a step, one a row. */
#include <stdlib.h>

#include <tapedeck/planner.h>

#include "listing.h"
#include "uses.h"
#include "verbs.h"

static const column columns[] = {{"op", "op", COLUMN_NUMBER},        {"time_ns", "time", COLUMN_TIME},
                                 {"reads_bytes", "reads", COLUMN_BYTES}, {"writes_bytes", "writes", COLUMN_BYTES},
                                 {"new_bytes", "new", COLUMN_BYTES},   {"alive_bytes", "alive", COLUMN_BYTES},
                                 {"accesses", "accesses", COLUMN_COUNT}, {"leaves", "leaves", COLUMN_COUNT},
                                 {"name", "name", COLUMN_TEXT}};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void fill_row(const td_trace *trace, const use *uses, const td_simulation *alive, uint64_t op, cell *row)
{
  const td_op *o = &trace->ops[op];
  uint64_t bytes[2] = {0, 0}, made = 0;
  for (uint64_t i = o->first_access; i < o[1].first_access; i++) {
    uint32_t storage = trace->accesses[i].storage;
    bytes[trace->accesses[i].kind] += trace->storages[storage].bytes;
    if (trace->accesses[i].kind == TD_WRITE && trace->storages[storage].activation && uses[storage].first_op == op)
      made += trace->storages[storage].bytes;
  }
  const uint64_t numbers[] = {op,   o->dur_ns, bytes[TD_READ], bytes[TD_WRITE], made, alive->timeline[op].device_bytes, o[1].first_access - o->first_access,
                              o->leaves};
  for (size_t i = 0; i + 1 < N_COLUMNS; i++) row[i] = (cell){.number = numbers[i]};
  row[N_COLUMNS - 1] = (cell){.text = trace->names[o->name]};
}

static int list_ops(const args *args, const td_trace *trace, uint64_t first, uint64_t end)
{
  td_error err;
  td_simulation *alive = NULL;
  listing list = {.columns = columns, .n_columns = N_COLUMNS};
  use *uses = list_uses(trace);
  bool fits = uses;
  if (td_simulate(trace, NULL, true, &alive, &err)) {
    free(uses);
    return failed(args, &err);
  }
  for (uint64_t op = first; op < end && op < trace->n_ops && fits; op++) {
    cell row[N_COLUMNS];
    if (!name_matches(args, &trace->names[trace->ops[op].name])) continue;
    fill_row(trace, uses, alive, op, row);
    fits = listing_add(&list, row);
  }
  int exit_code = fits ? listing_print(args, &list, "ops", "op", 40) : trouble(args, "out of memory");
  listing_finish(&list);
  td_simulation_destroy(alive);
  free(uses);
  return exit_code;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  uint64_t first = 0, end = UINT64_MAX;
  if (!range_arg(args, "ops", &first, &end) || !open_trace(args, &tape, &trace, NULL)) return EXIT_TROUBLE;
  int exit_code = list_ops(args, trace, first, end);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {
    OPTION_NAME,
    OPTION_OPS,
    OPTIONS_LISTING("op|time_ns|reads_bytes|writes_bytes|new_bytes|alive_bytes|accesses|leaves|name"),
    OPTION_TRACE,
    OPTION_JSON,
    {0}};

const verb verb_ops = {
    .name = "ops",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "List the ops of a step",
    .details = "new: bytes of activations that the op makes; alive: bytes of all activations on the device then, without a schedule.",
    .example = "tapedeck ops step.tape --name '*mm*' --sort time_ns",
    .options = options,
    .run = run,
};
