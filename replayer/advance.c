/* A late copy gets an earlier attempt beside the planned one, so that nothing is lost where there is no room for the early one. */
#include "replayer/advance.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fail.h"

#define REPLACED UINT8_MAX /* in place of a phase */

/* An attempt to add: at which op, for what. */
typedef struct attempt {
  uint32_t op, storage;
} attempt;

static uint64_t op_of(const td_plan_arrays *plan, uint32_t action)
{
  uint64_t low = 0, high = plan->n_ops;
  while (low < high) { /* the last op whose actions begin at or before it */
    uint64_t middle = low + (high - low + 1) / 2;
    if (plan->ops[middle].first_action <= action) low = middle;
    else high = middle - 1;
  }
  return low;
}

/* The first copy to the device, behind the storage's release, of those before `op` ends. UINT32_MAX: none. */
static uint32_t first_copy_in(const td_plan_arrays *plan, uint32_t storage, uint64_t op, uint64_t *released)
{
  uint32_t found = UINT32_MAX;
  for (uint32_t i = plan->ops[op + 1].first_action; i-- > 0;) {
    if (plan->actions[i].storage != storage) continue;
    if (plan->actions[i].kind == TD_COPY_H2D) found = i;
    if (plan->actions[i].kind != TD_RELEASE_DEVICE) continue;
    *released = op_of(plan, i);
    return found;
  }
  return UINT32_MAX;
}

static int by_op(const void *a, const void *b)
{
  const attempt *x = a, *y = b;
  return x->op != y->op ? (x->op > y->op) - (x->op < y->op) : (x->storage > y->storage) - (x->storage < y->storage);
}

/* What to begin earlier, by op. As many ops earlier as the wait lasted, and one more; ops are taken to be of equal length. */
static size_t list_attempts(const td_follower *f, const td_deck *deck, attempt *attempts)
{
  const td_plan_arrays *plan = &f->plan;
  uint64_t op_ns = (td_now_ns() - deck->step_began_ns) / (plan->n_ops ? plan->n_ops : 1) + 1;
  size_t n = 0;
  for (size_t i = 0; i < deck->n_waits; i++) {
    const td_slot *slot = td_deck_find(deck, deck->wait_slots[i]);
    uint64_t released;
    if (deck->waits[i].was_away || deck->waits[i].op < 0 || !slot || slot->planned >= plan->n_storages) continue;
    uint32_t copy = first_copy_in(plan, slot->planned, (uint64_t)deck->waits[i].op, &released);
    if (copy == UINT32_MAX) continue;
    uint64_t op = op_of(plan, copy), earlier = deck->waits[i].waited_ns / op_ns + 1;
    uint64_t to = op > released + earlier ? op - earlier : released + 1;
    if (to < op) attempts[n++] = (attempt){.op = (uint32_t)to, .storage = slot->planned};
  }
  if (n) qsort(attempts, n, sizeof *attempts, by_op);
  return n;
}

/* The actions with the attempts among them, without the attempts of before that these replace. */
static void weave(td_plan_arrays *plan, td_planned_action *woven, const attempt *attempts, size_t n)
{
  uint32_t to = 0, from = 0;
  size_t next = 0;
  for (uint64_t op = 0; op <= plan->n_ops; op++) {
    plan->ops[op].first_action = to;
    uint32_t end = op == plan->n_ops ? plan->n_actions : plan->ops[op + 1].first_action;
    for (; from < end && plan->actions[from].phase != TD_POST; from++)
      if (plan->actions[from].phase != REPLACED) woven[to++] = plan->actions[from];
    for (; next < n && attempts[next].op == op; next++)
      woven[to++] = (td_planned_action){.storage = attempts[next].storage, .phase = TD_PRE, .kind = TD_COPY_H2D, .early = true};
    while (from < end) woven[to++] = plan->actions[from++];
  }
  plan->ops[plan->n_ops + 1].first_action = to;
  plan->n_actions = to;
}

/* An attempt of before goes where a still earlier one comes. */
static void drop_replaced(td_plan_arrays *plan, const attempt *attempts, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    for (uint32_t k = plan->ops[attempts[i].op].first_action; k < plan->n_actions; k++) {
      td_planned_action *action = &plan->actions[k];
      if (action->storage != attempts[i].storage) continue;
      if (action->kind == TD_COPY_H2D && action->early) action->phase = REPLACED;
      break;
    }
  }
}

td_status td_advance(td_follower *f, const td_deck *deck, td_error *err)
{
  td_plan_arrays *plan = &f->plan;
  attempt attempts[TD_WAITS_KEPT];
  size_t n = deck->n_waits && !deck->stats.diverged_ops ? list_attempts(f, deck, attempts) : 0;
  if (!n) return TD_OK;
  td_planned_action *woven = malloc(((size_t)plan->n_actions + n + 1) * sizeof *woven);
  if (!woven) return td_fail_nomem(err);
  drop_replaced(plan, attempts, n);
  weave(plan, woven, attempts, n);
  free(plan->actions);
  plan->actions = woven;
  return TD_OK;
}
