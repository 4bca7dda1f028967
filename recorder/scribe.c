#include "recorder/scribe.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/fail.h"
#include "format/writer.h"
#include "recorder/queue.h"

#define COMMIT_NS 1000000000u /* what is older than this is on disk */
#define LOOK_NS 20000000u     /* how often an idle scribe looks at the time, */
#define LOOK_RECORDS 4096     /* and a busy one */
#define RELEASE_RECORDS 64    /* giving room back costs the producer a cache miss */

struct td_scribe {
  td_queue queue;
  pthread_t thread;
  unsigned forks; /* that this process had behind it */
  td_writer *writer; /* the scribe's from here on; NULL once it failed */
  td_status status;
  td_error error;
  char digest[33];
  uint64_t committed_ns;
  bool uncommitted;
  td_buffer name;
  td_written_access *accesses;
  td_written_output *outputs;
  size_t accesses_capacity, outputs_capacity;
};

/* A record begins with its kind in the lowest byte; what else fits stands above it. */
enum { NAME = 1, OP, STORAGE, ACTIVATION, RETAINED, MARK, FINISH, ABANDON };

/* ---- telling -------------------------------------------------------------------------------------------------- */

void td_scribe_name(td_scribe *scribe, const char *bytes, size_t length)
{
  td_queue_put(&scribe->queue, NAME | (uint64_t)length << 8);
  for (size_t i = 0; i < length; i += 8) {
    uint64_t word = 0;
    memcpy(&word, bytes + i, length - i < 8 ? length - i : 8);
    td_queue_put(&scribe->queue, word);
  }
  td_queue_publish(&scribe->queue);
}

void td_scribe_storage(td_scribe *scribe, const td_storage_info *storage)
{
  td_queue_put(&scribe->queue, STORAGE | (uint64_t)storage->activation << 8);
  td_queue_put(&scribe->queue, storage->sid);
  td_queue_put(&scribe->queue, storage->bytes);
  td_queue_put(&scribe->queue, storage->freed_before_op);
  td_queue_publish(&scribe->queue);
}

static void put_pair(td_scribe *scribe, uint64_t kind, uint64_t value)
{
  td_queue_put(&scribe->queue, kind);
  td_queue_put(&scribe->queue, value);
  td_queue_publish(&scribe->queue);
}

void td_scribe_activation(td_scribe *scribe, uint64_t sid)
{
  put_pair(scribe, ACTIVATION, sid);
}

void td_scribe_retained(td_scribe *scribe, uint64_t sid)
{
  put_pair(scribe, RETAINED, sid);
}

void td_scribe_mark(td_scribe *scribe, uint32_t name, uint64_t op)
{
  put_pair(scribe, MARK | (uint64_t)name << 32, op);
}

void td_scribe_op(td_scribe *scribe, uint32_t name, bool opaque, uint64_t dur_ns, uint64_t leaves, size_t n_accesses,
                  size_t n_outputs)
{
  td_queue *queue = &scribe->queue;
  td_queue_put(queue, OP | (uint64_t)opaque << 8 | (uint64_t)name << 32);
  td_queue_put(queue, dur_ns);
  td_queue_put(queue, leaves);
  td_queue_put(queue, n_accesses);
  td_queue_put(queue, n_outputs);
}

void td_scribe_access(td_scribe *scribe, uint64_t sid, uint32_t kind)
{
  td_queue_put(&scribe->queue, sid << 1 | kind); /* a recorder numbers storages from 0: the top bit is free */
}

void td_scribe_output(td_scribe *scribe, uint64_t leaf, uint64_t sid)
{
  td_queue_put(&scribe->queue, leaf);
  td_queue_put(&scribe->queue, sid);
}

void td_scribe_op_told(td_scribe *scribe)
{
  td_queue_publish(&scribe->queue);
}

/* ---- writing -------------------------------------------------------------------------------------------------- */

/* The first failure ends the writing; what was committed stays. */
static void note(td_scribe *scribe, td_status status)
{
  if (!status || scribe->status) return;
  scribe->status = status;
  td_writer_leave(scribe->writer);
  scribe->writer = NULL;
}

static void write_name(td_scribe *scribe, size_t length)
{
  scribe->name.length = 0;
  bool fits = td_buffer_reserve(&scribe->name, length + 8);
  for (size_t i = 0; i < length; i += 8) {
    uint64_t word = td_queue_take(&scribe->queue);
    if (fits) memcpy(scribe->name.bytes + i, &word, 8);
  }
  if (!fits) note(scribe, td_fail_nomem(&scribe->error));
  uint32_t name;
  if (scribe->writer)
    note(scribe, td_writer_name(scribe->writer, (const char *)scribe->name.bytes, length, &name, &scribe->error));
}

static void write_op(td_scribe *scribe, uint64_t head)
{
  td_queue *queue = &scribe->queue;
  uint64_t dur_ns = td_queue_take(queue), leaves = td_queue_take(queue);
  size_t n_accesses = td_queue_take(queue), n_outputs = td_queue_take(queue);
  bool fits = TD_GROW(scribe->accesses, scribe->accesses_capacity, n_accesses) &&
              TD_GROW(scribe->outputs, scribe->outputs_capacity, n_outputs);
  for (size_t i = 0; i < n_accesses; i++) {
    uint64_t word = td_queue_take(queue);
    if (fits) scribe->accesses[i] = (td_written_access){.sid = word >> 1, .kind = word & 1};
  }
  for (size_t i = 0; i < n_outputs; i++) {
    uint64_t leaf = td_queue_take(queue), sid = td_queue_take(queue);
    if (fits) scribe->outputs[i] = (td_written_output){.leaf = leaf, .sid = sid};
  }
  if (!fits) note(scribe, td_fail_nomem(&scribe->error));
  if (!scribe->writer) return;
  note(scribe, td_writer_op(scribe->writer, (uint32_t)(head >> 32), dur_ns, leaves, head >> 8 & 1, scribe->accesses,
                            n_accesses, scribe->outputs, n_outputs, &scribe->error));
  scribe->uncommitted = true;
}

static void write_storage(td_scribe *scribe, uint64_t head)
{
  td_storage_info storage = {.activation = head >> 8 & 1};
  storage.sid = td_queue_take(&scribe->queue);
  storage.bytes = td_queue_take(&scribe->queue);
  storage.freed_before_op = td_queue_take(&scribe->queue);
  if (scribe->writer) note(scribe, td_writer_storage(scribe->writer, &storage, &scribe->error));
}

/* Takes one record and writes it; false after the last one. */
static bool write_record(td_scribe *scribe)
{
  uint64_t head = td_queue_take(&scribe->queue), value;
  switch (head & 0xff) {
  case NAME: write_name(scribe, (size_t)(head >> 8)); return true;
  case OP: write_op(scribe, head); return true;
  case STORAGE: write_storage(scribe, head); return true;
  case FINISH:
    if (scribe->writer) {
      scribe->status = td_writer_finish(scribe->writer, scribe->digest, &scribe->error);
      scribe->writer = NULL;
    }
    return false;
  case ABANDON:
    td_writer_abandon(scribe->writer);
    scribe->writer = NULL;
    return false;
  }
  value = td_queue_take(&scribe->queue);
  if (!scribe->writer) return true;
  switch (head & 0xff) {
  case ACTIVATION: note(scribe, td_writer_activation(scribe->writer, value, &scribe->error)); break;
  case RETAINED: note(scribe, td_writer_retained(scribe->writer, value, &scribe->error)); break;
  case MARK: note(scribe, td_writer_mark(scribe->writer, (uint32_t)(head >> 32), value, &scribe->error)); break;
  }
  return true;
}

static void commit_what_is_old(td_scribe *scribe)
{
  uint64_t now = td_now_ns();
  if (!scribe->writer || !scribe->uncommitted || now - scribe->committed_ns < COMMIT_NS) return;
  note(scribe, td_writer_commit(scribe->writer, &scribe->error));
  scribe->committed_ns = now;
  scribe->uncommitted = false;
}

static void *run(void *context)
{
  td_scribe *scribe = context;
  for (unsigned records = 0;; records++) {
    while (scribe->queue.taken == scribe->queue.published_seen && !td_queue_await(&scribe->queue, LOOK_NS))
      commit_what_is_old(scribe);
    if (!write_record(scribe)) return NULL;
    if (records % RELEASE_RECORDS == 0) td_queue_release(&scribe->queue);
    if (records % LOOK_RECORDS == 0) commit_what_is_old(scribe);
  }
}

/* ---- forks ---------------------------------------------------------------------------------------------------- */

/* A child has the queue but not the thread that empties it. Asking for the process number costs a system call an op. */
static atomic_uint forks;

static void count_fork(void)
{
  atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
}

static void watch_forks(void)
{
  pthread_atfork(NULL, NULL, count_fork);
}

bool td_scribe_is_here(const td_scribe *scribe)
{
  return scribe->forks == atomic_load_explicit(&forks, memory_order_relaxed);
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static td_status write_meta(td_writer *writer, const td_meta *meta, size_t n_meta, td_error *err)
{
  td_status status = TD_OK;
  for (size_t i = 0; i < n_meta && !status; i++)
    status = td_writer_meta(writer, false, meta[i].key, strlen(meta[i].key), meta[i].value, err);
  return status;
}

static void destroy(td_scribe *scribe)
{
  td_queue_finish(&scribe->queue);
  td_buffer_finish(&scribe->name);
  free(scribe->accesses);
  free(scribe->outputs);
  free(scribe);
}

/* Signals go to the program's own threads. SIGXFSZ above all: a file that may not grow is an error of the write. */
static bool start_thread(td_scribe *scribe)
{
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = !pthread_create(&scribe->thread, NULL, run, scribe);
  if (started) pthread_setname_np(scribe->thread, "tapedeck scribe"); /* for debuggers and profilers */
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return started;
}

td_status td_scribe_start(td_scribe **out, const char *path, const td_meta *meta, size_t n_meta, int level, td_error *err)
{
  td_writer *writer = NULL;
  td_status status = TD_OK;
  td_scribe *scribe = aligned_alloc(_Alignof(td_scribe), sizeof *scribe);
  if (!scribe) return td_fail_nomem(err);
  memset(scribe, 0, sizeof *scribe);
  if (!td_queue_init(&scribe->queue)) status = td_fail_nomem(err);
  if (!status) status = td_writer_create(&writer, &(td_writer_options){.path = path, .level = level, .recording = true}, err);
  if (!status) {
    td_writer_has_frees(writer);
    status = write_meta(writer, meta, n_meta, err);
  }
  scribe->writer = writer;
  scribe->committed_ns = td_now_ns();
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, watch_forks);
  scribe->forks = atomic_load(&forks);
  if (!status && !start_thread(scribe)) status = td_fail(err, TD_E_NOMEM, "no more threads");
  if (status) {
    td_writer_abandon(writer);
    destroy(scribe);
    return status;
  }
  *out = scribe;
  return TD_OK;
}

static void stop(td_scribe *scribe, uint64_t how)
{
  td_queue_put(&scribe->queue, how);
  td_queue_publish(&scribe->queue);
  if (atomic_exchange(&scribe->queue.sleeping, false)) sem_post(&scribe->queue.wake);
  pthread_join(scribe->thread, NULL);
}

td_status td_scribe_finish(td_scribe *scribe, char *digest, td_error *err)
{
  stop(scribe, FINISH);
  td_status status = scribe->status;
  if (status && err) *err = scribe->error;
  if (!status) memcpy(digest, scribe->digest, sizeof scribe->digest);
  destroy(scribe);
  return status;
}

void td_scribe_abandon(td_scribe *scribe)
{
  if (!scribe) return;
  stop(scribe, ABANDON);
  destroy(scribe);
}
