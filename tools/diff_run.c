#include "diff_run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tapedeck/planner.h>
#include <tapedeck/run.h>
#include <tapedeck/size.h>

#include "uses.h"

#define WAITS_SHOWN 10

/* A figure of both. */
typedef struct figure {
  const char *name, *key;
  uint64_t planned, ran;
  bool counts; /* it has to be as planned */
  const char *(*show)(uint64_t value, char text[32]);
} figure;

enum { FIGURES = 9 };

static const char *show_size(uint64_t value, char text[32])
{
  return td_format_size(value, text, 32);
}

static const char *show_time(uint64_t value, char text[32])
{
  return as_time(value, text);
}

static const char *show_count(uint64_t value, char text[32])
{
  return with_commas(value, text);
}

static bool as_planned(const figure *figures)
{
  for (int i = 0; i < FIGURES; i++)
    if (figures[i].counts && figures[i].planned != figures[i].ran) return false;
  return true;
}

static void print_waits(const td_trace *trace, const td_run *run)
{
  char op[128], size[24], ns[32];
  if (run->n_waits) puts("\nOps that waited for a storage:\n");
  for (size_t i = 0; i < run->n_waits && i < WAITS_SHOWN; i++) {
    const td_wait *wait = &run->waits[i];
    printf("%10s  %s for %s that %s\n", as_time(wait->waited_ns, ns),
           wait->op < 0 ? "the beginning" : op_text(trace, (uint64_t)wait->op, op, sizeof op), td_format_size(wait->bytes, size, sizeof size),
           wait->was_away ? "was away" : "was on its way back");
  }
  if (run->n_waits > WAITS_SHOWN) printf("... and %zu more\n", run->n_waits - WAITS_SHOWN);
}

static void print_text(const td_trace *trace, const td_run *run, const figure *figures)
{
  char at[40], planned[32], ran[32];
  struct tm when;
  time_t seconds = (time_t)run->at_unix;
  if (!gmtime_r(&seconds, &when) || !strftime(at, sizeof at, "%Y-%m-%d %H:%M:%S UTC", &when)) *at = '\0';
  printf("run %" PRId64 " on %s, %s, of schedule %" PRId64 "\n\n%-14s %16s %16s\n", run->id, run->device, at, run->stats.schedule, "", "planned", "ran");
  for (int i = 0; i < FIGURES; i++) {
    const figure *f = &figures[i];
    printf("%-14s %16s %16s%s\n", f->name, f->show(f->planned, planned), f->show(f->ran, ran),
           f->counts && f->planned != f->ran ? "  differs" : "");
  }
  print_waits(trace, run);
}

static int print_json(const args *args, const td_run *run, const figure *figures)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "same", as_planned(figures));
  json_u64(json, "run_id", (uint64_t)run->id);
  json_u64(json, "schedule_id", (uint64_t)run->stats.schedule);
  json_string(json, "device", run->device);
  cJSON *planned = cJSON_AddObjectToObject(json, "planned"), *ran = cJSON_AddObjectToObject(json, "ran");
  for (int i = 0; i < FIGURES; i++) {
    json_u64(planned, figures[i].key, figures[i].planned);
    json_u64(ran, figures[i].key, figures[i].ran);
  }
  json_u64(json, "waits", run->n_waits);
  return json_print(args, json);
}

static int compare(const args *args, const td_trace *trace, const td_run *run, const td_simulation *plan)
{
  const td_step_stats *s = &run->stats;
  const figure figures[FIGURES] = {{"ops", "ops", trace->n_ops, s->ops, true, show_count},
                                   {"peak", "peak_bytes", plan->peak_bytes, s->peak_bytes, true, show_size},
                                   {"on the host", "host_peak_bytes", plan->host_peak_bytes, s->host_peak_bytes, true, show_size},
                                   {"copied out", "d2h_bytes", plan->d2h_bytes, s->d2h_bytes, true, show_size},
                                   {"copied in", "h2d_bytes", plan->h2d_bytes, s->h2d_bytes, true, show_size},
                                   {"demand faults", "demand_faults", 0, s->demand_faults, true, show_count},
                                   {"other ops", "diverged_ops", 0, s->diverged_ops, true, show_count},
                                   {"step", "step_ns", plan->compute_ns + plan->stall_ns, s->step_ns, false, show_time},
                                   {"stall", "stall_ns", plan->stall_ns, s->stall_ns, false, show_time}};
  if (arg(args, "json")) {
    if (print_json(args, run, figures)) return EXIT_TROUBLE;
  } else if (!arg(args, "quiet")) {
    print_text(trace, run, figures);
  }
  return as_planned(figures) ? EXIT_DONE : EXIT_NO;
}

/* A run that followed no schedule is none that was planned. */
static const td_run *find_run(const td_run *runs, size_t n, int64_t id)
{
  for (size_t i = n; i-- > 0;)
    if (runs[i].stats.schedule > 0 && (!id || runs[i].id == id)) return &runs[i];
  return NULL;
}

int diff_run(const args *args, td_tape *tape, const td_trace *trace, int64_t number)
{
  td_run *runs = NULL;
  td_schedule *schedule = NULL;
  td_simulation *plan = NULL;
  td_error err;
  size_t n = 0;
  int64_t id = 0;
  if (strcmp(arg(args, "run"), "newest") != 0 && !number_arg(args, "run", 1, &id)) return EXIT_TROUBLE;
  td_status status = td_tape_runs(tape, number, &runs, &n, &err);
  if (status) return failed(args, &err);
  const td_run *run = find_run(runs, n, id);
  int exit_code = EXIT_TROUBLE;
  if (!run) {
    trouble(args, "%s has no such run of a schedule of trace %" PRId64 "; tapedeck replay --report keeps one", args->operands[0], number);
  } else {
    status = td_tape_load_schedule(tape, number, run->stats.schedule, &schedule, &err);
    if (!status) status = td_simulate(trace, schedule, false, &plan, &err);
    exit_code = status ? failed(args, &err) : compare(args, trace, run, plan);
  }
  td_simulation_destroy(plan);
  td_schedule_destroy(schedule);
  td_runs_destroy(runs, n);
  return exit_code;
}
