/* The table of devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "runtime/device_ops.h"

static const td_device_ops *const kinds[] = {&td_host_device_ops, &td_opencl_device_ops, &td_cuda_device_ops};
static const char *const names[] = {"host", "opencl", "cuda", NULL};

#define N_KINDS (sizeof kinds / sizeof *kinds)

/* "cuda:1" is the second of its kind, "cuda" the first. NULL if there is no such kind or what follows is no number. */
static const td_device_ops *find_kind(const char *name, int *index)
{
  size_t length = strcspn(name, ":");
  char *end = (char *)name + length;
  *index = 0;
  if (*end == ':') {
    unsigned long number = strtoul(name + length + 1, &end, 10);
    if (end == name + length + 1 || *end || number > 9999) return NULL;
    *index = (int)number;
  }
  for (size_t i = 0; i < N_KINDS; i++)
    if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, name, length) == 0) return kinds[i];
  return NULL;
}

td_status td_device_open(td_device **out, const char *name, const td_device_options *options, td_error *err)
{
  static const td_device_options defaults = {0};
  int index;
  if (!options) options = &defaults;
  if (!(options->d2h_bytes_per_s >= 0) || !(options->h2d_bytes_per_s >= 0))
    return td_fail(err, TD_E_ARG, "a copy rate is 0 or more bytes a second");
  const td_device_ops *kind = find_kind(name, &index);
  if (!kind) return td_fail(err, TD_E_NOT_FOUND, "no device '%.100s'; there are: host, opencl, cuda, or cuda:1 for the second", name);
  return kind->open(out, index, options, err);
}

void td_device_close(td_device *device)
{
  if (device) device->ops->close(device);
}

const char *td_device_name(const td_device *device)
{
  return device->ops->name;
}

const char *td_device_description(const td_device *device)
{
  return device->ops->description(device);
}

uint64_t td_device_capacity(const td_device *device)
{
  return device->ops->capacity_bytes(device);
}

void *td_device_stream(td_device *device)
{
  return device->ops->stream(device);
}

const char *const *td_device_names(void)
{
  return names;
}
