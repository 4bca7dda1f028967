#include "format/json_text.h"

#include <stdio.h>

/* Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t td_utf8_length(const uint8_t *bytes, size_t length)
{
  uint8_t first = bytes[0], low = 0x80, high = 0xbf;
  size_t n;
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) n = 2;
  else if (first >= 0xe0 && first <= 0xef) n = 3;
  else if (first >= 0xf0 && first <= 0xf4) n = 4;
  else return 0;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  if (length < n || bytes[1] < low || bytes[1] > high) return 0;
  for (size_t i = 2; i < n; i++)
    if (bytes[i] < 0x80 || bytes[i] > 0xbf) return 0;
  return n;
}

bool td_json_escape(td_buffer *to, const char *bytes, size_t length)
{
  const uint8_t *in = (const uint8_t *)bytes;
  for (size_t i = 0; i < length;) {
    char escape[8];
    size_t n = td_utf8_length(in + i, length - i);
    bool fits;
    if (n == 0 || in[i] < 0x20) {
      snprintf(escape, sizeof escape, "\\u%s%02x", n ? "00" : "dc", in[i]);
      fits = td_buffer_text(to, escape);
      n = 1;
    } else if (in[i] == '"' || in[i] == '\\') {
      escape[0] = '\\';
      escape[1] = (char)in[i];
      fits = td_buffer_append(to, escape, 2);
    } else {
      fits = td_buffer_append(to, in + i, n);
    }
    if (!fits) return false;
    i += n;
  }
  return true;
}
