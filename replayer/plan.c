#include "replayer/plan.h"

#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fail.h"
#include "base/map.h"

void td_plan_arrays_finish(td_plan_arrays *plan)
{
  td_trace_destroy(plan->guide);
  free(plan->actions);
  free(plan->hashes);
  *plan = (td_plan_arrays){0};
}

static const char *const kind_names[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};

static td_status check_action(const td_action *action, const td_action *previous, uint64_t n_ops, td_error *err)
{
  unsigned long long op = action->op, sid = action->sid;
  if (action->kind > TD_RELEASE_HOST || action->phase > TD_POST)
    return td_fail(err, TD_E_INPUT, "op %llu: an action of an unknown kind or phase for SID %llu", op, sid);
  if (action->op > n_ops || (action->op == n_ops && action->phase == TD_POST))
    return td_fail(err, TD_E_INPUT, "the schedule has an action at op %llu, of %llu ops", op, (unsigned long long)n_ops);
  if ((action->phase == TD_PRE) != (action->kind == TD_COPY_H2D))
    return td_fail(err, TD_E_INPUT, "op %llu: a %s for SID %llu %s the op, where there can be none", op,
                   kind_names[action->kind], sid, action->phase == TD_PRE ? "before" : "after");
  if (previous && (action->op < previous->op || (action->op == previous->op && action->phase < previous->phase)))
    return td_fail(err, TD_E_INPUT, "the schedule is out of order at op %llu", op);
  return TD_OK;
}

uint64_t td_guide_hash(const char *name, size_t length, uint64_t leaves)
{
  return XXH3_64bits_withSeed(name, length, leaves);
}

static td_status hash_ops(td_plan_arrays *plan, td_error *err)
{
  const td_trace *guide = plan->guide;
  plan->hashes = malloc(((size_t)guide->n_ops + 1) * sizeof *plan->hashes);
  if (!plan->hashes) return td_fail_nomem(err);
  for (uint64_t op = 0; op < guide->n_ops; op++) {
    const td_name *name = &guide->names[guide->ops[op].name];
    plan->hashes[op] = td_guide_hash(name->bytes, name->length, guide->ops[op].leaves);
  }
  return TD_OK;
}

static td_status number_storages(const td_trace *guide, td_map *numbers, td_error *err)
{
  for (uint32_t i = 0; i < guide->n_activations; i++) {
    uint32_t storage = guide->activations[i];
    if (!td_map_put(numbers, guide->storages[storage].sid, storage)) return td_fail_nomem(err);
  }
  return TD_OK;
}

static td_status compile(td_plan_arrays *plan, const td_schedule *schedule, const td_map *numbers, td_error *err)
{
  plan->actions = calloc(schedule->n_actions + 1, sizeof *plan->actions);
  if (!plan->actions) return td_fail_nomem(err);
  for (size_t i = 0; i < schedule->n_actions; i++) {
    const td_action *action = &schedule->actions[i];
    td_status status = check_action(action, i ? action - 1 : NULL, plan->guide->n_ops, err);
    if (status) return status;
    uint32_t storage = td_map_get(numbers, action->sid);
    if (storage == TD_MAP_NONE)
      return td_fail(err, TD_E_INPUT, "op %llu: an action for SID %llu, which is no activation of the trace",
                     (unsigned long long)action->op, (unsigned long long)action->sid);
    plan->actions[i] = (td_planned_action){
        .op = (uint32_t)action->op, .storage = storage, .phase = action->phase, .kind = action->kind};
  }
  plan->n_actions = schedule->n_actions;
  plan->limit_bytes = schedule->memory_limit_bytes;
  plan->actions[plan->n_actions].op = UINT32_MAX;
  return TD_OK;
}

td_status td_plan_arrays_load(td_plan_arrays *out, const char *path, int64_t trace, int64_t schedule, td_error *err)
{
  td_plan_arrays plan = {0};
  td_tape *tape = NULL;
  td_schedule *loaded = NULL;
  td_map numbers = {0};
  td_status status = td_tape_open(&tape, path, err);
  if (!status) status = td_tape_load_trace(tape, trace, &plan.guide, err);
  if (!status && !plan.guide->complete)
    status = td_fail(err, TD_E_INPUT, "%s: the recording is unfinished and cannot be replayed", path);
  if (!status) status = td_tape_load_schedule(tape, trace, schedule, &loaded, err);
  if (!status) status = hash_ops(&plan, err);
  if (!status) status = number_storages(plan.guide, &numbers, err);
  if (!status) status = compile(&plan, loaded, &numbers, err);
  td_map_finish(&numbers);
  td_schedule_destroy(loaded);
  td_tape_close(tape);
  if (status)
    td_plan_arrays_finish(&plan);
  else
    *out = plan;
  return status;
}
