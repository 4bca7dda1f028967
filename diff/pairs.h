/* Which storages of two traces stand for each other, told by the ops that use them. */
#ifndef TD_DIFF_PAIRS_H
#define TD_DIFF_PAIRS_H

#include <tapedeck/diff.h>

typedef struct td_pairs {
  const td_trace *a, *b;
  uint32_t *to_b, *to_a; /* by storage; TD_NO_STORAGE: none yet */
  struct td_pair_made {
    uint32_t a, b;
  } *made; /* in the order they were made */
  size_t n_made;
} td_pairs;

/* False if memory ran out; td_pairs_finish in every case. */
bool td_pairs_init(td_pairs *pairs, const td_trace *a, const td_trace *b);
void td_pairs_finish(td_pairs *pairs);

/* Compares how op `x` of A and op `y` of B use their storages: TD_DIFF_ACCESSES and TD_DIFF_BINDINGS where they do not use the
 * same in the same way. Storages that neither has been seen with before are paired as they stand, if the ops have as many
 * accesses, or outputs. */
uint32_t td_pairs_compare(td_pairs *pairs, uint64_t x, uint64_t y);

/* Pairs two storages unless one has a partner; true if they are partners now. */
bool td_pairs_join(td_pairs *pairs, uint32_t a, uint32_t b);

/* Forgets the pairs made since there were `n_made`. */
void td_pairs_undo(td_pairs *pairs, size_t n_made);

#endif
