/* The opencl device: shared virtual memory and command queues of OpenCL 2.0 and later.
 *
 * Three queues, each in order: computing, which is the caller's to fill, and one for each direction of copies. A copy first waits for the
 * computing queued so far. Device memory is coarse-grained shared virtual memory, so that a storage has an address; host memory is a
 * mapped buffer in host memory, which drivers pin. Declarations follow the Khronos specification; its headers are not needed. */
#include "runtime/device_ops.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fail.h"
#include "runtime/driver.h"
#include "runtime/tickets.h"

/* ---- the driver ----------------------------------------------------------------------------------------------- */

typedef int32_t cl_int;
typedef uint32_t cl_uint;
typedef uint64_t cl_ulong;
typedef struct cl_platform_st *cl_platform;
typedef struct cl_device_st *cl_device;
typedef struct cl_context_st *cl_context;
typedef struct cl_queue_st *cl_queue;
typedef struct cl_event_st *cl_event;
typedef struct cl_mem_st *cl_mem;

#define CL_DEVICE_TYPE_GPU ((cl_ulong)1 << 2)
#define CL_DEVICE_TYPE_ALL ((cl_ulong)0xffffffff)
#define CL_MEM_READ_WRITE ((cl_ulong)1 << 0)
#define CL_MEM_ALLOC_HOST_PTR ((cl_ulong)1 << 4)
#define CL_MAP_READ_WRITE ((cl_ulong)3)
#define CL_SVM_COARSE_GRAIN ((cl_ulong)1 << 0)

enum {
  CL_SUCCESS = 0,
  CL_COMPLETE = 0, /* of a command; an error is negative, one under way positive */
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_NAME = 0x102B,
  CL_DEVICE_SVM_CAPABILITIES = 0x1053,
  CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3
};

typedef struct cl_calls {
  cl_int (*platforms)(cl_uint room, cl_platform *platforms, cl_uint *count);
  cl_int (*devices)(cl_platform platform, cl_ulong type, cl_uint room, cl_device *devices, cl_uint *count);
  cl_int (*device_info)(cl_device device, cl_uint what, size_t room, void *value, size_t *size);
  cl_context (*context_create)(const intptr_t *properties, cl_uint n, const cl_device *devices, void *notify, void *data, cl_int *error);
  cl_int (*context_release)(cl_context context);
  cl_queue (*queue_create)(cl_context context, cl_device device, const cl_ulong *properties, cl_int *error);
  cl_int (*queue_release)(cl_queue queue);
  void *(*svm_alloc)(cl_context context, cl_ulong flags, size_t bytes, cl_uint alignment);
  cl_int (*svm_free)(cl_queue queue, cl_uint n, void **pointers, void *notify, void *data, cl_uint n_waits, const cl_event *waits,
                     cl_event *event);
  cl_int (*svm_copy)(cl_queue queue, cl_uint blocking, void *to, const void *from, size_t bytes, cl_uint n_waits, const cl_event *waits,
                     cl_event *event);
  cl_mem (*buffer_create)(cl_context context, cl_ulong flags, size_t bytes, void *host, cl_int *error);
  void *(*buffer_map)(cl_queue queue, cl_mem buffer, cl_uint blocking, cl_ulong flags, size_t offset, size_t bytes, cl_uint n_waits,
                      const cl_event *waits, cl_event *event, cl_int *error);
  cl_int (*buffer_unmap)(cl_queue queue, cl_mem buffer, void *mapped, cl_uint n_waits, const cl_event *waits, cl_event *event);
  cl_int (*buffer_release)(cl_mem buffer);
  cl_int (*marker)(cl_queue queue, cl_uint n_waits, const cl_event *waits, cl_event *event);
  cl_int (*barrier)(cl_queue queue, cl_uint n_waits, const cl_event *waits, cl_event *event);
  cl_int (*event_info)(cl_event event, cl_uint what, size_t room, void *value, size_t *size);
  cl_int (*event_wait)(cl_uint n, const cl_event *events);
  cl_int (*event_release)(cl_event event);
  cl_int (*flush)(cl_queue queue);
  cl_int (*finish)(cl_queue queue);
} cl_calls;

#define CALL(member, name) {name, offsetof(cl_calls, member)}

static const td_driver_call calls[] = {
    CALL(platforms, "clGetPlatformIDs"),
    CALL(devices, "clGetDeviceIDs"),
    CALL(device_info, "clGetDeviceInfo"),
    CALL(context_create, "clCreateContext"),
    CALL(context_release, "clReleaseContext"),
    CALL(queue_create, "clCreateCommandQueueWithProperties"),
    CALL(queue_release, "clReleaseCommandQueue"),
    CALL(svm_alloc, "clSVMAlloc"),
    CALL(svm_free, "clEnqueueSVMFree"),
    CALL(svm_copy, "clEnqueueSVMMemcpy"),
    CALL(buffer_create, "clCreateBuffer"),
    CALL(buffer_map, "clEnqueueMapBuffer"),
    CALL(buffer_unmap, "clEnqueueUnmapMemObject"),
    CALL(buffer_release, "clReleaseMemObject"),
    CALL(marker, "clEnqueueMarkerWithWaitList"),
    CALL(barrier, "clEnqueueBarrierWithWaitList"),
    CALL(event_info, "clGetEventInfo"),
    CALL(event_wait, "clWaitForEvents"),
    CALL(event_release, "clReleaseEvent"),
    CALL(flush, "clFlush"),
    CALL(finish, "clFinish"),
    {0},
};

/* ---- the device ----------------------------------------------------------------------------------------------- */

/* Host memory and the buffer that it is mapped from. */
typedef struct mapped {
  void *memory;
  cl_mem buffer;
} mapped;

typedef struct opencl_device {
  td_device device;
  cl_calls cl;
  cl_device id;
  cl_context context;
  cl_queue compute, engine[2]; /* engine: by td_direction */
  td_tickets tickets[2];       /* events are released when they have passed */
  cl_int broken;               /* the first copy that failed, if any */
  mapped *host;
  size_t n_host, host_capacity;
  uint64_t capacity, largest, used; /* largest: that one allocation may be */
  char description[160];
} opencl_device;

static td_status failed(cl_int error, const char *doing, td_error *err)
{
  bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_HOST_MEMORY;
  return td_fail(err, memory ? TD_E_NOMEM : TD_E_DEVICE, "opencl: cannot %s: error %d", doing, error);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static td_status mem_alloc(td_device *device, uint64_t bytes, void **out, td_error *err)
{
  opencl_device *opencl = (opencl_device *)device;
  void *memory = NULL;
  if (bytes <= opencl->capacity - opencl->used && bytes <= opencl->largest)
    memory = opencl->cl.svm_alloc(opencl->context, CL_MEM_READ_WRITE, bytes ? (size_t)bytes : 1, 64);
  if (!memory)
    return td_fail(err, TD_E_NOMEM, "the opencl device has no room for %llu bytes: %llu of %llu are taken", (unsigned long long)bytes,
                   (unsigned long long)opencl->used, (unsigned long long)opencl->capacity);
  opencl->used += bytes;
  *out = memory;
  return TD_OK;
}

static void mem_free(td_device *device, void *memory, uint64_t bytes)
{
  opencl_device *opencl = (opencl_device *)device;
  opencl->cl.svm_free(opencl->compute, 1, &memory, NULL, NULL, 0, NULL, NULL);
  opencl->cl.flush(opencl->compute);
  opencl->used -= bytes;
}

static td_status host_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  opencl_device *opencl = (opencl_device *)device;
  cl_int error;
  if (!bytes) bytes = 1;
  if (!TD_GROW(opencl->host, opencl->host_capacity, opencl->n_host + 1)) return td_fail_nomem(err);
  cl_mem buffer = opencl->cl.buffer_create(opencl->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
  if (!buffer) return failed(error, "make a buffer in host memory", err);
  void *memory = opencl->cl.buffer_map(opencl->compute, buffer, 1, CL_MAP_READ_WRITE, 0, bytes, 0, NULL, NULL, &error);
  if (!memory) {
    opencl->cl.buffer_release(buffer);
    return failed(error, "map host memory", err);
  }
  opencl->host[opencl->n_host++] = (mapped){memory, buffer};
  *out = memory;
  return TD_OK;
}

static void host_free(td_device *device, void *memory, size_t bytes)
{
  opencl_device *opencl = (opencl_device *)device;
  (void)bytes;
  for (size_t i = 0; i < opencl->n_host; i++) {
    if (opencl->host[i].memory != memory) continue;
    opencl->cl.buffer_unmap(opencl->compute, opencl->host[i].buffer, memory, 0, NULL, NULL);
    opencl->cl.finish(opencl->compute);
    opencl->cl.buffer_release(opencl->host[i].buffer);
    opencl->host[i] = opencl->host[--opencl->n_host];
    return;
  }
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

static td_status copy(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes, td_event after,
                      td_event *done, td_error *err)
{
  opencl_device *opencl = (opencl_device *)device;
  td_tickets *tickets = &opencl->tickets[direction], *other = &opencl->tickets[after.engine];
  cl_event waits[2], event = NULL;
  cl_uint n = 1;
  if (!td_tickets_make_room(tickets)) return td_fail_nomem(err);
  cl_int error = opencl->cl.marker(opencl->compute, 0, NULL, &waits[0]);
  if (error != CL_SUCCESS) return failed(error, "queue a copy", err);
  opencl->cl.flush(opencl->compute); /* another queue waits for it */
  if (after.engine != (uint32_t)direction && after.ticket > other->done) waits[n++] = *td_tickets_at(other, after.ticket);
  if (bytes) error = opencl->cl.svm_copy(opencl->engine[direction], 0, to, from, (size_t)bytes, n, waits, &event);
  else error = opencl->cl.marker(opencl->engine[direction], n, waits, &event);
  opencl->cl.event_release(waits[0]);
  if (error != CL_SUCCESS) return failed(error, "queue a copy", err);
  opencl->cl.flush(opencl->engine[direction]);
  *td_tickets_at(tickets, ++tickets->given) = event;
  *done = (td_event){.ticket = tickets->given, .engine = (uint32_t)direction};
  return TD_OK;
}

/* A copy that failed counts as passed: nothing works on its memory any more, and `wait` tells of it. */
static bool passed(td_device *device, td_event event)
{
  opencl_device *opencl = (opencl_device *)device;
  td_tickets *tickets = &opencl->tickets[event.engine];
  while (tickets->done < event.ticket) { /* in order, so that places become free in order */
    cl_event first = *td_tickets_at(tickets, tickets->done + 1);
    cl_int state = CL_COMPLETE;
    cl_int error = opencl->cl.event_info(first, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    if (error == CL_SUCCESS && state > CL_COMPLETE) return false;
    if (!opencl->broken) opencl->broken = error != CL_SUCCESS ? error : state;
    opencl->cl.event_release(first);
    tickets->done++;
  }
  return true;
}

static td_status wait(td_device *device, td_event event, td_error *err)
{
  opencl_device *opencl = (opencl_device *)device;
  if (!passed(device, event)) {
    cl_event last = *td_tickets_at(&opencl->tickets[event.engine], event.ticket);
    cl_int error = opencl->cl.event_wait(1, &last);
    if (error != CL_SUCCESS && !opencl->broken) opencl->broken = error;
    passed(device, event);
  }
  return opencl->broken ? failed(opencl->broken, "copy", err) : TD_OK;
}

static td_status join(td_device *device, td_event event, td_error *err)
{
  opencl_device *opencl = (opencl_device *)device;
  if (passed(device, event)) return opencl->broken ? failed(opencl->broken, "copy", err) : TD_OK;
  cl_event last = *td_tickets_at(&opencl->tickets[event.engine], event.ticket);
  cl_int error = opencl->cl.barrier(opencl->compute, 1, &last, NULL);
  return error == CL_SUCCESS ? TD_OK : failed(error, "wait for a copy", err);
}

static uint64_t used_bytes(const td_device *device)
{
  return ((const opencl_device *)device)->used;
}

static uint64_t capacity_bytes(const td_device *device)
{
  return ((const opencl_device *)device)->capacity;
}

static void *stream(td_device *device)
{
  return ((opencl_device *)device)->compute;
}

static const char *description(const td_device *device)
{
  return ((const opencl_device *)device)->description;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void close_device(td_device *device)
{
  opencl_device *opencl = (opencl_device *)device;
  cl_queue queues[] = {opencl->engine[TD_D2H], opencl->engine[TD_H2D], opencl->compute};
  for (int i = 0; i < 3; i++)
    if (queues[i]) opencl->cl.finish(queues[i]);
  for (uint32_t i = 0; i < 2; i++) {
    passed(device, (td_event){.ticket = opencl->tickets[i].given, .engine = i});
    td_tickets_finish(&opencl->tickets[i]);
  }
  for (int i = 0; i < 3; i++)
    if (queues[i]) opencl->cl.queue_release(queues[i]);
  if (opencl->context) opencl->cl.context_release(opencl->context);
  free(opencl->host);
  free(opencl);
}

#define PLATFORMS_MAX 16
#define DEVICES_MAX 64

/* All devices of all platforms, those of a type; returns how many there are in the list. */
static cl_uint list_devices(const cl_calls *cl, cl_ulong type, cl_device *devices)
{
  cl_platform platforms[PLATFORMS_MAX];
  cl_uint n_platforms = 0, n = 0;
  if (cl->platforms(PLATFORMS_MAX, platforms, &n_platforms) != CL_SUCCESS) return 0;
  for (cl_uint i = 0; i < n_platforms && i < PLATFORMS_MAX; i++) {
    cl_uint here = 0;
    if (cl->devices(platforms[i], type, DEVICES_MAX - n, devices + n, &here) == CL_SUCCESS) n += here < DEVICES_MAX - n ? here : DEVICES_MAX - n;
    if (n == DEVICES_MAX) break;
  }
  return n;
}

/* GPUs come first, then whatever else there is. */
static td_status find_device(opencl_device *opencl, int index, td_error *err)
{
  cl_device devices[2 * DEVICES_MAX];
  cl_uint n_gpus = list_devices(&opencl->cl, CL_DEVICE_TYPE_GPU, devices), n = n_gpus;
  cl_device all[DEVICES_MAX];
  cl_uint n_all = list_devices(&opencl->cl, CL_DEVICE_TYPE_ALL, all);
  for (cl_uint i = 0; i < n_all; i++) {
    bool listed = false;
    for (cl_uint k = 0; k < n_gpus; k++) listed |= devices[k] == all[i];
    if (!listed) devices[n++] = all[i];
  }
  if ((cl_uint)index >= n)
    return td_fail(err, TD_E_DEVICE, "opencl: no device %d: looked through all platforms that libOpenCL.so.1 knows and found %u", index, n);
  opencl->id = devices[index];
  cl_ulong svm = 0;
  opencl->cl.device_info(opencl->id, CL_DEVICE_NAME, sizeof opencl->description - 1, opencl->description, NULL);
  cl_int error = opencl->cl.device_info(opencl->id, CL_DEVICE_SVM_CAPABILITIES, sizeof svm, &svm, NULL);
  if (error == CL_SUCCESS && (svm & CL_SVM_COARSE_GRAIN)) return TD_OK;
  return td_fail(err, TD_E_DEVICE, "opencl: %s has no shared virtual memory (OpenCL 2.0)", opencl->description);
}

/* close_device cleans up after a failure. */
static td_status make_queues(opencl_device *opencl, uint64_t capacity, td_error *err)
{
  cl_ulong total = 0;
  cl_int error;
  opencl->context = opencl->cl.context_create(NULL, 1, &opencl->id, NULL, NULL, &error);
  if (!opencl->context) return failed(error, "make a context", err);
  cl_queue *queues[] = {&opencl->compute, &opencl->engine[TD_D2H], &opencl->engine[TD_H2D]};
  for (int i = 0; i < 3; i++) {
    *queues[i] = opencl->cl.queue_create(opencl->context, opencl->id, NULL, &error);
    if (!*queues[i]) return failed(error, "make a queue", err);
  }
  error = opencl->cl.device_info(opencl->id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, NULL);
  if (error == CL_SUCCESS)
    error = opencl->cl.device_info(opencl->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof opencl->largest, &opencl->largest, NULL);
  if (error != CL_SUCCESS) return failed(error, "ask for the memory's size", err);
  opencl->capacity = capacity && capacity < total ? capacity : total;
  return TD_OK;
}

static td_status open_device(td_device **out, int index, const td_device_options *options, td_error *err)
{
  opencl_device *opencl = calloc(1, sizeof *opencl);
  if (!opencl) return td_fail_nomem(err);
  opencl->device.ops = &td_opencl_device_ops;
  td_status status = td_driver_load("libOpenCL.so.1", "OpenCL", calls, &opencl->cl, err);
  if (!status) status = find_device(opencl, index, err);
  if (status) {
    free(opencl);
    return status;
  }
  status = make_queues(opencl, options->capacity_bytes, err);
  if (status)
    close_device(&opencl->device);
  else
    *out = &opencl->device;
  return status;
}

const td_device_ops td_opencl_device_ops = {
    .name = "opencl",
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
