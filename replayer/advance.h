/* Copies to the device that came too late in one step begin earlier in the next. */
#ifndef TD_REPLAYER_ADVANCE_H
#define TD_REPLAYER_ADVANCE_H

#include "replayer/follower.h"

/* At the end of a step that followed the plan: looks at what had to be waited for. */
td_status td_advance(td_follower *follower, const td_deck *deck, td_error *err);

#endif
