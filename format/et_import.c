/* From a PyTorch execution trace to a tape: its innermost operators in the order of their ids. docs/import.md has the rules. */
#include "format/import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "base/map.h"
#include "format/et_nodes.h"
#include "format/et_storages.h"
#include "format/kineto.h"

typedef struct import {
  td_importing *in;
  td_et_nodes nodes;
  td_map by_id;  /* node id -> index */
  uint32_t *ops; /* indices of the innermost operators, in the order of their ids */
  size_t n_ops;
  td_kineto_op *timed; /* each op in the profile, or NULL */
  td_et_storages storages;
  td_written_access *accesses;
  td_written_output *outputs;
  size_t accesses_capacity, outputs_capacity;
} import;

static td_status bad_node(import *i, const td_et_node *node, const char *what)
{
  char text[160];
  td_et_node_say(&i->nodes, node, text);
  return td_fail(i->in->err, TD_E_INPUT, "%s: %s: %s", i->in->path, text, what);
}

/* ---- the tree ------------------------------------------------------------------------------------------------- */

static td_status index_nodes(import *i)
{
  if (i->nodes.count >= TD_MAP_NONE) return td_fail(i->in->err, TD_E_INPUT, "%s: more than %u nodes", i->in->path, TD_MAP_NONE - 1);
  for (size_t k = 0; k < i->nodes.count; k++) {
    const td_et_node *node = &i->nodes.at[k];
    if (td_map_get(&i->by_id, node->id) != TD_MAP_NONE) return bad_node(i, node, "a second node with this id");
    if (!td_map_put(&i->by_id, node->id, (uint32_t)k)) return td_fail_nomem(i->in->err);
  }
  return TD_OK;
}

static td_status missing_parent(import *i, const td_et_node *node)
{
  char what[80];
  snprintf(what, sizeof what, "its parent, node %llu, is not in the trace", (unsigned long long)node->parent);
  return bad_node(i, node, what);
}

/* Walks up from a node to one whose way to a root is known. `walk` holds the number of the walk that came by; a node met twice in
 * one walk is its own ancestor. On the way, what is above an operator is no innermost one. */
static td_status walk_up(import *i, uint32_t start, uint32_t *walk)
{
  bool below = false; /* an operator */
  for (uint32_t at = start;;) {
    td_et_node *node = &i->nodes.at[at];
    uint32_t parent = td_map_get(&i->by_id, node->parent);
    if (walk[at] == start + 1) return bad_node(i, node, "its parents lead back to it");
    bool known = walk[at] != 0;
    if (known && (!below || node->outer)) return TD_OK;
    node->outer = node->outer || below;
    walk[at] = start + 1;
    below = below || node->has_schema;
    if (node->parent == node->id) return TD_OK;
    if (parent == TD_MAP_NONE) return missing_parent(i, node);
    at = parent;
  }
}

static int by_node_id(const void *a, const void *b, void *context)
{
  const td_et_node *nodes = context;
  uint64_t x = nodes[*(const uint32_t *)a].id, y = nodes[*(const uint32_t *)b].id;
  return (x > y) - (x < y);
}

/* Nodes that are done come before those around them, so the file is nearly in order, but not by id. */
static td_status find_ops(import *i)
{
  td_status status = index_nodes(i);
  uint32_t *walk = calloc(i->nodes.count + 1, sizeof *walk);
  i->ops = calloc(i->nodes.count + 1, sizeof *i->ops);
  if (!status && (!walk || !i->ops)) status = td_fail_nomem(i->in->err);
  for (uint32_t k = 0; k < i->nodes.count && !status; k++) status = walk_up(i, k, walk);
  free(walk);
  if (status) return status;
  for (uint32_t k = 0; k < i->nodes.count; k++) {
    const td_et_node *node = &i->nodes.at[k];
    if (node->has_schema && !node->outer) i->ops[i->n_ops++] = k;
    i->in->report.skipped += !node->has_schema;
  }
  i->in->report.nodes = i->nodes.count;
  qsort_r(i->ops, i->n_ops, sizeof *i->ops, by_node_id, i->nodes.at);
  return TD_OK;
}

/* ---- durations ------------------------------------------------------------------------------------------------ */

static td_status count_timed(import *i)
{
  td_import_report *report = &i->in->report;
  for (size_t k = 0; k < i->n_ops; k++) {
    report->timed_ops += i->timed[k].match != TD_KINETO_NONE;
    report->renamed_ops += i->timed[k].match == TD_KINETO_OTHER_NAME;
  }
  if (report->timed_ops || !i->n_ops) return TD_OK;
  return td_fail(i->in->err, TD_E_INPUT, "%s: it has the record function id of no op: is it a profile of the same run?",
                 i->in->options->profile);
}

static td_status read_profile(import *i)
{
  td_map by_rf_id = {0};
  td_status status = TD_OK;
  if (!i->in->options->profile) return TD_OK;
  i->timed = calloc(i->n_ops + 1, sizeof *i->timed);
  if (!i->timed) return td_fail_nomem(i->in->err);
  for (size_t k = 0; k < i->n_ops && !status; k++) {
    const td_et_node *node = &i->nodes.at[i->ops[k]];
    i->timed[k].name = td_names_get(&i->nodes.names, node->name, &i->timed[k].name_length);
    if (node->rf_id && !td_map_put(&by_rf_id, node->rf_id, (uint32_t)k)) status = td_fail_nomem(i->in->err);
  }
  if (!status) status = td_kineto_read(i->in->options->profile, i->timed, &by_rf_id, i->in->err);
  td_map_finish(&by_rf_id);
  return status ? status : count_timed(i);
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

typedef struct op {
  const td_et_node *node;
  uint64_t number; /* from 1 */
  bool allocates;
  size_t n_accesses, n_outputs;
} op;

/* Its inputs count first. */
static const td_et_tensor *tensor_of(const import *i, const op *op, size_t number)
{
  return &i->nodes.tensors[op->node->first_tensor + number];
}

/* A (SID, kind) pair once an op. */
static td_status add_access(import *i, op *op, td_et_storage *storage, uint32_t kind)
{
  if (storage->accessed[kind] == op->number) return TD_OK;
  storage->accessed[kind] = op->number;
  if (!TD_GROW(i->accesses, i->accesses_capacity, op->n_accesses + 1)) return td_fail_nomem(i->in->err);
  i->accesses[op->n_accesses++] = (td_written_access){.sid = storage->sid, .kind = kind};
  return TD_OK;
}

static td_status add_inputs(import *i, op *op)
{
  td_status status = TD_OK;
  for (size_t k = 0; k < op->node->n_inputs && !status; k++) {
    const td_et_tensor *input = tensor_of(i, op, k);
    td_et_storage *storage;
    status = td_et_storages_input(&i->storages, input, op->number, &storage, i->in->err);
    if (!status) status = add_access(i, op, storage, input->write ? TD_WRITE : TD_READ);
  }
  return status;
}

static td_status add_outputs(import *i, op *op)
{
  const size_t n = op->node->n_outputs;
  if (!n) return TD_OK;
  const td_et_tensor *outputs = tensor_of(i, op, op->node->n_inputs);
  td_status status = td_et_storages_outputs(&i->storages, outputs, n, op->number, op->allocates, i->in->err);
  for (size_t k = 0; k < n && !status; k++) {
    td_et_storage *storage = td_et_storages_get(&i->storages, outputs[k].storage);
    if (storage->input_of != op->number) status = add_access(i, op, storage, TD_WRITE);
    if (status || !storage->activation) continue;
    if (!TD_GROW(i->outputs, i->outputs_capacity, op->n_outputs + 1)) return td_fail_nomem(i->in->err);
    i->outputs[op->n_outputs++] = (td_written_output){.leaf = outputs[k].leaf, .sid = storage->sid};
  }
  return status;
}

static td_status write_op(import *i, size_t k)
{
  const td_et_node *node = &i->nodes.at[i->ops[k]];
  op op = {.node = node, .number = k + 1};
  size_t length;
  uint32_t name;
  const char *bytes = td_names_get(&i->nodes.names, node->name, &length);
  op.allocates = length >= 11 && memcmp(bytes, "aten::empty", 11) == 0;
  td_status status = add_inputs(i, &op);
  if (!status) status = add_outputs(i, &op);
  if (status == TD_E_INPUT) {
    td_error why = *i->in->err;
    return bad_node(i, node, why.message);
  }
  if (!status) status = td_writer_name(i->in->writer, bytes, length, &name, i->in->err);
  if (!status)
    status = td_writer_op(i->in->writer, name, i->timed ? i->timed[k].dur_ns : 0, node->leaves, false, i->accesses, op.n_accesses,
                          i->outputs, op.n_outputs, i->in->err);
  i->in->report.accesses += op.n_accesses;
  return status;
}

static td_status write_trace(import *i)
{
  td_status status = TD_OK;
  td_et_storages *storages = &i->storages;
  for (size_t k = 0; k < i->n_ops; k++) {
    const td_et_node *node = &i->nodes.at[i->ops[k]];
    for (size_t t = 0; t < (size_t)node->n_inputs + node->n_outputs; t++) {
      uint64_t id = i->nodes.tensors[node->first_tensor + t].storage;
      if (id > storages->largest_id) storages->largest_id = id;
    }
  }
  for (size_t k = 0; k < i->n_ops && !status; k++) status = write_op(i, k);
  for (size_t k = 0; k < storages->count && !status; k++) {
    const td_et_storage *storage = &storages->at[k];
    const td_storage_info info = {.sid = storage->sid, .bytes = storage->bytes, .freed_before_op = TD_NEVER};
    status = td_writer_storage(i->in->writer, &info, i->in->err);
    if (!status && storage->activation) status = td_writer_activation(i->in->writer, storage->sid, i->in->err);
  }
  i->in->report.ops = i->n_ops;
  i->in->report.storages = storages->count;
  i->in->report.split_sids = storages->split;
  i->in->report.added_sids = storages->added;
  return status;
}

/* ---- the other members ---------------------------------------------------------------------------------------- */

/* "1.1.0-chakra.0.0.4" and the like. Before 1.0.1 a tensor was a number without its storage. */
static td_status check_schema(import *i, const char *json)
{
  unsigned major, minor, patch = 0;
  if (sscanf(json, "\"%4u.%4u.%4u", &major, &minor, &patch) < 2)
    return td_fail(i->in->err, TD_E_INPUT, "%s: the schema is %.60s, not a version such as \"1.1.1\"", i->in->path, json);
  if (major > 1)
    return td_fail(i->in->err, TD_E_VERSION, "%s has schema %.60s, newer than the 1.x that can be read", i->in->path, json);
  if (major < 1 || (minor == 0 && patch < 1))
    return td_fail(i->in->err, TD_E_INPUT, "%s has schema %.60s, older than the 1.0.1 that can be read", i->in->path, json);
  return TD_OK;
}

static td_status keep_member(import *i, bool *schema, const char *key, size_t length, const char *json)
{
  td_status status = TD_OK;
  if (length == 6 && memcmp(key, "schema", 6) == 0) {
    status = *schema ? td_fail(i->in->err, TD_E_INPUT, "%s: \"schema\" stands twice", i->in->path) : check_schema(i, json);
    *schema = true;
  }
  return status ? status : td_writer_meta(i->in->writer, false, key, length, json, i->in->err);
}

/* What follows the nodes. */
static td_status read_rest(import *i, bool *schema)
{
  td_json *json = i->in->json;
  td_buffer value = {0};
  td_status status = TD_OK;
  const char *key;
  size_t length;
  while (!status && td_json_member(json, &key, &length)) {
    char *copy = strndup(key, length); /* the value's strings overwrite it */
    if (!copy) status = td_fail_nomem(i->in->err);
    else if (strcmp(copy, "nodes") == 0) td_json_fail(json, "\"nodes\" stands twice");
    else if (td_json_value(json, &value)) status = keep_member(i, schema, copy, strlen(copy), (const char *)value.bytes);
    free(copy);
  }
  td_buffer_finish(&value);
  if (!status && !td_json_status(json)) td_json_end(json);
  return status ? status : td_json_status(json);
}

static void release(import *i)
{
  td_et_nodes_finish(&i->nodes);
  td_map_finish(&i->by_id);
  free(i->ops);
  free(i->timed);
  td_et_storages_finish(&i->storages);
  free(i->accesses);
  free(i->outputs);
}

static td_status import_trace(import *i)
{
  bool schema = false;
  td_status status = TD_OK;
  for (size_t k = 0; k < i->in->n_early && !status; k++)
    status = keep_member(i, &schema, i->in->early[k].key, i->in->early[k].key_length, i->in->early[k].json);
  td_json_take_any_bytes(i->in->json);
  if (!status && !td_et_nodes_read(&i->nodes, i->in->json, i->in->err)) status = i->in->err->status;
  if (!status) status = read_rest(i, &schema);
  if (!status && !schema) status = td_fail(i->in->err, TD_E_INPUT, "%s: an execution trace without \"schema\"", i->in->path);
  if (!status) status = find_ops(i);
  if (!status) status = read_profile(i);
  return status ? status : write_trace(i);
}

td_status td_et_import(td_importing *importing)
{
  import i = {.in = importing, .storages = {.keep_ids = importing->options->keep_ids}};
  importing->report.execution_trace = true;
  td_status status = import_trace(&i);
  release(&i);
  return status;
}
