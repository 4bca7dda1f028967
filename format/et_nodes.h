/* The nodes of a PyTorch execution trace: what of them a tape needs, read in one pass over the JSON.
 *
 * Schema 1.0.1 keeps everything in the node itself; from 1.0.2 on the parent is "ctrl_deps", inputs and outputs are objects
 * with "values", and the rest is a list of attributes. Both are taken, whatever the file says of its schema. */
#ifndef TD_FORMAT_ET_NODES_H
#define TD_FORMAT_ET_NODES_H

#include <tapedeck/trace.h>

#include "base/names.h"
#include "format/json_reader.h"

/* A tensor on a device, among the inputs or the outputs of a node. */
typedef struct td_et_tensor {
  uint64_t storage; /* its id in the trace */
  uint64_t bytes;   /* of the storage up to where the tensor ends */
  uint64_t leaf;    /* of an input: the argument's number; of an output: its leaf */
  bool write;       /* an input that the schema marks as mutated */
} td_et_tensor;

/* Its tensors begin at tensors[first_tensor]: n_inputs of them, then n_outputs. */
typedef struct td_et_node {
  uint64_t id, parent;
  uint64_t rf_id; /* of the record function; 0: none */
  uint64_t leaves;
  size_t first_tensor;
  uint32_t n_inputs, n_outputs;
  uint32_t name;
  bool has_schema;
  bool outer; /* a descendant has a schema */
} td_et_node;

typedef struct td_et_nodes {
  td_et_node *at;
  td_et_tensor *tensors;
  size_t count, capacity, n_tensors, tensors_capacity;
  td_names names;
} td_et_nodes;

void td_et_nodes_finish(td_et_nodes *nodes);

/* Reads the array of nodes, in the order of the file. Failures name the node; they are the reader's. */
bool td_et_nodes_read(td_et_nodes *nodes, td_json *json, td_error *err);

/* "node 12 (aten::mm)", for messages. */
void td_et_node_say(const td_et_nodes *nodes, const td_et_node *node, char text[160]);

/* Sets `write` of the inputs, in the order of their arguments, whose argument the schema marks as mutated: "Tensor(a!) self". */
void td_et_schema_mark(const char *schema, td_et_tensor *inputs, size_t n);

#endif
