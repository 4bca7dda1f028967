/* The fewest bytes that must move, where GLPK was there to build with. */
#include "bench.h"

#ifdef BENCH_GLPK
#include "planner/lp.h"

bool bench_knows_bytes(void)
{
  return true;
}

double bench_fewest_bytes(const td_trace *trace, uint64_t budget, bool early)
{
  double bytes = lp_bytes(trace, budget, early, false, 100);
  return bytes > 0 ? bytes : 0;
}
#else
bool bench_knows_bytes(void)
{
  return false;
}

double bench_fewest_bytes(const td_trace *trace, uint64_t budget, bool early)
{
  (void)trace, (void)budget, (void)early;
  return 0;
}
#endif
