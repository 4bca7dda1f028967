/* A double of the CUDA driver, for machines that have none: libcuda.so.1 with the calls that the cuda device makes.
 *
 * Streams are threads that work off what is queued, with pauses of random length, so that work without an order between it comes in any
 * order. Every call and every piece of work is judged: what is used before it is there or after it is gone, an event that was never
 * recorded, a call without a context, something left over at the end. What it found, it tells through cuda_double_faults. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NOT_READY = 600 };

#define TOTAL ((size_t)1 << 30)

/* ---- faults --------------------------------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* over everything below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int faults, live_streams, live_events, live_contexts;
static char first_fault[200];

static int fault(const char *what)
{
  if (!faults++) snprintf(first_fault, sizeof first_fault, "%s", what);
  return INVALID;
}

/* How many faults so far, and what is alive; the first fault's text. */
EXPORT int cuda_double_faults(const char **what, int *live)
{
  pthread_mutex_lock(&lock);
  int n = faults;
  *what = first_fault;
  *live = live_streams + live_events + live_contexts;
  pthread_mutex_unlock(&lock);
  return n;
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

typedef struct block {
  char *start;
  size_t bytes;
  bool pinned, there; /* there: the stream has come to its allocation, and not to its release */
  struct block *next;
} block;

static block *blocks;
static size_t taken;

static block *block_of(const void *at)
{
  for (block *b = blocks; b; b = b->next)
    if ((const char *)at >= b->start && (const char *)at < b->start + b->bytes) return b;
  return NULL;
}

static block *add_block(size_t bytes, bool pinned)
{
  block *b = calloc(1, sizeof *b);
  b->start = malloc(bytes);
  b->bytes = bytes;
  b->pinned = b->there = pinned;
  b->next = blocks;
  memset(b->start, 0xcd, bytes);
  blocks = b;
  return b;
}

static void remove_block(block *gone)
{
  for (block **b = &blocks; *b; b = &(*b)->next) {
    if (*b != gone) continue;
    *b = gone->next;
    memset(gone->start, 0xdd, gone->bytes);
    free(gone->start);
    free(gone);
    return;
  }
}

static bool usable(const void *at, size_t bytes, bool device)
{
  const block *b = block_of(at);
  if (!b) return !device; /* the caller's own host memory */
  return b->there && b->pinned == !device && (const char *)at + bytes <= b->start + b->bytes;
}

/* ---- streams and events --------------------------------------------------------------------------------------- */

typedef enum work_kind { COPY, RECORD, WAIT, ALLOCATED, RELEASE } work_kind;

typedef struct event {
  uint64_t recorded, reached; /* how often */
} event;

typedef struct work {
  work_kind kind;
  void *to;
  const void *from;
  size_t bytes;
  bool d2h;
  event *event;
  uint64_t turn; /* of the event */
  block *block;
  struct work *next;
} work;

typedef struct stream {
  pthread_t thread;
  work *first, **last;
  bool busy, stopping;
  unsigned noise;
} stream;

static void nap(stream *s)
{
  s->noise = s->noise * 1664525u + 1013904223u;
  if (s->noise >> 29) return;
  nanosleep(&(struct timespec){.tv_nsec = (long)(s->noise >> 12 & 0xffff)}, NULL);
}

/* Under the lock, but for the bytes themselves. */
static void carry_out(work *w)
{
  if (w->kind == COPY) {
    bool good = usable(w->to, w->bytes, !w->d2h) && usable(w->from, w->bytes, w->d2h);
    if (!good) {
      fault("a copy touches memory that is not there");
      return;
    }
    pthread_mutex_unlock(&lock);
    memcpy(w->to, w->from, w->bytes);
    pthread_mutex_lock(&lock);
    if (!usable(w->to, w->bytes, !w->d2h) || !usable(w->from, w->bytes, w->d2h)) fault("memory went while a copy used it");
  }
  while (w->kind == WAIT && w->event->reached < w->turn) pthread_cond_wait(&changed, &lock);
  if (w->kind == RECORD) w->event->reached = w->turn;
  if (w->kind == ALLOCATED) w->block->there = true;
  if (w->kind == RELEASE) {
    taken -= w->block->bytes;
    remove_block(w->block);
  }
}

static void *work_off(void *context)
{
  stream *s = context;
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!s->first && !s->stopping) pthread_cond_wait(&changed, &lock);
    if (!s->first) break;
    work *w = s->first;
    s->first = w->next;
    if (!s->first) s->last = &s->first;
    s->busy = true;
    pthread_mutex_unlock(&lock);
    nap(s);
    pthread_mutex_lock(&lock);
    carry_out(w);
    free(w);
    s->busy = false;
    pthread_cond_broadcast(&changed);
  }
  pthread_mutex_unlock(&lock);
  return NULL;
}

static void queue(stream *s, work w)
{
  work *copy = malloc(sizeof *copy);
  *copy = w;
  *s->last = copy;
  s->last = &copy->next;
  pthread_cond_broadcast(&changed);
}

/* ---- contexts ------------------------------------------------------------------------------------------------- */

static _Thread_local int depth;

/* Takes the lock; false, and a fault, where a context should be current. */
static bool enter(void)
{
  pthread_mutex_lock(&lock);
  if (depth > 0) return true;
  fault("a call without a current context");
  pthread_mutex_unlock(&lock);
  return false;
}

static int leave(int result)
{
  pthread_mutex_unlock(&lock);
  return result;
}

EXPORT int cuInit(unsigned flags)
{
  return flags ? INVALID : OK;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
  *text = error == NO_MEMORY ? "out of memory" : "invalid argument";
  return OK;
}

EXPORT int cuDeviceGetCount(int *count)
{
  *count = 1;
  return OK;
}

EXPORT int cuDeviceGet(int *device, int number)
{
  *device = number;
  return number ? INVALID : OK;
}

EXPORT int cuDeviceGetName(char *name, int length, int device)
{
  (void)device;
  snprintf(name, (size_t)length, "a double of a GPU");
  return OK;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  (void)device;
  *value = attribute == 115;
  return OK;
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
  (void)device;
  pthread_mutex_lock(&lock);
  live_contexts++;
  *context = &live_contexts;
  return leave(OK);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
  (void)device;
  pthread_mutex_lock(&lock);
  if (live_contexts-- == 0) fault("a context is released too often");
  for (block *b = blocks; b && !live_contexts; b = b->next) fault("memory is left when the context goes");
  return leave(OK);
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
  depth++;
  return context == &live_contexts ? OK : INVALID;
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
  *context = NULL;
  if (depth > 0) return depth--, OK;
  pthread_mutex_lock(&lock);
  return leave(fault("more contexts popped than pushed"));
}

EXPORT int cuMemGetInfo_v2(size_t *available, size_t *total)
{
  *total = TOTAL;
  *available = TOTAL - taken;
  return OK;
}

/* ---- calls on memory ------------------------------------------------------------------------------------------ */

EXPORT int cuMemAllocAsync(unsigned long long *pointer, size_t bytes, stream *s)
{
  if (!enter()) return INVALID;
  if (bytes > TOTAL - taken) return leave(NO_MEMORY);
  block *b = add_block(bytes, false);
  taken += bytes;
  *pointer = (unsigned long long)(uintptr_t)b->start;
  queue(s, (work){.kind = ALLOCATED, .block = b});
  return leave(OK);
}

EXPORT int cuMemFreeAsync(unsigned long long pointer, stream *s)
{
  if (!enter()) return INVALID;
  block *b = block_of((void *)(uintptr_t)pointer);
  if (!b || b->pinned || b->start != (char *)(uintptr_t)pointer) return leave(fault("device memory is freed that is none"));
  queue(s, (work){.kind = RELEASE, .block = b});
  return leave(OK);
}

EXPORT int cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
  (void)flags;
  if (!enter()) return INVALID;
  *pointer = add_block(bytes, true)->start;
  return leave(OK);
}

EXPORT int cuMemFreeHost(void *pointer)
{
  if (!enter()) return INVALID;
  block *b = block_of(pointer);
  if (!b || !b->pinned || b->start != pointer) return leave(fault("host memory is freed that is none"));
  remove_block(b);
  return leave(OK);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *to, unsigned long long from, size_t bytes, stream *s)
{
  if (!enter()) return INVALID;
  queue(s, (work){.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .bytes = bytes, .d2h = true});
  return leave(OK);
}

EXPORT int cuMemcpyHtoDAsync_v2(unsigned long long to, const void *from, size_t bytes, stream *s)
{
  if (!enter()) return INVALID;
  queue(s, (work){.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .bytes = bytes});
  return leave(OK);
}

/* ---- calls on streams and events ------------------------------------------------------------------------------ */

EXPORT int cuStreamCreate(stream **out, unsigned flags)
{
  (void)flags;
  if (!enter()) return INVALID;
  stream *s = calloc(1, sizeof *s);
  s->last = &s->first;
  s->noise = (unsigned)++live_streams * 77u;
  pthread_create(&s->thread, NULL, work_off, s);
  *out = s;
  return leave(OK);
}

EXPORT int cuStreamSynchronize(stream *s)
{
  if (!enter()) return INVALID;
  while (s->first || s->busy) pthread_cond_wait(&changed, &lock);
  return leave(OK);
}

EXPORT int cuStreamDestroy_v2(stream *s)
{
  if (!enter()) return INVALID;
  live_streams--;
  s->stopping = true;
  pthread_cond_broadcast(&changed);
  leave(OK);
  pthread_join(s->thread, NULL);
  free(s);
  return OK;
}

EXPORT int cuStreamWaitEvent(stream *s, event *e, unsigned flags)
{
  (void)flags;
  if (!enter()) return INVALID;
  if (!e->recorded) return leave(fault("a stream waits for an event that was never recorded"));
  queue(s, (work){.kind = WAIT, .event = e, .turn = e->recorded});
  return leave(OK);
}

EXPORT int cuEventCreate(event **out, unsigned flags)
{
  (void)flags;
  if (!enter()) return INVALID;
  *out = calloc(1, sizeof **out);
  live_events++;
  return leave(OK);
}

EXPORT int cuEventDestroy_v2(event *e)
{
  if (!enter()) return INVALID;
  live_events--;
  if (e->reached < e->recorded) fault("an event is destroyed before it was reached");
  free(e);
  return leave(OK);
}

EXPORT int cuEventRecord(event *e, stream *s)
{
  if (!enter()) return INVALID;
  queue(s, (work){.kind = RECORD, .event = e, .turn = ++e->recorded});
  return leave(OK);
}

EXPORT int cuEventQuery(event *e)
{
  if (!enter()) return INVALID;
  if (!e->recorded) return leave(fault("an event is asked that was never recorded"));
  return leave(e->reached < e->recorded ? NOT_READY : OK);
}

EXPORT int cuEventSynchronize(event *e)
{
  if (!enter()) return INVALID;
  if (!e->recorded) return leave(fault("an event is waited for that was never recorded"));
  uint64_t turn = e->recorded;
  while (e->reached < turn) pthread_cond_wait(&changed, &lock);
  return leave(OK);
}
