#include "format/json_reader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "format/json_text.h"
#include "format/source.h"

#define DEPTH_MAX 4096
#define STRING_MAX ((size_t)1 << 20)  /* bytes of one string that is wanted */
#define VALUE_MAX ((size_t)256 << 20) /* bytes of one value that is kept as it stands */
#define NUMBER_MAX 400                /* characters of one number */

struct td_json {
  td_source *source;
  td_error *err;
  td_status status;
  const uint8_t *bytes; /* what was read and not yet taken */
  size_t at, end;
  uint64_t line, column; /* of the next byte, from 1 */
  unsigned depth;
  bool first[DEPTH_MAX]; /* nothing of the object or array was read yet */
  bool any_bytes;        /* in strings */
  td_buffer text;        /* the string read last */
  td_buffer *kept;       /* also receives every byte that is taken */
};

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

bool td_json_fail(td_json *json, const char *format, ...)
{
  if (json->status) return false;
  char message[sizeof json->err->message];
  va_list args;
  va_start(args, format);
  vsnprintf(message, sizeof message, format, args);
  va_end(args);
  json->status = td_fail(json->err, TD_E_INPUT, "%s:%llu:%llu: %s", td_source_path(json->source),
                         (unsigned long long)json->line, (unsigned long long)json->column, message);
  return false;
}

#define END (-1)

static int peek(td_json *json)
{
  if (json->at < json->end) return json->bytes[json->at];
  if (json->status) return END;
  json->at = 0;
  json->status = td_source_read(json->source, &json->bytes, &json->end, json->err);
  if (json->status) json->end = 0;
  return json->end ? json->bytes[0] : END;
}

/* Takes the byte that peek saw. */
static void take(td_json *json)
{
  uint8_t byte = json->bytes[json->at++];
  if (byte == '\n') {
    json->line++;
    json->column = 0;
  }
  json->column++;
  if (!json->kept) return;
  if (json->kept->length >= VALUE_MAX) td_json_fail(json, "a value of more than %zu bytes", VALUE_MAX);
  else if (!td_buffer_append(json->kept, &byte, 1)) json->status = td_fail_nomem(json->err);
}

static int next_token(td_json *json)
{
  int c = peek(json);
  while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
    take(json);
    c = peek(json);
  }
  return c;
}

static bool unexpected(td_json *json, int c, const char *expected)
{
  if (c == END) return td_json_fail(json, "the file ends where %s was expected", expected);
  if (c < 0x20 || c >= 0x7f) return td_json_fail(json, "expected %s, found byte 0x%02x", expected, (unsigned)c);
  return td_json_fail(json, "expected %s, found '%c'", expected, c);
}

static bool take_token(td_json *json, char wanted, const char *expected)
{
  int c = next_token(json);
  if (c != wanted) return unexpected(json, c, expected);
  take(json);
  return !json->status;
}

/* ---- strings -------------------------------------------------------------------------------------------------- */

static bool append(td_json *json, uint32_t byte)
{
  uint8_t value = (uint8_t)byte;
  if (json->text.length >= STRING_MAX) return td_json_fail(json, "a string of more than %zu bytes", STRING_MAX);
  if (!td_buffer_append(&json->text, &value, 1)) json->status = td_fail_nomem(json->err);
  return !json->status;
}

static bool append_character(td_json *json, uint32_t c)
{
  if (c < 0x80) return append(json, c);
  if (c < 0x800) return append(json, 0xc0 | c >> 6) && append(json, 0x80 | (c & 0x3f));
  if (c < 0x10000)
    return append(json, 0xe0 | c >> 12) && append(json, 0x80 | (c >> 6 & 0x3f)) && append(json, 0x80 | (c & 0x3f));
  return append(json, 0xf0 | c >> 18) && append(json, 0x80 | (c >> 12 & 0x3f)) && append(json, 0x80 | (c >> 6 & 0x3f)) &&
         append(json, 0x80 | (c & 0x3f));
}

static bool take_hex(td_json *json, uint32_t *value)
{
  *value = 0;
  for (int i = 0; i < 4; i++) {
    int c = peek(json);
    int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return unexpected(json, c, "a hexadecimal digit");
    take(json);
    *value = *value << 4 | (uint32_t)digit;
  }
  return true;
}

/* After \u. A pair of surrogates is one character; \udc80 to \udcff alone is a byte. */
static bool take_unicode(td_json *json)
{
  uint32_t c = 0, low = 0;
  if (!take_hex(json, &c)) return false;
  if (c >= 0xdc80 && c <= 0xdcff) return append(json, c - 0xdc00);
  if (c < 0xd800 || c > 0xdfff) return append_character(json, c);
  if (c >= 0xdc00) return td_json_fail(json, "\\u%04x stands for no character and no byte", c);
  if (peek(json) != '\\') return td_json_fail(json, "\\u%04x is half a surrogate pair", c);
  take(json);
  if (peek(json) != 'u') return td_json_fail(json, "\\u%04x is half a surrogate pair", c);
  take(json);
  if (!take_hex(json, &low)) return false;
  if (low < 0xdc00 || low > 0xdfff) return td_json_fail(json, "\\u%04x is half a surrogate pair", c);
  return append_character(json, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
}

static bool take_escape(td_json *json)
{
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  int c = peek(json);
  if (c == 'u') {
    take(json);
    return take_unicode(json);
  }
  const char *at = c > 0 ? strchr(from, c) : NULL;
  if (!at) return unexpected(json, c, "an escape after the backslash");
  take(json);
  return append(json, (uint8_t)to[at - from]);
}

static bool take_utf8(td_json *json)
{
  uint8_t bytes[4];
  for (size_t n = 1; n <= 4; n++) {
    int c = peek(json);
    if (c == END) break;
    bytes[n - 1] = (uint8_t)c;
    size_t length = td_utf8_length(bytes, n);
    if (length == 0 && (n == 4 || (n > 1 && (c & 0xc0) != 0x80))) break;
    take(json);
    for (size_t i = 0; length && i < n; i++)
      if (!append(json, bytes[i])) return false;
    if (length) return true;
  }
  return td_json_fail(json, "the string is not valid UTF-8");
}

bool td_json_string(td_json *json, const char **bytes, size_t *length)
{
  if (!take_token(json, '"', "a string")) return false;
  json->text.length = 0;
  for (;;) {
    int c = peek(json);
    if (json->status) return false;
    if (c == END || (c < 0x20 && !json->any_bytes)) return unexpected(json, c, "the end of a string");
    if (c >= 0x80 && !json->any_bytes) {
      if (!take_utf8(json)) return false;
      continue;
    }
    take(json);
    if (c == '"') break;
    if (c == '\\' ? !take_escape(json) : !append(json, (uint32_t)c)) return false;
  }
  if (!append(json, 0)) return false;
  json->text.length--;
  *bytes = (const char *)json->text.bytes;
  *length = json->text.length;
  return true;
}

/* ---- numbers and words ---------------------------------------------------------------------------------------- */

static bool is_number_part(int c)
{
  return (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.' || c == 'e' || c == 'E';
}

/* RFC 8259: an optional minus, digits without a leading zero, an optional fraction and exponent. */
static bool is_number(const char *text)
{
  text += *text == '-';
  size_t digits = strspn(text, "0123456789");
  if (!digits || (*text == '0' && digits > 1)) return false;
  text += digits;
  if (*text == '.') {
    digits = strspn(++text, "0123456789");
    if (!digits) return false;
    text += digits;
  }
  if (*text == 'e' || *text == 'E') {
    text += text[1] == '+' || text[1] == '-' ? 2 : 1;
    digits = strspn(text, "0123456789");
    if (!digits) return false;
    text += digits;
  }
  return *text == '\0';
}

static bool take_number(td_json *json, char *text, size_t size, const char *expected)
{
  int c = next_token(json);
  size_t n = 0;
  if (c != '-' && (c < '0' || c > '9')) return unexpected(json, c, expected);
  for (; is_number_part(c); c = peek(json)) {
    if (n + 1 == size) return td_json_fail(json, "a number of more than %zu characters", size - 1);
    text[n++] = (char)c;
    take(json);
  }
  text[n] = '\0';
  return json->status ? false : is_number(text) || td_json_fail(json, "%.60s is no number", text);
}

bool td_parse_u64(const char *text, size_t length, uint64_t *value)
{
  uint64_t result = 0;
  if (!length || length > 20 || (length > 1 && text[0] == '0')) return false;
  for (size_t i = 0; i < length; i++) {
    unsigned digit = (unsigned)(text[i] - '0');
    if (digit > 9 || result > (UINT64_MAX - digit) / 10) return false;
    result = result * 10 + digit;
  }
  *value = result;
  return true;
}

bool td_json_u64(td_json *json, uint64_t *value)
{
  char text[64] = ""; /* no integer of 64 bits is longer */
  if (!take_number(json, text, sizeof text, "an integer")) return false;
  return td_parse_u64(text, strlen(text), value) || td_json_fail(json, "%.60s is no integer from 0 to 2^64-1", text);
}

bool td_json_number(td_json *json, const char **text, size_t *length)
{
  char number[NUMBER_MAX];
  if (!take_number(json, number, sizeof number, "a number")) return false;
  json->text.length = 0;
  if (!td_buffer_append(&json->text, number, strlen(number) + 1)) json->status = td_fail_nomem(json->err);
  *text = (const char *)json->text.bytes;
  *length = json->text.length - 1;
  return !json->status;
}

bool td_json_double(td_json *json, double *value)
{
  char text[NUMBER_MAX];
  if (!take_number(json, text, sizeof text, "a number")) return false;
  *value = strtod(text, NULL);
  return true;
}

static bool take_word(td_json *json, const char *word)
{
  for (const char *at = word; *at; at++) {
    int c = peek(json);
    if (c != *at) return unexpected(json, c, word);
    take(json);
  }
  return !json->status;
}

bool td_json_bool(td_json *json, bool *value)
{
  int c = next_token(json);
  if (c != 't' && c != 'f') return unexpected(json, c, "true or false");
  *value = c == 't';
  return take_word(json, c == 't' ? "true" : "false");
}

/* ---- objects, arrays, any value ------------------------------------------------------------------------------- */

static bool enter(td_json *json, char open, const char *expected)
{
  if (!take_token(json, open, expected)) return false;
  if (json->depth == DEPTH_MAX) return td_json_fail(json, "nested deeper than %d", DEPTH_MAX);
  json->first[json->depth++] = true;
  return true;
}

/* Past the comma to the next member or element; false at the end, which it takes, and after a failure. */
static bool advance(td_json *json, char close, const char *expected)
{
  int c = next_token(json);
  if (json->status) return false;
  if (c == close) {
    take(json);
    json->depth--;
    return false;
  }
  bool first = json->first[json->depth - 1];
  json->first[json->depth - 1] = false;
  if (first) return true;
  if (c != ',') return unexpected(json, c, expected);
  take(json);
  c = next_token(json);
  return c == close ? unexpected(json, c, "something after the comma") : !json->status;
}

bool td_json_object(td_json *json)
{
  return enter(json, '{', "an object");
}

bool td_json_array(td_json *json)
{
  return enter(json, '[', "an array");
}

bool td_json_member(td_json *json, const char **key, size_t *length)
{
  return advance(json, '}', "',' or '}'") && td_json_string(json, key, length) && take_token(json, ':', "':'");
}

bool td_json_element(td_json *json)
{
  return advance(json, ']', "',' or ']'");
}

/* A string that nobody wants decoded: of any length, with any escapes. */
static bool pass_string(td_json *json)
{
  if (!take_token(json, '"', "a string")) return false;
  for (;;) {
    uint32_t hex;
    int c = peek(json);
    if (json->status) return false;
    if (c == END || (c < 0x20 && !json->any_bytes)) return unexpected(json, c, "the end of a string");
    json->text.length = 0;
    if (c >= 0x80 && !json->any_bytes) {
      if (!take_utf8(json)) return false;
      continue;
    }
    take(json);
    if (c == '"') return !json->status;
    if (c != '\\') continue;
    c = peek(json);
    if (c != 'u') {
      if (!take_escape(json)) return false;
      continue;
    }
    take(json);
    if (!take_hex(json, &hex)) return false;
  }
}

static bool pass_digits(td_json *json)
{
  int c = peek(json);
  if (c < '0' || c > '9') return unexpected(json, c, "a digit");
  for (; c >= '0' && c <= '9'; c = peek(json)) take(json);
  return !json->status;
}

/* A number of any length. */
static bool pass_number(td_json *json)
{
  if (peek(json) == '-') take(json);
  if (peek(json) == '0') take(json);
  else if (!pass_digits(json)) return false;
  if (peek(json) == '.') {
    take(json);
    if (!pass_digits(json)) return false;
  }
  if (peek(json) != 'e' && peek(json) != 'E') return !json->status;
  take(json);
  if (peek(json) == '+' || peek(json) == '-') take(json);
  return pass_digits(json);
}

static bool pass(td_json *json)
{
  int c = next_token(json);
  switch (c) {
  case '{':
    if (!td_json_object(json)) return false;
    while (advance(json, '}', "',' or '}'") && pass_string(json) && take_token(json, ':', "':'") && pass(json)) {
    }
    return !json->status;
  case '[':
    if (!td_json_array(json)) return false;
    while (td_json_element(json) && pass(json)) {
    }
    return !json->status;
  case '"': return pass_string(json);
  case 't': return take_word(json, "true");
  case 'f': return take_word(json, "false");
  case 'n': return take_word(json, "null");
  default:
    if (c != '-' && (c < '0' || c > '9')) return unexpected(json, c, "a value");
    return pass_number(json);
  }
}

bool td_json_value(td_json *json, td_buffer *text)
{
  next_token(json);
  if (!text) return pass(json);
  text->length = 0;
  json->kept = text;
  bool done = pass(json);
  json->kept = NULL;
  if (done && !td_buffer_append(text, "", 1)) json->status = td_fail_nomem(json->err);
  return done && !json->status;
}

char td_json_next(td_json *json)
{
  int c = next_token(json);
  return json->status || c == END ? '\0' : (char)c;
}

void td_json_take_any_bytes(td_json *json)
{
  json->any_bytes = true;
}

bool td_json_end(td_json *json)
{
  int c = next_token(json);
  return json->status ? false : c == END || unexpected(json, c, "the end of the file");
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

td_status td_json_open(td_json **out, const char *path, td_error *err)
{
  td_json *json = calloc(1, sizeof *json);
  if (!json) return td_fail_nomem(err);
  json->err = err;
  json->line = json->column = 1;
  td_status status = td_source_open(&json->source, path, err);
  if (status)
    td_json_close(json);
  else
    *out = json;
  return status;
}

void td_json_close(td_json *json)
{
  if (!json) return;
  td_source_close(json->source);
  td_buffer_finish(&json->text);
  free(json);
}

td_status td_json_status(const td_json *json)
{
  return json->status;
}
