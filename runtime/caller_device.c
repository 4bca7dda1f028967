/* A device of the caller's own: streams, events and pinned memory through callbacks. Its device memory is the caller's too. */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "runtime/device_ops.h"

typedef struct caller_device {
  td_device device;
  td_device_calls calls;
  char *name;
  uint64_t tickets[2]; /* given out so far, by td_direction */
} caller_device;

static void close_device(td_device *device)
{
  caller_device *caller = (caller_device *)device;
  for (int i = 0; i < 2; i++)
    if (caller->tickets[i]) caller->calls.wait(caller->calls.context, i, caller->tickets[i]);
  free(caller->name);
  free(caller);
}

static td_status mem_alloc(td_device *device, uint64_t bytes, void **out, td_error *err)
{
  (void)bytes, (void)out;
  return td_fail(err, TD_E_STATE, "the memory of the device %s is its caller's", ((caller_device *)device)->name);
}

static void mem_free(td_device *device, void *memory, uint64_t bytes)
{
  (void)device, (void)memory, (void)bytes;
}

static td_status host_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  const td_device_calls *calls = &((caller_device *)device)->calls;
  void *memory = calls->host_alloc(calls->context, bytes);
  if (!memory) return td_fail_nomem(err);
  *out = memory;
  return TD_OK;
}

static void host_free(td_device *device, void *memory, size_t bytes)
{
  const td_device_calls *calls = &((caller_device *)device)->calls;
  calls->host_free(calls->context, memory, bytes);
}

static td_status copy(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes, td_event after,
                      td_event *done, td_error *err)
{
  caller_device *caller = (caller_device *)device;
  uint64_t other = after.engine == (uint32_t)direction ? 0 : after.ticket; /* its own direction is in order anyway */
  if (!caller->calls.copy(caller->calls.context, (int)direction, to, from, bytes, other))
    return td_fail(err, TD_E_DEVICE, "the device %s refused a copy of %llu bytes", caller->name, (unsigned long long)bytes);
  *done = (td_event){.ticket = ++caller->tickets[direction], .engine = (uint32_t)direction};
  return TD_OK;
}

static bool passed(td_device *device, td_event event)
{
  const td_device_calls *calls = &((caller_device *)device)->calls;
  return !event.ticket || calls->passed(calls->context, (int)event.engine, event.ticket);
}

static td_status outcome(const td_device *device, bool good, td_error *err)
{
  return good ? TD_OK : td_fail(err, TD_E_DEVICE, "a copy of the device %s failed", ((const caller_device *)device)->name);
}

static td_status wait(td_device *device, td_event event, td_error *err)
{
  const td_device_calls *calls = &((caller_device *)device)->calls;
  return outcome(device, !event.ticket || calls->wait(calls->context, (int)event.engine, event.ticket), err);
}

static td_status join(td_device *device, td_event event, td_error *err)
{
  const td_device_calls *calls = &((caller_device *)device)->calls;
  if (!calls->join) return wait(device, event, err);
  return outcome(device, !event.ticket || calls->join(calls->context, (int)event.engine, event.ticket), err);
}

static const char *description(const td_device *device)
{
  return ((const caller_device *)device)->name;
}

static uint64_t used_bytes(const td_device *device)
{
  (void)device;
  return 0;
}

static uint64_t capacity_bytes(const td_device *device)
{
  uint64_t capacity = ((const caller_device *)device)->calls.capacity_bytes;
  return capacity ? capacity : UINT64_MAX;
}

static void *stream(td_device *device)
{
  (void)device;
  return NULL;
}

static const td_device_ops caller_device_ops = {
    .name = "caller",
    .close = close_device,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = copy,
    .passed = passed,
    .wait = wait,
    .join = join,
    .used_bytes = used_bytes,
    .capacity_bytes = capacity_bytes,
    .stream = stream,
    .description = description,
};

td_status td_device_from_calls(td_device **out, const td_device_calls *calls, td_error *err)
{
  if (!calls->host_alloc || !calls->host_free || !calls->copy || !calls->passed || !calls->wait)
    return td_fail(err, TD_E_ARG, "a device needs host_alloc, host_free, copy, passed and wait");
  caller_device *caller = calloc(1, sizeof *caller);
  if (caller) caller->name = strdup(calls->name ? calls->name : "caller");
  if (!caller || !caller->name) {
    free(caller);
    return td_fail_nomem(err);
  }
  caller->device.ops = &caller_device_ops;
  caller->calls = *calls;
  *out = &caller->device;
  return TD_OK;
}
