/* Opaque regions: one virtual op for whatever runs inside.
 *
 * The outermost open region is an op; the others, nested or interleaved, only count. Each is told by its number, so that an
 * end without a begin is refused instead of counted, and siblings cannot end each other. */
#include "runtime/deck.h"

#include <string.h>

#include "base/array.h"
#include "base/fail.h"

void td_regions_reset(td_deck *deck)
{
  deck->n_regions = deck->open_regions = 0;
  deck->region_names.length = 0;
  deck->inner_op = false;
}

static td_region_state *region_state(td_deck *deck, td_region region)
{
  if (region.id < deck->n_regions) return &deck->regions[region.id];
  td_deck_fail(deck, TD_E_NOT_FOUND, "no such region in this step");
  return NULL;
}

/* Enters a region in either pass; the outermost one is the op and begins to run. */
static td_status enter(td_deck *deck, const td_region_state *region, const char *suffix)
{
  if (deck->inner_op || (deck->op.open && !deck->open_regions))
    return td_deck_fail(deck, TD_E_STATE, "a region begins inside an op");
  if (deck->open_regions++) return TD_OK;
  td_status status =
      td_deck_op_open(deck, (const char *)deck->region_names.bytes + region->name, region->name_length, suffix, true);
  if (!status) {
    status = td_deck_op_start(deck);
    if (status) td_deck_op_drop(deck);
  }
  if (status) deck->open_regions = 0;
  return status;
}

static td_status leave(td_deck *deck)
{
  if (deck->inner_op) return td_deck_fail(deck, TD_E_STATE, "a region ends while an op inside it is open");
  if (deck->open_regions > 1) {
    deck->open_regions--;
    return TD_OK;
  }
  td_status status = td_deck_op_close(deck, TD_MEASURE);
  if (!deck->op.open) deck->open_regions = 0;
  return status;
}

td_status td_region_begin(td_deck *deck, const char *name, td_region *region)
{
  if (!deck->in_step) return td_deck_fail(deck, TD_E_STATE, "a region begins outside a step");
  if (deck->n_regions >= UINT32_MAX || !TD_GROW(deck->regions, deck->regions_capacity, deck->n_regions + 1))
    return td_fail_nomem(&deck->error);
  td_region_state *state = &deck->regions[deck->n_regions];
  *state = (td_region_state){.name = deck->region_names.length, .name_length = strlen(name), .forward_open = true};
  if (!td_buffer_text(&deck->region_names, name)) return td_fail_nomem(&deck->error);
  td_status status = enter(deck, state, "_fwd");
  if (status) {
    deck->region_names.length = state->name;
    return status;
  }
  region->id = (uint32_t)deck->n_regions++;
  return TD_OK;
}

td_status td_region_end(td_deck *deck, td_region region)
{
  td_region_state *state = region_state(deck, region);
  if (!state) return TD_E_NOT_FOUND;
  if (!state->forward_open) return td_deck_fail(deck, TD_E_STATE, "the region is not open in the forward pass");
  td_status status = leave(deck);
  if (!status || !deck->op.open) state->forward_open = false;
  return status;
}

td_status td_region_backward_begin(td_deck *deck, td_region region)
{
  td_region_state *state = region_state(deck, region);
  if (!state) return TD_E_NOT_FOUND;
  if (state->forward_open || state->backward_open)
    return td_deck_fail(deck, TD_E_STATE, "the region is open already");
  td_status status = enter(deck, state, "_bwd");
  if (!status) state->backward_open = true;
  return status;
}

td_status td_region_backward_end(td_deck *deck, td_region region)
{
  td_region_state *state = region_state(deck, region);
  if (!state) return TD_E_NOT_FOUND;
  if (!state->backward_open) return td_deck_fail(deck, TD_E_STATE, "the region is not open in the backward pass");
  td_status status = leave(deck);
  if (!status || !deck->op.open) state->backward_open = false;
  return status;
}

td_status td_region_abort(td_deck *deck, td_region region)
{
  td_region_state *state = region_state(deck, region);
  if (!state) return TD_E_NOT_FOUND;
  if (!state->forward_open && !state->backward_open) return td_deck_fail(deck, TD_E_STATE, "the region is not open");
  state->forward_open = state->backward_open = false;
  deck->inner_op = false;
  if (--deck->open_regions == 0) td_deck_op_drop(deck);
  return TD_OK;
}

td_status td_regions_close(td_deck *deck)
{
  if (!deck->open_regions) return TD_OK;
  deck->inner_op = false;
  td_status status = td_deck_op_close(deck, TD_MEASURE);
  if (deck->op.open) td_deck_op_drop(deck);
  deck->open_regions = 0;
  return status;
}
