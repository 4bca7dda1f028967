#include "diff/place.h"

#include "diff/align.h"

/* The alignment as seen from the sequence that has the block. */
typedef struct view {
  const uint64_t *keys;
  size_t n, n_other, *partner, *other;
  bool swapped; /* the block is in B */
} view;

static view view_of(const td_aligned *al, bool swapped)
{
  return swapped ? (view){al->keys_b, al->n_b, al->n_a, al->partner_b, al->partner_a, true}
                 : (view){al->keys_a, al->n_a, al->n_b, al->partner_a, al->partner_b, false};
}

static void align_pair(const view *v, size_t x, size_t y)
{
  v->partner[x] = y;
  v->other[y] = x;
}

/* The block x up to `end` can move on by one: the op behind it is named as its first, and has a partner right behind
 * the partner of the op before the block. */
static bool can_move_on(const view *v, size_t x, size_t end, size_t y)
{
  return end < v->n && v->partner[end] == y && v->keys[x] == v->keys[end];
}

/* ---- first all to the front ------------------------------------------------------------------------------------ */

/* The other sequence has nothing of its own between its element y and what follows the block that ends at `end`. */
static bool alone_behind(const view *v, size_t y, size_t end)
{
  return end < v->n ? v->partner[end] == y + 1 : y + 1 == v->n_other;
}

static void move_to_front(const view *v)
{
  for (size_t next = 0; next < v->n;) {
    size_t from = next, end;
    while (from < v->n && v->partner[from] != TD_ALONE) from++;
    for (end = from; end < v->n && v->partner[end] == TD_ALONE;) end++;
    next = end;
    while (from < end && from && v->partner[from - 1] != TD_ALONE && v->keys[from - 1] == v->keys[end - 1] &&
           alone_behind(v, v->partner[from - 1], end)) {
      size_t y = v->partner[--from];
      v->partner[from] = TD_ALONE;
      align_pair(v, --end, y);
    }
  }
}

/* ---- then back to where the storages fit ------------------------------------------------------------------------- */

/* 1 if the ops use storages that stand for each other; then those seen first are paired. */
static int fits(const view *v, td_pairs *pairs, size_t x, size_t y)
{
  size_t made = pairs->n_made;
  if (!(v->swapped ? td_pairs_compare(pairs, y, x) : td_pairs_compare(pairs, x, y))) return 1;
  td_pairs_undo(pairs, made);
  return 0;
}

/* How far to move the block x up to `end`, before op y of the other. One step on, op y + i stands for op x + i and no longer for
 * op end + i; it is worth going as far as more ops fit in all, under the pairs of the steps before. */
static size_t best_steps(const view *v, td_pairs *pairs, size_t x, size_t end, size_t y)
{
  size_t made = pairs->n_made, best = 0;
  int64_t score = 0, most = 0;
  for (size_t i = 0; can_move_on(v, x + i, end + i, y + i); i++) {
    size_t before = pairs->n_made;
    score -= fits(v, pairs, end + i, y + i);
    td_pairs_undo(pairs, before);
    score += fits(v, pairs, x + i, y + i);
    if (score < most) continue;
    most = score;
    best = i + 1;
  }
  td_pairs_undo(pairs, made);
  return best;
}

static void move_on(const view *v, size_t x, size_t end, size_t y, size_t steps)
{
  for (size_t i = 0; i < steps; i++) {
    v->partner[end + i] = TD_ALONE;
    align_pair(v, x + i, y + i);
  }
}

static size_t end_of_block(const size_t *partner, size_t n, size_t x)
{
  while (x < n && partner[x] == TD_ALONE) x++;
  return x;
}

void td_place_blocks(td_aligned *al, td_pairs *pairs)
{
  view a = view_of(al, false), b = view_of(al, true);
  move_to_front(&a);
  move_to_front(&b);
  for (size_t x = 0, y = 0; x < al->n_a || y < al->n_b;) {
    size_t x_end = end_of_block(al->partner_a, al->n_a, x), y_end = end_of_block(al->partner_b, al->n_b, y);
    if (x_end > x && y_end == y) {
      size_t steps = best_steps(&a, pairs, x, x_end, y);
      move_on(&a, x, x_end, y, steps);
      for (size_t i = 0; i < steps; i++) td_pairs_compare(pairs, x + i, y + i);
      x = x_end + steps;
      y += steps;
    } else if (y_end > y && x_end == x) {
      size_t steps = best_steps(&b, pairs, y, y_end, x);
      move_on(&b, y, y_end, x, steps);
      for (size_t i = 0; i < steps; i++) td_pairs_compare(pairs, x + i, y + i);
      x += steps;
      y = y_end + steps;
    } else {
      x = x_end;
      y = y_end;
    }
    /* What is aligned up to the next block. */
    for (; x < al->n_a && y < al->n_b && al->partner_a[x] == y; x++, y++) td_pairs_compare(pairs, x, y);
  }
  td_pairs_undo(pairs, 0);
}
