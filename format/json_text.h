/* Writing JSON. */
#ifndef TD_FORMAT_JSON_TEXT_H
#define TD_FORMAT_JSON_TEXT_H

#include "base/buffer.h"

/* Appends the inside of a JSON string: quotes, backslashes and control bytes escaped, a byte that is not valid UTF-8 as
 * \udc80 to \udcff. False if memory ran out. */
bool td_json_escape(td_buffer *to, const char *bytes, size_t length);

/* The length of the valid UTF-8 character at `bytes`, or 0. */
size_t td_utf8_length(const uint8_t *bytes, size_t length);

#endif
