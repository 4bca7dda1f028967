/* Reading JSON as a stream, with exact integers and names as bytes.
 *
 * cJSON keeps numbers as doubles and ends strings at NUL; yajl turns lone surrogates into question marks. This reader keeps
 * 64-bit integers exactly and reads \udc80 to \udcff as the bytes 0x80 to 0xff.
 *
 * The caller says what it expects next. The first failure sticks: every later call returns false at once, and the error
 * given to td_json_open says file, line and column. So callers check where it suits them. */
#ifndef TD_FORMAT_JSON_READER_H
#define TD_FORMAT_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

#include "base/buffer.h"

typedef struct td_json td_json;

/* `err` must live as long as the reader. */
td_status td_json_open(td_json **out, const char *path, td_error *err);
void td_json_close(td_json *json);

td_status td_json_status(const td_json *json);

/* Fails with the message, as for something that is JSON but not what it should be; returns false. */
bool td_json_fail(td_json *json, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Enters an object or array; then td_json_member or td_json_element until it returns false, which leaves it. */
bool td_json_object(td_json *json);
bool td_json_array(td_json *json);

/* The next member's key, valid until the next string is read. False at the end of the object, and after a failure. */
bool td_json_member(td_json *json, const char **key, size_t *length);
bool td_json_element(td_json *json);

bool td_json_u64(td_json *json, uint64_t *value);
bool td_json_double(td_json *json, double *value);
bool td_json_bool(td_json *json, bool *value);
/* A number as it stands, valid until the next string is read. */
bool td_json_number(td_json *json, const char **text, size_t *length);
/* Valid until the next string is read. */
bool td_json_string(td_json *json, const char **bytes, size_t *length);

/* The next value, checked and as it stands in the file, NUL-terminated; `text` may be NULL to pass over it. */
bool td_json_value(td_json *json, td_buffer *text);

/* The byte that the next value begins with; '\0' at the end of the file and after a failure. */
char td_json_next(td_json *json);

/* From here on strings may hold control bytes, and bytes that are not UTF-8, as they are: some writers escape nothing. */
void td_json_take_any_bytes(td_json *json);

/* Nothing but white space may follow. */
bool td_json_end(td_json *json);

/* A decimal number of 64 bits, as keys have it. */
bool td_parse_u64(const char *text, size_t length, uint64_t *value);

#endif
