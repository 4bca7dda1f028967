/* A queue of words from one thread to one other, without locks: the caller of the recorder puts, the scribe takes.
 *
 * The producer publishes whole records; it waits only when the queue is full. The consumer sleeps when it is empty and is
 * woken when it is half full, or by the clock. */
#ifndef TD_RECORDER_QUEUE_H
#define TD_RECORDER_QUEUE_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TD_QUEUE_WORDS ((uint64_t)1 << 20) /* 8 MiB, some 50,000 ops: few steps have more, so few wait */

typedef struct td_queue {
  uint64_t *words;
  /* The producer's: how many words it put, and the least that it knows were taken. */
  _Alignas(64) uint64_t put;
  uint64_t taken_seen;
  uint64_t look_at; /* how many words it has put when it looks at the consumer next */
  /* The consumer's, likewise. */
  _Alignas(64) uint64_t taken;
  uint64_t published_seen;
  /* Between them. */
  _Alignas(64) _Atomic uint64_t published;
  _Alignas(64) _Atomic uint64_t consumed;
  _Atomic bool sleeping;
  sem_t wake;
} td_queue;

bool td_queue_init(td_queue *queue);
void td_queue_finish(td_queue *queue);

/* Publishes, and waits until a word is free. */
void td_queue_drain(td_queue *queue);
/* Looks how far the consumer is, and wakes it if the queue is half full. */
void td_queue_wake(td_queue *queue);

static inline void td_queue_put(td_queue *queue, uint64_t word)
{
  if (queue->put - queue->taken_seen == TD_QUEUE_WORDS) td_queue_drain(queue);
  queue->words[queue->put++ & (TD_QUEUE_WORDS - 1)] = word;
}

static inline void td_queue_publish(td_queue *queue)
{
  atomic_store_explicit(&queue->published, queue->put, memory_order_release);
  if (queue->put >= queue->look_at) td_queue_wake(queue);
}

/* Waits up to `ns` for a word; false if none came. */
bool td_queue_await(td_queue *queue, uint64_t ns);

/* The next word; waits for it. What was taken may be overwritten from td_queue_release on. */
static inline uint64_t td_queue_take(td_queue *queue)
{
  while (queue->taken == queue->published_seen) td_queue_await(queue, 1000000);
  return queue->words[queue->taken++ & (TD_QUEUE_WORDS - 1)];
}

static inline void td_queue_release(td_queue *queue)
{
  atomic_store_explicit(&queue->consumed, queue->taken, memory_order_release);
}

#endif
