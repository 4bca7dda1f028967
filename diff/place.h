/* Where a block of ops that only one trace has is said to stand.
 *
 * In a step whose layers repeat, a layer less can be taken out in many places with the same names left over. Which of them
 * is right, the storages tell: what an op reads was made by the counterparts of what made it before. */
#ifndef TD_DIFF_PLACE_H
#define TD_DIFF_PLACE_H

#include "diff/pairs.h"

/* Two sequences of ops, aligned: partner_a[i] = j and partner_b[j] = i, TD_ALONE where an op has no partner. Each has one entry
 * more than ops, TD_ALONE. */
typedef struct td_aligned {
  const uint64_t *keys_a, *keys_b;
  size_t n_a, n_b;
  size_t *partner_a, *partner_b;
} td_aligned;

/* Moves each block of ops without partners to where the storages of the ops around it fit best, the last place if several fit as
 * well. Where both have a block at one place, the longer one moves by what it is longer. As many ops are aligned afterwards.
 * `pairs` is empty before and after. */
void td_place_blocks(td_aligned *aligned, td_pairs *pairs);

#endif
