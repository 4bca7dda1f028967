/* diff: what is different between two steps, between two schedules of one step, or between a plan and its run. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "diff_run.h"
#include "diff_text.h"
#include "listing.h"
#include "uses.h"
#include "verbs.h"

/* One of the two that are compared. */
typedef struct side {
  const char *path;
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  int64_t number, schedule_number;
  td_schedule *schedule;
  td_simulation *simulation;
} side;

static void finish(side *s)
{
  td_simulation_destroy(s->simulation);
  td_schedule_destroy(s->schedule);
  td_trace_destroy(s->trace);
  td_tape_close(s->tape);
}

static bool load(const args *args, side *s)
{
  td_error err;
  td_status status = td_tape_open(&s->tape, s->path, &err);
  if (!status) status = td_tape_info(s->tape, s->number, &s->info, &err);
  if (!status) status = td_tape_load_trace(s->tape, s->number, &s->trace, &err);
  if (status) failed(args, &err);
  return !status;
}

/* A number from 1, or "newest". */
static bool read_number(const char *text, size_t length, int64_t *number)
{
  *number = TD_NEWEST;
  if (length == 6 && strncmp(text, "newest", length) == 0) return true;
  for (size_t i = 0; i < length && i < 18; i++) {
    if (text[i] < '0' || text[i] > '9') return false;
    *number = *number * 10 + (text[i] - '0');
  }
  return length && length <= 18 && *number > 0;
}

/* "X:Y", or "newest" for both. */
static bool pair_arg(const args *args, const char *name, int64_t *x, int64_t *y)
{
  const char *text = arg(args, name);
  if (!text || strcmp(text, "newest") == 0) return true;
  const char *colon = strchr(text, ':');
  if (colon && read_number(text, (size_t)(colon - text), x) && read_number(colon + 1, strlen(colon + 1), y)) return true;
  trouble(args, "--%s %s: expected X:Y, a number in A and one in B", name, text);
  return false;
}

/* ---- traces ------------------------------------------------------------------------------------------------------- */

static const struct {
  uint32_t bit;
  const char *name;
} kinds[] = {{TD_DIFF_NAME, "names"},         {TD_DIFF_LEAVES, "leaves"},     {TD_DIFF_OPAQUE, "opaque"},
             {TD_DIFF_BINDINGS, "bindings"}, {TD_DIFF_ACCESSES, "accesses"}, {TD_DIFF_SIZES, "sizes"}};

static cJSON *changes_json(const compared *c, const change *changes, size_t n)
{
  cJSON *list = cJSON_CreateArray();
  for (size_t i = 0; i < n; i++) {
    const td_diff_row *row = &c->diff->rows[changes[i].first];
    if (!changes[i].places) continue;
    cJSON *item = cJSON_CreateObject();
    if (row->a == TD_NO_OP) cJSON_AddNullToObject(item, "a");
    else json_u64(item, "a", row->a);
    if (row->b == TD_NO_OP) cJSON_AddNullToObject(item, "b");
    else json_u64(item, "b", row->b);
    json_u64(item, "ops", changes[i].end - changes[i].first);
    json_u64(item, "removed", changes[i].removed);
    json_u64(item, "added", changes[i].added);
    json_u64(item, "places", changes[i].places);
    cJSON *names = cJSON_AddArrayToObject(item, "kinds");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      if (changes[i].kinds & kinds[k].bit) cJSON_AddItemToArray(names, cJSON_CreateString(kinds[k].name));
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

static int print_json(const args *args, const side *a, const side *b, const compared *c, const change *changes, size_t n)
{
  const td_diff *d = c->diff;
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "same", d->same);
  if (d->first_difference == TD_NO_OP) cJSON_AddNullToObject(json, "first_difference");
  else json_u64(json, "first_difference", d->first_difference);
  json_u64(json, "ops_a", d->ops_a);
  json_u64(json, "ops_b", d->ops_b);
  json_u64(json, "common_ops", d->common_ops);
  json_u64(json, "removed", d->removed);
  json_u64(json, "added", d->added);
  json_u64(json, "names", d->names);
  json_u64(json, "leaves", d->leaves);
  json_u64(json, "opaque", d->opaque);
  json_u64(json, "bindings", d->bindings);
  json_u64(json, "accesses", d->accesses);
  json_u64(json, "sizes", d->sizes);
  json_u64(json, "retained", d->retained);
  json_u64(json, "activations", d->activations);
  json_u64(json, "frees", d->frees);
  json_string(json, "digest_a", a->info.digest);
  json_string(json, "digest_b", b->info.digest);
  cJSON_AddItemToObject(json, "changes", changes_json(c, changes, n));
  return json_print(args, json) ? EXIT_TROUBLE : d->same ? EXIT_DONE : EXIT_NO;
}

static void print_figure(const char *what, uint64_t count, const char *unit)
{
  char text[32];
  if (count) printf("%-22s %11s %s%s\n", what, with_commas(count, text), unit, count == 1 ? "" : "s");
}

static void print_side(const char *letter, const side *s)
{
  char n[32];
  printf("%s  %s, trace %" PRId64 ": %s ops%s\n", letter, s->path, s->info.trace, with_commas(s->info.ops, n),
         s->info.complete ? "" : ", unfinished");
}

static void print_summary(const side *a, const side *b, const compared *c)
{
  const td_diff *d = c->diff;
  char op[128];
  print_side("A", a);
  print_side("B", b);
  if (d->same) {
    puts("They are the same step.");
    return;
  }
  putchar('\n');
  print_figure("common", d->common_ops, "op");
  print_figure("only in A", d->removed, "op");
  print_figure("only in B", d->added, "op");
  print_figure("another name", d->names, "op");
  print_figure("other leaves", d->leaves, "op");
  print_figure("region in one only", d->opaque, "op");
  print_figure("other accesses", d->accesses, "op");
  print_figure("other bindings", d->bindings, "op");
  print_figure("another size", d->sizes, "storage");
  print_figure("retained in one only", d->retained, "storage");
  print_figure("activation in one only", d->activations, "storage");
  print_figure("freed at another place", d->frees, "storage");
  if (d->first_difference == TD_NO_OP) puts("No op differs.");
  else if (d->first_difference == d->ops_a) puts("The first difference is at the end of A.");
  else printf("The first difference is at %s of A.\n", op_text(a->trace, d->first_difference, op, sizeof op));
}

static int print_trace_diff(const args *args, const side *a, const side *b, const compared *c, int64_t context)
{
  const char *limit_text = arg(args, "limit");
  bool all = limit_text && strcmp(limit_text, "all") == 0;
  int64_t limit = 0;
  size_t n;
  if (!all && !number_arg(args, "limit", 40, &limit)) return EXIT_TROUBLE;
  change *changes = list_changes(c, &n);
  int exit_code = c->diff->same ? EXIT_DONE : EXIT_NO;
  if (!changes) return trouble(args, "out of memory");
  if (arg(args, "json")) {
    exit_code = print_json(args, a, b, c, changes, n);
  } else {
    print_summary(a, b, c);
    if (n) putchar('\n');
    print_changes(c, changes, n, (size_t)context, all ? SIZE_MAX : (size_t)limit);
  }
  free(changes);
  return exit_code;
}

/* ---- schedules ------------------------------------------------------------------------------------------------------ */

#define MOVED_SHOWN 20

static bool load_schedule(const args *args, side *s)
{
  td_error err;
  td_status status = td_tape_load_schedule(s->tape, s->info.trace, s->schedule_number, &s->schedule, &err);
  if (!status) status = td_simulate(s->trace, s->schedule, false, &s->simulation, &err);
  if (status) failed(args, &err);
  return !status;
}

static void schedule_json(cJSON *json, const char *key, const side *s)
{
  cJSON *object = cJSON_AddObjectToObject(json, key);
  json_u64(object, "schedule_id", (uint64_t)s->schedule->id);
  json_string(object, "planner", s->schedule->planner);
  json_u64(object, "memory_limit_bytes", s->schedule->memory_limit_bytes);
  json_u64(object, "actions", s->schedule->n_actions);
  cJSON_AddBoolToObject(object, "ok", s->simulation->ok);
  json_u64(object, "peak_bytes", s->simulation->peak_bytes);
  json_u64(object, "host_peak_bytes", s->simulation->host_peak_bytes);
  json_u64(object, "stall_ns", s->simulation->stall_ns);
  json_u64(object, "d2h_bytes", s->simulation->d2h_bytes);
  json_u64(object, "h2d_bytes", s->simulation->h2d_bytes);
}

static int print_schedule_json(const args *args, const side *a, const side *b, const td_schedule_diff *d)
{
  cJSON *json = cJSON_CreateObject();
  cJSON_AddBoolToObject(json, "same", d->same);
  schedule_json(json, "a", a);
  schedule_json(json, "b", b);
  json_u64(json, "common_actions", d->common);
  json_u64(json, "only_a", d->only_a);
  json_u64(json, "only_b", d->only_b);
  json_u64(json, "moved_a", d->moved_a);
  json_u64(json, "moved_b", d->moved_b);
  json_u64(json, "moved_both", d->moved_both);
  json_u64(json, "moved_alike", d->alike);
  cJSON *list = cJSON_AddArrayToObject(json, "differ");
  for (size_t i = 0; i < d->n_moved; i++) {
    cJSON *item = cJSON_CreateObject();
    json_u64(item, "sid", a->trace->storages[d->moved[i].storage].sid);
    json_u64(item, "bytes", a->trace->storages[d->moved[i].storage].bytes);
    cJSON_AddBoolToObject(item, "moved_a", d->moved[i].a.times > 0);
    cJSON_AddBoolToObject(item, "moved_b", d->moved[i].b.times > 0);
    cJSON_AddItemToArray(list, item);
  }
  return json_print(args, json) ? EXIT_TROUBLE : d->same ? EXIT_DONE : EXIT_NO;
}

static void print_beside(const char *what, const char *a, const char *b)
{
  printf("%-14s %16s %16s\n", what, a, b);
}

static void print_sizes(const char *what, uint64_t a, uint64_t b)
{
  char x[24], y[24];
  print_beside(what, a == UINT64_MAX ? "any" : td_format_size(a, x, sizeof x), b == UINT64_MAX ? "any" : td_format_size(b, y, sizeof y));
}

static void print_counts(const char *what, uint64_t a, uint64_t b)
{
  char x[32], y[32];
  print_beside(what, with_commas(a, x), with_commas(b, y));
}

static const char *moves_text(const td_moves *moves, char *text, size_t size)
{
  char back[32] = "the end";
  if (!moves->times) return "stays";
  if (moves->back != TD_NO_OP) snprintf(back, sizeof back, "%" PRIu64, moves->back);
  if (moves->away == TD_NO_OP) snprintf(text, size, "copied %" PRIu64, moves->out);
  else snprintf(text, size, "%" PRIu64 " to %s", moves->away, back);
  return text;
}

static void print_moved(const side *a, const td_schedule_diff *d)
{
  char size[24], in_a[64], in_b[64];
  if (!d->n_moved) return;
  puts("\nStorages that they do not move alike, the largest first, with the ops between which each is away first:\n");
  printf("%12s %10s  %-18s %-18s\n", "SID", "size", "A", "B");
  for (size_t i = 0; i < d->n_moved && i < MOVED_SHOWN; i++) {
    const td_storage_info *storage = &a->trace->storages[d->moved[i].storage];
    printf("%12" PRIu64 " %10s  %-18s %-18s\n", storage->sid, td_format_size(storage->bytes, size, sizeof size),
           moves_text(&d->moved[i].a, in_a, sizeof in_a), moves_text(&d->moved[i].b, in_b, sizeof in_b));
  }
  if (d->n_moved > MOVED_SHOWN) printf("... and %zu more\n", d->n_moved - MOVED_SHOWN);
}

static void print_schedule_text(const side *a, const side *b, const td_schedule_diff *d)
{
  char x[32], y[32];
  snprintf(x, sizeof x, "%" PRId64, a->schedule->id);
  snprintf(y, sizeof y, "%" PRId64, b->schedule->id);
  print_beside("", "A", "B");
  print_beside("schedule", x, y);
  print_beside("planner", a->schedule->planner, b->schedule->planner);
  print_sizes("budget", a->schedule->memory_limit_bytes, b->schedule->memory_limit_bytes);
  print_counts("actions", a->schedule->n_actions, b->schedule->n_actions);
  print_counts("  not in other", d->only_a, d->only_b);
  print_counts("storages moved", d->moved_a, d->moved_b);
  print_sizes("copied out", a->simulation->d2h_bytes, b->simulation->d2h_bytes);
  print_sizes("copied in", a->simulation->h2d_bytes, b->simulation->h2d_bytes);
  print_sizes("peak", a->simulation->peak_bytes, b->simulation->peak_bytes);
  print_sizes("on the host", a->simulation->host_peak_bytes, b->simulation->host_peak_bytes);
  print_beside("stall", as_time(a->simulation->stall_ns, x), as_time(b->simulation->stall_ns, y));
  print_beside("faults", with_commas(a->simulation->n_faults, x), with_commas(b->simulation->n_faults, y));
  if (d->same) puts("\nThey do the same.");
  print_moved(a, d);
}

static int compare_schedules(const args *args, side *a, side *b, const td_diff *traces)
{
  td_error err;
  td_schedule_diff *d;
  if (!traces->same) return trouble(args, "the two steps differ, so their schedules cannot be compared; see tapedeck diff without --schedules");
  if (!load_schedule(args, a) || !load_schedule(args, b)) return EXIT_TROUBLE;
  if (td_diff_schedules(a->trace, b->trace, traces, a->schedule, b->schedule, &d, &err)) return failed(args, &err);
  int exit_code = d->same ? EXIT_DONE : EXIT_NO;
  if (arg(args, "json")) exit_code = print_schedule_json(args, a, b, d);
  else if (!arg(args, "quiet")) print_schedule_text(a, b, d);
  td_schedule_diff_destroy(d);
  return exit_code;
}

/* ---- the verb ---------------------------------------------------------------------------------------------------------- */

static int compare(const args *args, side *a, side *b, int64_t context)
{
  td_error err;
  td_diff *diff;
  if (td_diff_traces(a->trace, b->trace, &diff, &err)) return failed(args, &err);
  compared c = {a->trace, b->trace, diff};
  int exit_code = diff->same ? EXIT_DONE : EXIT_NO;
  if (arg(args, "schedules")) exit_code = compare_schedules(args, a, b, diff);
  else if (arg(args, "json") || !arg(args, "quiet")) exit_code = print_trace_diff(args, a, b, &c, context);
  td_diff_destroy(diff);
  return exit_code;
}

static int run(const args *args)
{
  side a = {.path = args->operands[0]}, b = {.path = args->operands[args->n_operands > 1 ? 1 : 0]};
  int64_t context;
  bool of_run = arg(args, "run"), one_will_do = of_run || arg(args, "traces") || arg(args, "schedules");
  if (args->n_operands > (of_run ? 1 : 2) || (args->n_operands == 1 && !one_will_do))
    return trouble(args, "expected A B, or A with --traces X:Y, --schedules X:Y or --run N; see tapedeck diff --help");
  if (of_run && (arg(args, "traces") || arg(args, "schedules"))) return trouble(args, "--run stands alone: a run knows its trace and schedule");
  if (!pair_arg(args, "traces", &a.number, &b.number) || !pair_arg(args, "schedules", &a.schedule_number, &b.schedule_number) ||
      !number_arg(args, "context", 3, &context))
    return EXIT_TROUBLE;
  int exit_code = EXIT_TROUBLE;
  if (of_run && load(args, &a)) exit_code = diff_run(args, a.tape, a.trace, a.info.trace);
  else if (!of_run && load(args, &a) && load(args, &b)) exit_code = compare(args, &a, &b, context);
  finish(&a);
  finish(&b);
  return exit_code;
}

static const option_def options[] = {{"quiet", NULL, "print nothing; only the exit code tells", 'q'},
                                     {"context", "N", "ops to show around a change; default: 3", '\0'},
                                     {"limit", "N", "changes to show, or all; default: 40", 'n'},
                                     {"traces", "X:Y", "trace X of A beside Y of B; default: the newest", '\0'},
                                     {"schedules", "X:Y", "compare these schedules, or newest, in place of the traces", '\0'},
                                     {"run", "N", "what this run did, or the newest, beside what its schedule planned", '\0'},
                                     OPTION_JSON,
                                     {0}};

const verb verb_diff = {
    .name = "diff",
    .operands = "A [B]",
    .n_operands = AT_LEAST_ONE,
    .summary = "Say what is different between two steps, two schedules, or a plan and its run",
    .details = "Durations never differ, and SIDs are compared by where they first appear. A change that is made in many places, as in each\n"
               "layer, is shown once. Exit code 0: the same; 1: different. With one tape, two of its traces or schedules are compared.",
    .example = "tapedeck diff monday.tape tuesday.tape",
    .options = options,
    .run = run,
};
