/* When each activation of a trace is used, and until when it is needed. */
#ifndef TD_PLANNER_LIVENESS_H
#define TD_PLANNER_LIVENESS_H

#include <tapedeck/trace.h>

#include "base/map.h"

/* One op that accesses the storage, whether once or twice. */
typedef struct td_use {
  uint64_t op;
  bool writes;
} td_use;

/* By index into the trace's storages; a storage that is no activation has no uses. */
typedef struct td_liveness {
  const td_trace *trace;
  td_use *uses;      /* those of storage i are uses[first_use[i]] up to uses[first_use[i + 1]], by op */
  size_t *first_use; /* n_storages + 1 entries */
  uint64_t *end;     /* the first op that does not need the storage any more; n_ops + 1: needed at the end of the step */
  bool *freed;       /* the framework frees it at `end`: it goes by itself */
  bool *stays;       /* it must not leave the device */
  td_map by_sid;     /* SID of an activation -> index */
} td_liveness;

/* `early`: the last access is the end even where the trace has frees. The trace must outlive it.
 * TD_E_INPUT: the activations have more than 2^60 bytes together; with less, no sum of bytes in this room overflows.
 * td_liveness_finish in every case. */
td_status td_liveness_init(td_liveness *liveness, const td_trace *trace, bool early, td_error *err);
void td_liveness_finish(td_liveness *liveness);

static inline const td_use *td_uses_of(const td_liveness *liveness, uint32_t storage, size_t *count)
{
  *count = liveness->first_use[storage + 1] - liveness->first_use[storage];
  return liveness->uses + liveness->first_use[storage];
}

#endif
