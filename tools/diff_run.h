/* A run of a step beside what its schedule had planned. */
#ifndef TD_TOOLS_DIFF_RUN_H
#define TD_TOOLS_DIFF_RUN_H

#include "cli.h"

/* The run of the trace that --run asks for, a number or "newest". Returns an exit code: EXIT_NO if memory, copies or ops were not
 * as planned. Times are shown, but never make a run another. */
int diff_run(const args *args, td_tape *tape, const td_trace *trace, int64_t number);

#endif
