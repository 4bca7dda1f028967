/* The table of devices. */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "runtime/device_ops.h"

static const td_device_ops *const backends[] = {&td_host_device_ops};
static const char *const names[] = {"host", NULL};

td_status td_device_open(td_device **out, const char *name, const td_device_options *options, td_error *err)
{
  static const td_device_options defaults = {0};
  if (!options) options = &defaults;
  if (!(options->d2h_bytes_per_s >= 0) || !(options->h2d_bytes_per_s >= 0))
    return td_fail(err, TD_E_ARG, "a copy rate is 0 or more bytes a second");
  for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
    if (strcmp(backends[i]->name, name) == 0) return backends[i]->open(out, options, err);
  return td_fail(err, TD_E_NOT_FOUND, "no device '%s'; there is: host", name);
}

void td_device_close(td_device *device)
{
  if (device) device->ops->close(device);
}

const char *td_device_name(const td_device *device)
{
  return device->ops->name;
}

void *td_device_stream(td_device *device)
{
  return device->ops->stream(device);
}

const char *const *td_device_names(void)
{
  return names;
}
