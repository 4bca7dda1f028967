/* The cuda device: streams, events, pinned host memory and stream-ordered device memory of the CUDA driver API.
 *
 * Three streams: computing, which is the caller's to fill, and one for each direction of copies. A copy first waits for the computing
 * queued so far. Declarations follow the driver API's reference (CUDA 11.2 and later, for cuMemAllocAsync); the driver's own headers are
 * not needed. */
#include "runtime/device_ops.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fail.h"
#include "runtime/driver.h"
#include "runtime/tickets.h"

/* ---- the driver ----------------------------------------------------------------------------------------------- */

typedef int cu_result;
typedef int cu_device;
typedef struct cu_context_st *cu_context;
typedef struct cu_stream_st *cu_stream;
typedef struct cu_event_st *cu_event;
typedef unsigned long long cu_pointer;

enum {
  CU_SUCCESS = 0,
  CU_OUT_OF_MEMORY = 2,
  CU_NOT_READY = 600,
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMORY_POOLS_SUPPORTED = 115, /* a device attribute */
  CU_HOST_ALLOC_PORTABLE = 1
};

typedef struct cu_calls {
  cu_result (*init)(unsigned flags);
  cu_result (*error_string)(cu_result error, const char **text);
  cu_result (*device_count)(int *count);
  cu_result (*device_get)(cu_device *device, int number);
  cu_result (*device_name)(char *name, int length, cu_device device);
  cu_result (*device_attribute)(int *value, int attribute, cu_device device);
  cu_result (*context_retain)(cu_context *context, cu_device device);
  cu_result (*context_release)(cu_device device);
  cu_result (*context_push)(cu_context context);
  cu_result (*context_pop)(cu_context *context);
  cu_result (*memory_info)(size_t *free, size_t *total);
  cu_result (*memory_alloc)(cu_pointer *pointer, size_t bytes, cu_stream stream);
  cu_result (*memory_free)(cu_pointer pointer, cu_stream stream);
  cu_result (*host_alloc)(void **pointer, size_t bytes, unsigned flags);
  cu_result (*host_free)(void *pointer);
  cu_result (*copy_d2h)(void *to, cu_pointer from, size_t bytes, cu_stream stream);
  cu_result (*copy_h2d)(cu_pointer to, const void *from, size_t bytes, cu_stream stream);
  cu_result (*stream_create)(cu_stream *stream, unsigned flags);
  cu_result (*stream_destroy)(cu_stream stream);
  cu_result (*stream_wait)(cu_stream stream, cu_event event, unsigned flags);
  cu_result (*stream_synchronize)(cu_stream stream);
  cu_result (*event_create)(cu_event *event, unsigned flags);
  cu_result (*event_destroy)(cu_event event);
  cu_result (*event_record)(cu_event event, cu_stream stream);
  cu_result (*event_query)(cu_event event);
  cu_result (*event_synchronize)(cu_event event);
} cu_calls;

#define CALL(member, name) {name, offsetof(cu_calls, member)}

static const td_driver_call calls[] = {
    CALL(init, "cuInit"),
    CALL(error_string, "cuGetErrorString"),
    CALL(device_count, "cuDeviceGetCount"),
    CALL(device_get, "cuDeviceGet"),
    CALL(device_name, "cuDeviceGetName"),
    CALL(device_attribute, "cuDeviceGetAttribute"),
    CALL(context_retain, "cuDevicePrimaryCtxRetain"),
    CALL(context_release, "cuDevicePrimaryCtxRelease_v2"),
    CALL(context_push, "cuCtxPushCurrent_v2"),
    CALL(context_pop, "cuCtxPopCurrent_v2"),
    CALL(memory_info, "cuMemGetInfo_v2"),
    CALL(memory_alloc, "cuMemAllocAsync"),
    CALL(memory_free, "cuMemFreeAsync"),
    CALL(host_alloc, "cuMemHostAlloc"),
    CALL(host_free, "cuMemFreeHost"),
    CALL(copy_d2h, "cuMemcpyDtoHAsync_v2"),
    CALL(copy_h2d, "cuMemcpyHtoDAsync_v2"),
    CALL(stream_create, "cuStreamCreate"),
    CALL(stream_destroy, "cuStreamDestroy_v2"),
    CALL(stream_wait, "cuStreamWaitEvent"),
    CALL(stream_synchronize, "cuStreamSynchronize"),
    CALL(event_create, "cuEventCreate"),
    CALL(event_destroy, "cuEventDestroy_v2"),
    CALL(event_record, "cuEventRecord"),
    CALL(event_query, "cuEventQuery"),
    CALL(event_synchronize, "cuEventSynchronize"),
    {0},
};

/* ---- the device ----------------------------------------------------------------------------------------------- */

typedef struct cuda_device {
  td_device device;
  cu_calls cu;
  cu_device number;
  cu_context context;
  cu_stream compute, engine[2]; /* engine: by td_direction */
  cu_event computed;            /* recorded anew for each copy */
  td_tickets tickets[2];        /* a place keeps its event for the next ticket there */
  cu_result broken;             /* the first copy that failed, if any: the driver fails all that follow */
  uint64_t capacity, used;
  char description[160];
} cuda_device;

static td_status failed(const cuda_device *cuda, cu_result result, const char *doing, td_error *err)
{
  const char *text = NULL;
  if (cuda->cu.error_string(result, &text) != CU_SUCCESS || !text) text = "an unknown error";
  return td_fail(err, result == CU_OUT_OF_MEMORY ? TD_E_NOMEM : TD_E_DEVICE, "cuda: cannot %s: %s (%d)", doing, text, result);
}

/* The caller's thread may have another context current, which it finds again. */
static void enter(const cuda_device *cuda)
{
  cuda->cu.context_push(cuda->context);
}

static void leave(const cuda_device *cuda)
{
  cu_context before;
  cuda->cu.context_pop(&before);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static td_status mem_alloc(td_device *device, uint64_t bytes, void **out, td_error *err)
{
  cuda_device *cuda = (cuda_device *)device;
  cu_pointer pointer = 0;
  if (bytes > cuda->capacity - cuda->used)
    return td_fail(err, TD_E_NOMEM, "the cuda device has no room for %llu bytes: %llu of %llu are taken", (unsigned long long)bytes,
                   (unsigned long long)cuda->used, (unsigned long long)cuda->capacity);
  enter(cuda);
  cu_result result = cuda->cu.memory_alloc(&pointer, bytes ? (size_t)bytes : 1, cuda->compute);
  leave(cuda);
  if (result != CU_SUCCESS) return failed(cuda, result, "allocate device memory", err);
  cuda->used += bytes;
  *out = (void *)(uintptr_t)pointer;
  return TD_OK;
}

static void mem_free(td_device *device, void *memory, uint64_t bytes)
{
  cuda_device *cuda = (cuda_device *)device;
  enter(cuda);
  cuda->cu.memory_free((cu_pointer)(uintptr_t)memory, cuda->compute);
  leave(cuda);
  cuda->used -= bytes;
}

static td_status host_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  cuda_device *cuda = (cuda_device *)device;
  void *memory = NULL;
  enter(cuda);
  cu_result result = cuda->cu.host_alloc(&memory, bytes ? bytes : 1, CU_HOST_ALLOC_PORTABLE);
  leave(cuda);
  if (result != CU_SUCCESS) return failed(cuda, result, "pin host memory", err);
  *out = memory;
  return TD_OK;
}

static void host_free(td_device *device, void *memory, size_t bytes)
{
  cuda_device *cuda = (cuda_device *)device;
  (void)bytes;
  enter(cuda);
  cuda->cu.host_free(memory);
  leave(cuda);
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

/* The event of the next ticket. One that stood there before has passed, and is used again. */
static cu_result next_event(cuda_device *cuda, td_tickets *tickets, cu_event *event)
{
  if (!td_tickets_make_room(tickets)) return CU_OUT_OF_MEMORY;
  void **place = td_tickets_at(tickets, tickets->given + 1);
  cu_result result = *place ? CU_SUCCESS : cuda->cu.event_create((cu_event *)place, CU_EVENT_DISABLE_TIMING);
  *event = *place;
  return result;
}

/* The engine's stream waits for the computing queued so far, and for a copy of the other direction. */
static cu_result wait_first(cuda_device *cuda, cu_stream stream, td_direction direction, td_event after)
{
  cu_result result = cuda->cu.event_record(cuda->computed, cuda->compute);
  if (result == CU_SUCCESS) result = cuda->cu.stream_wait(stream, cuda->computed, 0);
  const td_tickets *other = &cuda->tickets[after.engine];
  if (result != CU_SUCCESS || after.engine == (uint32_t)direction || after.ticket <= other->done) return result;
  return cuda->cu.stream_wait(stream, *td_tickets_at(other, after.ticket), 0);
}

static cu_result transfer(const cuda_device *cuda, td_direction direction, void *to, const void *from, uint64_t bytes)
{
  if (!bytes) return CU_SUCCESS;
  if (direction == TD_D2H) return cuda->cu.copy_d2h(to, (cu_pointer)(uintptr_t)from, (size_t)bytes, cuda->engine[TD_D2H]);
  return cuda->cu.copy_h2d((cu_pointer)(uintptr_t)to, from, (size_t)bytes, cuda->engine[TD_H2D]);
}

static td_status copy(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes, td_event after,
                      td_event *done, td_error *err)
{
  cuda_device *cuda = (cuda_device *)device;
  td_tickets *tickets = &cuda->tickets[direction];
  cu_event event;
  enter(cuda);
  cu_result result = next_event(cuda, tickets, &event);
  if (result == CU_SUCCESS) result = wait_first(cuda, cuda->engine[direction], direction, after);
  if (result == CU_SUCCESS) result = transfer(cuda, direction, to, from, bytes);
  if (result == CU_SUCCESS) {
    result = cuda->cu.event_record(event, cuda->engine[direction]);
    if (result != CU_SUCCESS) cuda->cu.stream_synchronize(cuda->engine[direction]); /* nobody will wait for the copy */
  }
  leave(cuda);
  if (result != CU_SUCCESS) return failed(cuda, result, "queue a copy", err);
  *done = (td_event){.ticket = ++tickets->given, .engine = (uint32_t)direction};
  return TD_OK;
}

/* A copy that failed counts as passed: nothing works on its memory any more, and `wait` tells of it. */
static bool passed(td_device *device, td_event event)
{
  cuda_device *cuda = (cuda_device *)device;
  td_tickets *tickets = &cuda->tickets[event.engine];
  if (event.ticket <= tickets->done) return true;
  enter(cuda);
  while (tickets->done < event.ticket) { /* in order, so that places become free in order */
    cu_result result = cuda->cu.event_query(*td_tickets_at(tickets, tickets->done + 1));
    if (result == CU_NOT_READY) break;
    if (result != CU_SUCCESS && !cuda->broken) cuda->broken = result;
    tickets->done++;
  }
  leave(cuda);
  return event.ticket <= tickets->done;
}

static td_status wait(td_device *device, td_event event, td_error *err)
{
  cuda_device *cuda = (cuda_device *)device;
  if (!passed(device, event)) {
    enter(cuda);
    cu_result result = cuda->cu.event_synchronize(*td_tickets_at(&cuda->tickets[event.engine], event.ticket));
    leave(cuda);
    if (result != CU_SUCCESS && !cuda->broken) cuda->broken = result;
    passed(device, event);
  }
  return cuda->broken ? failed(cuda, cuda->broken, "copy", err) : TD_OK;
}

static td_status join(td_device *device, td_event event, td_error *err)
{
  cuda_device *cuda = (cuda_device *)device;
  if (passed(device, event)) return cuda->broken ? failed(cuda, cuda->broken, "copy", err) : TD_OK;
  enter(cuda);
  cu_result result = cuda->cu.stream_wait(cuda->compute, *td_tickets_at(&cuda->tickets[event.engine], event.ticket), 0);
  leave(cuda);
  return result == CU_SUCCESS ? TD_OK : failed(cuda, result, "wait for a copy", err);
}

static uint64_t used_bytes(const td_device *device)
{
  return ((const cuda_device *)device)->used;
}

static uint64_t capacity_bytes(const td_device *device)
{
  return ((const cuda_device *)device)->capacity;
}

static void *stream(td_device *device)
{
  return ((cuda_device *)device)->compute;
}

static const char *description(const td_device *device)
{
  return ((const cuda_device *)device)->description;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void destroy_events(cuda_device *cuda, td_tickets *tickets)
{
  for (size_t i = 0; i < tickets->capacity; i++)
    if (tickets->events[i]) cuda->cu.event_destroy(tickets->events[i]);
  td_tickets_finish(tickets);
}

static void close_device(td_device *device)
{
  cuda_device *cuda = (cuda_device *)device;
  enter(cuda);
  cu_stream streams[] = {cuda->engine[TD_D2H], cuda->engine[TD_H2D], cuda->compute};
  for (int i = 0; i < 3; i++) {
    if (!streams[i]) continue;
    cuda->cu.stream_synchronize(streams[i]);
    cuda->cu.stream_destroy(streams[i]);
  }
  destroy_events(cuda, &cuda->tickets[TD_D2H]);
  destroy_events(cuda, &cuda->tickets[TD_H2D]);
  if (cuda->computed) cuda->cu.event_destroy(cuda->computed);
  leave(cuda);
  cuda->cu.context_release(cuda->number);
  free(cuda);
}

/* Finds device number `index` and makes sure that it can do what is asked of it here. */
static td_status find_device(cuda_device *cuda, int index, td_error *err)
{
  int count = 0, pools = 0;
  cu_result result = cuda->cu.init(0);
  if (result == CU_SUCCESS) result = cuda->cu.device_count(&count);
  if (result != CU_SUCCESS) return failed(cuda, result, "start the driver", err);
  if (index >= count) return td_fail(err, TD_E_DEVICE, "cuda: the driver has no device %d; it has %d", index, count);
  result = cuda->cu.device_get(&cuda->number, index);
  if (result == CU_SUCCESS) result = cuda->cu.device_attribute(&pools, CU_MEMORY_POOLS_SUPPORTED, cuda->number);
  if (result == CU_SUCCESS) result = cuda->cu.device_name(cuda->description, sizeof cuda->description, cuda->number);
  if (result != CU_SUCCESS) return failed(cuda, result, "ask about the device", err);
  return pools ? TD_OK : td_fail(err, TD_E_DEVICE, "cuda: %s has no stream-ordered memory", cuda->description);
}

/* The context is current; close_device cleans up after a failure. */
static td_status make_streams(cuda_device *cuda, uint64_t capacity, td_error *err)
{
  size_t available = 0, total = 0;
  cu_stream *streams[] = {&cuda->compute, &cuda->engine[TD_D2H], &cuda->engine[TD_H2D]};
  cu_result result = cuda->cu.memory_info(&available, &total);
  for (int i = 0; i < 3 && result == CU_SUCCESS; i++) result = cuda->cu.stream_create(streams[i], CU_STREAM_NON_BLOCKING);
  if (result == CU_SUCCESS) result = cuda->cu.event_create(&cuda->computed, CU_EVENT_DISABLE_TIMING);
  if (result != CU_SUCCESS) return failed(cuda, result, "make streams", err);
  cuda->capacity = capacity && capacity < total ? capacity : total;
  return TD_OK;
}

static td_status open_device(td_device **out, int index, const td_device_options *options, td_error *err)
{
  cuda_device *cuda = calloc(1, sizeof *cuda);
  if (!cuda) return td_fail_nomem(err);
  cuda->device.ops = &td_cuda_device_ops;
  td_status status = td_driver_load("libcuda.so.1", "CUDA", calls, &cuda->cu, err);
  if (!status) status = find_device(cuda, index, err);
  cu_result result = status ? CU_SUCCESS : cuda->cu.context_retain(&cuda->context, cuda->number);
  if (!status && result != CU_SUCCESS) status = failed(cuda, result, "use the device", err);
  if (status) {
    free(cuda);
    return status;
  }
  enter(cuda);
  status = make_streams(cuda, options->capacity_bytes, err);
  leave(cuda);
  if (status)
    close_device(&cuda->device);
  else
    *out = &cuda->device;
  return status;
}

const td_device_ops td_cuda_device_ops = {
    .name = "cuda",
    .open = open_device,
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
