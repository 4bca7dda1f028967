/* Where in a job a process is, as members of a trace's meta. */
#ifndef TD_FORMAT_SHARDING_PLACE_H
#define TD_FORMAT_SHARDING_PLACE_H

#include <tapedeck/sharding.h>

/* Checks the place and calls `put` with key and JSON of each member that is known. */
td_status td_sharding_place_each(const td_sharding_place *place,
                                 td_status (*put)(void *context, const char *key, const char *json, td_error *err), void *context,
                                 td_error *err);

/* A copy with all that hangs on it; td_sharding_place_destroy. NULL for NULL. */
td_status td_sharding_place_copy(td_sharding_place **out, const td_sharding_place *from, td_error *err);

#endif
