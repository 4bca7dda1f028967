/* Arrays that grow. */
#ifndef TD_BASE_ARRAY_H
#define TD_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Makes `*array` hold at least `need` elements of `size` bytes, doubling as it grows. False if memory ran out or the byte
 * count overflows; then nothing has changed. */
bool td_array_reserve(void **array, size_t *capacity, size_t need, size_t size);

/* TD_GROW(items, capacity, n + 1): the same for a typed pointer. */
#define TD_GROW(array, capacity, need)                                                                                   \
  (((array) && (need) <= (capacity)) || td_array_reserve((void **)&(array), &(capacity), (need), sizeof *(array)))

#endif
