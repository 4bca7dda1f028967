#include "format/trace.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/fail.h"

void td_trace_destroy(td_trace *trace)
{
  if (!trace) return;
  free((void *)trace->ops);
  free((void *)trace->accesses);
  free((void *)trace->outputs);
  free((void *)trace->names);
  free((void *)trace->storages);
  free((void *)trace->activations);
  free((void *)trace->retained);
  free((void *)trace->marks);
  free(trace);
}

/* A trace that is being filled; the arrays have room for what the trace says it has. */
typedef struct filling {
  td_reader *reader;
  td_storage_table table;
  td_op *ops;
  td_access *accesses;
  td_output_binding *outputs;
  td_name *names;
  td_mark *marks;
  size_t n_ops, n_accesses, n_outputs;
} filling;

/* The arrays are allocated at once, so what the file says of their size is checked against the machine's memory. Pages that
 * stay unused cost nothing. */
static td_status allocate(filling *f, td_error *err)
{
  const td_trace_row *row = &f->reader->row;
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  double memory = pages > 0 && page > 0 ? (double)pages * (double)page : 0x1p62;
  double want = (double)row->ops * sizeof *f->ops + (double)row->accesses * sizeof *f->accesses +
                (double)row->outputs * sizeof *f->outputs + (double)row->marks * sizeof *f->marks;
  if (want > memory)
    return td_fail(err, TD_E_NOMEM, "%s: trace %lld has %llu ops, too many for this machine's memory", f->reader->db->path,
                   (long long)row->id, (unsigned long long)row->ops);
  f->ops = malloc(((size_t)row->ops + 1) * sizeof *f->ops);
  f->accesses = malloc(((size_t)row->accesses + 1) * sizeof *f->accesses);
  f->outputs = malloc(((size_t)row->outputs + 1) * sizeof *f->outputs);
  f->marks = malloc(((size_t)row->marks + 1) * sizeof *f->marks);
  return f->ops && f->accesses && f->outputs && f->marks ? TD_OK : td_fail_nomem(err);
}

static td_status number_of(filling *f, uint64_t sid, uint32_t *index, td_error *err)
{
  *index = td_storage_index(&f->table, sid);
  if (*index != TD_MAP_NONE) return TD_OK;
  if (f->reader->row.complete)
    return td_fail(err, TD_E_DAMAGED, "%s is damaged: op %zu uses SID %llu, which no storage has", f->reader->db->path,
                   f->n_ops, (unsigned long long)sid);
  if (!td_storage_put(&f->table, sid, 0, TD_NEVER)) return td_fail_nomem(err);
  *index = td_storage_index(&f->table, sid);
  return TD_OK;
}

/* The reader has checked that no block has more values than the trace. */
static td_status take_block(filling *f, td_error *err)
{
  const td_values *columns = f->reader->columns;
  size_t access = 0, output = 0;
  td_status status = TD_OK;
  if (columns[TD_COL_OP_NAME].count > f->reader->row.ops - f->n_ops ||
      columns[TD_COL_ACCESS_SID].count > f->reader->row.accesses - f->n_accesses ||
      columns[TD_COL_OUTPUT_SID].count > f->reader->row.outputs - f->n_outputs)
    return td_fail(err, TD_E_DAMAGED, "%s is damaged: its blocks hold more than the trace has", f->reader->db->path);
  for (size_t i = 0; i < columns[TD_COL_OP_NAME].count && !status; i++) {
    f->ops[f->n_ops] = (td_op){.dur_ns = columns[TD_COL_OP_DUR].at[i],
                               .leaves = columns[TD_COL_OP_LEAVES].at[i],
                               .first_access = f->n_accesses,
                               .first_output = f->n_outputs,
                               .name = (uint32_t)columns[TD_COL_OP_NAME].at[i],
                               .opaque = columns[TD_COL_OP_OPAQUE].at[i]};
    for (uint64_t n = columns[TD_COL_OP_ACCESSES].at[i]; n && !status; n--, access++) {
      td_access *to = &f->accesses[f->n_accesses++];
      to->kind = (uint32_t)columns[TD_COL_ACCESS_KIND].at[access];
      status = number_of(f, columns[TD_COL_ACCESS_SID].at[access], &to->storage, err);
    }
    for (uint64_t n = columns[TD_COL_OP_OUTPUTS].at[i]; n && !status; n--, output++) {
      td_output_binding *to = &f->outputs[f->n_outputs++];
      to->leaf = columns[TD_COL_OUTPUT_LEAF].at[output];
      status = number_of(f, columns[TD_COL_OUTPUT_SID].at[output], &to->storage, err);
    }
    f->n_ops++;
  }
  return status;
}

static td_status take_ops(filling *f, td_error *err)
{
  bool found = true;
  td_status status = TD_OK;
  const td_trace_row *row = &f->reader->row;
  for (uint64_t seq = 0; found && !status; seq++) {
    status = td_reader_ops(f->reader, TD_GROUP_OPS_MASK, seq, &found, err);
    if (!status && found) status = take_block(f, err);
  }
  if (!status && (f->n_ops != row->ops || f->n_accesses != row->accesses || f->n_outputs != row->outputs))
    return td_fail(err, TD_E_DAMAGED, "%s is damaged: trace %lld has %zu of %llu ops", f->reader->db->path,
                   (long long)row->id, f->n_ops, (unsigned long long)row->ops);
  if (!status) f->ops[f->n_ops] = (td_op){.first_access = f->n_accesses, .first_output = f->n_outputs};
  return status;
}

static td_status take_marks(filling *f, td_error *err)
{
  const td_trace_row *row = &f->reader->row;
  sqlite3_stmt *select = NULL;
  bool found = true;
  size_t n = 0;
  td_status status = td_db_prepare(f->reader->db, &select, err, "SELECT * FROM trace_mark WHERE trace = %lld ORDER BY seq",
                                   (long long)row->id);
  for (; found && !status; n++) {
    status = td_db_sealed_row(f->reader->db, TD_TABLE_MARK, select, &found, err);
    if (status || !found) break;
    td_mark mark = {.name = (uint32_t)td_column_u64(select, 2), .op = td_column_u64(select, 3)};
    if (n == row->marks || td_column_u64(select, 2) >= row->names || mark.op > row->ops)
      status = td_fail(err, TD_E_DAMAGED, "%s is damaged: a mark of trace %lld is out of range", f->reader->db->path,
                       (long long)row->id);
    else
      f->marks[n] = mark;
  }
  if (!status && n != row->marks)
    status = td_fail(err, TD_E_DAMAGED, "%s is damaged: trace %lld has %zu of %llu marks", f->reader->db->path,
                     (long long)row->id, n, (unsigned long long)row->marks);
  sqlite3_finalize(select);
  return status;
}

/* Hands the arrays over to a trace. */
static td_status deliver(filling *f, td_trace **out, td_error *err)
{
  td_trace *trace = malloc(sizeof *trace);
  if (!trace) return td_fail_nomem(err);
  const td_trace_row *row = &f->reader->row;
  *trace = (td_trace){.n_ops = f->n_ops,
                      .n_accesses = f->n_accesses,
                      .n_outputs = f->n_outputs,
                      .n_names = (uint32_t)row->names,
                      .n_storages = (uint32_t)f->table.count,
                      .n_activations = (uint32_t)f->table.activations.count,
                      .n_retained = (uint32_t)f->table.retained.count,
                      .n_marks = (uint32_t)row->marks,
                      .complete = row->complete,
                      .has_frees = row->has_frees,
                      .ops = f->ops,
                      .accesses = f->accesses,
                      .outputs = f->outputs,
                      .names = f->names,
                      .storages = f->table.at,
                      .activations = f->table.activations.at,
                      .retained = f->table.retained.at,
                      .marks = f->marks};
  f->ops = NULL;
  f->accesses = NULL;
  f->outputs = NULL;
  f->names = NULL;
  f->marks = NULL;
  f->table.at = NULL;
  f->table.activations.at = f->table.retained.at = NULL;
  *out = trace;
  return TD_OK;
}

td_status td_trace_read(td_reader *reader, td_trace **out, td_error *err)
{
  filling f = {.reader = reader};
  td_status status = allocate(&f, err);
  if (!status) status = td_reader_names(reader, &f.names, err);
  if (!status) status = td_reader_storages(reader, &f.table, err);
  if (!status) status = take_ops(&f, err);
  if (!status) status = take_marks(&f, err);
  if (!status) status = deliver(&f, out, err);
  td_storage_table_finish(&f.table);
  free(f.ops);
  free(f.accesses);
  free(f.outputs);
  free(f.names);
  free(f.marks);
  return status;
}
