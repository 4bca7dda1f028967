/* A hash map from 64-bit keys to 32-bit values: open addressing, linear probing, deletion by shifting back. */
#ifndef TD_BASE_MAP_H
#define TD_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TD_MAP_NONE UINT32_MAX /* never a value */

/* All zero is an empty map. */
typedef struct td_map {
  uint64_t *keys;
  uint32_t *values; /* TD_MAP_NONE: the slot is free */
  size_t capacity;  /* a power of two, or 0 */
  size_t count;
} td_map;

void td_map_finish(td_map *map);

/* TD_MAP_NONE if the key is not there. */
uint32_t td_map_get(const td_map *map, uint64_t key);

/* Inserts or replaces. False if memory ran out; the map is then unchanged. */
bool td_map_put(td_map *map, uint64_t key, uint32_t value);

/* The value that the key had, or TD_MAP_NONE. */
uint32_t td_map_remove(td_map *map, uint64_t key);

#endif
