/* A byte buffer that grows. */
#ifndef TD_BASE_BUFFER_H
#define TD_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero is an empty buffer. */
typedef struct td_buffer {
  uint8_t *bytes;
  size_t length, capacity;
} td_buffer;

void td_buffer_finish(td_buffer *buffer);
bool td_buffer_reserve(td_buffer *buffer, size_t more);
bool td_buffer_append(td_buffer *buffer, const void *bytes, size_t length);
bool td_buffer_text(td_buffer *buffer, const char *text);

#endif
