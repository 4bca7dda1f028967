#include "base/array.h"

#include <stdint.h>
#include <stdlib.h>

bool td_array_reserve(void **array, size_t *capacity, size_t need, size_t size)
{
  if (need <= *capacity) return true;
  size_t target = *capacity > SIZE_MAX / 2 ? need : *capacity * 2;
  if (target < need) target = need;
  if (target < 16) target = 16;
  if (target > SIZE_MAX / size) return false;
  void *grown = realloc(*array, target * size);
  if (!grown) return false;
  *array = grown;
  *capacity = target;
  return true;
}
