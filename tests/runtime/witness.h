/* A role for tests of the deck alone: it writes what it is told into a text. */
#ifndef TD_TESTS_WITNESS_H
#define TD_TESTS_WITNESS_H

#include "runtime/deck.h"

typedef struct witness {
  td_role role;
  char text[4096]; /* since the last witness_clear */
  size_t length;
} witness;

/* The witness belongs to the deck that it is given to. */
td_deck *witness_deck(witness **out, td_device *device, uint64_t limit_bytes);
void witness_clear(witness *w);

#endif
