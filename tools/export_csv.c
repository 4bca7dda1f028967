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

/* A table without rows has the names of its columns all the same. */
static const struct {
  const char *name, *columns;
} tables[] = {{"op", "trace,op,name,dur_ns,leaves,opaque"},
              {"access", "trace,op,seq,sid,kind"},
              {"output", "trace,op,leaf,sid"},
              {"storage", "trace,sid,bytes,activation,retained,freed_before_op"},
              {"retained", "trace,sid"},
              {"action", "trace,schedule,op,phase,seq,kind,sid"},
              {"mark", "trace,name,op"},
              {"meta", "key,value"}};

int export_csv(const args *args, td_tape *tape, const char *folder)
{
  if (mkdir(folder, 0777) && errno != EEXIST) return trouble(args, "cannot make the folder %s: %s", folder, strerror(errno));
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    char path[4100], sql[64];
    td_error err;
    output out;
    snprintf(path, sizeof path, "%s/%s.csv", folder, tables[i].name);
    snprintf(sql, sizeof sql, "SELECT * FROM %s", tables[i].name);
    if (!output_open(args, &out, path)) return EXIT_TROUBLE;
    table t = {.to = out.to};
    td_status status = td_tape_sql(tape, sql, put_row, &t, &err);
    if (!t.named) fprintf(out.to, "%s\n", tables[i].columns);
    if (!output_close(args, &out, !status)) return status ? failed(args, &err) : EXIT_TROUBLE;
  }
  return EXIT_DONE;
}
