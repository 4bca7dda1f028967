#include "diff/place.h"

#include "diff/align.h"

/* The alignment as seen from the sequence that has the block. */
typedef struct view {
  const uint64_t *keys;
  size_t n, *partner, *other;
  bool swapped; /* the block is in B */
} view;

static view view_of(const td_aligned *al, bool swapped)
{
  return swapped ? (view){al->keys_b, al->n_b, al->partner_b, al->partner_a, true}
                 : (view){al->keys_a, al->n_a, al->partner_a, al->partner_b, false};
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

static void move_to_front(const view *v)
{
  for (size_t next = 0; next < v->n;) {
    size_t from = next, end;
    while (from < v->n && v->partner[from] != TD_ALONE) from++;
    for (end = from; end < v->n && v->partner[end] == TD_ALONE;) end++;
    next = end;
    while (from < end && from && v->partner[from - 1] != TD_ALONE && v->keys[from - 1] == v->keys[end - 1]) {
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

/* Two blocks at one place, one of each; one may be empty. */
typedef struct place {
  size_t x, x_end, y, y_end;
} place;

static place place_at(const td_aligned *al, size_t x, size_t y)
{
  return (place){x, end_of_block(al->partner_a, al->n_a, x), y, end_of_block(al->partner_b, al->n_b, y)};
}

static void compare(td_pairs *pairs, size_t x, size_t y, size_t n)
{
  for (size_t i = 0; i < n; i++) td_pairs_compare(pairs, x + i, y + i);
}

/* As many ops of each stand for each other in order; what the longer one has beyond moves on as far as that fits. Returns by how
 * much. */
static size_t settle(const td_aligned *al, td_pairs *pairs, const place *at, bool may_move)
{
  size_t made = pairs->n_made, a = at->x_end - at->x, b = at->y_end - at->y, both = a < b ? a : b, steps = 0;
  view longer = view_of(al, b > a);
  size_t x = (b > a ? at->y : at->x) + both, end = b > a ? at->y_end : at->x_end, y = b > a ? at->x_end : at->y_end;
  compare(pairs, at->x, at->y, both);
  if (a != b && may_move) steps = best_steps(&longer, pairs, x, end, y);
  if (steps) move_on(&longer, x, end, y, steps);
  else if (a != b) td_pairs_undo(pairs, made);
  compare(pairs, at->x + both, at->y + both, steps);
  return steps;
}

/* ---- shifts there and back ------------------------------------------------------------------------------------- */

#define SHIFT_MAX 4096 /* ops to look ahead for the way back */

/* From a block at x and y on: how many ops there are until both have gone on by as many, and how many of them are aligned. 0: too
 * many, or never. */
static size_t way_back(const td_aligned *al, size_t x, size_t y, size_t *aligned)
{
  size_t i = x, k = y;
  for (*aligned = 0; i - x < SHIFT_MAX && k - y < SHIFT_MAX; (*aligned)++, i++, k++) {
    i = end_of_block(al->partner_a, al->n_a, i);
    k = end_of_block(al->partner_b, al->n_b, k);
    if (i - x == k - y) return i - x;
    if (i >= al->n_a || k >= al->n_b) break;
  }
  return 0;
}

/* How many of `length` ops from x on fit those that they are aligned with now. */
static int64_t count_fits(const td_aligned *al, td_pairs *pairs, size_t x, size_t length)
{
  size_t made = pairs->n_made;
  view v = view_of(al, false);
  int64_t n = 0;
  for (size_t i = x; i < x + length; i++)
    if (al->partner_a[i] != TD_ALONE) n += fits(&v, pairs, i, al->partner_a[i]);
  td_pairs_undo(pairs, made);
  return n;
}

/* Where as many ops are named alike if each stands for the one as far behind, and no fewer fit, then each does: of several ops of one
 * name some were renamed. Returns the number of ops, 0: it is not so. */
static size_t straighten(const td_aligned *al, td_pairs *pairs, size_t x, size_t y)
{
  size_t aligned, alike = 0, length = way_back(al, x, y, &aligned), made = pairs->n_made;
  view v = view_of(al, false);
  int64_t straight = 0;
  for (size_t i = 0; i < length; i++) alike += al->keys_a[x + i] == al->keys_b[y + i];
  if (!length || alike < aligned) return 0;
  for (size_t i = 0; i < length; i++) straight += fits(&v, pairs, x + i, y + i);
  td_pairs_undo(pairs, made);
  if (straight < count_fits(al, pairs, x, length)) return 0;
  for (size_t i = 0; i < length; i++) al->partner_a[x + i] = al->partner_b[y + i] = TD_ALONE;
  for (size_t i = 0; i < length; i++)
    if (al->keys_a[x + i] == al->keys_b[y + i]) align_pair(&v, x + i, y + i);
  compare(pairs, x, y, length);
  return length;
}

void td_place_blocks(td_aligned *al, td_pairs *pairs)
{
  view a = view_of(al, false), b = view_of(al, true);
  bool moved = false; /* to where it is now: there it stays, with what else stands there */
  move_to_front(&a);
  move_to_front(&b);
  for (size_t x = 0, y = 0; x < al->n_a || y < al->n_b;) {
    place at = place_at(al, x, y);
    size_t straight = moved || (at.x_end == x && at.y_end == y) ? 0 : straighten(al, pairs, x, y);
    if (straight) {
      x += straight;
      y += straight;
      continue;
    }
    size_t both = at.x_end - x < at.y_end - y ? at.x_end - x : at.y_end - y, steps = settle(al, pairs, &at, !moved);
    moved = steps > 0;
    x = moved ? x + both + steps : at.x_end;
    y = moved ? y + both + steps : at.y_end;
    /* What is aligned up to the next block. */
    for (; !moved && x < al->n_a && y < al->n_b && al->partner_a[x] == y; x++, y++) td_pairs_compare(pairs, x, y);
  }
  td_pairs_undo(pairs, 0);
}
