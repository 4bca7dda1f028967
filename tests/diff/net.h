/* A network's step as plain structs that a test can change, and the trace that it makes. */
#ifndef TD_TESTS_NET_H
#define TD_TESTS_NET_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/diff.h>

enum { NET_OPS = 400, NET_STORAGES = 600, NET_ACCESSES = 6, NET_OUTPUTS = 3 };

typedef struct net_op {
  char name[24];
  uint64_t leaves, dur_ns;
  bool opaque;
  unsigned n_accesses, n_outputs;
  struct {
    unsigned storage;
    td_access_kind kind;
  } accesses[NET_ACCESSES];
  struct {
    unsigned storage;
    uint64_t leaf;
  } outputs[NET_OUTPUTS];
} net_op;

typedef struct net {
  unsigned n_ops, n_storages;
  net_op ops[NET_OPS];
  td_storage_info storages[NET_STORAGES];
} net;

static inline unsigned net_storage(net *net, uint64_t bytes, bool activation, bool retained)
{
  net->storages[net->n_storages] = (td_storage_info){.sid = net->n_storages,
                                                     .bytes = bytes,
                                                     .freed_before_op = TD_NEVER,
                                                     .activation = activation,
                                                     .retained = retained};
  return net->n_storages++;
}

static inline net_op *net_add(net *net, const char *name)
{
  net_op *op = &net->ops[net->n_ops++];
  *op = (net_op){.leaves = 1, .dur_ns = 1000};
  snprintf(op->name, sizeof op->name, "%s", name);
  return op;
}

static inline void net_access(net_op *op, unsigned storage, td_access_kind kind)
{
  op->accesses[op->n_accesses].storage = storage;
  op->accesses[op->n_accesses++].kind = kind;
  if (kind == TD_READ) return;
  op->outputs[op->n_outputs].storage = storage;
  op->outputs[op->n_outputs].leaf = op->n_outputs;
  op->n_outputs++;
}

/* Forward and backward through `layers` that all look alike: four ops each. The gradients of the weights are retained. The layer
 * numbered `without` is left out. */
static inline void net_make(net *net, unsigned layers, unsigned without)
{
  unsigned weight[64], in[64], middle[64];
  memset(net, 0, sizeof *net);
  for (unsigned i = 0; i < layers; i++) weight[i] = net_storage(net, 4096, false, false);
  unsigned x = net_storage(net, 512, false, false);
  for (unsigned i = 0; i < layers; i++) {
    if (i == without) continue;
    in[i] = x;
    net_op *op = net_add(net, "mm");
    net_access(op, x, TD_READ);
    net_access(op, weight[i], TD_READ);
    net_access(op, middle[i] = net_storage(net, 1024, true, false), TD_WRITE);
    op = net_add(net, "gelu");
    net_access(op, middle[i], TD_READ);
    net_access(op, x = net_storage(net, 1024, true, false), TD_WRITE);
  }
  for (unsigned i = layers; i-- > 0;) {
    if (i == without) continue;
    net_op *op = net_add(net, "gelu_backward");
    unsigned g = net_storage(net, 1024, true, false);
    net_access(op, middle[i], TD_READ);
    net_access(op, x, TD_READ);
    net_access(op, g, TD_WRITE);
    op = net_add(net, "mm_backward");
    op->leaves = 2;
    net_access(op, in[i], TD_READ);
    net_access(op, weight[i], TD_READ);
    net_access(op, g, TD_READ);
    net_access(op, x = net_storage(net, 1024, true, false), TD_WRITE);
    net_access(op, net_storage(net, 4096, true, true), TD_WRITE);
  }
}

static inline void net_remove(net *net, unsigned op)
{
  memmove(&net->ops[op], &net->ops[op + 1], (--net->n_ops - op) * sizeof *net->ops);
}

static inline net_op *net_insert(net *net, unsigned before, const char *name)
{
  memmove(&net->ops[before + 1], &net->ops[before], (net->n_ops++ - before) * sizeof *net->ops);
  net->ops[before] = (net_op){.leaves = 1, .dur_ns = 10};
  snprintf(net->ops[before].name, sizeof net->ops[before].name, "%s", name);
  return &net->ops[before];
}

/* The trace; storage number i is recorded at place (i * step) modulo their number, under the SID i * 10 + 3. */
static inline td_trace *net_trace(const net *net, unsigned step)
{
  td_trace *trace = calloc(1, sizeof *trace);
  td_op *ops = calloc(NET_OPS + 1, sizeof *ops);
  td_access *accesses = calloc(NET_OPS * NET_ACCESSES, sizeof *accesses);
  td_output_binding *outputs = calloc(NET_OPS * NET_OUTPUTS, sizeof *outputs);
  td_name *names = calloc(NET_OPS, sizeof *names);
  td_storage_info *storages = calloc(NET_STORAGES, sizeof *storages);
  uint32_t *activations = calloc(NET_STORAGES, sizeof *activations), *retained = calloc(NET_STORAGES, sizeof *retained);
  for (unsigned i = 0; i < net->n_ops; i++) {
    const net_op *op = &net->ops[i];
    names[i] = (td_name){.bytes = op->name, .length = strlen(op->name)};
    ops[i] = (td_op){op->dur_ns, op->leaves, trace->n_accesses, trace->n_outputs, i, op->opaque};
    for (unsigned k = 0; k < op->n_accesses; k++)
      accesses[trace->n_accesses++] = (td_access){op->accesses[k].storage * step % net->n_storages, op->accesses[k].kind};
    for (unsigned k = 0; k < op->n_outputs; k++)
      outputs[trace->n_outputs++] = (td_output_binding){op->outputs[k].leaf, op->outputs[k].storage * step % net->n_storages};
  }
  ops[net->n_ops] = (td_op){.first_access = trace->n_accesses, .first_output = trace->n_outputs};
  for (unsigned i = 0; i < net->n_storages; i++) {
    unsigned at = i * step % net->n_storages;
    storages[at] = net->storages[i];
    storages[at].sid = i * 10 + 3;
    if (net->storages[i].activation) activations[trace->n_activations++] = at;
    if (net->storages[i].retained) retained[trace->n_retained++] = at;
  }
  trace->n_ops = net->n_ops;
  trace->n_names = net->n_ops;
  trace->n_storages = net->n_storages;
  trace->complete = true;
  trace->ops = ops;
  trace->accesses = accesses;
  trace->outputs = outputs;
  trace->names = names;
  trace->storages = storages;
  trace->activations = activations;
  trace->retained = retained;
  return trace;
}

#endif
