/* Two traces side by side as text: the ops that differ with some around them, and like changes told once. */
#ifndef TD_TOOLS_DIFF_TEXT_H
#define TD_TOOLS_DIFF_TEXT_H

#include <tapedeck/diff.h>

#include "cli.h"

typedef struct compared {
  const td_trace *a, *b;
  const td_diff *diff;
} compared;

/* A run of rows that differ, one after the other. */
typedef struct change {
  size_t first, end; /* rows */
  size_t places;     /* runs that are like it, this one included; 0: it is like an earlier one */
  size_t next;       /* the next like it, or SIZE_MAX */
  uint32_t kinds;    /* all bits of its rows */
  uint64_t removed, added;
} change;

/* The runs in order; freed by the caller. NULL if memory ran out. */
change *list_changes(const compared *c, size_t *n);

/* Prints them with `context` ops around, at most `limit` of them. */
void print_changes(const compared *c, const change *changes, size_t n, size_t context, size_t limit);

#endif
