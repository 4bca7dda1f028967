/* Which storage to evict next: a heap by age. The one produced by the earliest op comes first; of one op's, the larger. */
#ifndef TD_RUNTIME_VICTIMS_H
#define TD_RUNTIME_VICTIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lives in its storage and stays in place while it is in the heap. All zero is out of it. */
typedef struct td_victim {
  uint64_t op; /* the op stamp of its production */
  uint64_t bytes;
  size_t place; /* in the heap, from 1; 0: not in it */
} td_victim;

/* All zero is empty. */
typedef struct td_victims {
  td_victim **heap;
  size_t count, capacity;
} td_victims;

void td_victims_finish(td_victims *victims);
/* Already there: nothing happens. False if memory ran out. */
bool td_victims_add(td_victims *victims, td_victim *victim);
/* Not there: nothing happens. */
void td_victims_remove(td_victims *victims, td_victim *victim);
/* Takes the first out; NULL if there is none. */
td_victim *td_victims_pop(td_victims *victims);

#endif
