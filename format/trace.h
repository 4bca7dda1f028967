/* A whole trace in memory, from its blocks. */
#ifndef TD_FORMAT_TRACE_H
#define TD_FORMAT_TRACE_H

#include "format/reader.h"

td_status td_trace_read(td_reader *reader, td_trace **out, td_error *err);

#endif
