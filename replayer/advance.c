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

/* Copies to the device before an op, and releases after it, which count from the next on. */
static void move(const td_plan_arrays *plan, uint64_t op, td_phase phase, bool *there, int64_t *change)
{
  for (uint32_t i = plan->ops[op].first_action; i < plan->ops[op + 1].first_action; i++) {
    const td_planned_action *action = &plan->actions[i];
    int64_t bytes = (int64_t)plan->storages[action->storage].bytes;
    bool in = action->kind == TD_COPY_H2D, out = action->kind == TD_RELEASE_DEVICE;
    if (action->phase != phase || (!in && !out) || there[action->storage] == in) continue;
    there[action->storage] = in;
    change[op + out] += in ? bytes : -bytes;
  }
}

/* The bytes that are on the device while each op runs, if copies out took no time: a storage by its number counts from its first output or
 * its copy in, to its release or its free. The caller frees it. */
static uint64_t *planned_bytes(const td_plan_arrays *plan)
{
  int64_t *change = calloc((size_t)plan->n_ops + 2, sizeof *change);
  bool *there = calloc((size_t)plan->n_storages + 1, sizeof *there);
  for (uint64_t op = 0; change && there && op <= plan->n_ops; op++) {
    move(plan, op, TD_PRE, there, change);
    for (uint32_t i = plan->ops[op].first_output; i < plan->ops[op + 1].first_output; i++) {
      uint32_t storage = plan->outputs[i].storage;
      if (there[storage] || !plan->storages[storage].activation) continue;
      there[storage] = true;
      change[op] += (int64_t)plan->storages[storage].bytes;
    }
    move(plan, op, TD_POST, there, change);
  }
  for (uint32_t i = 0; change && there && i < plan->n_storages; i++)
    if (there[i] && plan->storages[i].freed_before_op <= plan->n_ops)
      change[plan->storages[i].freed_before_op] -= (int64_t)plan->storages[i].bytes;
  free(there);
  for (uint64_t op = 1; change && op <= plan->n_ops; op++) change[op] += change[op - 1];
  return (uint64_t *)change;
}

static int by_op(const void *a, const void *b)
{
  const attempt *x = a, *y = b;
  return x->op != y->op ? (x->op > y->op) - (x->op < y->op) : (x->storage > y->storage) - (x->storage < y->storage);
}

/* Which of the plan's storages a handle is in this step; n_storages: none. */
static uint32_t planned_storage(const td_follower *f, td_storage storage)
{
  uint32_t i = 0;
  while (i < f->plan.n_storages && f->storage[i].id != storage.id) i++;
  return i;
}

/* A copy that several ops waited for begins once, before the first place that was found for it. False: it is new. */
static bool is_listed(attempt *attempts, const uint32_t *copies, size_t n, uint32_t copy, uint32_t op)
{
  for (size_t i = 0; i < n; i++) {
    if (copies[i] != copy) continue;
    if (op < attempts[i].op) attempts[i].op = op;
    return true;
  }
  return false;
}

/* What to begin earlier, by op. As many ops earlier as the wait lasted, and one more, as far as there is room; ops are taken to be of equal
 * length. */
static size_t list_attempts(const td_follower *f, const td_deck *deck, const uint64_t *taken, attempt *attempts)
{
  const td_plan_arrays *plan = &f->plan;
  uint64_t limit = deck->limit_bytes < plan->limit_bytes ? deck->limit_bytes : plan->limit_bytes;
  uint64_t op_ns = (td_now_ns() - deck->step_began_ns) / (plan->n_ops ? plan->n_ops : 1) + 1;
  size_t n = 0;
  uint32_t copies[TD_WAITS_KEPT];
  for (size_t i = 0; i < deck->n_waits; i++) {
    uint32_t storage = planned_storage(f, deck->wait_storage[i]);
    uint64_t released;
    if (deck->waits[i].was_away || deck->waits[i].op < 0 || storage >= plan->n_storages) continue;
    uint32_t copy = first_copy_in(plan, storage, (uint64_t)deck->waits[i].op, &released);
    if (copy == UINT32_MAX) continue;
    uint64_t op = op_of(plan, copy), earlier = deck->waits[i].waited_ns / op_ns + 1;
    uint64_t least = op > released + earlier ? op - earlier : released + 1, to = op, bytes = plan->storages[storage].bytes;
    while (to > least && taken[to - 1] + bytes <= limit) to--;
    if (to >= op || is_listed(attempts, copies, n, copy, (uint32_t)to)) continue;
    copies[n] = copy;
    attempts[n++] = (attempt){.op = (uint32_t)to, .storage = storage};
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
  if (!deck->n_waits || deck->stats.diverged_ops) return TD_OK;
  uint64_t *taken = planned_bytes(plan);
  if (!taken) return td_fail_nomem(err);
  size_t n = list_attempts(f, deck, taken, attempts);
  free(taken);
  if (!n) return TD_OK;
  td_planned_action *woven = malloc(((size_t)plan->n_actions + n + 1) * sizeof *woven);
  if (!woven) return td_fail_nomem(err);
  drop_replaced(plan, attempts, n);
  weave(plan, woven, attempts, n);
  free(plan->actions);
  plan->actions = woven;
  return TD_OK;
}
