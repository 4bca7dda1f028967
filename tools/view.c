/* view: one self-contained page that shows a step's memory with and without a schedule. */
#include <inttypes.h>
#include <string.h>

#include <tapedeck/planner.h>

#include "verbs.h"
#include "view_html.h" /* made from view.html when building */

#define DATA_MARK "/*DATA*/"

#define PUT_ARRAY(to, key, n, format, value)                                                                           \
  do {                                                                                                                 \
    fprintf(to, ",\n\"%s\": [", key);                                                                                  \
    for (uint64_t i = 0; i < (n); i++) fprintf(to, "%s" format, i ? "," : "", value);                                  \
    fputc(']', to);                                                                                                    \
  } while (0)

static void put_names(FILE *to, const td_trace *trace)
{
  fputs(",\n\"names\": [", to);
  for (uint32_t i = 0; i < trace->n_names; i++) {
    if (i) fputc(',', to);
    put_json_string(to, trace->names[i].bytes, trace->names[i].length);
  }
  fputc(']', to);
}

static void put_data(FILE *to, const char *path, const td_trace *trace, const td_trace_info *info, const td_schedule *schedule,
                     const td_simulation *plain, const td_simulation *planned)
{
  uint64_t n = trace->n_ops;
  fputs("{\"title\": ", to);
  put_json_string(to, path, strlen(path));
  fprintf(to, ",\n\"ops\": %" PRIu64 ", \"storages\": %" PRIu64 ", \"activations\": %" PRIu64 ", \"peak\": %" PRIu64
              ", \"floor\": %" PRIu64 ", \"compute\": %" PRIu64,
          info->ops, info->storages, info->activations, plain->peak_bytes, info->floor_bytes, info->compute_ns);
  put_names(to, trace);
  PUT_ARRAY(to, "op", n, "%" PRIu32, trace->ops[i].name);
  PUT_ARRAY(to, "dur", n, "%" PRIu64, trace->ops[i].dur_ns);
  PUT_ARRAY(to, "plain", n + 1, "%" PRIu64, plain->timeline[i].device_bytes);
  if (planned) {
    PUT_ARRAY(to, "planned", n + 1, "%" PRIu64, planned->timeline[i].device_bytes);
    PUT_ARRAY(to, "stall", n + 1, "%" PRIu64, planned->timeline[i].stall_ns);
    fprintf(to, ",\n\"schedule\": %" PRId64 ", \"peak_planned\": %" PRIu64 ", \"host_peak\": %" PRIu64 ", \"d2h\": %" PRIu64
                ", \"h2d\": %" PRIu64 ", \"stalled\": %" PRIu64 ", \"faults\": %zu, \"planner\": ",
            schedule->id, planned->peak_bytes, planned->host_peak_bytes, planned->d2h_bytes, planned->h2d_bytes,
            planned->stall_ns, planned->n_faults);
    put_json_string(to, schedule->planner, strlen(schedule->planner));
    if (schedule->memory_limit_bytes != UINT64_MAX) fprintf(to, ", \"budget\": %" PRIu64, schedule->memory_limit_bytes);
  }
  fputs("}", to);
}

/* The newest schedule where none is asked for; a tape without one shows the step as it was recorded. */
static bool load_schedule(const args *args, td_tape *tape, int64_t trace, td_schedule **schedule)
{
  int64_t number;
  td_error err;
  if (!number_arg(args, "schedule", TD_NEWEST, &number)) return false;
  td_status status = td_tape_load_schedule(tape, trace, number, schedule, &err);
  if (!status || (status == TD_E_NOT_FOUND && !arg(args, "schedule"))) return true;
  failed(args, &err);
  return false;
}

static int write_page(const args *args, const td_trace *trace, const td_trace_info *info, const td_schedule *schedule)
{
  td_simulation *plain = NULL, *planned = NULL;
  td_error err;
  output out;
  int exit_code = EXIT_TROUBLE;
  td_status status = td_simulate(trace, NULL, true, &plain, &err);
  if (!status && schedule) status = td_simulate(trace, schedule, true, &planned, &err);
  if (status) {
    failed(args, &err);
  } else if (output_open(args, &out, arg(args, "output"))) {
    const char *page = (const char *)view_html, *mark = strstr(page, DATA_MARK);
    fwrite(page, 1, (size_t)(mark - page), out.to);
    put_data(out.to, args->operands[0], trace, info, schedule, plain, planned);
    fputs(mark + strlen(DATA_MARK), out.to);
    if (output_close(args, &out, true)) exit_code = EXIT_DONE;
  }
  td_simulation_destroy(plain);
  td_simulation_destroy(planned);
  return exit_code;
}

static int run(const args *args)
{
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule = NULL;
  int exit_code = EXIT_TROUBLE;
  if (!arg(args, "output")) return trouble(args, "expected -o OUT.html");
  if (!open_trace(args, &tape, &trace, &info)) return EXIT_TROUBLE;
  if (load_schedule(args, tape, info.trace, &schedule)) exit_code = write_page(args, trace, &info, schedule);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {{"output", "OUT.html", "the page to write", 'o'},
                                     {"schedule", "ID", "the schedule to show; default: the newest", '\0'},
                                     OPTION_TRACE,
                                     {0}};

const verb verb_view = {
    .name = "view",
    .operands = "TAPE -o OUT.html",
    .n_operands = 1,
    .summary = "Show a step's memory, with and without a schedule, as one page",
    .details = "The page needs no network and nothing beside it.",
    .example = "tapedeck view step.tape -o step.html",
    .options = options,
    .run = run,
};
