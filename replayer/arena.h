/* How much host memory the copies of a plan need. */
#ifndef TD_REPLAYER_ARENA_H
#define TD_REPLAYER_ARENA_H

#include "replayer/plan.h"

/* The size of the one piece of host memory in which every host copy of the plan finds its place, when they come and go in the order of
 * the plan: the host pool itself says where each lands. */
td_status td_arena_bytes(const td_plan_arrays *plan, uint64_t *bytes, td_error *err);

#endif
