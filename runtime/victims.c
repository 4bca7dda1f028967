#include "runtime/victims.h"

#include <stdlib.h>

#include "base/array.h"

void td_victims_finish(td_victims *victims)
{
  free(victims->heap);
  *victims = (td_victims){0};
}

static bool before(const td_victim *a, const td_victim *b)
{
  return a->op != b->op ? a->op < b->op : a->bytes > b->bytes;
}

static void put(td_victims *victims, size_t i, td_victim *victim)
{
  victims->heap[i] = victim;
  victim->place = i + 1;
}

static void sift_up(td_victims *victims, size_t i, td_victim *victim)
{
  for (; i > 0 && before(victim, victims->heap[(i - 1) / 2]); i = (i - 1) / 2)
    put(victims, i, victims->heap[(i - 1) / 2]);
  put(victims, i, victim);
}

static void sift_down(td_victims *victims, size_t i, td_victim *victim)
{
  for (size_t child; (child = 2 * i + 1) < victims->count; i = child) {
    if (child + 1 < victims->count && before(victims->heap[child + 1], victims->heap[child])) child++;
    if (!before(victims->heap[child], victim)) break;
    put(victims, i, victims->heap[child]);
  }
  put(victims, i, victim);
}

bool td_victims_add(td_victims *victims, td_victim *victim)
{
  if (victim->place) return true;
  if (!TD_GROW(victims->heap, victims->capacity, victims->count + 1)) return false;
  sift_up(victims, victims->count++, victim);
  return true;
}

void td_victims_remove(td_victims *victims, td_victim *victim)
{
  if (!victim->place) return;
  size_t hole = victim->place - 1;
  victim->place = 0;
  td_victim *last = victims->heap[--victims->count];
  if (last == victim) return;
  if (hole > 0 && before(last, victims->heap[(hole - 1) / 2]))
    sift_up(victims, hole, last);
  else
    sift_down(victims, hole, last);
}

td_victim *td_victims_pop(td_victims *victims)
{
  if (!victims->count) return NULL;
  td_victim *first = victims->heap[0];
  td_victims_remove(victims, first);
  return first;
}
