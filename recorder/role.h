/* The recorder's role in a deck, for those who build decks of their own from it. */
#ifndef TD_RECORDER_ROLE_H
#define TD_RECORDER_ROLE_H

#include <tapedeck/recorder.h>

#include "runtime/deck.h"

/* Copies with all strings; td_meta_free in every case. False if memory ran out. */
bool td_meta_copy(td_meta **out, const td_meta *from, size_t n);
void td_meta_free(td_meta *meta, size_t n);

/* Only path, meta and sharding of the options count. Destroyed with the deck that it is given to. */
td_status td_recorder_role_create(td_role **out, const td_recorder_options *options, td_error *err);

#endif
