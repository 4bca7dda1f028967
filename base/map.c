#include "base/map.h"

#include <stdlib.h>

/* MurmurHash3's finalizer, seeded with the table's address, which nobody can know who chooses keys. */
static size_t home(const td_map *map, uint64_t key)
{
  uint64_t h = key ^ (uintptr_t)map->keys;
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return (size_t)(h ^ h >> 33) & (map->capacity - 1);
}

/* The slot that holds the key, or the free slot where it would go. */
static size_t find(const td_map *map, uint64_t key)
{
  size_t i = home(map, key);
  while (map->values[i] != TD_MAP_NONE && map->keys[i] != key) i = (i + 1) & (map->capacity - 1);
  return i;
}

void td_map_finish(td_map *map)
{
  free(map->keys);
  free(map->values);
  *map = (td_map){0};
}

uint32_t td_map_get(const td_map *map, uint64_t key)
{
  return map->count ? map->values[find(map, key)] : TD_MAP_NONE;
}

static bool grow(td_map *map)
{
  td_map larger = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
  larger.keys = calloc(larger.capacity, sizeof *larger.keys);
  larger.values = malloc(larger.capacity * sizeof *larger.values);
  if (!larger.keys || !larger.values) {
    td_map_finish(&larger);
    return false;
  }
  for (size_t i = 0; i < larger.capacity; i++) larger.values[i] = TD_MAP_NONE;
  for (size_t i = 0; i < map->capacity; i++) {
    if (map->values[i] == TD_MAP_NONE) continue;
    size_t slot = find(&larger, map->keys[i]);
    larger.keys[slot] = map->keys[i];
    larger.values[slot] = map->values[i];
  }
  td_map_finish(map);
  *map = larger;
  return true;
}

bool td_map_put(td_map *map, uint64_t key, uint32_t value)
{
  if (map->count + 1 > map->capacity / 4 * 3 && !grow(map)) return false;
  size_t i = find(map, key);
  if (map->values[i] == TD_MAP_NONE) map->count++; /* NOLINT(clang-analyzer-unix.Malloc): grow has replaced what it freed */
  map->keys[i] = key;
  map->values[i] = value;
  return true;
}

uint32_t td_map_remove(td_map *map, uint64_t key)
{
  if (!map->count) return TD_MAP_NONE;
  size_t hole = find(map, key);
  uint32_t value = map->values[hole];
  if (value == TD_MAP_NONE) return TD_MAP_NONE;
  map->count--;
  /* Move back every later entry of the run that may stand in the hole. */
  size_t mask = map->capacity - 1;
  for (size_t i = (hole + 1) & mask; map->values[i] != TD_MAP_NONE; i = (i + 1) & mask) {
    if (((i - home(map, map->keys[i])) & mask) < ((i - hole) & mask)) continue;
    map->keys[hole] = map->keys[i];
    map->values[hole] = map->values[i];
    hole = i;
  }
  map->values[hole] = TD_MAP_NONE;
  return value;
}
