/* Following one recorded step while another runs: which op is expected, and which storage is which. */
#ifndef TD_REPLAYER_FOLLOWER_H
#define TD_REPLAYER_FOLLOWER_H

#include <string.h>

#include "replayer/plan.h"
#include "runtime/deck.h"

#define TD_NOWHERE UINT64_MAX /* in place of an op: none of the trace's */

typedef struct td_follower {
  td_plan_arrays plan;
  td_storage *storage; /* in this step, for each of the plan's; {0}: not seen yet */
  uint64_t at;         /* the op that is expected next */
  uint64_t current;    /* the op that is open; TD_NOWHERE: another one */
  bool agrees;         /* with the op that is open */
  bool followed;       /* before that op */
  bool follows;        /* the step is this one, as far as it went or since it was found again */
} td_follower;

/* Takes over the plan, in every case. */
td_status td_follower_init(td_follower *follower, td_plan_arrays *plan, td_error *err);
void td_follower_finish(td_follower *follower);
void td_follower_reset(td_follower *follower);

static inline const td_name *td_follower_name(const td_follower *f, uint64_t op)
{
  return &f->plan.names[f->plan.ops[op].name];
}

/* Is an op of this name expected next? */
static inline bool td_follower_expects(const td_follower *f, const char *name, size_t length)
{
  if (f->at >= f->plan.n_ops) return false;
  const td_name *expected = td_follower_name(f, f->at);
  return expected->length == length && memcmp(expected->bytes, name, length) == 0;
}

/* What the op bound to a leaf; outputs nearly always come in the recorded order, so output number `at` is tried first. */
static inline td_slot *td_follower_output_at(const td_open_op *op, uint64_t at, uint64_t leaf)
{
  if (at < op->n_outputs && op->outputs[at].leaf == leaf) return op->outputs[at].slot;
  for (size_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].leaf == leaf) return op->outputs[i].slot;
  return NULL;
}

/* Are leaves, bindings and sizes of the current op the recorded ones? */
static inline bool td_follower_agrees(const td_follower *f, const td_open_op *found)
{
  const td_planned_op *op = &f->plan.ops[f->current];
  if (found->leaves != op->leaves) return false;
  for (uint32_t i = op->first_output; i < op[1].first_output; i++) {
    const td_storage_info *storage = &f->plan.storages[f->plan.outputs[i].storage];
    const td_slot *slot = td_follower_output_at(found, i - op->first_output, f->plan.outputs[i].leaf);
    if (!slot || (storage->activation && slot->resident.bytes != storage->bytes)) return false;
  }
  return true;
}

/* The same at leisure. TD_E_DIVERGED: leaves, bindings or sizes of the current op are not the recorded ones; `why` says which. */
td_status td_follower_check(const td_follower *follower, const td_deck *deck, td_error *why);

/* The current op is over: its outputs are the trace's storages. One that is bound already stays what it is. */
void td_follower_bind(td_follower *follower, td_deck *deck);

/* Carries out what is due at an op. `literal`: even what would lose bytes. A storage that was freed since, or is the caller's, is passed
 * over. */
td_status td_follower_act_due(td_follower *follower, td_deck *deck, uint64_t op, td_phase phase, bool literal);
static inline td_status td_follower_act(td_follower *f, td_deck *deck, uint64_t op, td_phase phase, bool literal)
{
  bool due = f->plan.ops[op].first_action < f->plan.ops[op + 1].first_action;
  return due ? td_follower_act_due(f, deck, op, phase, literal) : TD_OK;
}

/* Bytes that the current op is to make. */
uint64_t td_follower_output_bytes(const td_follower *follower);

/* Looks for a place near `expected` at which the trace's ops are the latest of the step, the nearest first. `latest` gives the hash of the op
 * `back` before the last one. TD_NOWHERE: there is none. */
#define TD_AGREE 4 /* ops in a row */
uint64_t td_follower_find(const td_follower *follower, uint64_t expected, uint64_t window, const uint64_t latest[TD_AGREE]);

#endif
