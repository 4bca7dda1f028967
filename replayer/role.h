/* The replayer's role in a deck, for those who build decks of their own from it. */
#ifndef TD_REPLAYER_ROLE_H
#define TD_REPLAYER_ROLE_H

#include <tapedeck/replayer.h>

#include "runtime/deck.h"

/* The device of the options does not count. Destroyed with the deck that it is given to. */
td_status td_replayer_role_create(td_role **out, const td_replayer_options *options, td_error *err);

#endif
