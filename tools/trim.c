/* trim: a range of ops as a trace of its own. */
#include "verbs.h"

static int run(const args *args)
{
  const char *out = arg(args, "output");
  td_error err;
  int64_t trace;
  uint64_t first = 0, end = 0;
  char ops[32];
  if (!out || !*out) return trouble(args, "expected -o OUT.tape");
  if (!arg(args, "ops")) return trouble(args, "expected --ops FIRST:END, two op numbers");
  if (!range_arg(args, "ops", &first, &end) || !number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  if (would_lose(args, out, args->operands[0])) return EXIT_TROUBLE;
  remove_tape_on_signal(out);
  td_status status = td_trim(args->operands[0], trace, first, end, out, &err);
  remove_on_signal(NULL, NULL);
  if (status) return failed(args, &err);
  printf("%s: %s ops\n", out, with_commas(end - first, ops));
  return EXIT_DONE;
}

static const option_def options[] = {{"ops", "FIRST:END", "the ops to keep, END not among them", '\0'},
                                     {"output", "OUT.tape", "the tape to write", 'o'},
                                     OPTION_TRACE,
                                     {0}};

const verb verb_trim = {
    .name = "trim",
    .operands = "TAPE --ops FIRST:END -o OUT.tape",
    .n_operands = 1,
    .summary = "Keep a range of ops as a trace of its own",
    .details = "What was made before the range is no activation in it; what is needed after it is retained. Schedules are left out.",
    .example = "tapedeck trim step.tape --ops 0:282 -o forward.tape",
    .options = options,
    .run = run,
};
