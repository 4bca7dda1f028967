/* Tables of ops, storages and the like: sorted, cut to a length, and printed in columns or as JSON. */
#ifndef TD_TOOLS_LISTING_H
#define TD_TOOLS_LISTING_H

#include "cli.h"

typedef enum column_kind { COLUMN_NUMBER, COLUMN_COUNT, COLUMN_BYTES, COLUMN_TIME, COLUMN_SHARE, COLUMN_TEXT } column_kind;

typedef struct column {
  const char *key; /* in JSON, and for --sort */
  const char *title;
  column_kind kind;
} column;

typedef struct cell {
  uint64_t number; /* of a share: millionths */
  td_name text;
  bool none; /* shown as "-", null in JSON, and sorted last */
} cell;

#define COLUMNS_MAX 12

typedef struct listing {
  const column *columns;
  size_t n_columns;
  cell *cells; /* by row, then by column */
  size_t n_rows, capacity;
} listing;

/* Appends a row of n_columns cells. False if memory ran out. */
bool listing_add(listing *list, const cell *row);
void listing_finish(listing *list);

/* Prints the rows by --sort, --reverse and --limit; `sort` is the default column, `limit` the default number of rows of text. As JSON
 * {"total": rows there are, `what`: [...]}. Numbers stand largest first, SIDs and op numbers smallest first. Returns an exit code. */
int listing_print(const args *args, listing *list, const char *what, const char *sort, int64_t limit);

#define OPTIONS_LISTING(columns)                                                                                                 \
  {"sort", columns, "the column to sort by", '\0'}, {"reverse", NULL, "the other way round", '\0'},                              \
      {"limit", "N", "how many rows at most, or all", 'n'}

#define OPTION_NAME {"name", "GLOB", "only ops of this name, in which * and ? stand for others", '\0'}
#define OPTION_OPS {"ops", "FIRST:END", "only these ops, END not among them", '\0'}

/* Whether an op's name is as --name asks; true without it. */
bool name_matches(const args *args, const td_name *name);

/* The bytes of a name as one line of text of at most `most` characters; `text` has room for `most` + 1. */
const char *name_text(const td_name *name, char *text, size_t most);

#endif
