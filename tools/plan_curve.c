/* plan --budget auto: the curve of budget against stall, and the smallest budget whose stall is allowed. */
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "plan.h"
#include "progress.h"

static td_status try_budget(const td_trace *trace, td_plan_options options, curve_point *p, td_error *err)
{
  td_plan_report report;
  td_schedule *schedule = NULL;
  options.budget_bytes = p->budget;
  td_status status = td_plan(trace, &options, &schedule, &report, err);
  td_schedule_destroy(schedule);
  p->met = status == TD_OK;
  p->stall_ns = p->met ? report.predicted_stall_ns : 0;
  return status == TD_E_BUDGET ? TD_OK : status;
}

/* The ends of the curve are what a budget of 0 is told is the smallest, and what the step takes without a schedule. */
static td_status find_ends(const td_trace *trace, td_plan_options options, uint64_t *peak, uint64_t *low, td_error *err)
{
  td_plan_report report = {.min_budget_bytes = 0};
  td_schedule *schedule = NULL;
  options.budget_bytes = 0;
  td_status status = td_plan(trace, &options, &schedule, &report, err);
  td_schedule_destroy(schedule);
  if (status && status != TD_E_BUDGET) return status;
  *low = report.min_budget_bytes;
  schedule = NULL;
  options.budget_bytes = UINT64_MAX; /* sizes that are rounded up have a peak of their own */
  status = td_plan(trace, &options, &schedule, &report, err);
  td_schedule_destroy(schedule);
  if (!status) *peak = report.predicted_peak_bytes > *low ? report.predicted_peak_bytes : *low;
  return status == TD_E_BUDGET ? TD_OK : status;
}

/* The curve, then bisection between two of its points. */
static td_status choose_budget(const td_trace *trace, uint64_t peak, td_plan_options *options, uint64_t max_stall_ns, curve *curve,
                               td_error *err)
{
  curve_point *points = curve->points;
  uint64_t low, high = peak, step;
  td_status status = find_ends(trace, *options, &peak, &low, err);
  if (status) return status;
  high = peak;
  step = (peak - low) / CURVE_POINTS;
  for (int i = 0; i <= CURVE_POINTS && !status; i++) {
    points[i].budget = i == CURVE_POINTS ? peak : low + step * (uint64_t)i;
    status = try_budget(trace, *options, &points[i], err);
    progress_show((uint64_t)i + 1, CURVE_POINTS + 11, "budgets"); /* the search between two points halves about ten times */
  }
  for (int i = CURVE_POINTS; i >= 0; i--) {
    if (!points[i].met || points[i].stall_ns > max_stall_ns) break;
    high = points[i].budget;
    low = i ? points[i - 1].budget : high;
  }
  while (!status && high - low > 1 && high - low > high / 1000) {
    curve_point middle = {.budget = low + (high - low) / 2};
    status = try_budget(trace, *options, &middle, err);
    if (middle.met && middle.stall_ns <= max_stall_ns) high = middle.budget;
    else low = middle.budget;
  }
  options->budget_bytes = high;
  return status;
}

void print_curve(const curve *curve, uint64_t peak_bytes)
{
  char a[32], b[32];
  const curve_point *points = curve->points;
  uint64_t most = 1;
  for (int i = 0; i <= CURVE_POINTS; i++)
    if (points[i].stall_ns > most) most = points[i].stall_ns;
  puts("    budget  of peak      stall");
  for (int i = 0; i <= CURVE_POINTS; i++) {
    if (!points[i].met) continue;
    int bar = (int)(30 * (double)points[i].stall_ns / (double)most + 0.5);
    printf("%10s  %6.1f%% %10s  %.*s\n", td_format_size(points[i].budget, a, sizeof a),
           peak_bytes ? 100 * (double)points[i].budget / (double)peak_bytes : 0, as_time(points[i].stall_ns, b), bar,
           "##############################");
  }
  putchar('\n');
}

cJSON *curve_json(const curve *curve)
{
  cJSON *list = cJSON_CreateArray();
  for (int i = 0; i <= CURVE_POINTS; i++) {
    if (!curve->points[i].met) continue;
    cJSON *item = cJSON_CreateObject();
    json_u64(item, "budget_bytes", curve->points[i].budget);
    json_u64(item, "stall_ns", curve->points[i].stall_ns);
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

bool settle_budget(const args *args, const td_trace *trace, const td_trace_info *info, td_plan_options *options, curve *curve)
{
  td_error err;
  double percent = 1;
  char *end = NULL;
  const char *text = arg(args, "max-stall");
  if (strcmp(arg(args, "budget"), "auto") != 0) {
    if (text) trouble(args, "--max-stall goes with --budget auto");
    return !text;
  }
  if (text) percent = strtod(text, &end);
  if (text && (end == text || (*end && strcmp(end, "%") != 0) || !(percent >= 0 && percent <= 10000))) {
    trouble(args, "--max-stall %s: expected a share of the step, such as 2%%", text);
    return false;
  }
  if (!info->compute_ns) {
    trouble(args, "--budget auto: the trace has no durations, so no stall is a share of them; give a size");
    return false;
  }
  uint64_t peak = info->peak_bytes + (options->move_found ? info->other_bytes : 0);
  curve->drawn = true;
  progress_begin("planning");
  td_status status = choose_budget(trace, peak, options, (uint64_t)((double)info->compute_ns * percent / 100), curve, &err);
  progress_end();
  if (!status) return true;
  failed(args, &err);
  return false;
}
