#include "uses.h"

#include <inttypes.h>
#include <stdlib.h>

#include "listing.h"

static void note(use *u, uint64_t op, uint32_t kind)
{
  if (u->first_op == TD_NEVER) {
    u->first_op = u->gap_from = u->gap_to = op;
  } else if (op - u->last_op > u->gap_to - u->gap_from) {
    u->gap_from = u->last_op;
    u->gap_to = op;
  }
  u->last_op = op;
  if (kind == TD_WRITE) u->writes++;
  else u->reads++;
}

use *list_uses(const td_trace *trace)
{
  use *uses = calloc((size_t)trace->n_storages + 1, sizeof *uses);
  if (!uses) return NULL;
  for (uint32_t i = 0; i < trace->n_storages; i++) uses[i] = (use){.first_op = TD_NEVER, .last_op = TD_NEVER};
  for (uint64_t op = 0; op < trace->n_ops; op++)
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      note(&uses[trace->accesses[i].storage], op, trace->accesses[i].kind);
  for (uint32_t i = 0; i < trace->n_storages; i++) {
    const td_storage_info *storage = &trace->storages[i];
    uses[i].end_op = uses[i].first_op == TD_NEVER ? 0 : uses[i].last_op + 1;
    if (storage->retained || !storage->activation) uses[i].end_op = trace->n_ops + 1;
    else if (storage->freed_before_op != TD_NEVER && storage->freed_before_op > uses[i].end_op) uses[i].end_op = storage->freed_before_op;
  }
  return uses;
}

uint32_t find_storage(const td_trace *trace, uint64_t sid)
{
  uint32_t i = 0;
  while (i < trace->n_storages && trace->storages[i].sid != sid) i++;
  return i;
}

const char *op_text(const td_trace *trace, uint64_t op, char *text, size_t size)
{
  char name[81];
  if (op >= trace->n_ops) snprintf(text, size, "the end of the step");
  else snprintf(text, size, "op %" PRIu64 " (%s)", op, name_text(&trace->names[trace->ops[op].name], name, 80));
  return text;
}
