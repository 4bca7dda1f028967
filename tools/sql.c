/* sql: ask a tape in SQL. */
#include <inttypes.h>
#include <string.h>

#include "verbs.h"

typedef struct printer {
  const args *args;
  enum { TABS, CSV, JSON } form;
  bool header;
  uint64_t rows;
} printer;

static void put_tab_text(const char *bytes, size_t length)
{
  for (size_t i = 0; i < length; i++) {
    switch (bytes[i]) {
    case '\t': fputs("\\t", stdout); break;
    case '\n': fputs("\\n", stdout); break;
    case '\r': fputs("\\r", stdout); break;
    case '\\': fputs("\\\\", stdout); break;
    case '\0': fputs("\\0", stdout); break;
    default: putchar(bytes[i]);
    }
  }
}

/* RFC 4180 */
static void put_csv_text(const char *bytes, size_t length)
{
  bool plain = length > 0;
  for (size_t i = 0; i < length; i++) plain &= bytes[i] != '"' && bytes[i] != ',' && bytes[i] != '\n' && bytes[i] != '\r';
  if (plain) {
    fwrite(bytes, 1, length, stdout);
    return;
  }
  putchar('"');
  for (size_t i = 0; i < length; i++) {
    if (bytes[i] == '"') putchar('"');
    putchar(bytes[i]);
  }
  putchar('"');
}

static void put_hex(const char *bytes, size_t length)
{
  for (size_t i = 0; i < length; i++) printf("%02x", (unsigned char)bytes[i]);
}

static void put_value(const printer *p, const td_value *value)
{
  switch (value->type) {
  case TD_NULL:
    if (p->form == JSON) fputs("null", stdout);
    break;
  case TD_INTEGER: printf("%" PRId64, value->integer); break;
  case TD_REAL: printf("%.15g", value->real); break;
  case TD_TEXT:
    if (p->form == JSON) put_json_string(stdout, value->bytes, value->length);
    else if (p->form == CSV) put_csv_text(value->bytes, value->length);
    else put_tab_text(value->bytes, value->length);
    break;
  case TD_BLOB:
    if (p->form == JSON) putchar('"');
    put_hex(value->bytes, value->length);
    if (p->form == JSON) putchar('"');
    break;
  }
}

static void put_names(const printer *p, int n, const char *const *names)
{
  if (p->form == JSON) fputs("{\"columns\": [", stdout);
  for (int i = 0; i < n; i++) {
    if (i) fputs(p->form == TABS ? "\t" : p->form == CSV ? "," : ", ", stdout);
    put_value(p, &(td_value){.type = TD_TEXT, .bytes = names[i], .length = strlen(names[i])});
  }
  fputs(p->form == JSON ? "],\n\"rows\": [" : "\n", stdout);
}

static int put_row(void *context, int n, const char *const *names, const td_value *values)
{
  printer *p = context;
  if (p->rows++ == 0 && (p->form != TABS || p->header)) put_names(p, n, names);
  if (p->form == JSON) fputs(p->rows > 1 ? ",\n[" : "\n[", stdout);
  for (int i = 0; i < n; i++) {
    if (i) fputs(p->form == TABS ? "\t" : p->form == CSV ? "," : ", ", stdout);
    put_value(p, &values[i]);
  }
  fputs(p->form == JSON ? "]" : "\n", stdout);
  return ferror(stdout);
}

static int run(const args *args)
{
  td_tape *tape;
  td_error err;
  printer p = {.args = args, .header = arg(args, "header"), .form = arg(args, "json") ? JSON : arg(args, "csv") ? CSV : TABS};
  if (td_tape_open(&tape, args->operands[0], &err)) return failed(args, &err);
  td_status status = td_tape_sql(tape, args->operands[1], put_row, &p, &err);
  td_tape_close(tape);
  if (p.form == JSON && (p.rows || !status)) puts(p.rows ? "\n]}" : "{\"columns\": [], \"rows\": []}");
  return status ? failed(args, &err) : EXIT_DONE;
}

static const option_def options[] = {{"header", NULL, "print the names of the columns first", '\0'},
                                     {"csv", NULL, "comma-separated, with names", '\0'},
                                     OPTION_JSON,
                                     {0}};

const verb verb_sql = {
    .name = "sql",
    .operands = "TAPE STATEMENT",
    .n_operands = 2,
    .summary = "Ask a tape in SQL",
    .details = "Tables: op, access, output, storage, retained, action, mark, meta.\n"
               "Views: time_by_name, lifetime, alive, gap, largest. Nothing can be changed.",
    .example = "tapedeck sql step.tape 'SELECT name, ops, dur_ns FROM time_by_name LIMIT 10'",
    .options = options,
    .run = run,
};
