/* export --to chrome: the step as simulated, in the Trace Event Format, which Perfetto opens. Tracks for compute and for the copies each
 * way, counters for memory, and an arrow from each copy out to the copies in of the same storage. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>

#include "export_forms.h"

enum { COMPUTE = 1, D2H = 2, H2D = 3 };

/* Microseconds with all their digits. */
static void put_time(FILE *to, const char *key, uint64_t ns)
{
  fprintf(to, ", \"%s\": %" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void put_tracks(FILE *to)
{
  static const char *const names[] = {[COMPUTE] = "compute", [D2H] = "copies to the host", [H2D] = "copies to the device"};
  fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", to);
  for (int track = COMPUTE; track <= H2D; track++)
    fprintf(to, "%s{\"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"name\": \"thread_name\", \"args\": {\"name\": \"%s\"}}",
            track > COMPUTE ? ",\n" : "", track, names[track]);
}

static void put_ops(FILE *to, const td_trace *trace, const td_simulation *s)
{
  for (uint64_t op = 0; op < trace->n_ops; op++) {
    const td_timeline_point *point = &s->timeline[op];
    const td_name *name = &trace->names[trace->ops[op].name];
    fputs(",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": ", to);
    put_json_string(to, name->bytes, name->length);
    put_time(to, "ts", point->start_ns);
    put_time(to, "dur", point->end_ns - point->start_ns);
    fprintf(to, ", \"args\": {\"op\": %" PRIu64 ", \"stall_ns\": %" PRIu64 "}}", op, point->stall_ns);
    fputs(",\n{\"ph\": \"C\", \"pid\": 1, \"name\": \"memory\"", to);
    put_time(to, "ts", point->start_ns);
    fprintf(to, ", \"args\": {\"device\": %" PRIu64 ", \"host\": %" PRIu64 "}}", point->device_bytes, point->host_bytes);
  }
}

/* One end of an arrow, in the middle of a copy. */
static void put_arrow(FILE *to, const td_transfer *copy, size_t number, bool begins)
{
  fprintf(to, ",\n{\"ph\": \"%s\", \"pid\": 1, \"tid\": %d, \"cat\": \"copy\", \"name\": \"round trip\", \"id\": \"%zu\"%s",
          begins ? "s" : "f", begins ? D2H : H2D, number, begins ? "" : ", \"bp\": \"e\"");
  put_time(to, "ts", copy->start_ns + (copy->end_ns - copy->start_ns) / 2);
  fputc('}', to);
}

static const td_transfer *sorting;

static int by_storage(const void *a, const void *b)
{
  const td_transfer *x = &sorting[*(const size_t *)a], *y = &sorting[*(const size_t *)b];
  if (x->sid != y->sid) return x->sid < y->sid ? -1 : 1;
  return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

static bool put_copies(FILE *to, const td_simulation *s)
{
  size_t *order = malloc((s->n_transfers + 1) * sizeof *order);
  if (!order) return false;
  for (size_t i = 0; i < s->n_transfers; i++) {
    const td_transfer *copy = &s->transfers[i];
    fprintf(to, ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %d, \"name\": \"SID %" PRIu64 "\"", copy->kind == TD_COPY_D2H ? D2H : H2D,
            copy->sid);
    put_time(to, "ts", copy->start_ns);
    put_time(to, "dur", copy->end_ns - copy->start_ns);
    fprintf(to, ", \"args\": {\"sid\": \"%" PRIu64 "\", \"op\": %" PRIu64 "}}", copy->sid, copy->op);
    order[i] = i;
  }
  sorting = s->transfers;
  if (s->n_transfers) qsort(order, s->n_transfers, sizeof *order, by_storage);
  const td_transfer *out = NULL;
  for (size_t i = 0; i < s->n_transfers; i++) {
    const td_transfer *copy = &s->transfers[order[i]];
    if (copy->kind == TD_COPY_D2H) {
      out = copy;
    } else if (out && out->sid == copy->sid) {
      put_arrow(to, out, i, true);
      put_arrow(to, copy, i, false);
    }
  }
  free(order);
  return true;
}

static void put_marks(FILE *to, const td_trace *trace, const td_simulation *s)
{
  for (uint32_t i = 0; i < trace->n_marks; i++) {
    const td_name *name = &trace->names[trace->marks[i].name];
    fputs(",\n{\"ph\": \"i\", \"s\": \"p\", \"pid\": 1, \"tid\": 1, \"name\": ", to);
    put_json_string(to, name->bytes, name->length);
    put_time(to, "ts", s->timeline[trace->marks[i].op].start_ns);
    fputc('}', to);
  }
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
    put_tracks(out.to);
    put_ops(out.to, trace, s);
    bool whole = put_copies(out.to, s);
    put_marks(out.to, trace, s);
    fputs("\n]}\n", out.to);
    if (!whole) trouble(args, "out of memory");
    if (output_close(args, &out, whole)) exit_code = EXIT_DONE;
  }
  td_simulation_destroy(s);
  td_schedule_destroy(schedule);
  td_trace_destroy(trace);
  return exit_code;
}
