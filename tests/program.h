/* A small deterministic training step over bytes, run through a deck: the same result whatever the deck does with memory.
 *
 * Forward, each layer reads the one before and a weight; backward, each reads its activation and the gradient after it,
 * and updates its weight in place. Every few layers write an earlier activation in place, so that host copies get stale,
 * and some activations are read once more at the end. The loss is retained until the caller frees it. */
#ifndef TD_TESTS_PROGRAM_H
#define TD_TESTS_PROGRAM_H

#include <stdlib.h>
#include <string.h>

#include <tapedeck/deck.h>

#define PROGRAM_LAYERS 24
#define PROGRAM_BYTES(layer) (1000u + 700u * ((layer) * 7u % 5u))

/* How a step differs from the recorded one, at one layer. */
typedef enum program_change {
  PROGRAM_UNCHANGED,
  PROGRAM_EXTRA_OP,    /* an op more, which reads the first activation */
  PROGRAM_RENAMED,     /* the forward op has another name */
  PROGRAM_LEAVES,      /* it has another number of leaves */
  PROGRAM_NO_DROPOUT,  /* in-place ops are left out from here on */
  PROGRAM_SHORT,       /* the backward pass stops before this layer */
  PROGRAM_CHANGES
} program_change;

typedef struct program {
  uint8_t weights[PROGRAM_LAYERS][256];
  td_storage weight[PROGRAM_LAYERS];
  td_storage loss;
  uint64_t loss_value;
  bool stop_half_way; /* leave the step in the middle of the backward pass, with td_step_abort */
  program_change change;
  unsigned change_at;
  bool no_updates;    /* leave the weight updates out: a step that is not the recorded one */
} program;

static inline td_status program_init(program *p, td_deck *deck)
{
  *p = (program){0};
  td_status status = TD_OK;
  for (unsigned i = 0; i < PROGRAM_LAYERS && !status; i++) {
    for (unsigned k = 0; k < 256; k++) p->weights[i][k] = (uint8_t)(i * 31 + k * 17);
    status = td_storage_born(deck, 0, sizeof p->weights[i], &p->weight[i]);
  }
  return status;
}

/* out = f(a, b, salt), byte by byte. */
static inline void program_mix(uint8_t *out, uint64_t n, const uint8_t *a, uint64_t n_a, const uint8_t *b, uint64_t n_b,
                               unsigned salt)
{
  for (uint64_t i = 0; i < n; i++) out[i] = (uint8_t)(a[i % n_a] * 5u + b[(i * 3) % n_b] * 3u + salt + (i >> 4));
}

static inline td_status program_forward(program *p, td_deck *deck, unsigned layer, const td_storage *in, td_storage *out)
{
  bool here = p->change_at == layer;
  td_status status = td_op_begin(deck, here && p->change == PROGRAM_RENAMED ? "renamed" : "forward");
  if (!status && here && p->change == PROGRAM_LEAVES) status = td_leaves(deck, 3);
  if (!status && layer) status = td_read(deck, *in);
  if (!status) status = td_read(deck, p->weight[layer]);
  if (!status) status = td_storage_alloc(deck, PROGRAM_BYTES(layer), out);
  if (!status) status = td_output(deck, 0, *out);
  if (!status) status = td_op_run(deck);
  if (status) return status;
  const uint8_t *a = layer ? td_data(deck, *in) : p->weights[layer];
  program_mix(td_data(deck, *out), PROGRAM_BYTES(layer), a, layer ? PROGRAM_BYTES(layer - 1) : 256, p->weights[layer], 256,
              layer);
  return td_op_end(deck, TD_MEASURE);
}

/* activation = f(activation, weight) in place. */
static inline td_status program_dropout(program *p, td_deck *deck, unsigned layer, td_storage activation)
{
  td_status status = td_op_begin(deck, "dropout_");
  if (!status) status = td_read(deck, activation);
  if (!status) status = td_write(deck, activation);
  if (!status) status = td_output(deck, 0, activation);
  if (!status) status = td_op_run(deck);
  if (status) return status;
  uint8_t *bytes = td_data(deck, activation);
  program_mix(bytes, PROGRAM_BYTES(layer), bytes, PROGRAM_BYTES(layer), p->weights[layer], 256, 77);
  return td_op_end(deck, TD_MEASURE);
}

static inline td_status program_backward(program *p, td_deck *deck, unsigned layer, td_storage activation, unsigned after,
                                         const td_storage *grad_in, td_storage *grad_out)
{
  td_status status = td_op_begin(deck, "backward");
  if (!status) status = td_read(deck, activation);
  if (!status && after < PROGRAM_LAYERS) status = td_read(deck, *grad_in);
  if (!status && !p->no_updates) status = td_write(deck, p->weight[layer]);
  if (!status) status = td_storage_alloc(deck, PROGRAM_BYTES(layer), grad_out);
  if (!status) status = td_output(deck, 0, *grad_out);
  if (!status) status = td_op_run(deck);
  if (status) return status;
  const uint8_t *x = td_data(deck, activation);
  const uint8_t *g = after < PROGRAM_LAYERS ? td_data(deck, *grad_in) : x;
  program_mix(td_data(deck, *grad_out), PROGRAM_BYTES(layer), x, PROGRAM_BYTES(layer), g,
              after < PROGRAM_LAYERS ? PROGRAM_BYTES(after) : PROGRAM_BYTES(layer), layer + 100);
  program_mix(p->weights[layer], 256, p->weights[layer], 256, td_data(deck, *grad_out), PROGRAM_BYTES(layer), 1);
  return td_op_end(deck, TD_MEASURE);
}

static inline td_status program_loss(program *p, td_deck *deck, td_storage grad, td_storage early)
{
  td_status status = td_op_begin(deck, "loss");
  if (!status) status = td_read(deck, grad);
  if (!status) status = td_read(deck, early);
  if (!status) status = td_storage_alloc(deck, sizeof p->loss_value, &p->loss);
  if (!status) status = td_output(deck, 0, p->loss);
  if (!status) status = td_op_run(deck);
  if (status) return status;
  program_mix(td_data(deck, p->loss), sizeof p->loss_value, td_data(deck, grad), PROGRAM_BYTES(0), td_data(deck, early),
              PROGRAM_BYTES(2), 9);
  return td_op_end(deck, TD_MEASURE);
}

/* An op that the recorded step has not got: changes a weight by an activation of long ago. */
static inline td_status program_extra(program *p, td_deck *deck, td_storage activation)
{
  td_status status = td_op_begin(deck, "extra");
  if (!status) status = td_read(deck, activation);
  if (!status) status = td_write(deck, p->weight[0]);
  if (!status) status = td_op_run(deck);
  if (status) return status;
  program_mix(p->weights[0], 256, p->weights[0], 256, td_data(deck, activation), PROGRAM_BYTES(0), 3);
  return td_op_end(deck, TD_MEASURE);
}

/* One step inside td_step_begin and td_step_end; frees all but the loss. */
static inline td_status program_body(program *p, td_deck *deck)
{
  td_storage activation[PROGRAM_LAYERS], grad = {0}, next;
  td_status status = TD_OK;
  for (unsigned i = 0; i < PROGRAM_LAYERS && !status; i++) {
    status = program_forward(p, deck, i, i ? &activation[i - 1] : NULL, &activation[i]);
    bool dropout = i % 6 == 5 && !(p->change == PROGRAM_NO_DROPOUT && i >= p->change_at);
    if (!status && dropout) status = program_dropout(p, deck, i - 3, activation[i - 3]);
    if (!status && p->change == PROGRAM_EXTRA_OP && i == p->change_at) status = program_extra(p, deck, activation[0]);
  }
  if (!status) status = td_step_mark(deck, "forward_end");
  for (unsigned i = PROGRAM_LAYERS; i-- > 0 && !status;) {
    if (p->stop_half_way && i == PROGRAM_LAYERS / 2) return td_step_abort(deck);
    if (p->change == PROGRAM_SHORT && i < p->change_at && i != 2) { /* what is left is only freed */
      status = td_storage_freed(deck, activation[i]);
      continue;
    }
    if (p->change == PROGRAM_SHORT && i < p->change_at) continue;
    status = program_backward(p, deck, i, activation[i], i + 1, &grad, &next);
    if (!status && grad.id) status = td_storage_freed(deck, grad);
    grad = next;
    if (!status && i != 2) status = td_storage_freed(deck, activation[i]);
  }
  if (!status) status = program_loss(p, deck, grad, activation[2]);
  if (!status) status = td_storage_freed(deck, activation[2]);
  if (!status) status = td_storage_freed(deck, grad);
  return status;
}

/* A whole step; leaves the loss's value in loss_value. */
static inline td_status program_step(program *p, td_deck *deck)
{
  td_status status = td_step_begin(deck);
  if (!status) status = program_body(p, deck);
  if (status || !td_in_step(deck)) return status;
  status = td_step_end(deck);
  td_status fetched = td_fetch(deck, p->loss, &p->loss_value, sizeof p->loss_value);
  if (!fetched) fetched = td_storage_freed(deck, p->loss);
  return status ? status : fetched;
}

#endif
