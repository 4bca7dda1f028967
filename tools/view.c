/* view: a step's memory with and without a schedule, as a page, a picture or text. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapedeck/size.h>

#include "verbs.h"
#include "view.h"

#define NARROWEST 40
#define WIDEST    1000

/* ---- loading --------------------------------------------------------------------------------------------------- */

/* The newest schedule where none is asked for; a tape without one shows the step as it was recorded. */
static td_status load_schedule(view_side *side, int64_t number, bool asked, td_error *err)
{
  td_status status = td_tape_load_schedule(side->tape, side->info.trace, number, &side->schedule, err);
  return status == TD_E_NOT_FOUND && !asked ? TD_OK : status;
}

static bool load_side(const args *args, const char *path, view_side *side)
{
  td_error err;
  int64_t trace, schedule;
  if (!number_arg(args, "trace", TD_NEWEST, &trace) || !number_arg(args, "schedule", TD_NEWEST, &schedule)) return false;
  side->path = path;
  td_status status = td_tape_open(&side->tape, path, &err);
  if (!status) status = td_tape_info(side->tape, trace, &side->info, &err);
  if (!status) status = td_tape_load_trace(side->tape, trace, &side->trace, &err);
  if (!status) status = load_schedule(side, schedule, arg(args, "schedule"), &err);
  if (!status) status = td_simulate(side->trace, NULL, true, &side->plain, &err);
  if (!status && side->schedule) status = td_simulate(side->trace, side->schedule, true, &side->planned, &err);
  if (!status) return true;
  failed(args, &err);
  return false;
}

static void drop_side(view_side *side)
{
  td_simulation_destroy(side->plain);
  td_simulation_destroy(side->planned);
  td_schedule_destroy(side->schedule);
  td_trace_destroy(side->trace);
  td_tape_close(side->tape);
}

/* ---- showing --------------------------------------------------------------------------------------------------- */

/* As wide as asked for; else as the terminal, else 80. */
static bool text_width(const args *args, uint32_t *width)
{
  struct winsize window;
  int64_t asked;
  bool terminal = !arg(args, "output") && isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) && window.ws_col;
  if (!number_arg(args, "width", terminal ? window.ws_col : 80, &asked)) return false;
  if (arg(args, "width") && (asked < NARROWEST || asked > WIDEST)) {
    trouble(args, "--width %s: expected %d to %d", arg(args, "width"), NARROWEST, WIDEST);
    return false;
  }
  *width = asked < NARROWEST ? NARROWEST : asked > WIDEST ? WIDEST : (uint32_t)asked;
  return true;
}

static bool write_form(const args *args, FILE *to, const view_side *sides, size_t n, uint32_t width)
{
  bool done = true;
  if (arg(args, "svg")) return view_svg(to, sides, n);
  if (!arg(args, "text")) view_page(to, sides, n);
  for (size_t i = 0; i < n && done && arg(args, "text"); i++) {
    if (i) fputc('\n', to);
    done = view_text(to, &sides[i], width);
  }
  return done;
}

static int show(const args *args, const view_side *sides, size_t n)
{
  output out;
  uint32_t width;
  for (size_t i = 0; i < n; i++)
    if (would_lose(args, arg(args, "output"), sides[i].path)) return EXIT_TROUBLE;
  if (!text_width(args, &width) || !output_open(args, &out, arg(args, "output"))) return EXIT_TROUBLE;
  bool done = write_form(args, out.to, sides, n, width);
  if (!done) trouble(args, "out of memory");
  return output_close(args, &out, done) && done ? EXIT_DONE : EXIT_TROUBLE;
}

static int run(const args *args)
{
  view_side sides[VIEW_SIDES] = {0};
  size_t n = (size_t)args->n_operands;
  bool svg = arg(args, "svg"), text = arg(args, "text"), loaded = true;
  if (n > VIEW_SIDES) return trouble(args, "expected one tape or two");
  if (svg && text) return trouble(args, "expected --svg or --text, not both");
  if (!svg && !text && !arg(args, "output")) return trouble(args, "expected -o OUT.html, or --svg or --text");
  if (arg(args, "width") && !text) return trouble(args, "--width goes with --text");
  for (size_t i = 0; i < n && loaded; i++) loaded = load_side(args, args->operands[i], &sides[i]);
  int exit_code = loaded ? show(args, sides, n) : EXIT_TROUBLE;
  for (size_t i = 0; i < n; i++) drop_side(&sides[i]);
  return exit_code;
}

static const option_def options[] = {{"output", "OUT", "the file to write; --svg and --text: default standard output", 'o'},
                                     {"svg", NULL, "a picture in place of the page", '\0'},
                                     {"text", NULL, "a chart for the terminal in place of the page", '\0'},
                                     {"width", "N", "columns of --text; default: the terminal's, else 80", '\0'},
                                     {"schedule", "ID", "the schedule to show; default: the newest", '\0'},
                                     OPTION_TRACE,
                                     {0}};

const verb verb_view = {
    .name = "view",
    .operands = "TAPE [TAPE] -o OUT.html",
    .n_operands = AT_LEAST_ONE,
    .summary = "Show a step's memory, with and without a schedule, as one page",
    .details = "The page needs no network and nothing beside it. Two tapes stand beside each other there, on one scale.",
    .example = "tapedeck view step.tape -o step.html",
    .options = options,
    .run = run,
};
