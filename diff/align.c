/* Alignment in three steps, each linear in what the next need not look at any more.
 *
 * 1. Elements that the other sequence has not got are set aside.
 * 2. Long sequences are cut at anchors: stretches that occur once in each, the most of them that are in order (patience diff;
 *    the longest increasing subsequence after Fredman, "On computing the length of longest increasing subsequences", 1975).
 * 3. Between anchors the shortest edit script is searched from both ends at once in linear space (Myers, "An O(ND) difference
 *    algorithm and its variations", 1986, section 4b). Where more than COST_MAX edits were tried without the two searches meeting,
 *    the one that came furthest is taken as it is, so that two sequences with nothing in order take linear time too. */
#include "diff/align.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"

#define COST_MAX 1024
#define ANCHOR 16      /* elements of a stretch */
#define ANCHORED 16384 /* sequences as long as this are cut */

/* What is left of a sequence after step 1. */
typedef struct sequence {
  uint32_t *keys; /* numbered from 0 */
  size_t *at;     /* where the element stands in the sequence as it was given */
  size_t n;
} sequence;

typedef struct alignment {
  sequence a, b;
  size_t *partner_a, *partner_b;
  ptrdiff_t *forward, *backward; /* by diagonal x - y: how far the search from this end came */
} alignment;

static void match(alignment *al, size_t x, size_t y)
{
  al->partner_a[al->a.at[x]] = al->b.at[y];
  al->partner_b[al->b.at[y]] = al->a.at[x];
}

/* ---- what one sequence alone has ------------------------------------------------------------------------------ */

static bool number_keys(td_map *map, const uint64_t *keys, size_t n, uint32_t *numbers)
{
  for (size_t i = 0; i < n; i++) {
    numbers[i] = td_map_get(map, keys[i]);
    if (numbers[i] != TD_MAP_NONE) continue;
    numbers[i] = (uint32_t)map->count;
    if (!td_map_put(map, keys[i], numbers[i])) return false;
  }
  return true;
}

/* Keeps the elements whose key the other has. */
static void keep_common(sequence *s, size_t n, const uint8_t *other_has)
{
  for (size_t i = 0; i < n; i++) {
    if (!other_has[s->keys[i]]) continue;
    s->keys[s->n] = s->keys[i];
    s->at[s->n++] = i;
  }
}

static bool reduce(alignment *al, const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
  td_map map = {0};
  bool fits = number_keys(&map, a, n, al->a.keys) && number_keys(&map, b, m, al->b.keys);
  uint8_t *in_a = calloc(map.count + 1, 1), *in_b = calloc(map.count + 1, 1);
  td_map_finish(&map);
  fits = fits && in_a && in_b;
  if (fits) {
    for (size_t i = 0; i < n; i++) in_a[al->a.keys[i]] = 1;
    for (size_t i = 0; i < m; i++) in_b[al->b.keys[i]] = 1;
    keep_common(&al->a, n, in_b);
    keep_common(&al->b, m, in_a);
  }
  free(in_a);
  free(in_b);
  return fits;
}

/* ---- the shortest edit script --------------------------------------------------------------------------------- */

/* A rectangle of the edit graph: elements x0 up to x1 of A, y0 up to y1 of B. */
typedef struct box {
  size_t x0, x1, y0, y1;
} box;

static size_t size_of(const box *r)
{
  return r->x1 - r->x0 + (r->y1 - r->y0);
}

/* The diagonals that one search has reached, every second one from `low` to `high`. */
typedef struct front {
  ptrdiff_t low, high;
} front;

/* One edit more: the front grows by a diagonal at each side, as far as the box reaches; beyond it stands `outside`. */
static void widen(front *f, ptrdiff_t *reach, ptrdiff_t least, ptrdiff_t most, ptrdiff_t outside)
{
  if (f->low > least) reach[--f->low - 1] = outside;
  else f->low++;
  if (f->high < most) reach[++f->high + 1] = outside;
  else f->high--;
}

static ptrdiff_t run_forward(const alignment *al, const box *r, ptrdiff_t diagonal)
{
  ptrdiff_t right = al->forward[diagonal - 1] + 1, down = al->forward[diagonal + 1];
  ptrdiff_t x = right > down ? right : down, y = x - diagonal;
  while (x < (ptrdiff_t)r->x1 && y < (ptrdiff_t)r->y1 && al->a.keys[x] == al->b.keys[y]) x++, y++;
  return al->forward[diagonal] = x;
}

static ptrdiff_t run_backward(const alignment *al, const box *r, ptrdiff_t diagonal)
{
  ptrdiff_t left = al->backward[diagonal + 1] - 1, up = al->backward[diagonal - 1];
  ptrdiff_t x = left < up ? left : up, y = x - diagonal;
  while (x > (ptrdiff_t)r->x0 && y > (ptrdiff_t)r->y0 && al->a.keys[x - 1] == al->b.keys[y - 1]) x--, y--;
  return al->backward[diagonal] = x;
}

typedef struct point {
  size_t x, y;
} point;

/* Where to cut if it takes too long: the point that one of the searches has reached and that is furthest from its start. */
static point furthest(const alignment *al, const box *r, const front *f, const front *b)
{
  ptrdiff_t x0 = (ptrdiff_t)r->x0, x1 = (ptrdiff_t)r->x1, y0 = (ptrdiff_t)r->y0, y1 = (ptrdiff_t)r->y1;
  ptrdiff_t most = -1;
  point best = {r->x0, r->y0};
  for (ptrdiff_t d = f->low; d <= f->high; d += 2) {
    ptrdiff_t x = al->forward[d] < x1 ? al->forward[d] : x1, y = x - d;
    if (y > y1) x = y1 + d, y = y1;
    if (x < x0 || y < y0 || x + y - x0 - y0 <= most) continue;
    most = x + y - x0 - y0;
    best = (point){(size_t)x, (size_t)y};
  }
  for (ptrdiff_t d = b->low; d <= b->high; d += 2) {
    ptrdiff_t x = al->backward[d] > x0 ? al->backward[d] : x0, y = x - d;
    if (y < y0) x = y0 + d, y = y0;
    if (x > x1 || y > y1 || x1 + y1 - x - y <= most) continue;
    most = x1 + y1 - x - y;
    best = (point){(size_t)x, (size_t)y};
  }
  return best;
}

/* A point on a shortest path through the box, which neither begins nor ends with a match. */
static point middle(const alignment *al, const box *r)
{
  ptrdiff_t start = (ptrdiff_t)r->x0 - (ptrdiff_t)r->y0, end = (ptrdiff_t)r->x1 - (ptrdiff_t)r->y1;
  ptrdiff_t least = (ptrdiff_t)r->x0 - (ptrdiff_t)r->y1, most = (ptrdiff_t)r->x1 - (ptrdiff_t)r->y0;
  bool odd = (start - end) & 1; /* then the searches meet in a forward step */
  front f = {start, start}, b = {end, end};
  al->forward[start] = (ptrdiff_t)r->x0;
  al->backward[end] = (ptrdiff_t)r->x1;
  for (int cost = 0; cost < COST_MAX; cost++) {
    widen(&f, al->forward, least, most, PTRDIFF_MIN / 2);
    for (ptrdiff_t d = f.high; d >= f.low; d -= 2) {
      ptrdiff_t x = run_forward(al, r, d);
      if (odd && b.low <= d && d <= b.high && al->backward[d] <= x) return (point){(size_t)x, (size_t)(x - d)};
    }
    widen(&b, al->backward, least, most, PTRDIFF_MAX / 2);
    for (ptrdiff_t d = b.high; d >= b.low; d -= 2) {
      ptrdiff_t x = run_backward(al, r, d);
      if (!odd && f.low <= d && d <= f.high && x <= al->forward[d]) return (point){(size_t)x, (size_t)(x - d)};
    }
  }
  return furthest(al, r, &f, &b);
}

/* The smaller part by recursion and the larger in the loop, so that the depth is logarithmic. */
static void compare(alignment *al, box r)
{
  for (;;) {
    while (r.x0 < r.x1 && r.y0 < r.y1 && al->a.keys[r.x0] == al->b.keys[r.y0]) match(al, r.x0++, r.y0++);
    while (r.x0 < r.x1 && r.y0 < r.y1 && al->a.keys[r.x1 - 1] == al->b.keys[r.y1 - 1]) match(al, --r.x1, --r.y1);
    if (r.x0 == r.x1 || r.y0 == r.y1) return;
    point cut = middle(al, &r);
    box first = {r.x0, cut.x, r.y0, cut.y}, second = {cut.x, r.x1, cut.y, r.y1};
    bool first_is_less = size_of(&first) < size_of(&second);
    compare(al, first_is_less ? first : second);
    r = first_is_less ? second : first;
  }
}

/* ---- anchors -------------------------------------------------------------------------------------------------- */

#define BASE 0x9e3779b97f4a7c15u

/* A hash of the ANCHOR elements from each on, rolled along (Karp and Rabin). */
static void hash_stretches(const sequence *s, uint64_t *hashes)
{
  uint64_t hash = 0, power = 1;
  for (int i = 1; i < ANCHOR; i++) power *= BASE;
  for (size_t i = 0; i < s->n; i++) {
    if (i >= ANCHOR) hash -= (s->keys[i - ANCHOR] + 1u) * power;
    hash = hash * BASE + s->keys[i] + 1u;
    if (i + 1 >= ANCHOR) hashes[i + 1 - ANCHOR] = hash;
  }
}

#define TWICE (TD_MAP_NONE - 1)

static bool find_unique(td_map *map, const uint64_t *hashes, size_t n)
{
  for (size_t i = 0; i < n; i++)
    if (!td_map_put(map, hashes[i], td_map_get(map, hashes[i]) == TD_MAP_NONE ? (uint32_t)i : TWICE)) return false;
  return true;
}

/* Places in A and B that begin the same stretch, which occurs nowhere else in either; by A. */
static bool list_anchors(const alignment *al, point *anchors, size_t *n)
{
  size_t n_a = al->a.n - ANCHOR + 1, n_b = al->b.n - ANCHOR + 1;
  uint64_t *a = malloc(n_a * sizeof *a), *b = malloc(n_b * sizeof *b);
  td_map in_a = {0}, in_b = {0};
  bool fits = a && b;
  if (fits) {
    hash_stretches(&al->a, a);
    hash_stretches(&al->b, b);
    fits = find_unique(&in_a, a, n_a) && find_unique(&in_b, b, n_b);
  }
  for (size_t i = 0; i < n_a && fits; i++) {
    uint32_t k = td_map_get(&in_b, a[i]);
    bool equal = k < TWICE && td_map_get(&in_a, a[i]) == i;
    if (equal && memcmp(al->a.keys + i, al->b.keys + k, ANCHOR * sizeof *al->a.keys) == 0) anchors[(*n)++] = (point){i, k};
  }
  td_map_finish(&in_a);
  td_map_finish(&in_b);
  free(a);
  free(b);
  return fits;
}

/* Keeps the most anchors that are in order in B too; returns how many. `tails` and `before` have room for n. */
static size_t keep_increasing(point *anchors, size_t n, size_t *tails, size_t *before)
{
  size_t length = 0;
  for (size_t i = 0; i < n; i++) {
    size_t low = 0, high = length;
    while (low < high) {
      size_t half = low + (high - low) / 2;
      if (anchors[tails[half]].y < anchors[i].y) low = half + 1;
      else high = half;
    }
    before[i] = low ? tails[low - 1] : SIZE_MAX;
    tails[low] = i;
    if (low == length) length++;
  }
  if (!length) return 0;
  size_t at = tails[length - 1];
  for (size_t i = length; i--; at = before[at]) tails[i] = at;
  for (size_t i = 0; i < length; i++) anchors[i] = anchors[tails[i]];
  return length;
}

static bool compare_anchored(alignment *al)
{
  size_t n = 0, less = al->a.n < al->b.n ? al->a.n : al->b.n;
  point *anchors = malloc((less + 1) * sizeof *anchors);
  size_t *tails = malloc((less + 1) * sizeof *tails), *before = malloc((less + 1) * sizeof *before);
  bool fits = anchors && tails && before && list_anchors(al, anchors, &n);
  if (fits) {
    point from = {0, 0};
    n = keep_increasing(anchors, n, tails, before);
    for (size_t i = 0; i < n; i++) {
      compare(al, (box){from.x, anchors[i].x, from.y, anchors[i].y});
      from = anchors[i];
    }
    compare(al, (box){from.x, al->a.n, from.y, al->b.n});
  }
  free(anchors);
  free(tails);
  free(before);
  return fits;
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static bool align(alignment *al, const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
  if (!reduce(al, a, n, b, m)) return false;
  ptrdiff_t *space = malloc(2 * (al->a.n + al->b.n + 3) * sizeof *space);
  if (!space) return false;
  al->forward = space + al->b.n + 1;
  al->backward = al->forward + al->a.n + al->b.n + 3;
  bool fits = true;
  if (al->a.n >= ANCHORED && al->b.n >= ANCHORED) fits = compare_anchored(al);
  else compare(al, (box){0, al->a.n, 0, al->b.n});
  free(space);
  return fits;
}

bool td_align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, size_t *partner_a, size_t *partner_b)
{
  alignment al = {.partner_a = partner_a, .partner_b = partner_b};
  for (size_t i = 0; i < n; i++) partner_a[i] = TD_ALONE;
  for (size_t i = 0; i < m; i++) partner_b[i] = TD_ALONE;
  al.a = (sequence){.keys = malloc((n + 1) * sizeof *al.a.keys), .at = malloc((n + 1) * sizeof *al.a.at)};
  al.b = (sequence){.keys = malloc((m + 1) * sizeof *al.b.keys), .at = malloc((m + 1) * sizeof *al.b.at)};
  bool fits = al.a.keys && al.a.at && al.b.keys && al.b.at && align(&al, a, n, b, m);
  free(al.a.keys);
  free(al.a.at);
  free(al.b.keys);
  free(al.b.at);
  return fits;
}
