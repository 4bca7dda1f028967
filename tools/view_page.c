/* The page: page.html with the data of its tapes put in. Long lists are columns: base64 of numbers, each as the difference to the
 * one before, its sign in the lowest bit, then seven bits a byte, the lowest first. */
#include <inttypes.h>
#include <string.h>

#include "page.h" /* made from the folder view when building */
#include "view.h"

#define DATA_MARK "/*DATA*/"

/* ---- columns --------------------------------------------------------------------------------------------------- */

typedef struct packer {
  FILE *to;
  uint64_t before;
  uint8_t bytes[3];
  int n;
} packer;

static void flush_bytes(packer *p)
{
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  uint32_t bits = (uint32_t)p->bytes[0] << 16 | (uint32_t)p->bytes[1] << 8 | p->bytes[2];
  for (int i = 0; i < 4; i++) putc(i > p->n ? '=' : digits[bits >> (18 - 6 * i) & 63], p->to);
  memset(p->bytes, 0, sizeof p->bytes);
  p->n = 0;
}

static void pack_byte(packer *p, uint8_t byte)
{
  p->bytes[p->n++] = byte;
  if (p->n == 3) flush_bytes(p);
}

static packer begin_column(FILE *to, const char *key)
{
  fprintf(to, "\"%s\":\"", key);
  return (packer){.to = to};
}

static void pack(packer *p, uint64_t value)
{
  uint64_t difference = value - p->before, zigzag = difference << 1 ^ (difference >> 63 ? UINT64_MAX : 0);
  p->before = value;
  for (; zigzag > 127; zigzag >>= 7) pack_byte(p, (uint8_t)(zigzag | 128));
  pack_byte(p, (uint8_t)zigzag);
}

static void end_column(packer *p, const char *after)
{
  if (p->n) flush_bytes(p);
  fprintf(p->to, "\"%s\n", after);
}

/* A column of `value`, an expression in i. */
#define PUT_COLUMN(to, key, count, value, after)                                                                       \
  do {                                                                                                                 \
    packer column = begin_column(to, key);                                                                             \
    for (uint64_t i = 0; i < (count); i++) pack(&column, (value));                                                     \
    end_column(&column, after);                                                                                        \
  } while (0)

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void put_ops(FILE *to, const td_trace *trace)
{
  PUT_COLUMN(to, "name", trace->n_ops, trace->ops[i].name, ",");
  PUT_COLUMN(to, "dur", trace->n_ops, trace->ops[i].dur_ns, ",");
  PUT_COLUMN(to, "accessEnd", trace->n_ops, trace->ops[i + 1].first_access, ",");
  PUT_COLUMN(to, "access", trace->n_accesses, (uint64_t)trace->accesses[i].storage << 1 | (trace->accesses[i].kind == TD_WRITE), ",");
}

static void put_storages(FILE *to, const td_trace *trace)
{
  const td_storage_info *storages = trace->storages;
  fputs("\"sids\":\"", to);
  for (uint32_t i = 0; i < trace->n_storages; i++) fprintf(to, "%s%" PRIu64, i ? " " : "", storages[i].sid);
  fputs("\",\n", to);
  PUT_COLUMN(to, "bytes", trace->n_storages, storages[i].bytes, ",");
  PUT_COLUMN(to, "flags", trace->n_storages, (uint64_t)storages[i].activation | (uint64_t)storages[i].retained << 1, ",");
  PUT_COLUMN(to, "freed", trace->n_storages, storages[i].freed_before_op == TD_NEVER ? 0 : storages[i].freed_before_op + 1, ",");
}

static void put_names(FILE *to, const td_trace *trace)
{
  fputs("\"names\":[", to);
  for (uint32_t i = 0; i < trace->n_names; i++) {
    if (i) putc(',', to);
    put_json_string(to, trace->names[i].bytes, trace->names[i].length);
  }
  fputs("],\n\"marks\":[", to);
  for (uint32_t i = 0; i < trace->n_marks; i++) {
    const td_name *name = &trace->names[trace->marks[i].name];
    fputs(i ? ",[" : "[", to);
    put_json_string(to, name->bytes, name->length);
    fprintf(to, ",%" PRIu64 "]", trace->marks[i].op);
  }
  fputs("],\n", to);
}

/* The copies of one engine. SIDs keep every digit as text. */
static void put_lane(FILE *to, const td_simulation *s, td_action_kind kind)
{
  static const char *const keys[] = {"op", "start", "length"};
  bool first = true;
  fputs("{\"sids\":\"", to);
  for (size_t i = 0; i < s->n_transfers; i++) {
    if (s->transfers[i].kind != kind) continue;
    fprintf(to, "%s%" PRIu64, first ? "" : " ", s->transfers[i].sid);
    first = false;
  }
  fputs("\",\n", to);
  for (int key = 0; key < 3; key++) {
    packer p = begin_column(to, keys[key]);
    for (size_t i = 0; i < s->n_transfers; i++) {
      const td_transfer *copy = &s->transfers[i];
      const uint64_t values[] = {copy->op, copy->start_ns, copy->end_ns - copy->start_ns};
      if (copy->kind == kind) pack(&p, values[key]);
    }
    end_column(&p, key < 2 ? "," : "}");
  }
}

static void put_run(FILE *to, const view_side *side, const td_simulation *s)
{
  uint64_t n = side->trace->n_ops + 1;
  fprintf(to, "{\"peak\":%" PRIu64 ",\"hostPeak\":%" PRIu64 ",\"stalled\":%" PRIu64 ",\"out\":%" PRIu64 ",\"in\":%" PRIu64 ",\n",
          s->peak_bytes, s->host_peak_bytes, s->stall_ns, s->d2h_bytes, s->h2d_bytes);
  PUT_COLUMN(to, "device", n, s->timeline[i].device_bytes, ",");
  PUT_COLUMN(to, "host", n, s->timeline[i].host_bytes, ",");
  PUT_COLUMN(to, "stall", n, s->timeline[i].stall_ns, ",\"stays\":{");
  PUT_COLUMN(to, "storage", s->n_stays, s->stays[i].storage, ",");
  PUT_COLUMN(to, "first", s->n_stays, s->stays[i].first, ",");
  PUT_COLUMN(to, "end", s->n_stays, s->stays[i].end, "},");
  fputs("\"lanes\":[", to);
  if (s == side->planned) {
    put_lane(to, s, TD_COPY_D2H);
    fputc(',', to);
    put_lane(to, s, TD_COPY_H2D);
  }
  fputs("]}", to);
}

#define FAULTS_SHOWN 10

static void put_schedule(FILE *to, const td_schedule *schedule, const td_simulation *s)
{
  fprintf(to, "\"schedule\":%" PRId64 ",\"planner\":", schedule->id);
  put_json_string(to, schedule->planner, strlen(schedule->planner));
  if (schedule->memory_limit_bytes != UINT64_MAX) fprintf(to, ",\"budget\":%" PRIu64, schedule->memory_limit_bytes);
  fputs(",\n", to);
  fprintf(to, "\"nFaults\":%zu,\"faults\":[", s->n_faults);
  for (size_t i = 0; i < s->n_faults && i < FAULTS_SHOWN; i++) {
    fprintf(to, "%s[%" PRIu64 ",\"%" PRIu64 "\",", i ? "," : "", s->faults[i].op, s->faults[i].sid);
    put_json_string(to, s->faults[i].what, strlen(s->faults[i].what));
    fputc(']', to);
  }
  fputs("],\n", to);
}

static void put_side(FILE *to, const view_side *side)
{
  const td_trace_info *info = &side->info;
  fputs("{\"title\":", to);
  put_json_string(to, side->path, strlen(side->path));
  fprintf(to, ",\"ops\":%" PRIu64 ",\"activations\":%" PRIu64 ",\"floor\":%" PRIu64 ",\"compute\":%" PRIu64 ",\"complete\":%s,\n",
          info->ops, info->activations, info->floor_bytes, info->compute_ns, info->complete ? "true" : "false");
  if (side->planned) put_schedule(to, side->schedule, side->planned);
  else fputs("\"nFaults\":0,\"faults\":[],\n", to);
  put_names(to, side->trace);
  put_ops(to, side->trace);
  put_storages(to, side->trace);
  fputs("\"runs\":[", to);
  put_run(to, side, side->plain);
  if (side->planned) {
    fputs(",\n", to);
    put_run(to, side, side->planned);
  }
  fputs("]}", to);
}

void view_page(FILE *to, const view_side *sides, size_t n)
{
  const char *page = (const char *)page_html, *mark = strstr(page, DATA_MARK);
  fwrite(page, 1, (size_t)(mark - page), to);
  fputs("{\"tapes\":[\n", to);
  for (size_t i = 0; i < n; i++) {
    if (i) fputs(",\n", to);
    put_side(to, &sides[i]);
  }
  fputs("\n]}", to);
  fputs(mark + strlen(DATA_MARK), to);
}
