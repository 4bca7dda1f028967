/* How fast the links would have to be for a schedule not to stall. */
#include "base/fail.h"
#include "planner/extras.h"
#include "planner/planners.h"

#define FASTEST 0x1p20
#define EXACT 1.01

static td_status stalls(const td_liveness *liveness, const td_schedule *schedule, double times, bool *much, td_error *err)
{
  td_schedule faster = *schedule;
  td_simulation *simulation;
  faster.d2h_bytes_per_s = times * (faster.d2h_bytes_per_s > 0 ? faster.d2h_bytes_per_s : TD_DEFAULT_BYTES_PER_S);
  faster.h2d_bytes_per_s = times * (faster.h2d_bytes_per_s > 0 ? faster.h2d_bytes_per_s : TD_DEFAULT_BYTES_PER_S);
  td_status status = td_play(liveness, &faster, TD_NEVER, false, &simulation, err);
  if (status) return status;
  *much = simulation->stall_ns > simulation->compute_ns / 1000;
  td_simulation_destroy(simulation);
  return TD_OK;
}

static td_status search(const td_liveness *liveness, const td_schedule *schedule, double *times, td_error *err)
{
  double low = 1, high = 1;
  bool much;
  td_status status = stalls(liveness, schedule, 1, &much, err);
  for (; !status && much && high < FASTEST; high *= 2) {
    low = high;
    status = stalls(liveness, schedule, 2 * high, &much, err);
  }
  if (status) return status;
  *times = 0;
  if (much) return TD_OK;
  while (!status && high > low * EXACT) {
    double middle = (low + high) / 2;
    status = stalls(liveness, schedule, middle, &much, err);
    *(much ? &low : &high) = middle;
  }
  *times = high;
  return status;
}

td_status td_plan_speedup(const td_trace *trace, const td_schedule *schedule, double *times, td_error *err)
{
  td_extras extras;
  td_liveness liveness = {0};
  td_seen seen;
  td_extras_read(schedule->extra, &extras);
  td_status status = td_seen_init(&seen, trace, &extras, err);
  if (!status) status = td_liveness_init(&liveness, &seen.trace, schedule->early, err);
  if (!status) status = search(&liveness, schedule, times, err);
  td_liveness_finish(&liveness);
  td_seen_finish(&seen);
  return status;
}
