#include "replayer/plan.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fail.h"
#include "format/reader.h"
#include "format/schedule.h"
#include "format/storages.h"
#include "replayer/arena.h"

void td_plan_arrays_finish(td_plan_arrays *plan)
{
  free(plan->ops);
  free(plan->outputs);
  free(plan->storages);
  free(plan->actions);
  free(plan->names);
  free(plan->hashes);
  *plan = (td_plan_arrays){0};
}

uint64_t td_name_hash(const char *bytes, size_t length)
{
  return XXH3_64bits(bytes, length);
}

uint64_t td_guide_hash(uint64_t name_hash, uint64_t leaves)
{
  return name_hash ^ leaves * 0x9e3779b97f4a7c15u; /* the golden ratio's, as a hash of small numbers */
}

/* ---- the guide ------------------------------------------------------------------------------------------------ */

/* The output's SIDs are coded by the accesses, so these are decoded too; durations and kinds are not. */
#define GUIDE_MASK                                                                                                        \
  (TD_COL_BIT(TD_COL_OP_NAME) | TD_COL_BIT(TD_COL_OP_LEAVES) | TD_COL_BIT(TD_COL_OP_ACCESSES) |                            \
   TD_COL_BIT(TD_COL_OP_OUTPUTS) | TD_COL_BIT(TD_COL_ACCESS_SID) | TD_COL_BIT(TD_COL_OUTPUT_LEAF) | TD_COL_BIT(TD_COL_OUTPUT_SID))

static td_status bad_block(const td_reader *reader, td_error *err)
{
  return td_fail(err, TD_E_DAMAGED, "%s is damaged: the blocks of trace %lld hold more or less than the trace has", reader->db->path,
                 (long long)reader->row.id);
}

static td_status take_block(td_plan_arrays *plan, const td_reader *reader, const td_storage_table *table, td_error *err)
{
  const td_values *columns = reader->columns;
  size_t n = columns[TD_COL_OP_NAME].count, n_outputs = columns[TD_COL_OUTPUT_SID].count;
  if (n > reader->row.ops - plan->n_ops || n_outputs > reader->row.outputs - plan->n_outputs) return bad_block(reader, err);
  uint32_t first = plan->n_outputs;
  uint64_t large = 0;
  const uint64_t *leaves = columns[TD_COL_OP_LEAVES].at, *name = columns[TD_COL_OP_NAME].at, *bound = columns[TD_COL_OP_OUTPUTS].at;
  td_planned_op *op = plan->ops + plan->n_ops;
  for (size_t i = 0; i < n; i++) {
    op[i] = (td_planned_op){.leaves = (uint32_t)leaves[i], .name = (uint32_t)name[i], .first_output = first};
    first += (uint32_t)bound[i]; /* checked: they add up to the number of outputs */
    large |= leaves[i];
  }
  if (large > UINT32_MAX) return td_fail(err, TD_E_INPUT, "%s: an op has too many leaves to replay", reader->db->path);
  const uint64_t *leaf = columns[TD_COL_OUTPUT_LEAF].at;
  td_planned_output *output = plan->outputs + plan->n_outputs;
  for (size_t i = 0; i < n_outputs; i++, output++) {
    *output = (td_planned_output){.leaf = (uint32_t)leaf[i], .storage = td_storage_index(table, columns[TD_COL_OUTPUT_SID].at[i])};
    if (leaf[i] > UINT32_MAX) return td_fail(err, TD_E_INPUT, "%s: an op has too many leaves to replay", reader->db->path);
    if (output->storage == TD_MAP_NONE)
      return td_fail(err, TD_E_DAMAGED, "%s is damaged: an output is in SID %llu, which no storage has", reader->db->path,
                     (unsigned long long)columns[TD_COL_OUTPUT_SID].at[i]);
  }
  plan->n_ops += n;
  plan->n_outputs += (uint32_t)n_outputs;
  return TD_OK;
}

static td_status read_ops(td_plan_arrays *plan, td_reader *reader, const td_storage_table *table, td_error *err)
{
  const td_trace_row *row = &reader->row;
  if (row->ops >= UINT32_MAX - 1 || row->outputs >= UINT32_MAX)
    return td_fail(err, TD_E_INPUT, "%s: a trace of %llu ops is too long to replay", reader->db->path, (unsigned long long)row->ops);
  plan->ops = malloc(((size_t)row->ops + 2) * sizeof *plan->ops);
  plan->outputs = malloc(((size_t)row->outputs + 1) * sizeof *plan->outputs);
  if (!plan->ops || !plan->outputs) return td_fail_nomem(err);
  bool found = true;
  td_status status = TD_OK;
  for (uint64_t seq = 0; found && !status; seq++) {
    status = td_reader_ops(reader, GUIDE_MASK, seq, &found, err);
    if (!status && found) status = take_block(plan, reader, table, err);
  }
  if (!status && (plan->n_ops != row->ops || plan->n_outputs != row->outputs)) return bad_block(reader, err);
  if (!status) plan->ops[plan->n_ops] = plan->ops[plan->n_ops + 1] = (td_planned_op){.first_output = plan->n_outputs};
  return status;
}

static td_status read_names(td_plan_arrays *plan, td_reader *reader, td_error *err)
{
  td_status status = td_reader_names(reader, &plan->names, err);
  if (status) return status;
  plan->n_names = (uint32_t)reader->row.names;
  plan->hashes = malloc(((size_t)plan->n_names + 1) * sizeof *plan->hashes);
  if (!plan->hashes) return td_fail_nomem(err);
  for (uint32_t i = 0; i < plan->n_names; i++) plan->hashes[i] = td_name_hash(plan->names[i].bytes, plan->names[i].length);
  return TD_OK;
}

/* ---- the schedule --------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};

static td_status check_action(const td_action *action, const td_action *previous, uint64_t n_ops, td_error *err)
{
  unsigned long long op = action->op, sid = action->sid;
  if (action->kind > TD_RELEASE_HOST || action->phase > TD_POST)
    return td_fail(err, TD_E_INPUT, "op %llu: an action of an unknown kind or phase for SID %llu", op, sid);
  if (action->op > n_ops || (action->op == n_ops && action->phase == TD_POST))
    return td_fail(err, TD_E_INPUT, "the schedule has an action at op %llu, of %llu ops", op, (unsigned long long)n_ops);
  if ((action->phase == TD_PRE) != (action->kind == TD_COPY_H2D))
    return td_fail(err, TD_E_INPUT, "op %llu: a %s for SID %llu %s the op, where there can be none", op,
                   kind_names[action->kind], sid, action->phase == TD_PRE ? "before" : "after");
  if (previous && (action->op < previous->op || (action->op == previous->op && action->phase < previous->phase)))
    return td_fail(err, TD_E_INPUT, "the schedule is out of order at op %llu", op);
  return TD_OK;
}

static td_status compile(td_plan_arrays *plan, const td_schedule *schedule, const td_storage_table *table, td_error *err)
{
  uint64_t op = 0;
  plan->actions = calloc(schedule->n_actions + 1, sizeof *plan->actions);
  if (!plan->actions) return td_fail_nomem(err);
  for (size_t i = 0; i < schedule->n_actions; i++) {
    const td_action *action = &schedule->actions[i];
    td_status status = check_action(action, i ? action - 1 : NULL, plan->n_ops, err);
    if (status) return status;
    uint32_t storage = td_storage_index(table, action->sid);
    if (storage == TD_MAP_NONE || !table->at[storage].activation)
      return td_fail(err, TD_E_INPUT, "op %llu: an action for SID %llu, which is no activation of the trace",
                     (unsigned long long)action->op, (unsigned long long)action->sid);
    plan->actions[i] = (td_planned_action){.storage = storage, .phase = action->phase, .kind = action->kind};
    for (; op <= action->op; op++) plan->ops[op].first_action = (uint32_t)i;
  }
  plan->n_actions = (uint32_t)schedule->n_actions;
  for (; op <= plan->n_ops + 1; op++) plan->ops[op].first_action = plan->n_actions;
  plan->schedule = schedule->id;
  plan->limit_bytes = schedule->memory_limit_bytes;
  return TD_OK;
}

/* ---- both ----------------------------------------------------------------------------------------------------- */

static td_status read_all(td_plan_arrays *plan, td_reader *reader, int64_t schedule, td_error *err)
{
  td_storage_table table = {0};
  td_schedule *loaded = NULL;
  td_status status = TD_OK;
  if (!reader->row.complete)
    status = td_fail(err, TD_E_INPUT, "%s: the recording is unfinished and cannot be replayed", reader->db->path);
  if (!status) status = td_reader_storages(reader, &table, err);
  if (!status) status = read_names(plan, reader, err);
  if (!status) status = read_ops(plan, reader, &table, err);
  if (!status) status = td_schedule_get(reader->db, reader->row.id, schedule, &loaded, err);
  if (!status) status = compile(plan, loaded, &table, err);
  if (!status) {
    plan->trace = reader->row.id;
    plan->n_storages = (uint32_t)table.count;
    plan->storages = table.at;
    table.at = NULL;
  }
  if (!status) status = td_arena_bytes(plan, &plan->host_bytes, err);
  td_schedule_destroy(loaded);
  td_storage_table_finish(&table);
  return status;
}

td_status td_plan_arrays_load(td_plan_arrays *out, const char *path, int64_t trace, int64_t schedule, td_error *err)
{
  td_plan_arrays plan = {0};
  td_reader reader = {0};
  td_db db = {0};
  td_status status = td_db_open_to_read(&db, path, err);
  if (!status) status = td_db_check_tables(&db, err);
  if (!status) status = td_db_exec(&db, "BEGIN", err); /* all of one moment */
  if (!status) status = td_reader_init(&reader, &db, trace, err);
  if (!status) status = read_all(&plan, &reader, schedule, err);
  td_reader_finish(&reader);
  td_db_close(&db);
  if (status)
    td_plan_arrays_finish(&plan);
  else
    *out = plan;
  return status;
}
