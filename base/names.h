/* Names, each kept once and numbered from 0 in the order they came. */
#ifndef TD_BASE_NAMES_H
#define TD_BASE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_NAME_NONE UINT32_MAX

/* All zero is an empty table. */
typedef struct td_names {
  char *bytes; /* all names, a NUL after each */
  size_t n_bytes, bytes_capacity;
  struct td_name_entry {
    uint64_t hash;
    size_t offset, length;
  } *entries;
  size_t count, capacity;
  uint32_t *slots; /* open addressing over entry numbers; TD_NAME_NONE: free */
  size_t n_slots;
} td_names;

void td_names_finish(td_names *names);

/* The number of the name, added if it is new. TD_NAME_NONE if memory ran out. */
uint32_t td_names_intern(td_names *names, const char *bytes, size_t length);

/* The bytes stay where they are only until the next intern. */
const char *td_names_get(const td_names *names, uint32_t name, size_t *length);

#endif
