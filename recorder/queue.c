#include "recorder/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

bool td_queue_init(td_queue *queue)
{
  *queue = (td_queue){.words = malloc(TD_QUEUE_WORDS * sizeof *queue->words)};
  if (!queue->words) return false;
  sem_init(&queue->wake, 0, 0); /* cannot fail with a value of 0 and no sharing between processes */
  return true;
}

void td_queue_finish(td_queue *queue)
{
  if (!queue->words) return;
  free(queue->words);
  sem_destroy(&queue->wake);
  *queue = (td_queue){0};
}

#define LOOK_WORDS 4096 /* looking costs a cache miss while the consumer works */

void td_queue_wake(td_queue *queue)
{
  queue->look_at = queue->put + LOOK_WORDS;
  queue->taken_seen = atomic_load_explicit(&queue->consumed, memory_order_acquire);
  if (queue->put - queue->taken_seen > TD_QUEUE_WORDS / 2 && atomic_exchange(&queue->sleeping, false))
    sem_post(&queue->wake);
}

void td_queue_drain(td_queue *queue)
{
  td_queue_publish(queue);
  while (queue->put - queue->taken_seen == TD_QUEUE_WORDS) {
    td_sleep_until_ns(td_now_ns() + 20000);
    td_queue_wake(queue);
  }
}

static bool look(td_queue *queue)
{
  queue->published_seen = atomic_load_explicit(&queue->published, memory_order_acquire);
  return queue->published_seen != queue->taken;
}

bool td_queue_await(td_queue *queue, uint64_t ns)
{
  if (look(queue)) return true;
  td_queue_release(queue); /* a record may be longer than the queue: the producer waits for room to go on with it */
  atomic_store(&queue->sleeping, true);
  if (look(queue)) {
    atomic_store(&queue->sleeping, false);
    return true;
  }
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  uint64_t nsec = (uint64_t)until.tv_nsec + ns;
  until.tv_sec += (time_t)(nsec / 1000000000u);
  until.tv_nsec = (long)(nsec % 1000000000u);
  while (sem_timedwait(&queue->wake, &until) && errno == EINTR) {
  }
  atomic_store(&queue->sleeping, false);
  return look(queue);
}
