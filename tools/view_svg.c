/* view --svg: the chart as a picture that stands alone, in light and dark. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "view.h"

enum { WIDTH = 960, LEFT = 84, RIGHT = 944, TOP = 64, PLOT = 240, LANE = 14, LANES = VIEW_LANES * (LANE + 5), COLUMN = 2 };

#define COLUMNS ((RIGHT - LEFT) / COLUMN)

static const char style[] =
    "<style>\n"
    "svg { font: 12px system-ui, sans-serif; }\n"
    ".back { fill: #ffffff; } text { fill: #59636e; } .title { fill: #1b1f24; font-size: 15px; font-weight: 600; }\n"
    ".grid { stroke: #d9dee3; } .plain { fill: #8a949e2e; stroke: #6f7984; } .planned { fill: #0072b255; stroke: #0072b2; }\n"
    ".budget { stroke: #d55e00; stroke-dasharray: 8 5; stroke-width: 2; } .stall { fill: #d55e00; } .copy { fill: #0072b2; }\n"
    ".bed { fill: #59636e1c; }\n"
    "@media (prefers-color-scheme: dark) {\n"
    ".back { fill: #15181c; } text { fill: #a3adb8; } .title { fill: #e6e9ed; } .grid { stroke: #333a42; }\n"
    ".plain { fill: #8a949e38; stroke: #98a2ad; } .planned { fill: #56b4e955; stroke: #56b4e9; } .budget { stroke: #ff7a2e; }\n"
    ".stall { fill: #ff7a2e; } .copy { fill: #56b4e9; } .bed { fill: #a3adb81c; }\n"
    "}\n"
    "</style>\n";

/* Characters that XML cannot hold are shown as the one for what is missing. */
static void put_xml(FILE *to, const char *bytes, size_t length)
{
  for (size_t i = 0; i < length;) {
    uint32_t c;
    i += next_character(bytes + i, length - i, &c);
    if (c == '&') fputs("&amp;", to);
    else if (c == '<') fputs("&lt;", to);
    else if (c == '>') fputs("&gt;", to);
    else if (c == '"') fputs("&quot;", to);
    else if (c >= 0x20 && c < 0x7f) fputc((int)c, to);
    else fprintf(to, "&#%" PRIu32 ";", c < 0x80 || c == 0xfffe || c == 0xffff ? 0xfffd : c);
  }
}

static int height_of(const view_side *side)
{
  return TOP + PLOT + 76 + (side->planned ? LANES : 0);
}

static double y_of(uint64_t bytes, uint64_t peak)
{
  return TOP + PLOT - (double)bytes / (double)peak * PLOT;
}

/* A curve of steps, closed along the axis; equal columns are one line. */
static void put_curve(FILE *to, const view_columns *columns, bool planned)
{
  fprintf(to, "<path class=\"%s\" d=\"M%d %d", planned ? "planned" : "plain", LEFT, TOP + PLOT);
  uint64_t before = 0;
  for (uint32_t i = 0; i < columns->n; i++) {
    uint64_t bytes = planned ? columns->of[i].planned : columns->of[i].plain;
    if (bytes == before) continue;
    fprintf(to, "H%" PRIu32 "V%.1f", LEFT + i * COLUMN, y_of(bytes, columns->peak));
    before = bytes;
  }
  fprintf(to, "H%dV%dZ\"/>\n", RIGHT, TOP + PLOT);
}

/* What is above 0 shows. */
static int tenths_of(const view_column *column, int lane)
{
  double busy = column->busy[lane];
  return busy > 0 && busy < 0.1 ? 1 : (int)(busy * 10 + 0.5);
}

/* Boxes where something is busy, as opaque as it is busy. */
static void put_lane(FILE *to, const view_columns *columns, int lane, int y)
{
  fprintf(to, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + LANE - 3, view_lane_names[lane]);
  fprintf(to, "<rect class=\"bed\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, y, RIGHT - LEFT, LANE);
  for (uint32_t i = 0, end; i < columns->n; i = end) {
    int tenths = tenths_of(&columns->of[i], lane);
    for (end = i + 1; end < columns->n && tenths_of(&columns->of[end], lane) == tenths;) end++;
    if (!tenths) continue;
    fprintf(to, "<rect class=\"%s\" x=\"%" PRIu32 "\" y=\"%d\" width=\"%" PRIu32 "\" height=\"%d\" opacity=\"%.2f\"/>\n",
            lane == VIEW_STALL ? "stall" : "copy", LEFT + i * COLUMN, y, (end - i) * COLUMN, LANE, 0.2 + 0.08 * tenths);
  }
}

/* The step of an axis: a power of two, or 1, 2 or 5 times a power of ten, so that at most `most` fit into `length`. */
static uint64_t step_of(uint64_t length, uint64_t most, bool binary)
{
  uint64_t step = 1;
  for (int i = 0; length / step > most; i++) step = binary ? step * 2 : i % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

static void put_axes(FILE *to, const view_columns *columns)
{
  char text[40];
  uint64_t step = step_of(columns->peak, 5, true);
  for (uint64_t bytes = 0; bytes <= columns->peak; bytes += step) {
    double y = y_of(bytes, columns->peak);
    td_format_size(bytes, text, sizeof text);
    fprintf(to, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT, y, RIGHT,
            LEFT - 8, y + 4, text);
  }
  step = step_of(columns->length, 8, false);
  for (uint64_t i = 0; i <= columns->length / step; i++) {
    double x = LEFT + (double)(i * step) / (double)columns->length * (RIGHT - LEFT);
    if (columns->by_op) with_commas(i * step, text);
    else if (i) as_time(i * step, text);
    fprintf(to, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s%s</text>\n", x, TOP + PLOT + 18, x > RIGHT - 20 ? "end" : "middle",
            columns->by_op && !i ? "op " : "", i || columns->by_op ? text : "0");
  }
}

static void put_legend(FILE *to, const view_side *side, int y)
{
  static const struct {
    const char *class, *text;
    int x;
  } items[] = {{"plain", "without a schedule", 0}, {"planned", "with the schedule", 150}, {"budget", "budget", 290},
               {"stall", "stall", 370}};
  for (size_t i = 0; i < (side->planned ? 4 : 1); i++) {
    int x = LEFT + items[i].x;
    if (i == 2) fprintf(to, "<path class=\"budget\" d=\"M%d %dh22\"/>", x, y - 4);
    else fprintf(to, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"14\" height=\"10\"/>", items[i].class, x, y - 9);
    fprintf(to, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + (i == 2 ? 28 : 20), y, items[i].text);
  }
}

static bool put_side(FILE *to, const view_side *side)
{
  view_columns columns;
  if (!view_columns_init(&columns, side, COLUMNS)) return false;
  fprintf(to, "<text class=\"title\" x=\"16\" y=\"26\">");
  put_xml(to, side->path, strlen(side->path));
  fputs("</text>\n<text x=\"16\" y=\"46\">", to);
  view_summary(to, side);
  fputs("</text>\n", to);
  put_axes(to, &columns);
  put_curve(to, &columns, false);
  if (side->planned) {
    put_curve(to, &columns, true);
    uint64_t budget = side->schedule->memory_limit_bytes;
    if (budget <= columns.peak)
      fprintf(to, "<path class=\"budget\" d=\"M%d %.1fH%d\"/>\n", LEFT, y_of(budget, columns.peak), RIGHT);
    for (int lane = 0; lane < VIEW_LANES; lane++) put_lane(to, &columns, lane, TOP + PLOT + 32 + lane * (LANE + 5));
  }
  put_legend(to, side, height_of(side) - 24);
  free(columns.of);
  return true;
}

bool view_svg(FILE *to, const view_side *sides, size_t n)
{
  int height = 0, y = 0;
  bool done = true;
  for (size_t i = 0; i < n; i++) height += height_of(&sides[i]);
  fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n%s", WIDTH,
          height, WIDTH, height, style);
  fprintf(to, "<rect class=\"back\" width=\"%d\" height=\"%d\"/>\n", WIDTH, height);
  for (size_t i = 0; i < n && done; i++) {
    fprintf(to, "<g transform=\"translate(0 %d)\">\n", y);
    done = put_side(to, &sides[i]);
    fputs("</g>\n", to);
    y += height_of(&sides[i]);
  }
  fputs("</svg>\n", to);
  return done;
}
