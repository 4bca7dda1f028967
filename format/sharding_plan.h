/* What a plan object is, for those in this room who look into it. */
#ifndef TD_FORMAT_SHARDING_PLAN_H
#define TD_FORMAT_SHARDING_PLAN_H

#include "format/sharding_fields.h"

struct td_sharding {
  cJSON *live;
  cJSON *module; /* found last: they are built one after the other */
};

/* The frozen plan as a tree; the caller deletes it. */
cJSON *td_sharding_frozen_tree(td_sharding_job *job, const td_sharding *plan);

/* Makes the injections of a frozen plan an object by module, whose order does not count. */
bool td_sharding_key_injections(td_sharding_job *job, cJSON *frozen);

#endif
