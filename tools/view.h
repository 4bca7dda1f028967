/* What view shows, and the forms it shows it in. */
#ifndef TD_TOOLS_VIEW_H
#define TD_TOOLS_VIEW_H

#include <stdio.h>

#include <tapedeck/planner.h>

#include "cli.h"

#define VIEW_SIDES 2 /* at the most */

/* A tape, one of its traces, and how it plays without and with a schedule. */
typedef struct view_side {
  const char *path;
  td_tape *tape;
  td_trace *trace;
  td_trace_info info;
  td_schedule *schedule; /* NULL: none, and no `planned` */
  td_simulation *plain, *planned;
} view_side;

void view_page(FILE *to, const view_side *sides, size_t n);
bool view_svg(FILE *to, const view_side *sides, size_t n);
bool view_text(FILE *to, const view_side *side, uint32_t width);

/* ---- columns --------------------------------------------------------------------------------------------------- */

enum { VIEW_STALL, VIEW_D2H, VIEW_H2D, VIEW_LANES };

/* What happens in one column of a chart. */
typedef struct view_column {
  uint64_t plain, planned; /* the most bytes on the device */
  double busy[VIEW_LANES]; /* for which share of it the compute queue waits, and a copy engine copies */
} view_column;

/* A side in columns of equal length: of time or, where the trace has no durations, of ops. */
typedef struct view_columns {
  uint32_t n;
  view_column *of;
  uint64_t length; /* of all: ns, or ops */
  bool by_op;
  uint64_t peak; /* the highest of both curves */
} view_columns;

/* False: out of memory. The caller frees columns->of with free(). */
bool view_columns_init(view_columns *columns, const view_side *side, uint32_t n);

extern const char *const view_lane_names[VIEW_LANES];

/* One line for a person: what the step is and what the schedule does with it. */
void view_summary(FILE *to, const view_side *side);

#endif
