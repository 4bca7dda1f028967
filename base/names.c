#include "base/names.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/array.h"

void td_names_finish(td_names *names)
{
  free(names->bytes);
  free(names->entries);
  free(names->slots);
  *names = (td_names){0};
}

static size_t find(const td_names *names, uint64_t hash, const char *bytes, size_t length)
{
  size_t mask = names->n_slots - 1, i = (size_t)hash & mask;
  for (; names->slots[i] != TD_NAME_NONE; i = (i + 1) & mask) {
    const struct td_name_entry *entry = &names->entries[names->slots[i]];
    if (entry->hash == hash && entry->length == length &&
        (length == 0 || memcmp(names->bytes + entry->offset, bytes, length) == 0))
      break;
  }
  return i;
}

static bool grow_slots(td_names *names)
{
  size_t n = names->n_slots ? names->n_slots * 2 : 256;
  uint32_t *slots = malloc(n * sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < n; i++) slots[i] = TD_NAME_NONE;
  for (size_t entry = 0; entry < names->count; entry++) {
    size_t i = (size_t)names->entries[entry].hash & (n - 1);
    while (slots[i] != TD_NAME_NONE) i = (i + 1) & (n - 1);
    slots[i] = (uint32_t)entry;
  }
  free(names->slots);
  names->slots = slots;
  names->n_slots = n;
  return true;
}

uint32_t td_names_intern(td_names *names, const char *bytes, size_t length)
{
  if (names->count + 1 > names->n_slots / 2 && !grow_slots(names)) return TD_NAME_NONE;
  uint64_t hash = XXH3_64bits(bytes, length);
  size_t slot = find(names, hash, bytes, length);
  if (names->slots[slot] != TD_NAME_NONE) return names->slots[slot];
  if (names->count >= TD_NAME_NONE || length >= SIZE_MAX - names->n_bytes ||
      !TD_GROW(names->entries, names->capacity, names->count + 1) ||
      !TD_GROW(names->bytes, names->bytes_capacity, names->n_bytes + length + 1))
    return TD_NAME_NONE;
  if (length) memcpy(names->bytes + names->n_bytes, bytes, length);
  names->bytes[names->n_bytes + length] = '\0';
  names->entries[names->count] = (struct td_name_entry){.hash = hash, .offset = names->n_bytes, .length = length};
  names->n_bytes += length + 1;
  names->slots[slot] = (uint32_t)names->count;
  return (uint32_t)names->count++;
}

const char *td_names_get(const td_names *names, uint32_t name, size_t *length)
{
  if (length) *length = names->entries[name].length;
  return names->bytes + names->entries[name].offset;
}
