/* export: from a tape to another form. */
#include <string.h>

#include "export_forms.h"
#include "verbs.h"

static int export_interchange(const args *args, td_tape *tape, int64_t trace)
{
  output out;
  td_error err;
  if (!output_open(args, &out, arg(args, "output"))) return EXIT_TROUBLE;
  td_status status = td_export(tape, trace, out.to, &err);
  if (status && status != TD_E_IO) failed(args, &err); /* else the output says why, with its name */
  if (output_close(args, &out, !status || status == TD_E_IO) && !status) return EXIT_DONE;
  return status == TD_E_IO && !out.path ? failed(args, &err) : EXIT_TROUBLE;
}

static int run(const args *args)
{
  const char *form = arg(args, "to");
  int64_t trace;
  td_tape *tape;
  td_error err;
  if (!form) return trouble(args, "expected --to interchange, chrome, csv or dot");
  bool interchange = strcmp(form, "interchange") == 0, chrome = strcmp(form, "chrome") == 0, dot = strcmp(form, "dot") == 0;
  if (arg(args, "ops") && (interchange || chrome)) return trouble(args, "--ops goes with --to csv or dot; see tapedeck trim");
  if (!interchange && !chrome && !dot && !arg(args, "output")) return trouble(args, "expected -o FOLDER");
  if (!number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  if (would_lose(args, arg(args, "output"), args->operands[0])) return EXIT_TROUBLE;
  if (td_tape_open(&tape, args->operands[0], &err)) return failed(args, &err);
  int exit_code = interchange ? export_interchange(args, tape, trace)
                  : chrome    ? export_chrome(args, tape, trace)
                  : dot       ? export_dot(args, tape, trace)
                              : export_csv(args, tape, arg(args, "output"));
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {{"to", "interchange|chrome|csv|dot", "chrome is for Perfetto, dot for Graphviz", '\0'},
                                     {"output", "OUT", "the file to write, default standard output; for csv a folder", 'o'},
                                     {"ops", "FIRST:END", "for csv and dot: only these ops, END not among them", '\0'},
                                     OPTION_TRACE,
                                     {0}};

const verb verb_export = {
    .name = "export",
    .operands = "TAPE --to FORM",
    .n_operands = 1,
    .summary = "Write a trace and its schedules in another form",
    .example = "tapedeck export step.tape --to interchange -o step.json",
    .options = options,
    .run = run,
};
