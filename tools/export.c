/* export: from a tape to another form. */
#include <string.h>

#include "verbs.h"

static int run(const args *args)
{
  const char *form = arg(args, "to");
  int64_t trace;
  if (!form) return trouble(args, "expected --to interchange");
  if (strcmp(form, "interchange") != 0) return trouble(args, "--to %s: expected interchange", form);
  if (!number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  td_tape *tape;
  td_error err;
  if (td_tape_open(&tape, args->operands[0], &err)) return failed(args, &err);
  output out;
  int exit_code = EXIT_TROUBLE;
  if (output_open(args, &out, arg(args, "output"))) {
    td_status status = td_export(tape, trace, out.to, &err);
    if (status && status != TD_E_IO) failed(args, &err); /* else the output says why, with its name */
    if (output_close(args, &out, !status || status == TD_E_IO) && !status) exit_code = EXIT_DONE;
    else if (status == TD_E_IO && !out.path) failed(args, &err);
  }
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {{"to", "FORM", "interchange", '\0'},
                                     {"output", "OUT", "the file to write; default: standard output", 'o'},
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
