/* export --to dot: the ops of a range and the storages they use as a graph, for Graphviz. */
#include <inttypes.h>

#include <tapedeck/size.h>

#include "export_forms.h"

/* Text inside double quotes; bytes that are no printable ASCII become '?'. */
static void put_text(FILE *to, const char *bytes, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    unsigned char c = (unsigned char)bytes[i];
    if (c == '"' || c == '\\') fputc('\\', to);
    fputc(c < 0x20 || c >= 0x7f ? '?' : c, to);
  }
}

/* A SID above 2^63-1 is text. */
static void put_number(FILE *to, const td_value *value)
{
  if (value->type == TD_INTEGER) fprintf(to, "%" PRId64, value->integer);
  else put_text(to, value->bytes, value->length);
}

static int put_op(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names;
  FILE *to = context;
  fprintf(to, "  op%" PRId64 " [label=\"%" PRId64 " ", values[0].integer, values[0].integer);
  put_text(to, values[1].bytes, values[1].length);
  fputs("\"]\n", to);
  return ferror(to);
}

/* A storage that the step found is drawn with a dashed line, one that is held at its end with a bold one. */
static int put_storage(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names;
  FILE *to = context;
  char size[24];
  uint64_t bytes = values[1].type == TD_INTEGER ? (uint64_t)values[1].integer : UINT64_MAX;
  fputs("  s", to);
  put_number(to, &values[0]);
  fputs(" [shape=ellipse, label=\"SID ", to);
  put_number(to, &values[0]);
  fprintf(to, "\\n%s\"%s]\n", td_format_size(bytes, size, sizeof size),
          values[3].integer ? ", style=bold" : values[2].integer ? "" : ", style=dashed");
  return ferror(to);
}

static int put_access(void *context, int n, const char *const *names, const td_value *values)
{
  (void)n, (void)names;
  FILE *to = context;
  bool writes = values[2].bytes[0] == 'W';
  fputs("  ", to);
  if (writes) fprintf(to, "op%" PRId64 " -> ", values[0].integer);
  fputc('s', to);
  put_number(to, &values[1]);
  if (!writes) fprintf(to, " -> op%" PRId64, values[0].integer);
  fputc('\n', to);
  return ferror(to);
}

static td_status put_graph(td_tape *tape, int64_t trace, uint64_t first, uint64_t end, FILE *to, td_error *err)
{
  char where[120], sql[400];
  snprintf(where, sizeof where, "WHERE trace = %" PRId64 " AND op >= %" PRIu64 " AND op < %" PRIu64, trace, first, end);
  fputs("digraph step {\n  rankdir=TB\n  node [shape=box, fontname=\"sans-serif\"]\n", to);
  snprintf(sql, sizeof sql, "SELECT op, name FROM op %s", where);
  td_status status = td_tape_sql(tape, sql, put_op, to, err);
  snprintf(sql, sizeof sql,
           "SELECT sid, bytes, activation, retained FROM storage WHERE trace = %" PRId64 " AND +sid IN (SELECT sid FROM access %s)",
           trace, where);
  if (!status) status = td_tape_sql(tape, sql, put_storage, to, err);
  snprintf(sql, sizeof sql, "SELECT op, sid, kind FROM access %s", where);
  if (!status) status = td_tape_sql(tape, sql, put_access, to, err);
  fputs("}\n", to);
  return status;
}

int export_dot(const args *args, td_tape *tape, int64_t trace)
{
  td_error err;
  td_trace_info info;
  output out;
  uint64_t first = 0, end = INT64_MAX;
  if (!range_arg(args, "ops", &first, &end)) return EXIT_TROUBLE;
  if (td_tape_info(tape, trace, &info, &err)) return failed(args, &err);
  if (!output_open(args, &out, arg(args, "output"))) return EXIT_TROUBLE;
  td_status status = put_graph(tape, info.trace, first, end, out.to, &err);
  if (!output_close(args, &out, !status)) return status ? failed(args, &err) : EXIT_TROUBLE;
  return status ? failed(args, &err) : EXIT_DONE;
}
