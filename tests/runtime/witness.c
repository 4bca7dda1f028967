#include "runtime/witness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <tapedeck/trace.h>

static void say(td_role *role, const char *format, ...)
{
  witness *w = (witness *)role;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, args);
  va_end(args);
  if (n > 0 && w->length + (size_t)n < sizeof w->text) w->length += (size_t)n;
}

static td_status step_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)deck, (void)err;
  say(role, "step{");
  return TD_OK;
}

static td_status op_begin(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  say(role, " %d:%.*s", (int)deck->op_number, (int)deck->op.name.length, (const char *)deck->op.name.bytes);
  return TD_OK;
}

/* "(0R 1W -> 0=1* /1)": accesses, leaf=SID with a star for an activation, number of leaves. */
static td_status op_end(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  say(role, "(");
  for (size_t i = 0; i < deck->op.n_accesses; i++)
    say(role, "%d%c ", (int)deck->op.accesses[i].slot->sid, deck->op.accesses[i].kind == TD_WRITE ? 'W' : 'R');
  say(role, "->");
  for (size_t i = 0; i < deck->op.n_outputs; i++)
    say(role, " %d=%d%s", (int)deck->op.outputs[i].leaf, (int)deck->op.outputs[i].slot->sid,
        deck->op.outputs[i].slot->activation ? "*" : "");
  say(role, " /%d)", (int)deck->op.leaves);
  return TD_OK;
}

static void storage_freed(td_role *role, td_deck *deck, const td_slot *slot)
{
  say(role, " free %d@%d", (int)slot->sid, (int)deck->op_number + 1);
}

static td_status step_end(td_role *role, td_deck *deck, td_error *err)
{
  (void)err;
  for (uint64_t sid = 0; sid < deck->next_sid; sid++) {
    for (uint32_t i = 0; i < deck->n_slots; i++) {
      const td_slot *slot = td_deck_slot_at(deck, i);
      if (td_slot_living(slot) && slot->step == deck->step && slot->sid == sid && slot->activation)
        say(role, " keep %d", (int)sid);
    }
  }
  say(role, " }");
  return TD_OK;
}

static void step_abort(td_role *role, td_deck *deck)
{
  (void)deck;
  say(role, " !");
}

static void destroy(td_role *role)
{
  free(role);
}

static const td_role_ops witness_ops = {
    .name = "witness",
    .step_begin = step_begin,
    .op_begin = op_begin,
    .op_end = op_end,
    .storage_freed = storage_freed,
    .step_end = step_end,
    .step_abort = step_abort,
    .destroy = destroy,
};

td_deck *witness_deck(witness **out, td_device *device, uint64_t limit_bytes)
{
  td_deck *deck;
  witness *w = calloc(1, sizeof *w);
  if (!w) abort();
  w->role.ops = &witness_ops;
  if (td_deck_create(&deck, &w->role, device, limit_bytes, NULL)) abort();
  *out = w;
  return deck;
}

void witness_clear(witness *w)
{
  w->length = 0;
  w->text[0] = '\0';
}
