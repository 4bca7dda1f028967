#include "format/sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "format/reader.h"
#include "format/schedule.h"

/* ---- the tables ----------------------------------------------------------------------------------------------- */

typedef enum table_id { OP, ACCESS, OUTPUT, STORAGE, RETAINED, ACTION, MARK } table_id;

/* The columns of all tables; a table has them in its own order. */
typedef enum field { F_TRACE, F_OP, F_SEQ, F_NAME, F_DUR, F_LEAVES, F_OPAQUE, F_SID, F_KIND, F_LEAF, F_BYTES, F_ACTIVATION,
                     F_RETAINED, F_FREED, F_SCHEDULE, F_PHASE } field;

#define FIELDS_MAX 7

typedef struct table {
  table_id id;
  const char *name, *sql;
  field fields[FIELDS_MAX];
} table;

static const table tables[] = {
    {OP, "op", "CREATE TABLE op(trace INT, op INT, name TEXT, dur_ns INT, leaves INT, opaque INT)",
     {F_TRACE, F_OP, F_NAME, F_DUR, F_LEAVES, F_OPAQUE}},
    {ACCESS, "access", "CREATE TABLE access(trace INT, op INT, seq INT, sid INT, kind TEXT)",
     {F_TRACE, F_OP, F_SEQ, F_SID, F_KIND}},
    {OUTPUT, "output", "CREATE TABLE output(trace INT, op INT, leaf INT, sid INT)", {F_TRACE, F_OP, F_LEAF, F_SID}},
    {STORAGE, "storage",
     "CREATE TABLE storage(trace INT, sid INT, bytes INT, activation INT, retained INT, freed_before_op INT)",
     {F_TRACE, F_SID, F_BYTES, F_ACTIVATION, F_RETAINED, F_FREED}},
    {RETAINED, "retained", "CREATE TABLE retained(trace INT, sid INT)", {F_TRACE, F_SID}},
    {ACTION, "action", "CREATE TABLE action(trace INT, schedule INT, op INT, phase TEXT, seq INT, kind TEXT, sid INT)",
     {F_TRACE, F_SCHEDULE, F_OP, F_PHASE, F_SEQ, F_KIND, F_SID}},
    {MARK, "mark", "CREATE TABLE mark(trace INT, name TEXT, op INT)", {F_TRACE, F_NAME, F_OP}},
};

#define N_TABLES (sizeof tables / sizeof *tables)

/* The columns of a block that a field needs; for OUTPUT and ACCESS those of OP_* say where an op's rows end. */
static uint32_t needs(table_id id, field f)
{
  switch (f) {
  case F_NAME: return id == OP ? TD_COL_BIT(TD_COL_OP_NAME) : 0;
  case F_DUR: return TD_COL_BIT(TD_COL_OP_DUR);
  case F_LEAVES: return TD_COL_BIT(TD_COL_OP_LEAVES);
  case F_OPAQUE: return TD_COL_BIT(TD_COL_OP_OPAQUE);
  case F_KIND: return id == ACCESS ? TD_COL_BIT(TD_COL_ACCESS_KIND) : 0;
  case F_LEAF: return TD_COL_BIT(TD_COL_OUTPUT_LEAF);
  case F_SID:
    if (id == ACCESS) return TD_COL_BIT(TD_COL_ACCESS_SID);
    return id == OUTPUT ? TD_COL_BIT(TD_COL_OUTPUT_SID) | TD_COL_BIT(TD_COL_OP_ACCESSES) | TD_COL_BIT(TD_COL_ACCESS_SID) : 0;
  default: return 0;
  }
}

/* ---- constraints ---------------------------------------------------------------------------------------------- */

typedef struct vtab {
  sqlite3_vtab base;
  const table *table;
  td_db db; /* the connection is not ours */
} vtab;

/* A constraint that is pushed down is one letter of idxStr: t trace =, o op =, a op >= (or >), b op <= (or <), s sid =, k kind =.
 * SQLite checks each again, so what is left through too much does no harm. */
static char letter_of(field f, unsigned char operator)
{
  bool equal = operator == SQLITE_INDEX_CONSTRAINT_EQ;
  if (f == F_TRACE) return equal ? 't' : '\0';
  if (f == F_SID) return equal ? 's' : '\0';
  if (f == F_KIND) return equal ? 'k' : '\0';
  if (f != F_OP) return '\0';
  if (equal) return 'o';
  if (operator == SQLITE_INDEX_CONSTRAINT_GE || operator == SQLITE_INDEX_CONSTRAINT_GT) return 'a';
  return operator == SQLITE_INDEX_CONSTRAINT_LE || operator == SQLITE_INDEX_CONSTRAINT_LT ? 'b' : '\0';
}

/* Rows come by trace and op. */
static bool comes_in_order(const table *t, const sqlite3_index_info *info, bool one_trace)
{
  int at = 0;
  if (t->id != OP && t->id != ACCESS && t->id != OUTPUT) return false;
  if (at < info->nOrderBy && t->fields[info->aOrderBy[at].iColumn < 0 ? 0 : info->aOrderBy[at].iColumn] == F_TRACE) {
    if (info->aOrderBy[at++].desc) return false;
    one_trace = true;
  }
  if (!one_trace) return false;
  if (at < info->nOrderBy && info->aOrderBy[at].iColumn >= 0 && t->fields[info->aOrderBy[at].iColumn] == F_OP)
    if (info->aOrderBy[at++].desc) return false;
  return at == info->nOrderBy;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info)
{
  const table *t = ((vtab *)base)->table;
  char letters[64];
  int n = 0;
  double rows = 1e6;
  bool one_trace = false;
  for (int i = 0; i < info->nConstraint && n < 60; i++) {
    const struct sqlite3_index_constraint *c = &info->aConstraint[i];
    char letter = c->usable && c->iColumn >= 0 ? letter_of(t->fields[c->iColumn], c->op) : '\0';
    if (!letter) continue;
    info->aConstraintUsage[i].argvIndex = n + 1;
    letters[n++] = letter;
    one_trace |= letter == 't';
    rows /= letter == 'o' ? 1e5 : letter == 's' ? 1e4 : 2;
  }
  letters[n] = '\0';
  info->idxNum = (int)(info->colUsed & 0x7fff);
  info->idxStr = sqlite3_mprintf("%s", letters);
  info->needToFreeIdxStr = 1;
  info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
  info->estimatedCost = strchr(letters, 'o') ? 2000 : 1e5 + rows;
  info->orderByConsumed = info->nOrderBy > 0 && comes_in_order(t, info, one_trace);
  return info->idxStr ? SQLITE_OK : SQLITE_NOMEM;
}

/* ---- cursors -------------------------------------------------------------------------------------------------- */

typedef struct cursor {
  sqlite3_vtab_cursor base;
  uint32_t mask; /* columns of a block to decode */
  bool wants_names;
  /* constraints; all of one value as a range */
  bool one_trace, one_sid, one_kind;
  uint64_t kind; /* td_access_kind, of ACCESS alone */
  int64_t trace;
  uint64_t sid, first_op, last_op;
  int64_t *traces;
  size_t n_traces, next_trace;
  bool open;  /* reader and what hangs on it are of a trace */
  bool end;   /* no more rows */
  td_reader reader;
  td_name *names;
  int64_t rowid;
  /* OP, ACCESS, OUTPUT: where the row stands in the block */
  uint64_t seq;
  size_t op, n_ops; /* within the block */
  size_t at, left;  /* the access or output, and how many more its op has */
  uint64_t index;   /* within its op */
  /* STORAGE, RETAINED, MARK, ACTION: all rows of the trace */
  td_storage_table storages;
  td_trace_row row;
  int64_t *schedules;
  size_t n_schedules, next_schedule;
  td_schedule *schedule;
  sqlite3_stmt *marks;
  uint64_t action_seq;
} cursor;

static void close_trace(cursor *c)
{
  if (!c->open) return;
  td_reader_finish(&c->reader);
  td_storage_table_finish(&c->storages);
  free(c->names);
  free(c->schedules);
  td_schedule_destroy(c->schedule);
  sqlite3_finalize(c->marks);
  c->names = NULL;
  c->schedules = NULL;
  c->schedule = NULL;
  c->marks = NULL;
  c->open = false;
}

static const vtab *vtab_of(const cursor *c)
{
  return (const vtab *)c->base.pVtab;
}

static td_status open_trace(cursor *c, int64_t trace, td_error *err)
{
  const vtab *v = vtab_of(c);
  c->open = true;
  c->at = c->left = c->op = c->n_ops = 0;
  c->seq = c->index = 0;
  td_status status = td_reader_init(&c->reader, &v->db, trace, err);
  if (!status && c->wants_names) status = td_reader_names(&c->reader, &c->names, err);
  if (status) return status;
  switch (v->table->id) {
  case OP:
  case ACCESS:
  case OUTPUT: return c->first_op ? td_reader_find_op(&c->reader, c->first_op, &c->seq, err) : TD_OK;
  case STORAGE:
  case RETAINED: return td_reader_storages(&c->reader, &c->storages, err);
  case ACTION:
    c->next_schedule = 0;
    return td_schedule_ids(&v->db, trace, &c->schedules, &c->n_schedules, err);
  default:
    return td_db_prepare(&v->db, &c->marks, err, "SELECT * FROM trace_mark WHERE trace = %lld ORDER BY seq", (long long)trace);
  }
}

static td_column group_of(table_id id)
{
  return id == OP ? TD_COL_OP_NAME : id == ACCESS ? TD_COL_OP_ACCESSES : TD_COL_OP_OUTPUTS;
}

static uint64_t op_number(const cursor *c)
{
  return c->reader.first[group_of(vtab_of(c)->table->id)] + c->op;
}

/* The next op of the trace within the range; false past the last. c->op is the op itself. */
static td_status next_op(cursor *c, bool *found, td_error *err)
{
  td_column counts = group_of(vtab_of(c)->table->id);
  *found = true;
  for (;;) {
    if (c->n_ops) c->op++;
    if (c->op >= c->n_ops) {
      td_status status = td_reader_ops(&c->reader, c->mask, c->seq++, found, err);
      if (status || !*found) return status;
      c->n_ops = c->reader.columns[counts].count;
      c->op = c->at = 0;
      if (!c->n_ops) continue;
    }
    if (op_number(c) > c->last_op) {
      *found = false;
      return TD_OK;
    }
    if (op_number(c) >= c->first_op) return TD_OK;
    if (vtab_of(c)->table->id != OP) c->at += (size_t)c->reader.columns[counts].at[c->op];
  }
}

/* The next access or output of the SID that is wanted. */
static td_status next_part(cursor *c, bool *found, td_error *err)
{
  table_id id = vtab_of(c)->table->id;
  td_column counts = group_of(id);
  const td_values *sids = &c->reader.columns[id == ACCESS ? TD_COL_ACCESS_SID : TD_COL_OUTPUT_SID];
  for (;;) {
    if (c->left) {
      c->left--;
      c->at++;
      c->index++;
    }
    while (!c->left) {
      td_status status = next_op(c, found, err);
      if (status || !*found) return status;
      c->left = (size_t)c->reader.columns[counts].at[c->op];
      c->index = 0;
    }
    if (c->one_kind && c->reader.columns[TD_COL_ACCESS_KIND].at[c->at] != c->kind) continue;
    if (!c->one_sid || sids->at[c->at] == c->sid) return TD_OK;
  }
}

static td_status next_action(cursor *c, bool *found, td_error *err)
{
  for (;;) {
    if (c->schedule && ++c->at < c->schedule->n_actions) {
      const td_action *a = &c->schedule->actions[c->at];
      c->action_seq = a->op == a[-1].op && a->phase == a[-1].phase ? c->action_seq + 1 : 0;
    } else {
      td_schedule_destroy(c->schedule);
      c->schedule = NULL;
      *found = c->next_schedule < c->n_schedules;
      if (!*found) return TD_OK;
      td_status status =
          td_schedule_get(&vtab_of(c)->db, c->reader.row.id, c->schedules[c->next_schedule++], &c->schedule, err);
      if (status) return status;
      c->at = 0;
      c->action_seq = 0;
      if (!c->schedule->n_actions) continue;
    }
    uint64_t op = c->schedule->actions[c->at].op;
    if (op < c->first_op || op > c->last_op) continue;
    if (!c->one_sid || c->schedule->actions[c->at].sid == c->sid) return TD_OK;
  }
}

/* Moves on within the trace; *found is false after its last row. */
static td_status next_in_trace(cursor *c, bool *found, td_error *err)
{
  switch (vtab_of(c)->table->id) {
  case OP: return next_op(c, found, err);
  case ACCESS:
  case OUTPUT: return next_part(c, found, err);
  case ACTION: return next_action(c, found, err);
  case MARK: return td_db_sealed_row(&vtab_of(c)->db, TD_TABLE_MARK, c->marks, found, err);
  default: break;
  }
  size_t n = vtab_of(c)->table->id == STORAGE ? c->storages.count : c->storages.retained.count;
  c->at += c->n_ops; /* 0 before the first row, then 1 */
  c->n_ops = 1;
  *found = c->at < n;
  return TD_OK;
}

static int fail(sqlite3_vtab *base, td_status status, const td_error *err)
{
  sqlite3_free(base->zErrMsg);
  base->zErrMsg = sqlite3_mprintf("%s", err->message);
  return status == TD_E_NOMEM ? SQLITE_NOMEM : status == TD_E_IO ? SQLITE_IOERR : SQLITE_CORRUPT_VTAB;
}

/* The next row of the same op, or the same block: what a scan does nearly always. */
static bool step_in_block(cursor *c)
{
  if (c->left > 1 && !c->one_sid && !c->one_kind) {
    c->left--;
    c->at++;
    c->index++;
    return true;
  }
  if (c->n_ops - c->op < 2 || c->left || vtab_of(c)->table->id != OP || op_number(c) >= c->last_op) return false;
  c->op++;
  return true;
}

static int next(sqlite3_vtab_cursor *base)
{
  cursor *c = (cursor *)base;
  if (step_in_block(c)) {
    c->rowid++;
    return SQLITE_OK;
  }
  td_error err;
  td_status status = TD_OK;
  bool found = false;
  c->rowid++;
  while (!status && !found) {
    found = c->open; /* whoever moves on says where it ends */
    if (c->open) status = next_in_trace(c, &found, &err);
    if (status || found) break;
    close_trace(c);
    if (c->next_trace == c->n_traces) {
      c->end = true;
      return SQLITE_OK;
    }
    status = open_trace(c, c->traces[c->next_trace++], &err);
  }
  return status ? fail(base->pVtab, status, &err) : SQLITE_OK;
}

/* ---- filter --------------------------------------------------------------------------------------------------- */

/* The value of a constraint; false if no row can match, as with NULL. Numbers above 2^63-1 are text. */
static bool number_of(sqlite3_value *value, uint64_t *number)
{
  if (sqlite3_value_numeric_type(value) == SQLITE_INTEGER) {
    *number = (uint64_t)sqlite3_value_int64(value);
    return sqlite3_value_int64(value) >= 0;
  }
  const char *text = (const char *)sqlite3_value_text(value);
  char *end = NULL;
  *number = text && *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
  return end && !*end;
}

static void constrain(cursor *c, char letter, sqlite3_value *value)
{
  uint64_t n;
  if (letter == 'k') { /* of accesses; the kinds of actions are left to SQLite */
    const char *text = sqlite3_value_type(value) == SQLITE_TEXT ? (const char *)sqlite3_value_text(value) : NULL;
    bool read = text && strcmp(text, "R") == 0, write = text && strcmp(text, "W") == 0;
    c->one_kind = vtab_of(c)->table->id == ACCESS && (read || write);
    c->kind = write ? TD_WRITE : TD_READ;
    return;
  }
  bool exact = number_of(value, &n);
  /* Anything else than a whole number is left to SQLite. */
  if (!exact) return;
  switch (letter) {
  case 't':
    c->one_trace = true;
    c->trace = (int64_t)n;
    break;
  case 's':
    c->one_sid = true;
    c->sid = n;
    break;
  case 'o':
    if (n > c->first_op) c->first_op = n;
    if (n < c->last_op) c->last_op = n;
    break;
  case 'a':
    if (n > c->first_op) c->first_op = n;
    break;
  case 'b':
    if (n < c->last_op) c->last_op = n;
    break;
  }
}

static td_status list_traces(cursor *c, td_error *err)
{
  sqlite3_stmt *select = NULL;
  size_t capacity = 0;
  bool row = true;
  td_status status = td_db_prepare(&vtab_of(c)->db, &select, err, "SELECT id FROM trace ORDER BY id");
  while (!status) {
    status = td_db_row(&vtab_of(c)->db, select, &row, err);
    if (status || !row) break;
    int64_t id = sqlite3_column_int64(select, 0);
    if (c->one_trace && id != c->trace) continue;
    if (TD_GROW(c->traces, capacity, c->n_traces + 1)) c->traces[c->n_traces++] = id;
    else status = td_fail_nomem(err);
  }
  sqlite3_finalize(select);
  return status;
}

static int filter(sqlite3_vtab_cursor *base, int used, const char *letters, int n, sqlite3_value **values)
{
  cursor *c = (cursor *)base;
  const table *t = vtab_of(c)->table;
  td_error err;
  close_trace(c);
  free(c->traces);
  memset(&c->mask, 0, sizeof *c - offsetof(cursor, mask));
  c->last_op = UINT64_MAX;
  for (int i = 0; i < n; i++) constrain(c, letters[i], values[i]);
  if (t->id == OP || t->id == ACCESS || t->id == OUTPUT) c->mask = TD_COL_BIT(group_of(t->id));
  if (c->one_sid) c->mask |= needs(t->id, F_SID);
  if (c->one_kind) c->mask |= needs(t->id, F_KIND);
  for (int i = 0; i < FIELDS_MAX; i++) {
    if (!(used >> i & 1)) continue;
    c->mask |= needs(t->id, t->fields[i]);
    c->wants_names |= t->fields[i] == F_NAME;
  }
  td_status status = list_traces(c, &err);
  return status ? fail(base->pVtab, status, &err) : next(base);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

static void result_u64(sqlite3_context *context, uint64_t value)
{
  char text[24];
  if (value <= INT64_MAX) {
    sqlite3_result_int64(context, (sqlite3_int64)value);
    return;
  }
  snprintf(text, sizeof text, "%" PRIu64, value);
  sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

static void result_name(sqlite3_context *context, const cursor *c, uint64_t name)
{
  if (name >= c->reader.row.names) return; /* a damaged mark */
  sqlite3_result_text64(context, c->names[name].bytes, c->names[name].length, SQLITE_TRANSIENT, SQLITE_UTF8);
}

static void op_value(sqlite3_context *context, const cursor *c, field f)
{
  static const td_column columns[] = {[F_DUR] = TD_COL_OP_DUR, [F_LEAVES] = TD_COL_OP_LEAVES, [F_OPAQUE] = TD_COL_OP_OPAQUE};
  const td_values *values = c->reader.columns;
  if (f == F_NAME) result_name(context, c, values[TD_COL_OP_NAME].at[c->op]);
  else result_u64(context, values[columns[f]].at[c->op]);
}

static void part_value(sqlite3_context *context, const cursor *c, field f)
{
  const td_values *values = c->reader.columns;
  bool access = vtab_of(c)->table->id == ACCESS;
  if (f == F_SEQ) result_u64(context, c->index);
  else if (f == F_LEAF) result_u64(context, values[TD_COL_OUTPUT_LEAF].at[c->at]);
  else if (f == F_SID) result_u64(context, values[access ? TD_COL_ACCESS_SID : TD_COL_OUTPUT_SID].at[c->at]);
  else sqlite3_result_text(context, values[TD_COL_ACCESS_KIND].at[c->at] == TD_READ ? "R" : "W", 1, SQLITE_STATIC);
}

static void storage_value(sqlite3_context *context, const cursor *c, field f)
{
  bool all = vtab_of(c)->table->id == STORAGE;
  const td_storage_info *s = &c->storages.at[all ? c->at : c->storages.retained.at[c->at]];
  if (f == F_SID) result_u64(context, s->sid);
  else if (f == F_BYTES) result_u64(context, s->bytes);
  else if (f == F_ACTIVATION) sqlite3_result_int(context, s->activation);
  else if (f == F_RETAINED) sqlite3_result_int(context, s->retained);
  else if (s->freed_before_op != TD_NEVER) result_u64(context, s->freed_before_op);
}

static void action_value(sqlite3_context *context, const cursor *c, field f)
{
  static const char *const kinds[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};
  const td_action *a = &c->schedule->actions[c->at];
  if (f == F_SCHEDULE) sqlite3_result_int64(context, c->schedule->id);
  else if (f == F_OP) result_u64(context, a->op);
  else if (f == F_PHASE) sqlite3_result_text(context, a->phase == TD_PRE ? "pre" : "post", -1, SQLITE_STATIC);
  else if (f == F_SEQ) result_u64(context, c->action_seq);
  else if (f == F_KIND) sqlite3_result_text(context, kinds[a->kind], -1, SQLITE_STATIC);
  else result_u64(context, a->sid);
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int number)
{
  const cursor *c = (const cursor *)base;
  const table *t = vtab_of(c)->table;
  field f = t->fields[number];
  bool of_ops = t->id == OP || t->id == ACCESS || t->id == OUTPUT;
  if (f == F_TRACE) sqlite3_result_int64(context, c->reader.row.id);
  else if (of_ops && f == F_OP) result_u64(context, op_number(c));
  else if (t->id == OP) op_value(context, c, f);
  else if (of_ops) part_value(context, c, f);
  else if (t->id == ACTION) action_value(context, c, f);
  else if (t->id == MARK && f == F_NAME) result_name(context, c, td_column_u64(c->marks, 2));
  else if (t->id == MARK) result_u64(context, td_column_u64(c->marks, 3));
  else storage_value(context, c, f);
  return SQLITE_OK;
}

/* ---- the module ----------------------------------------------------------------------------------------------- */

static int connect(sqlite3 *handle, void *context, int argc, const char *const *argv, sqlite3_vtab **out, char **message)
{
  (void)argc, (void)argv, (void)message;
  const table *t = context;
  vtab *v = calloc(1, sizeof *v);
  if (!v) return SQLITE_NOMEM;
  v->table = t;
  v->db.handle = handle;
  const char *path = sqlite3_db_filename(handle, "main");
  v->db.path = strdup(path && *path ? path : "the tape");
  int code = v->db.path ? sqlite3_declare_vtab(handle, t->sql) : SQLITE_NOMEM;
  if (code) {
    free(v->db.path);
    free(v);
    return code;
  }
  *out = &v->base;
  return SQLITE_OK;
}

static int disconnect(sqlite3_vtab *base)
{
  free(((vtab *)base)->db.path);
  free(base);
  return SQLITE_OK;
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **out)
{
  (void)base;
  cursor *c = calloc(1, sizeof *c);
  if (!c) return SQLITE_NOMEM;
  *out = &c->base;
  return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base)
{
  cursor *c = (cursor *)base;
  close_trace(c);
  free(c->traces);
  free(c);
  return SQLITE_OK;
}

static int at_end(sqlite3_vtab_cursor *base)
{
  return ((const cursor *)base)->end;
}

static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *out)
{
  *out = ((const cursor *)base)->rowid;
  return SQLITE_OK;
}

/* Without xCreate: the tables are there under their own names, and there can be no others. */
static const sqlite3_module module = {
    .iVersion = 1,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = at_end,
    .xColumn = column,
    .xRowid = rowid,
};

td_status td_sql_register(sqlite3 *handle, td_error *err)
{
  td_db db = {.handle = handle, .path = (char *)"the tape"};
  for (size_t i = 0; i < N_TABLES; i++)
    if (sqlite3_create_module_v2(handle, tables[i].name, &module, (void *)&tables[i], NULL))
      return td_db_fail(&db, "open", err);
  td_status status = td_db_exec(&db, td_sql_views, err);
  /* Each table is connected here, since whoever forbids CREATE afterwards would forbid that too. */
  for (size_t i = 0; i < N_TABLES && !status; i++) {
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT 1 FROM temp.sqlite_schema, %s WHERE 0", tables[i].name);
    status = td_db_exec(&db, sql, err);
  }
  return status;
}
