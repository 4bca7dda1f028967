/* The parts of the verb plan. */
#ifndef TD_TOOLS_PLAN_H
#define TD_TOOLS_PLAN_H

#include <tapedeck/planner.h>

#include "cli.h"

/* ---- the curve of budget against stall: plan_curve.c ---- */

#define CURVE_POINTS 20

typedef struct curve_point {
  uint64_t budget, stall_ns;
  bool met;
} curve_point;

typedef struct curve {
  bool drawn; /* --budget auto was given */
  curve_point points[CURVE_POINTS + 1]; /* from the floor to the peak */
} curve;

/* With --budget auto, draws the curve and sets the smallest budget whose stall is under --max-stall. False, with a message, on
 * failure. */
bool settle_budget(const args *args, const td_trace *trace, const td_trace_info *info, td_plan_options *options, curve *curve);
void print_curve(const curve *curve, uint64_t peak_bytes);
cJSON *curve_json(const curve *curve);

/* ---- what was asked, and what came of it: plan_answer.c ---- */

typedef struct answer {
  const td_trace *trace;
  const td_trace_info *info;
  const td_plan_options *options;
  const td_schedule *schedule; /* NULL: the budget cannot be met */
  const td_plan_report *report;
  const curve *curve;
  uint64_t peak_bytes; /* without a schedule, of all that may move */
  double speedup;      /* see td_plan_speedup */
} answer;

int print_answer_json(const args *args, const answer *answer);
int print_answer(const answer *answer);
int print_cannot_json(const args *args, const answer *answer);
int print_cannot(const answer *answer);

#endif
