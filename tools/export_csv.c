/* export --to csv: one file for each table of sql. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "export_forms.h"

typedef struct table {
  FILE *to;
  bool named;
} table;

/* RFC 4180 */
static void put_text(FILE *to, const char *bytes, size_t length)
{
  fputc('"', to);
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] == '"') fputc('"', to);
    fputc(bytes[i], to);
  }
  fputc('"', to);
}

static int put_row(void *context, int n, const char *const *names, const td_value *values)
{
  table *t = context;
  for (int i = 0; i < n && !t->named; i++) fprintf(t->to, "%s%s", names[i], i + 1 < n ? "," : "\n");
  t->named = true;
  for (int i = 0; i < n; i++) {
    if (i) fputc(',', t->to);
    if (values[i].type == TD_INTEGER) fprintf(t->to, "%" PRId64, values[i].integer);
    else if (values[i].type == TD_REAL) fprintf(t->to, "%.17g", values[i].real);
    else if (values[i].type != TD_NULL) put_text(t->to, values[i].bytes, values[i].length);
  }
  fputc('\n', t->to);
  return ferror(t->to);
}

/* A table without rows has the names of its columns all the same. With a range of ops, a table has the rows of those ops, or of the
 * storages that they use. */
static const struct {
  const char *name, *columns;
  enum { BY_NOTHING, BY_OP, BY_SID } by;
} tables[] = {{"op", "trace,op,name,dur_ns,leaves,opaque", BY_OP},
              {"access", "trace,op,seq,sid,kind", BY_OP},
              {"output", "trace,op,leaf,sid", BY_OP},
              {"storage", "trace,sid,bytes,activation,retained,freed_before_op", BY_SID},
              {"retained", "trace,sid", BY_SID},
              {"action", "trace,schedule,op,phase,seq,kind,sid", BY_OP},
              {"mark", "trace,name,op", BY_OP},
              {"meta", "key,value", BY_NOTHING}};

typedef struct range {
  bool trace_only, ops_only;
  int64_t trace;
  uint64_t first, end;
} range;

/* `+sid` keeps SQLite from asking the table once for each SID. */
static void make_query(size_t table, const range *r, char *sql, size_t size)
{
  int n = snprintf(sql, size, "SELECT * FROM %s", tables[table].name);
  if (tables[table].by == BY_NOTHING || !(r->trace_only || r->ops_only)) return;
  n += snprintf(sql + n, size - (size_t)n, " WHERE trace = %" PRId64, r->trace);
  if (!r->ops_only) return;
  if (tables[table].by == BY_OP) snprintf(sql + n, size - (size_t)n, " AND op >= %" PRIu64 " AND op < %" PRIu64, r->first, r->end);
  else
    snprintf(sql + n, size - (size_t)n,
             " AND +sid IN (SELECT sid FROM access WHERE trace = %" PRId64 " AND op >= %" PRIu64 " AND op < %" PRIu64 ")",
             r->trace, r->first, r->end);
}

static bool read_range(const args *args, td_tape *tape, range *r)
{
  td_error err;
  td_trace_info info;
  *r = (range){.trace_only = arg(args, "trace"), .ops_only = arg(args, "ops")};
  if (!number_arg(args, "trace", TD_NEWEST, &r->trace) || !range_arg(args, "ops", &r->first, &r->end)) return false;
  if (!(r->trace_only || r->ops_only)) return true;
  if (td_tape_info(tape, r->trace, &info, &err)) {
    failed(args, &err);
    return false;
  }
  r->trace = info.trace;
  return true;
}

int export_csv(const args *args, td_tape *tape, const char *folder)
{
  range r;
  if (!read_range(args, tape, &r)) return EXIT_TROUBLE;
  if (mkdir(folder, 0777) && errno != EEXIST) return trouble(args, "cannot make the folder %s: %s", folder, strerror(errno));
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    char path[4100], sql[300];
    td_error err;
    output out;
    snprintf(path, sizeof path, "%s/%s.csv", folder, tables[i].name);
    make_query(i, &r, sql, sizeof sql);
    if (!output_open(args, &out, path)) return EXIT_TROUBLE;
    table t = {.to = out.to};
    td_status status = td_tape_sql(tape, sql, put_row, &t, &err);
    if (!t.named) fprintf(out.to, "%s\n", tables[i].columns);
    if (!output_close(args, &out, !status)) return status ? failed(args, &err) : EXIT_TROUBLE;
  }
  return EXIT_DONE;
}
