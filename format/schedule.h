/* Schedules as rows of a tape. */
#ifndef TD_FORMAT_SCHEDULE_H
#define TD_FORMAT_SCHEDULE_H

#include "format/column.h"
#include "format/db.h"

#include <tapedeck/trace.h>

/* Appends the schedule to the trace and sets schedule->id. */
td_status td_schedule_put(const td_db *db, td_encoder *encoder, int64_t trace, td_schedule *schedule, td_error *err);

/* The schedule of that number, or the trace's newest. */
td_status td_schedule_get(const td_db *db, int64_t trace, int64_t schedule, td_schedule **out, td_error *err);

td_status td_schedule_ids(const td_db *db, int64_t trace, int64_t **ids, size_t *count, td_error *err);

#endif
