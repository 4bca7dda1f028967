#include "base/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void td_buffer_finish(td_buffer *buffer)
{
  free(buffer->bytes);
  *buffer = (td_buffer){0};
}

bool td_buffer_reserve(td_buffer *buffer, size_t more)
{
  return more <= SIZE_MAX - buffer->length && TD_GROW(buffer->bytes, buffer->capacity, buffer->length + more);
}

bool td_buffer_append(td_buffer *buffer, const void *bytes, size_t length)
{
  if (!td_buffer_reserve(buffer, length)) return false;
  if (length) memcpy(buffer->bytes + buffer->length, bytes, length);
  buffer->length += length;
  return true;
}

bool td_buffer_text(td_buffer *buffer, const char *text)
{
  return td_buffer_append(buffer, text, strlen(text));
}
