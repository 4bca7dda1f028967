/* The op lifecycle: begin, what it touches, run, end; op numbers and SIDs. */
#include "runtime/deck.h"

#include <string.h>

#include <tapedeck/trace.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/fail.h"

/* ---- one op of the trace -------------------------------------------------------------------------------------- */

td_status td_deck_op_open(td_deck *deck, const char *name, size_t length, const char *suffix, bool opaque)
{
  td_open_op *op = &deck->op;
  op->name.length = 0;
  if (!td_buffer_append(&op->name, name, length) || (opaque && !td_buffer_text(&op->name, suffix)))
    return td_fail_nomem(&deck->error);
  op->n_accesses = op->n_outputs = 0;
  op->leaves = op->dur_ns = op->started_ns = 0;
  op->running = op->leaves_told = false;
  op->opaque = opaque;
  op->open = true;
  deck->op_number++;
  deck->op_stamp++;
  deck->touch_stamp++;
  td_status status = deck->role->ops->op_begin(deck->role, deck, &deck->error);
  if (status) td_deck_op_drop(deck);
  return status;
}

/* What the op names so far comes to the device, and what it writes gets a new version. */
static td_status start(td_deck *deck)
{
  td_open_op *op = &deck->op;
  td_status status = TD_OK;
  for (size_t i = 0; i < op->n_accesses && !status; i++) {
    td_slot *slot = op->accesses[i].slot;
    if (!slot->owned) continue;
    status = td_deck_need(deck, slot);
    if (!status && op->accesses[i].kind == TD_WRITE)
      status = td_residency_written(deck->residency, &slot->resident, &deck->error);
  }
  if (!status && deck->has_memory && deck->role->ops->output_bytes)
    status = td_deck_expect(deck, deck->role->ops->output_bytes(deck->role, deck));
  if (!status) op->running = true;
  return status;
}

td_status td_deck_op_start(td_deck *deck)
{
  td_status status = start(deck);
  if (!status) deck->op.started_ns = td_now_ns();
  return status;
}

/* SIDs go by first appearance. A storage is an activation of the step if it was made in it, first appears as an output, and
 * is not among the inputs of that op. */
static void give_sid(td_deck *deck, td_slot *slot)
{
  if (slot->step == deck->step) return;
  slot->step = deck->step;
  slot->sid = deck->next_sid++;
  slot->activation =
      slot->born_step == deck->step && slot->output_op == deck->op_stamp && slot->read_op != deck->op_stamp;
}

static void forget_op(td_deck *deck)
{
  td_deck_free_pending(deck);
  deck->op.open = deck->op.running = false;
  deck->touch_stamp++;
}

void td_deck_op_drop(td_deck *deck)
{
  if (deck->role->ops->op_abort) deck->role->ops->op_abort(deck->role, deck);
  deck->op_number--; /* first, since what is freed with it is freed before the op that takes this number */
  forget_op(deck);
}

td_status td_deck_op_close(td_deck *deck, uint64_t dur_ns)
{
  td_open_op *op = &deck->op;
  td_status status = op->running ? TD_OK : start(deck); /* not timed: asking for the time would cost more than the rest */
  if (!status && deck->role->ops->op_check) status = deck->role->ops->op_check(deck->role, deck, &deck->error);
  if (status) return status;
  if (dur_ns == TD_MEASURE) op->dur_ns = op->started_ns ? td_now_ns() - op->started_ns : 0;
  else op->dur_ns = dur_ns;
  for (size_t i = 0; i < op->n_accesses; i++) give_sid(deck, op->accesses[i].slot);
  for (size_t i = 0; i < op->n_outputs; i++) give_sid(deck, op->outputs[i].slot);
  status = deck->role->ops->op_end(deck->role, deck, &deck->error);
  deck->stats.ops++;
  forget_op(deck);
  return !status && deck->has_memory ? td_deck_squeeze(deck) : status;
}

/* ---- what it touches ------------------------------------------------------------------------------------------ */

static td_status add_access(td_deck *deck, td_slot *slot, uint32_t kind)
{
  td_open_op *op = &deck->op;
  uint64_t *stamp = kind == TD_WRITE ? &slot->written_op : &slot->read_op;
  if (*stamp == deck->op_stamp) return TD_OK;
  if (!TD_GROW(op->accesses, op->accesses_capacity, op->n_accesses + 1)) return td_fail_nomem(&deck->error);
  *stamp = deck->op_stamp;
  op->accesses[op->n_accesses++] = (td_op_access){.slot = slot, .kind = kind};
  return TD_OK;
}

/* A storage that was made inside the open region is the region's own affair. */
static bool inside_region(const td_deck *deck, const td_slot *slot)
{
  return deck->open_regions > 0 && slot->born_op == deck->op_stamp;
}

static td_status touch(td_deck *deck, td_storage storage, uint32_t kind)
{
  if (!deck->op.open) return td_deck_fail(deck, TD_E_STATE, "a storage is read or written outside an op");
  td_slot *slot = td_deck_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  slot->touched = deck->touch_stamp;
  bool new_write = kind == TD_WRITE && slot->written_op != deck->op_stamp;
  td_status status = inside_region(deck, slot) ? TD_OK : add_access(deck, slot, kind);
  if (status || !deck->op.running || !slot->owned) return status;
  status = td_deck_need(deck, slot);
  /* Inside a region one access stands for many, and each write of them makes a host copy stale. */
  if (!status && kind == TD_WRITE && (new_write || deck->open_regions > 0))
    status = td_residency_written(deck->residency, &slot->resident, &deck->error);
  return status;
}

td_status td_read(td_deck *deck, td_storage storage)
{
  return touch(deck, storage, TD_READ);
}

td_status td_write(td_deck *deck, td_storage storage)
{
  return touch(deck, storage, TD_WRITE);
}

td_status td_output(td_deck *deck, uint64_t leaf, td_storage storage)
{
  td_open_op *op = &deck->op;
  if (!op->open) return td_deck_fail(deck, TD_E_STATE, "an output is bound outside an op");
  td_slot *slot = td_deck_slot(deck, storage);
  if (!slot) return TD_E_NOT_FOUND;
  if (leaf == UINT64_MAX || (op->leaves_told && leaf >= op->leaves))
    return td_deck_fail(deck, TD_E_ARG, "output leaf %llu is not among the op's leaves", (unsigned long long)leaf);
  if (slot->read_op != deck->op_stamp && slot->written_op != deck->op_stamp) {
    bool of_region = inside_region(deck, slot) && !deck->inner_op; /* an output of the region itself is a write of it */
    td_status status = of_region ? add_access(deck, slot, TD_WRITE) : touch(deck, storage, TD_WRITE);
    if (status) return status;
  }
  if (deck->inner_op) return TD_OK;
  if (!TD_GROW(op->outputs, op->outputs_capacity, op->n_outputs + 1)) return td_fail_nomem(&deck->error);
  op->outputs[op->n_outputs++] = (td_op_output){.leaf = leaf, .slot = slot};
  slot->output_op = deck->op_stamp;
  if (!op->leaves_told && leaf >= op->leaves) op->leaves = leaf + 1;
  return TD_OK;
}

td_status td_leaves(td_deck *deck, uint64_t leaves)
{
  td_open_op *op = &deck->op;
  if (!op->open) return td_deck_fail(deck, TD_E_STATE, "leaves are counted outside an op");
  if (deck->inner_op) return TD_OK;
  for (size_t i = 0; i < op->n_outputs; i++)
    if (op->outputs[i].leaf >= leaves)
      return td_deck_fail(deck, TD_E_ARG, "output leaf %llu is bound already, of %llu leaves",
                          (unsigned long long)op->outputs[i].leaf, (unsigned long long)leaves);
  op->leaves = leaves;
  op->leaves_told = true;
  return TD_OK;
}

/* ---- begin, run, end ------------------------------------------------------------------------------------------ */

td_status td_op_begin_n(td_deck *deck, const char *name, size_t length)
{
  if (!deck->in_step) return td_deck_fail(deck, TD_E_STATE, "an op begins outside a step");
  if (deck->inner_op || (deck->op.open && !deck->open_regions))
    return td_deck_fail(deck, TD_E_STATE, "an op begins inside another");
  if (!deck->open_regions) return td_deck_op_open(deck, name, length, "", false);
  deck->inner_op = true;
  deck->touch_stamp++;
  return TD_OK;
}

td_status td_op_begin(td_deck *deck, const char *name)
{
  return td_op_begin_n(deck, name, strlen(name));
}

td_status td_op_run(td_deck *deck)
{
  if (deck->inner_op) return TD_OK; /* a region runs from its start: what it touches is brought as it is named */
  if (!deck->op.open || deck->open_regions || deck->op.running)
    return td_deck_fail(deck, TD_E_STATE, "no op is waiting to run");
  return td_deck_op_start(deck);
}

/* True if an op inside a region was open, which ends without more ado. */
static bool leave_inner_op(td_deck *deck)
{
  if (!deck->inner_op) return false;
  deck->inner_op = false;
  deck->touch_stamp++;
  return true;
}

td_status td_op_end(td_deck *deck, uint64_t dur_ns)
{
  if (leave_inner_op(deck)) return TD_OK;
  if (!deck->op.open || deck->open_regions) return td_deck_fail(deck, TD_E_STATE, "no op is open");
  return td_deck_op_close(deck, dur_ns);
}

td_status td_op_abort(td_deck *deck)
{
  if (leave_inner_op(deck)) return TD_OK;
  if (!deck->op.open || deck->open_regions) return td_deck_fail(deck, TD_E_STATE, "no op is open");
  td_deck_op_drop(deck);
  return TD_OK;
}
