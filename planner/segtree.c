#include "planner/segtree.h"

#include <stdlib.h>
#include <string.h>

#define LOWEST (INT64_MIN / 2) /* far from overflow in both directions */

bool td_segtree_init(td_segtree *tree, size_t n)
{
  *tree = (td_segtree){.leaves = 1};
  while (tree->leaves < n) tree->leaves *= 2;
  tree->most = calloc(2 * tree->leaves, sizeof *tree->most);
  tree->added = calloc(2 * tree->leaves, sizeof *tree->added);
  return tree->most && tree->added;
}

void td_segtree_finish(td_segtree *tree)
{
  free(tree->most);
  free(tree->added);
  *tree = (td_segtree){0};
}

static int64_t larger(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static void change(td_segtree *tree, size_t node, int64_t value)
{
  tree->most[node] += value;
  tree->added[node] += value;
}

static void renew_above(td_segtree *tree, size_t node)
{
  for (node /= 2; node; node /= 2) tree->most[node] = larger(tree->most[2 * node], tree->most[2 * node + 1]) + tree->added[node];
}

void td_segtree_add(td_segtree *tree, size_t from, size_t to, int64_t value)
{
  if (from >= to) return;
  size_t left = from + tree->leaves, right = to + tree->leaves;
  for (size_t l = left, r = right; l < r; l /= 2, r /= 2) {
    if (l & 1) change(tree, l++, value);
    if (r & 1) change(tree, --r, value);
  }
  renew_above(tree, left);
  renew_above(tree, right - 1);
}

static int64_t max_in(const td_segtree *tree, size_t node, size_t low, size_t width, size_t from, size_t to)
{
  if (from <= low && low + width <= to) return tree->most[node];
  if (low >= to || low + width <= from) return LOWEST;
  return larger(max_in(tree, 2 * node, low, width / 2, from, to),
                max_in(tree, 2 * node + 1, low + width / 2, width / 2, from, to)) +
         tree->added[node];
}

int64_t td_segtree_max(const td_segtree *tree, size_t from, size_t to)
{
  return from < to ? max_in(tree, 1, 0, tree->leaves, from, to) : LOWEST;
}

/* The first place, or the last, below a node that is in the range and above the limit; SIZE_MAX if there is none. `limit` has
 * what the ancestors add taken off. */
static size_t find_above(const td_segtree *tree, size_t node, size_t low, size_t width, size_t from, size_t to, int64_t limit,
                         bool last)
{
  if (low >= to || low + width <= from || tree->most[node] <= limit) return SIZE_MAX;
  if (width == 1) return low;
  limit -= tree->added[node];
  for (int side = 0; side < 2; side++) {
    size_t right = (side == 0) == last, half = width / 2;
    size_t found = find_above(tree, 2 * node + right, low + right * half, half, from, to, limit, last);
    if (found != SIZE_MAX) return found;
  }
  return SIZE_MAX;
}

size_t td_segtree_first_above(const td_segtree *tree, size_t from, size_t to, int64_t limit)
{
  size_t found = from < to ? find_above(tree, 1, 0, tree->leaves, from, to, limit, false) : SIZE_MAX;
  return found == SIZE_MAX ? to : found;
}

size_t td_segtree_last_above(const td_segtree *tree, size_t from, size_t to, int64_t limit)
{
  size_t found = from < to ? find_above(tree, 1, 0, tree->leaves, from, to, limit, true) : SIZE_MAX;
  return found == SIZE_MAX ? to : found;
}

void td_segtree_clear(td_segtree *tree)
{
  memset(tree->most, 0, 2 * tree->leaves * sizeof *tree->most);
  memset(tree->added, 0, 2 * tree->leaves * sizeof *tree->added);
}

void td_segtree_set(td_segtree *tree, const int64_t *values, size_t n)
{
  td_segtree_clear(tree);
  memcpy(tree->most + tree->leaves, values, n * sizeof *values);
  for (size_t node = tree->leaves; --node;) tree->most[node] = larger(tree->most[2 * node], tree->most[2 * node + 1]);
}

size_t td_segtree_argmax(const td_segtree *tree)
{
  size_t node = 1;
  while (node < tree->leaves) node = 2 * node + (tree->most[2 * node] < tree->most[2 * node + 1]);
  return node - tree->leaves;
}
