/* Which elements of two sequences stand for each other: a longest common subsequence, or, where that would take too long, a
 * long one. */
#ifndef TD_DIFF_ALIGN_H
#define TD_DIFF_ALIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_ALONE SIZE_MAX

/* Two elements are equal if their keys are. Fills in partner_a[i] = j and partner_b[j] = i for those that stand for each
 * other, in the same order in both, and TD_ALONE elsewhere. Each equal beginning is aligned as it stands. False if memory ran
 * out. Sequences are shorter than 2^31. */
bool td_align(const uint64_t *a, size_t n, const uint64_t *b, size_t m, size_t *partner_a, size_t *partner_b);

#endif
