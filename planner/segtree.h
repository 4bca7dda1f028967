/* A segment tree over op numbers: add to a range, and the largest value in a range, each in O(log n). */
#ifndef TD_PLANNER_SEGTREE_H
#define TD_PLANNER_SEGTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct td_segtree {
  size_t leaves;  /* a power of two */
  int64_t *most;  /* the largest value below a node, what is added at its ancestors left out */
  int64_t *added; /* to all below a node */
} td_segtree;

/* n zeros. False if memory ran out. td_segtree_finish in every case. */
bool td_segtree_init(td_segtree *tree, size_t n);
void td_segtree_finish(td_segtree *tree);

/* Adds to the values from `from` up to, without, `to`. */
void td_segtree_add(td_segtree *tree, size_t from, size_t to, int64_t value);

/* The largest value in the range; INT64_MIN / 2 if it is empty. */
int64_t td_segtree_max(const td_segtree *tree, size_t from, size_t to);

/* The first and the last place in the range with a value above `limit`; `to` if there is none. */
size_t td_segtree_first_above(const td_segtree *tree, size_t from, size_t to, int64_t limit);
size_t td_segtree_last_above(const td_segtree *tree, size_t from, size_t to, int64_t limit);

/* All values become 0 again, or the n that are given. */
void td_segtree_clear(td_segtree *tree);
void td_segtree_set(td_segtree *tree, const int64_t *values, size_t n);

/* Where the largest value of all stands, the first if there are several. */
size_t td_segtree_argmax(const td_segtree *tree);

#endif
