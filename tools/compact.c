/* compact: the same tape without unused space. */
#include "progress.h"
#include "verbs.h"

static int run(const args *args)
{
  const char *out = arg(args, "output") ? arg(args, "output") : args->operands[0];
  td_error err;
  remove_tape_on_signal(out);
  progress_begin("compacting");
  td_status status = td_compact(args->operands[0], out, &err);
  progress_end();
  remove_on_signal(NULL, NULL);
  return status ? failed(args, &err) : EXIT_DONE;
}

static const option_def options[] = {{"output", "OUT.tape", "the tape to write; default: TAPE itself", 'o'}, {0}};

const verb verb_compact = {
    .name = "compact",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Give back the space in a tape that nothing uses",
    .example = "tapedeck compact step.tape",
    .options = options,
    .run = run,
};
