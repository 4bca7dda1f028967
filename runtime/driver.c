#include "runtime/driver.h"

#include <dlfcn.h>
#include <string.h>

#include "base/fail.h"

td_status td_driver_load(const char *file, const char *what, const td_driver_call *calls, void *table, td_error *err)
{
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) return td_fail(err, TD_E_DEVICE, "no %s driver: looked for %s (%s)", what, file, dlerror());
  for (; calls->name; calls++) {
    void *address = dlsym(library, calls->name);
    if (!address) return td_fail(err, TD_E_DEVICE, "the %s driver %s is too old: it has no %s", what, file, calls->name);
    memcpy((char *)table + calls->offset, &address, sizeof address); /* POSIX: a function's address fits */
  }
  return TD_OK;
}
