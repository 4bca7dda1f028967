#include "listing.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#define NAME_MOST 64

bool listing_add(listing *list, const cell *row)
{
  if (list->n_rows == list->capacity) {
    size_t capacity = list->capacity ? 2 * list->capacity : 256;
    cell *grown = realloc(list->cells, capacity * list->n_columns * sizeof *grown);
    if (!grown) return false;
    list->cells = grown;
    list->capacity = capacity;
  }
  memcpy(list->cells + list->n_rows++ * list->n_columns, row, list->n_columns * sizeof *row);
  return true;
}

void listing_finish(listing *list)
{
  free(list->cells);
}

bool name_matches(const args *args, const td_name *name)
{
  const char *glob = arg(args, "name");
  return !glob || fnmatch(glob, name->bytes, 0) == 0;
}

const char *name_text(const td_name *name, char *text, size_t most)
{
  size_t n = name->length < most ? name->length : most;
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)name->bytes[i];
    text[i] = c < 0x20 || c >= 0x7f ? '?' : (char)c;
  }
  text[n] = '\0';
  if (name->length > most && most > 3) memcpy(text + most - 3, "...", 3);
  return text;
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

static struct {
  const listing *list;
  size_t column;
  bool reverse;
} sorting;

static int by_text(const td_name *a, const td_name *b)
{
  size_t n = a->length < b->length ? a->length : b->length;
  int order = n ? memcmp(a->bytes, b->bytes, n) : 0;
  return order ? order : (a->length > b->length) - (a->length < b->length);
}

static int by_cell(const void *a, const void *b)
{
  size_t i = *(const size_t *)a, k = *(const size_t *)b;
  const cell *x = sorting.list->cells + i * sorting.list->n_columns + sorting.column;
  const cell *y = sorting.list->cells + k * sorting.list->n_columns + sorting.column;
  column_kind kind = sorting.list->columns[sorting.column].kind;
  int order = 0;
  if (x->none != y->none) return x->none ? 1 : -1;
  if (kind == COLUMN_TEXT) order = by_text(&x->text, &y->text);
  else if (x->number != y->number) order = (x->number < y->number) == (kind == COLUMN_NUMBER) ? -1 : 1;
  if (sorting.reverse) order = -order;
  return order ? order : (i > k) - (i < k);
}

static size_t *sorted(const args *args, const listing *list, const char *sort)
{
  size_t *order = calloc(list->n_rows + 1, sizeof *order);
  if (arg(args, "sort")) sort = arg(args, "sort");
  sorting.list = list;
  sorting.column = 0;
  sorting.reverse = arg(args, "reverse");
  while (strcmp(list->columns[sorting.column].key, sort) != 0) sorting.column++;
  for (size_t i = 0; order && i < list->n_rows; i++) order[i] = i;
  if (order && list->n_rows) qsort(order, list->n_rows, sizeof *order, by_cell);
  return order;
}

static bool read_limit(const args *args, int64_t otherwise, size_t *limit)
{
  const char *text = arg(args, "limit");
  int64_t number = 0;
  if (text && strcmp(text, "all") == 0) {
    *limit = SIZE_MAX;
    return true;
  }
  if (!text && arg(args, "json")) otherwise = INT64_MAX;
  if (!number_arg(args, "limit", otherwise, &number)) return false;
  *limit = (size_t)number;
  return true;
}

/* ---- text --------------------------------------------------------------------------------------------------------- */

static const char *cell_text(const column *column, const cell *cell, char text[NAME_MOST + 1])
{
  if (cell->none) return "-";
  switch (column->kind) {
  case COLUMN_NUMBER: snprintf(text, 32, "%" PRIu64, cell->number); break;
  case COLUMN_COUNT: with_commas(cell->number, text); break;
  case COLUMN_BYTES: td_format_size(cell->number, text, 32); break;
  case COLUMN_TIME: as_time(cell->number, text); break;
  case COLUMN_SHARE: snprintf(text, 32, "%.1f%%", (double)cell->number / 1e4); break;
  case COLUMN_TEXT: name_text(&cell->text, text, NAME_MOST); break;
  }
  return text;
}

static void print_text(const listing *list, const size_t *order, size_t n)
{
  int width[COLUMNS_MAX];
  char text[NAME_MOST + 1];
  for (size_t c = 0; c < list->n_columns; c++) {
    width[c] = (int)strlen(list->columns[c].title);
    for (size_t i = 0; i < n; i++) {
      int length = (int)strlen(cell_text(&list->columns[c], &list->cells[order[i] * list->n_columns + c], text));
      if (length > width[c]) width[c] = length;
    }
  }
  for (size_t i = 0; i < n + 1; i++) {
    for (size_t c = 0; c < list->n_columns; c++) {
      const char *shown = i ? cell_text(&list->columns[c], &list->cells[order[i - 1] * list->n_columns + c], text) : list->columns[c].title;
      bool last = c + 1 == list->n_columns;
      if (list->columns[c].kind == COLUMN_TEXT) printf("%s%-*s", c ? "  " : "", last ? 0 : width[c], shown);
      else printf("%s%*s", c ? "  " : "", width[c], shown);
    }
    putchar('\n');
  }
}

/* ---- JSON ---------------------------------------------------------------------------------------------------------- */

static void put_cell(const column *column, const cell *cell)
{
  printf("\"%s\": ", column->key);
  if (cell->none) fputs("null", stdout);
  else if (column->kind == COLUMN_TEXT) put_json_string(stdout, cell->text.bytes, cell->text.length);
  else if (column->kind == COLUMN_SHARE) printf("%.6f", (double)cell->number / 1e6);
  else printf("%" PRIu64, cell->number);
}

static void print_json(const listing *list, const char *what, const size_t *order, size_t n)
{
  printf("{\"total\": %zu, \"%s\": [", list->n_rows, what);
  for (size_t i = 0; i < n; i++) {
    fputs(i ? ",\n{" : "\n{", stdout);
    for (size_t c = 0; c < list->n_columns; c++) {
      if (c) fputs(", ", stdout);
      put_cell(&list->columns[c], &list->cells[order[i] * list->n_columns + c]);
    }
    putchar('}');
  }
  puts(n ? "\n]}" : "]}");
}

int listing_print(const args *args, listing *list, const char *what, const char *sort, int64_t limit)
{
  size_t most, n = list->n_rows;
  char text[32];
  if (!read_limit(args, limit, &most)) return EXIT_TROUBLE;
  size_t *order = sorted(args, list, sort);
  if (!order) return trouble(args, "out of memory");
  if (n > most) n = most;
  if (arg(args, "json")) print_json(list, what, order, n);
  else print_text(list, order, n);
  if (!arg(args, "json") && n < list->n_rows) printf("... and %s more; --limit all shows them\n", with_commas(list->n_rows - n, text));
  free(order);
  return EXIT_DONE;
}
