/* storages: what a step keeps in memory, one storage a row. */
#include <stdlib.h>
#include <string.h>

#include "listing.h"
#include "uses.h"
#include "verbs.h"

static const column columns[] = {{"sid", "SID", COLUMN_NUMBER},        {"bytes", "size", COLUMN_BYTES},
                                 {"kind", "kind", COLUMN_TEXT},        {"first_op", "first", COLUMN_NUMBER}, {"last_op", "last", COLUMN_NUMBER},
                                 {"end_op", "until", COLUMN_NUMBER},   {"reads", "reads", COLUMN_COUNT},
                                 {"writes", "writes", COLUMN_COUNT},   {"gap_ops", "gap", COLUMN_COUNT},
                                 {"name", "first used by", COLUMN_TEXT}};

enum { N_COLUMNS = sizeof columns / sizeof *columns };

static const char *kind_of(const td_storage_info *storage)
{
  return storage->retained ? "retained" : storage->activation ? "activation" : "other";
}

static td_name user_of(const td_trace *trace, const use *u)
{
  return u->first_op == TD_NEVER ? (td_name){.bytes = "", .length = 0} : trace->names[trace->ops[u->first_op].name];
}

static bool wanted(const args *args, const td_trace *trace, uint32_t i, const use *u, uint64_t first, uint64_t end)
{
  const char *kind = arg(args, "kind");
  td_name name = user_of(trace, u);
  if (kind && strcmp(kind, kind_of(&trace->storages[i])) != 0) return false;
  if (arg(args, "ops") && (first >= end || u->first_op == TD_NEVER || u->first_op >= end || u->last_op < first)) return false;
  return name_matches(args, &name);
}

static void fill_row(const td_trace *trace, uint32_t i, const use *u, cell *row)
{
  const td_storage_info *storage = &trace->storages[i];
  bool unused = u->first_op == TD_NEVER, to_end = u->end_op > trace->n_ops;
  const char *kind = kind_of(storage);
  const cell cells[] = {{.number = storage->sid},
                        {.number = storage->bytes},
                        {.text = {.bytes = kind, .length = strlen(kind)}},
                        {.number = u->first_op, .none = unused},
                        {.number = u->last_op, .none = unused},
                        {.number = u->end_op, .none = to_end || unused},
                        {.number = u->reads},
                        {.number = u->writes},
                        {.number = u->gap_to > u->gap_from ? u->gap_to - u->gap_from - 1 : 0},
                        {.text = user_of(trace, u)}};
  memcpy(row, cells, sizeof cells);
}

static int list_storages(const args *args, const td_trace *trace, uint64_t first, uint64_t end)
{
  listing list = {.columns = columns, .n_columns = N_COLUMNS};
  use *uses = list_uses(trace);
  bool fits = uses;
  for (uint32_t i = 0; i < trace->n_storages && fits; i++) {
    cell row[N_COLUMNS];
    if (!wanted(args, trace, i, &uses[i], first, end)) continue;
    fill_row(trace, i, &uses[i], row);
    fits = listing_add(&list, row);
  }
  int exit_code = fits ? listing_print(args, &list, "storages", "bytes", 40) : trouble(args, "out of memory");
  listing_finish(&list);
  free(uses);
  return exit_code;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  uint64_t first = 0, end = UINT64_MAX;
  if (!range_arg(args, "ops", &first, &end) || !open_trace(args, &tape, &trace, NULL)) return EXIT_TROUBLE;
  int exit_code = list_storages(args, trace, first, end);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {
    {"kind", "activation|retained|other", "only storages of this kind", '\0'},
    OPTION_NAME,
    {"ops", "FIRST:END", "only storages that are in use during these ops", '\0'},
    OPTIONS_LISTING("sid|bytes|kind|first_op|last_op|end_op|reads|writes|gap_ops|name"),
    OPTION_TRACE,
    OPTION_JSON,
    {0}};

const verb verb_storages = {
    .name = "storages",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "List the storages of a step, the largest first",
    .details = "first, last: the ops that access it; until: the op from which it is not needed, - for the end of the step; gap: the most\n"
               "ops between two accesses. The name is that of the op that uses it first.",
    .example = "tapedeck storages step.tape --kind activation --sort gap_ops",
    .options = options,
    .run = run,
};
