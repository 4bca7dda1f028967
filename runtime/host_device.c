/* The host device: main memory with a hard capacity, and a thread for each copy engine. */
#include "runtime/device_ops.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/fail.h"

#define ALIGN 64u

typedef struct copy_job {
  void *to;
  const void *from;
  uint64_t bytes;
  td_event after;
} copy_job;

typedef struct engine {
  struct host_device *device;
  pthread_t thread;
  bool started;
  double bytes_per_s;    /* 0: as fast as it goes */
  uint64_t free_at_ns;   /* with a rate: when the link is free again */
  copy_job *jobs;        /* a ring; the job of ticket t stands at t % capacity */
  size_t capacity;       /* a power of two */
  uint64_t queued;       /* the last ticket given out */
  _Atomic uint64_t done; /* the last ticket that ended */
} engine;

typedef struct host_device {
  td_device device;
  uint64_t capacity, used; /* of device memory; the caller's thread alone */
  pthread_mutex_t lock;    /* over jobs, queued, stopping and the waiting for done */
  pthread_cond_t changed;
  bool stopping;
  engine engines[2]; /* by td_direction */
} host_device;

/* ---- the copy threads ----------------------------------------------------------------------------------------- */

static bool passed(td_device *device, td_event event)
{
  host_device *host = (host_device *)device;
  return atomic_load_explicit(&host->engines[event.engine].done, memory_order_acquire) >= event.ticket;
}

static void wait_locked(host_device *host, td_event event)
{
  while (!passed(&host->device, event)) pthread_cond_wait(&host->changed, &host->lock);
}

/* With a rate, the copy takes its time on the link, behind the one before it. */
static void copy(engine *engine, const copy_job *job)
{
  uint64_t began = td_now_ns();
  if (job->bytes) memcpy(job->to, job->from, (size_t)job->bytes);
  if (engine->bytes_per_s <= 0) return;
  if (engine->free_at_ns < began) engine->free_at_ns = began;
  engine->free_at_ns += (uint64_t)((double)job->bytes / engine->bytes_per_s * 1e9);
  td_sleep_until_ns(engine->free_at_ns);
}

static void *run(void *context)
{
  engine *engine = context;
  host_device *host = engine->device;
  pthread_mutex_lock(&host->lock);
  for (uint64_t ticket = 1;; ticket++) {
    while (engine->queued < ticket && !host->stopping) pthread_cond_wait(&host->changed, &host->lock);
    if (engine->queued < ticket) break;
    copy_job job = engine->jobs[ticket % engine->capacity];
    wait_locked(host, job.after);
    pthread_mutex_unlock(&host->lock);
    copy(engine, &job);
    pthread_mutex_lock(&host->lock);
    atomic_store_explicit(&engine->done, ticket, memory_order_release);
    pthread_cond_broadcast(&host->changed);
  }
  pthread_mutex_unlock(&host->lock);
  return NULL;
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void close_device(td_device *device)
{
  host_device *host = (host_device *)device;
  pthread_mutex_lock(&host->lock);
  host->stopping = true;
  pthread_cond_broadcast(&host->changed);
  pthread_mutex_unlock(&host->lock);
  for (int i = 0; i < 2; i++) {
    if (host->engines[i].started) pthread_join(host->engines[i].thread, NULL);
    free(host->engines[i].jobs);
  }
  pthread_cond_destroy(&host->changed);
  pthread_mutex_destroy(&host->lock);
  free(host);
}

static td_status open_device(td_device **out, int index, const td_device_options *options, td_error *err)
{
  if (index > 0) return td_fail(err, TD_E_NOT_FOUND, "there is one host device");
  host_device *host = calloc(1, sizeof *host);
  if (!host) return td_fail_nomem(err);
  host->device.ops = &td_host_device_ops;
  host->capacity = options->capacity_bytes ? options->capacity_bytes : UINT64_MAX;
  host->engines[TD_D2H].bytes_per_s = options->d2h_bytes_per_s;
  host->engines[TD_H2D].bytes_per_s = options->h2d_bytes_per_s;
  pthread_mutex_init(&host->lock, NULL);
  pthread_cond_init(&host->changed, NULL);
  for (int i = 0; i < 2; i++) {
    engine *engine = &host->engines[i];
    engine->device = host;
    engine->capacity = 64;
    engine->jobs = calloc(engine->capacity, sizeof *engine->jobs);
    engine->started = engine->jobs && pthread_create(&engine->thread, NULL, run, engine) == 0;
    if (!engine->started) {
      close_device(&host->device);
      return td_fail(err, TD_E_NOMEM, "no memory or no thread for a copy engine");
    }
  }
  *out = &host->device;
  return TD_OK;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

/* Main memory is overcommitted, so what can never be there is refused here. */
static void *aligned(uint64_t bytes)
{
  if (bytes > (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE)) return NULL;
  return aligned_alloc(ALIGN, bytes ? ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN);
}

static td_status mem_alloc(td_device *device, uint64_t bytes, void **out, td_error *err)
{
  host_device *host = (host_device *)device;
  if (bytes > host->capacity - host->used)
    return td_fail(err, TD_E_NOMEM, "the host device has no room for %llu bytes: %llu of %llu are taken",
                   (unsigned long long)bytes, (unsigned long long)host->used, (unsigned long long)host->capacity);
  void *memory = aligned(bytes);
  if (!memory) return td_fail_nomem(err);
  host->used += bytes;
  *out = memory;
  return TD_OK;
}

static void mem_free(td_device *device, void *memory, uint64_t bytes)
{
  ((host_device *)device)->used -= bytes;
  free(memory);
}

static td_status host_alloc(td_device *device, size_t bytes, void **out, td_error *err)
{
  (void)device;
  void *memory = aligned(bytes);
  if (!memory) return td_fail_nomem(err);
  *out = memory;
  return TD_OK;
}

static void host_free(td_device *device, void *memory, size_t bytes)
{
  (void)device, (void)bytes;
  free(memory);
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

/* Under the lock. The ring keeps every job that has not ended. */
static bool grow(engine *engine)
{
  copy_job *jobs = calloc(engine->capacity * 2, sizeof *jobs);
  if (!jobs) return false;
  for (uint64_t t = engine->done + 1; t <= engine->queued; t++)
    jobs[t % (engine->capacity * 2)] = engine->jobs[t % engine->capacity];
  free(engine->jobs);
  engine->jobs = jobs;
  engine->capacity *= 2;
  return true;
}

static td_status queue_copy(td_device *device, td_direction direction, void *to, const void *from, uint64_t bytes,
                            td_event after, td_event *done, td_error *err)
{
  host_device *host = (host_device *)device;
  engine *engine = &host->engines[direction];
  pthread_mutex_lock(&host->lock);
  bool fits = engine->queued - engine->done < engine->capacity || grow(engine);
  if (fits) {
    uint64_t ticket = ++engine->queued;
    engine->jobs[ticket % engine->capacity] = (copy_job){.to = to, .from = from, .bytes = bytes, .after = after};
    *done = (td_event){.ticket = ticket, .engine = (uint32_t)direction};
    pthread_cond_broadcast(&host->changed);
  }
  pthread_mutex_unlock(&host->lock);
  return fits ? TD_OK : td_fail_nomem(err);
}

static td_status wait_event(td_device *device, td_event event, td_error *err)
{
  (void)err; /* a copy in main memory cannot fail */
  host_device *host = (host_device *)device;
  if (passed(device, event)) return TD_OK;
  pthread_mutex_lock(&host->lock);
  wait_locked(host, event);
  pthread_mutex_unlock(&host->lock);
  return TD_OK;
}

static void *stream(td_device *device)
{
  (void)device;
  return NULL;
}

static const char *description(const td_device *device)
{
  (void)device;
  return "main memory";
}

static uint64_t used_bytes(const td_device *device)
{
  return ((const host_device *)device)->used;
}

static uint64_t capacity_bytes(const td_device *device)
{
  return ((const host_device *)device)->capacity;
}

const td_device_ops td_host_device_ops = {
    .name = "host",
    .open = open_device,
    .close = close_device,
    .mem_alloc = mem_alloc,
    .mem_free = mem_free,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .copy = queue_copy,
    .passed = passed,
    .wait = wait_event,
    .join = wait_event,
    .used_bytes = used_bytes,
    .capacity_bytes = capacity_bytes,
    .stream = stream,
    .description = description,
};
