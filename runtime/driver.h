/* Drivers that are loaded when a device is opened, so that nothing needs them to build or to run elsewhere. */
#ifndef TD_RUNTIME_DRIVER_H
#define TD_RUNTIME_DRIVER_H

#include <stddef.h>

#include <tapedeck/error.h>

/* A function of the driver and where its address goes: any pointer to a function. */
typedef struct td_driver_call {
  const char *name;
  size_t offset; /* in the table that is filled */
} td_driver_call;

/* Opens the shared library `file` and fills `table`, a struct of pointers to functions, by the calls, up to one without a name. The library
 * stays open for the life of the process. TD_E_DEVICE: the message says what was looked for. */
td_status td_driver_load(const char *file, const char *what, const td_driver_call *calls, void *table, td_error *err);

#endif
