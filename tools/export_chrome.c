/* export --to chrome: the step as simulated, in the Trace Event Format, which Perfetto opens. Tracks for compute, with its stalls,
 * and for the copies each way, counters for memory, and an arrow from each copy out to the copies in of the same bytes. SIDs are text:
 * what reads such files keeps numbers as doubles. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>

#include "export_forms.h"

enum { COMPUTE = 1, D2H = 2, H2D = 3 };

typedef struct writer {
  FILE *to;
  const td_trace *trace;
  const td_simulation *s;
  bool still; /* no time passes in the whole step: an op is shown as a microsecond */
  const char *separator;
} writer;

/* Begins an event: its kind, and the name, which may be bytes of any kind. */
static void begin_event(writer *w, const char *kind, int track, const char *name, size_t length)
{
  fprintf(w->to, "%s{\"ph\": \"%s\", \"pid\": 1, \"tid\": %d, \"name\": ", w->separator, kind, track);
  put_json_string(w->to, name, length);
  w->separator = ",\n";
}

/* Microseconds with all their digits. */
static void put_time(writer *w, const char *key, uint64_t ns)
{
  fprintf(w->to, ", \"%s\": %" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_span(writer *w, uint64_t start_ns, uint64_t end_ns)
{
  put_time(w, "ts", start_ns);
  put_time(w, "dur", end_ns - start_ns);
}

static uint64_t start_of(const writer *w, uint64_t op)
{
  return w->still ? op * 1000 : w->s->timeline[op].start_ns;
}

/* ---- tracks ---------------------------------------------------------------------------------------------------- */

static void put_label(writer *w, const char *what, int track, const char *text)
{
  begin_event(w, "M", track, what, strlen(what));
  fprintf(w->to, ", \"args\": {\"name\": \"%s\"}}", text);
}

static void put_tracks(writer *w)
{
  static const char *const names[] = {[COMPUTE] = "compute", [D2H] = "D2H copies", [H2D] = "H2D copies"};
  put_label(w, "process_name", 0, w->still ? "step (no durations: an op is shown as 1 us)" : "step");
  for (int track = COMPUTE; track <= H2D; track++) {
    put_label(w, "thread_name", track, names[track]);
    begin_event(w, "M", track, "thread_sort_index", strlen("thread_sort_index"));
    fprintf(w->to, ", \"args\": {\"sort_index\": %d}}", track);
  }
}

static void put_op(writer *w, uint64_t op)
{
  const td_name *name = &w->trace->names[w->trace->ops[op].name];
  uint64_t start = start_of(w, op), stall = w->s->timeline[op].stall_ns;
  begin_event(w, "X", COMPUTE, name->bytes, name->length);
  put_span(w, start, w->still ? start + 1000 : w->s->timeline[op].end_ns);
  fprintf(w->to, ", \"cat\": \"op\", \"args\": {\"op\": %" PRIu64 ", \"stall_ns\": \"%" PRIu64 "\"}}", op, stall);
}

static void put_stall(writer *w, uint64_t op)
{
  const td_timeline_point *point = &w->s->timeline[op];
  if (!point->stall_ns) return;
  begin_event(w, "X", COMPUTE, "stall", strlen("stall"));
  put_span(w, point->start_ns - point->stall_ns, point->start_ns);
  fprintf(w->to, ", \"cat\": \"stall\", \"args\": {\"before_op\": %" PRIu64 "}}", op);
}

static void put_memory(writer *w, uint64_t op)
{
  const td_timeline_point *point = &w->s->timeline[op];
  begin_event(w, "C", COMPUTE, "memory", strlen("memory"));
  put_time(w, "ts", start_of(w, op));
  fprintf(w->to, ", \"args\": {\"device\": %" PRIu64 ", \"host\": %" PRIu64 "}}", point->device_bytes, point->host_bytes);
}

static void put_marks(writer *w)
{
  for (uint32_t i = 0; i < w->trace->n_marks; i++) {
    const td_name *name = &w->trace->names[w->trace->marks[i].name];
    begin_event(w, "i", COMPUTE, name->bytes, name->length);
    put_time(w, "ts", start_of(w, w->trace->marks[i].op));
    fputs(", \"s\": \"p\"}", w->to);
  }
}

/* ---- copies ---------------------------------------------------------------------------------------------------- */

static void put_copy(writer *w, const td_transfer *copy, const td_storage_info *storage)
{
  char name[32];
  snprintf(name, sizeof name, "SID %" PRIu64, copy->sid);
  begin_event(w, "X", copy->kind == TD_COPY_D2H ? D2H : H2D, name, strlen(name));
  put_span(w, copy->start_ns, copy->end_ns);
  fprintf(w->to, ", \"cat\": \"copy\", \"args\": {\"sid\": \"%" PRIu64 "\", \"bytes\": %" PRIu64 ", \"op\": %" PRIu64 "}}", copy->sid,
          storage->bytes, copy->op);
}

/* One end of an arrow, in the middle of a copy. */
static void put_arrow(writer *w, const td_transfer *copy, size_t number, bool begins)
{
  begin_event(w, begins ? "s" : "f", begins ? D2H : H2D, "round trip", strlen("round trip"));
  fprintf(w->to, ", \"cat\": \"copy\", \"id\": \"%zu\"%s", number, begins ? "" : ", \"bp\": \"e\"");
  put_time(w, "ts", copy->start_ns + (copy->end_ns - copy->start_ns) / 2);
  fputc('}', w->to);
}

static int by_storage(const void *a, const void *b)
{
  const td_transfer *x = *(const td_transfer *const *)a, *y = *(const td_transfer *const *)b;
  if (x->sid != y->sid) return x->sid < y->sid ? -1 : 1;
  if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
  return (x > y) - (x < y); /* as issued */
}

static int by_sid(const void *a, const void *b)
{
  const td_storage_info *x = *(const td_storage_info *const *)a, *y = *(const td_storage_info *const *)b;
  return (x->sid > y->sid) - (x->sid < y->sid);
}

/* The copies of `n` in the order of their storages, each with an arrow from the copy out before it. */
static void put_sorted(writer *w, const td_transfer *const *copies, size_t n, const td_storage_info *const *storages)
{
  const td_transfer *out = NULL;
  for (size_t i = 0; i < n; i++) {
    const td_transfer *copy = copies[i];
    while ((*storages)->sid != copy->sid) storages++;
    put_copy(w, copy, *storages);
    if (copy->kind == TD_COPY_D2H) {
      out = copy;
    } else if (out && out->sid == copy->sid) {
      put_arrow(w, out, i, true);
      put_arrow(w, copy, i, false);
    }
  }
}

static bool put_copies(writer *w)
{
  size_t n = w->s->n_transfers, n_storages = w->trace->n_storages;
  const td_transfer **copies = malloc((n + 1) * sizeof *copies);
  const td_storage_info **storages = malloc((n_storages + 1) * sizeof *storages);
  if (copies && storages) {
    for (size_t i = 0; i < n; i++) copies[i] = &w->s->transfers[i];
    for (size_t i = 0; i < n_storages; i++) storages[i] = &w->trace->storages[i];
    qsort(copies, n, sizeof *copies, by_storage);
    qsort(storages, n_storages, sizeof *storages, by_sid);
    put_sorted(w, copies, n, storages);
  }
  bool whole = copies && storages;
  free(copies);
  free(storages);
  return whole;
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static bool put_trace(writer *w)
{
  uint64_t n = w->trace->n_ops;
  fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", w->to);
  put_tracks(w);
  for (uint64_t op = 0; op <= n; op++) {
    put_stall(w, op);
    if (op < n) put_op(w, op);
    put_memory(w, op);
  }
  bool whole = put_copies(w);
  put_marks(w);
  fputs("\n]}\n", w->to);
  return whole;
}

int export_chrome(const args *args, td_tape *tape, int64_t number)
{
  td_trace *trace = NULL;
  td_schedule *schedule = NULL;
  td_simulation *s = NULL;
  td_error err;
  output out;
  int exit_code = EXIT_TROUBLE;
  td_status status = td_tape_load_trace(tape, number, &trace, &err);
  if (!status) status = td_tape_load_schedule(tape, number, TD_NEWEST, &schedule, &err);
  if (status == TD_E_NOT_FOUND && trace) status = TD_OK; /* the step as it was recorded */
  if (!status) status = td_simulate(trace, schedule, true, &s, &err);
  if (status) {
    failed(args, &err);
  } else if (output_open(args, &out, arg(args, "output"))) {
    bool still = !s->timeline[trace->n_ops].start_ns && !s->n_transfers;
    writer w = {.to = out.to, .trace = trace, .s = s, .still = still, .separator = ""};
    bool whole = put_trace(&w);
    if (!whole) trouble(args, "out of memory");
    if (output_close(args, &out, whole) && whole) exit_code = EXIT_DONE;
  }
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return exit_code;
}
