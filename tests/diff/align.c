#include <criterion/criterion.h>

#include <stdlib.h>

#include "diff/align.h"

static uint32_t below(uint32_t *state, uint32_t n)
{
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(*state >> 4) * n >> 28);
}

/* The length of a longest common subsequence, by the textbook's table. */
static size_t longest(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
  size_t *row = calloc(m + 1, sizeof *row), diagonal, above;
  for (size_t i = 0; i < n; i++) {
    diagonal = 0;
    for (size_t k = 0; k < m; k++) {
      above = row[k + 1];
      if (a[i] == b[k]) row[k + 1] = diagonal + 1;
      else if (row[k] > row[k + 1]) row[k + 1] = row[k];
      diagonal = above;
    }
  }
  size_t length = row[m];
  free(row);
  return length;
}

/* Aligns, checks that it is an alignment, and returns how many pairs it has. */
static size_t align(const uint64_t *a, size_t n, const uint64_t *b, size_t m)
{
  size_t *in_b = malloc((n + 1) * sizeof *in_b), *in_a = malloc((m + 1) * sizeof *in_a), pairs = 0, next = 0;
  cr_assert(td_align(a, n, b, m, in_b, in_a));
  for (size_t i = 0; i < n; i++) {
    if (in_b[i] == TD_ALONE) continue;
    cr_assert(in_b[i] >= next && in_b[i] < m);
    cr_assert_eq(a[i], b[in_b[i]]);
    cr_assert_eq(in_a[in_b[i]], i);
    next = in_b[i] + 1;
    pairs++;
  }
  for (size_t k = 0; k < m; k++)
    if (in_a[k] != TD_ALONE) cr_assert_eq(in_b[in_a[k]], k);
  for (size_t i = 0; i < n && i < m && a[i] == b[i]; i++) cr_assert_eq(in_b[i], i);
  free(in_a);
  free(in_b);
  return pairs;
}

Test(align, is_a_longest_common_subsequence)
{
  uint32_t state = 7;
  uint64_t a[60], b[60];
  for (int round = 0; round < 20000; round++) {
    size_t n = below(&state, 60), m = below(&state, 60);
    uint32_t letters = 1 + below(&state, 8);
    for (size_t i = 0; i < n; i++) a[i] = below(&state, letters);
    for (size_t i = 0; i < m; i++) b[i] = below(&state, letters + below(&state, 2));
    cr_assert_eq(align(a, n, b, m), longest(a, n, b, m), "round %d", round);
  }
}

/* A sequence with some elements taken out, put in and changed; at least this many pairs must be found. */
static size_t change(uint32_t *state, const uint64_t *a, size_t n, uint64_t *b, size_t *m, uint32_t one_in)
{
  size_t kept = 0;
  *m = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t what = below(state, one_in) ? 3 : below(state, 3);
    if (what == 1 || what == 2) b[(*m)++] = 1000000 + below(state, 10);
    if (what >= 2) {
      b[(*m)++] = a[i];
      kept++;
    }
  }
  return kept;
}

enum { LONG = 100000 };

Test(align, long_sequences_with_few_changes)
{
  uint32_t state = 3;
  uint64_t *a = malloc(LONG * sizeof *a), *b = malloc(2 * LONG * sizeof *b);
  for (uint32_t letters = 2; letters < 100000; letters *= 9) {
    size_t m;
    for (size_t i = 0; i < LONG; i++) a[i] = below(&state, letters);
    size_t kept = change(&state, a, LONG, b, &m, 100);
    size_t pairs = align(a, LONG, b, m);
    cr_expect(pairs >= kept, "%u letters: %zu of %zu", letters, pairs, kept);
  }
  free(a);
  free(b);
}

/* None of these may take quadratic time: the suite's limit would end it. */
Test(align, worst_cases)
{
  uint32_t state = 5;
  uint64_t *a = malloc(LONG * sizeof *a), *b = malloc(LONG * sizeof *b);
  for (size_t i = 0; i < LONG; i++) a[i] = i, b[i] = LONG + i;
  cr_expect_eq(align(a, LONG, b, LONG), 0, "nothing in common");
  for (size_t i = 0; i < LONG; i++) a[i] = i, b[i] = LONG - 1 - i;
  cr_expect_geq(align(a, LONG, b, LONG), 1, "reversed");
  for (size_t i = 0; i < LONG; i++) a[i] = i % 7, b[i] = (i + 3) % 7;
  cr_expect_geq(align(a, LONG, b, LONG), LONG - 7, "periodic");
  for (size_t i = 0; i < LONG; i++) a[i] = i % 7, b[i] = i % 11;
  cr_expect_geq(align(a, LONG, b, LONG), 1, "of two periods");
  for (size_t i = 0; i < LONG; i++) a[i] = below(&state, 2), b[i] = below(&state, 2);
  cr_expect_geq(align(a, LONG, b, LONG), LONG / 3, "random bits");
  for (size_t i = 0; i < LONG; i++) a[i] = below(&state, 50), b[i] = below(&state, 50);
  cr_expect_geq(align(a, LONG, b, LONG), LONG / 20, "random letters");
  for (size_t i = 0; i < LONG; i++) a[i] = 1, b[i] = 1;
  cr_expect_eq(align(a, LONG, b, LONG / 2), LONG / 2, "all alike");
  cr_expect_eq(align(a, LONG, b, 0), 0, "one is empty");
  cr_expect_eq(align(a, 0, b, 0), 0, "both are");
  free(a);
  free(b);
}
