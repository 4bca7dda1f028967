/* merge: several tapes in one. */
#include "progress.h"
#include "verbs.h"

static int run(const args *args)
{
  const char *out = arg(args, "output");
  td_error err;
  if (!out || !*out) return trouble(args, "expected -o OUT.tape");
  remove_tape_on_signal(out);
  progress_begin("merging");
  td_status status = td_merge((const char *const *)args->operands, (size_t)args->n_operands, out, &err);
  progress_end();
  remove_on_signal(NULL, NULL);
  if (status) return failed(args, &err);
  printf("%s: %d tapes\n", out, args->n_operands);
  return EXIT_DONE;
}

static const option_def options[] = {{"output", "OUT.tape", "the tape to write", 'o'}, {0}};

const verb verb_merge = {
    .name = "merge",
    .operands = "TAPE... -o OUT.tape",
    .n_operands = AT_LEAST_ONE,
    .summary = "Put all traces and schedules of several tapes into one",
    .example = "tapedeck merge short.tape long.tape -o both.tape",
    .options = options,
    .run = run,
};
