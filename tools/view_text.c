/* view --text: the chart in characters. Full blocks are the shown curve, a light shade what the step would take without the
 * schedule. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "view.h"

#define ROWS   16
#define GUTTER 11 /* for the labels on the left */

static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/* Bytes as a number of eighths of a row; what is above 0 shows. */
static uint32_t height_of(uint64_t bytes, uint64_t peak)
{
  double height = (double)bytes / (double)peak * ROWS * 8;
  return bytes && height < 1 ? 1 : (uint32_t)(height + 0.5);
}

static uint64_t top_of(const view_columns *columns, uint32_t row)
{
  return (uint64_t)((double)columns->peak / ROWS * (row + 1));
}

static const char *cell(const view_columns *columns, const view_column *column, bool planned, uint32_t row, bool budget)
{
  uint32_t floor = row * 8, full = height_of(planned ? column->planned : column->plain, columns->peak);
  uint32_t shade = planned ? height_of(column->plain, columns->peak) : 0;
  if (full > floor) return eighths[full - floor > 8 ? 8 : full - floor];
  return budget ? "╌" : shade >= floor + 4 ? "░" : " ";
}

static void put_rows(FILE *to, const view_columns *columns, const view_side *side)
{
  char text[32];
  uint64_t budget = side->planned ? side->schedule->memory_limit_bytes : UINT64_MAX;
  uint32_t line = height_of(budget < columns->peak ? budget : 0, columns->peak) / 8;
  bool shows = budget <= columns->peak;
  for (uint32_t row = ROWS; row-- > 0;) {
    bool at_budget = shows && row == (line < ROWS ? line : ROWS - 1), label = row % 4 == 3;
    if (at_budget) fprintf(to, "%*s ╪", GUTTER - 2, td_format_size(budget, text, sizeof text));
    else if (label) fprintf(to, "%*s ┤", GUTTER - 2, td_format_size(top_of(columns, row), text, sizeof text));
    else fprintf(to, "%*s│", GUTTER - 1, "");
    uint32_t end = columns->n; /* no spaces at the end of a line */
    while (end && *cell(columns, &columns->of[end - 1], side->planned, row, at_budget) == ' ') end--;
    for (uint32_t i = 0; i < end; i++) fputs(cell(columns, &columns->of[i], side->planned, row, at_budget), to);
    fputc('\n', to);
  }
}

/* The axis: its line, and what stands at its ends and in its middle. */
static void put_axis(FILE *to, const view_columns *columns)
{
  char middle[40], end[40];
  uint32_t n = columns->n, half = n / 2;
  fprintf(to, "%*s 0 B └", GUTTER - 6, "");
  for (uint32_t i = 0; i < n; i++) fputs(i == half || i + 1 == n ? "┴" : "─", to);
  if (columns->by_op) {
    char digits[32];
    snprintf(middle, sizeof middle, "op %s", with_commas(columns->length / 2, digits));
    snprintf(end, sizeof end, "op %s", with_commas(columns->length, digits));
  } else {
    as_time(columns->length / 2, middle);
    as_time(columns->length, end);
  }
  uint32_t left = half - (uint32_t)strlen(middle) / 2;
  fprintf(to, "\n%*s0%*s%s%*s\n", GUTTER, "", (int)left - 1, "", middle, (int)(n - left - strlen(middle)), end);
}

/* How busy something is in each column, as the height of a block. */
static void put_lane(FILE *to, const view_columns *columns, int lane)
{
  fprintf(to, "%*s │", GUTTER - 2, view_lane_names[lane]);
  uint32_t end = columns->n;
  while (end && columns->of[end - 1].busy[lane] <= 0) end--;
  for (uint32_t i = 0; i < end; i++) {
    double busy = columns->of[i].busy[lane];
    fputs(eighths[busy <= 0 ? 0 : busy < 1.0 / 8 ? 1 : (int)(busy * 8)], to);
  }
  fputc('\n', to);
}

bool view_text(FILE *to, const view_side *side, uint32_t width)
{
  view_columns columns;
  if (!view_columns_init(&columns, side, width - GUTTER)) return false;
  put_plain(to, side->path, strlen(side->path));
  fputs("\n", to);
  view_summary(to, side);
  fputs("\n\n", to);
  put_rows(to, &columns, side);
  put_axis(to, &columns);
  for (int lane = 0; lane < VIEW_LANES && side->planned && !columns.by_op; lane++) put_lane(to, &columns, lane);
  if (side->planned) fprintf(to, "\n%*s█ with the schedule   ░ without it   ╌ budget\n", GUTTER, "");
  free(columns.of);
  return true;
}
