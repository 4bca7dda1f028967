#include "runtime/host_pool.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/fail.h"

#define ALIGN 64u
#define PIECE_BYTES ((uint64_t)16 << 20) /* the least that is asked of the device at once */

/* Free bytes between two that are in use, in one piece. */
typedef struct extent {
  char *start;
  uint64_t bytes;
} extent;

typedef struct piece {
  char *start;
  uint64_t bytes;
  bool reserved;
} piece;

struct td_host_pool {
  td_device *device;
  extent *free; /* by address */
  size_t n_free, free_capacity;
  piece *pieces;
  size_t n_pieces, pieces_capacity;
  size_t n_used; /* allocations; there is never more than one free extent beside each, and one a piece */
  uint64_t used, reserved;
};

uint64_t td_host_pool_rounded(uint64_t bytes)
{
  return bytes ? (bytes + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
}

td_status td_host_pool_create(td_host_pool **out, td_device *device, td_error *err)
{
  td_host_pool *pool = calloc(1, sizeof *pool);
  if (!pool) return td_fail_nomem(err);
  pool->device = device;
  *out = pool;
  return TD_OK;
}

void td_host_pool_destroy(td_host_pool *pool)
{
  if (!pool) return;
  for (size_t i = 0; i < pool->n_pieces; i++)
    pool->device->ops->host_free(pool->device, pool->pieces[i].start, (size_t)pool->pieces[i].bytes);
  free(pool->pieces);
  free(pool->free);
  free(pool);
}

/* The first free extent at or after the address. */
static size_t lower_bound(const td_host_pool *pool, const char *start)
{
  size_t low = 0, high = pool->n_free;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (pool->free[middle].start < start)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void remove_extent(td_host_pool *pool, size_t i)
{
  pool->n_free--;
  for (; i < pool->n_free; i++) pool->free[i] = pool->free[i + 1];
}

/* Two extents of different pieces may touch by chance; they are kept apart, so that a piece can be given back whole. */
static const piece *piece_of(const td_host_pool *pool, const char *start)
{
  for (size_t i = 0; i < pool->n_pieces; i++)
    if (start >= pool->pieces[i].start && start < pool->pieces[i].start + pool->pieces[i].bytes) return &pool->pieces[i];
  return NULL;
}

static bool joins(const td_host_pool *pool, const extent *a, const char *start)
{
  return a->start + a->bytes == start && piece_of(pool, a->start) == piece_of(pool, start);
}

/* There is always room: td_host_pool_alloc sees to it. */
static void insert_extent(td_host_pool *pool, char *start, uint64_t bytes)
{
  size_t i = lower_bound(pool, start);
  bool left = i > 0 && joins(pool, &pool->free[i - 1], start);
  bool right = i < pool->n_free && joins(pool, &(extent){start, bytes}, pool->free[i].start);
  if (left && right) {
    pool->free[i - 1].bytes += bytes + pool->free[i].bytes;
    remove_extent(pool, i);
  } else if (left) {
    pool->free[i - 1].bytes += bytes;
  } else if (right) {
    pool->free[i].start = start;
    pool->free[i].bytes += bytes;
  } else {
    for (size_t k = pool->n_free++; k > i; k--) pool->free[k] = pool->free[k - 1];
    pool->free[i] = (extent){start, bytes};
  }
}

static td_status add_piece(td_host_pool *pool, uint64_t bytes, bool reserved, td_error *err)
{
  void *start;
  if (!TD_GROW(pool->pieces, pool->pieces_capacity, pool->n_pieces + 1) ||
      !TD_GROW(pool->free, pool->free_capacity, pool->n_used + pool->n_pieces + 3))
    return td_fail_nomem(err);
  td_status status = pool->device->ops->host_alloc(pool->device, (size_t)bytes, &start, err);
  if (status) return status;
  pool->pieces[pool->n_pieces++] = (piece){start, bytes, reserved};
  pool->reserved += bytes;
  insert_extent(pool, start, bytes);
  return TD_OK;
}

td_status td_host_pool_reserve(td_host_pool *pool, uint64_t bytes, td_error *err)
{
  for (size_t i = 0; i < pool->n_pieces; i++) pool->pieces[i].reserved = false;
  td_host_pool_trim(pool);
  return bytes ? add_piece(pool, td_host_pool_rounded(bytes), true, err) : TD_OK;
}

static size_t best_fit(const td_host_pool *pool, uint64_t bytes)
{
  size_t best = pool->n_free;
  for (size_t i = 0; i < pool->n_free; i++)
    if (pool->free[i].bytes >= bytes && (best == pool->n_free || pool->free[i].bytes < pool->free[best].bytes)) best = i;
  return best;
}

bool td_host_pool_fits(const td_host_pool *pool, uint64_t bytes)
{
  bool reserved = false;
  for (size_t i = 0; i < pool->n_pieces && !reserved; i++) reserved = pool->pieces[i].reserved;
  return !reserved || best_fit(pool, td_host_pool_rounded(bytes)) < pool->n_free;
}

td_status td_host_pool_alloc(td_host_pool *pool, uint64_t bytes, void **out, td_error *err)
{
  if (bytes > SIZE_MAX - ALIGN) return td_fail_nomem(err);
  bytes = td_host_pool_rounded(bytes);
  size_t i = best_fit(pool, bytes);
  if (i == pool->n_free) {
    td_status status = add_piece(pool, bytes < PIECE_BYTES ? PIECE_BYTES : bytes, false, err);
    if (status) return status;
    i = best_fit(pool, bytes);
  }
  if (!TD_GROW(pool->free, pool->free_capacity, pool->n_used + pool->n_pieces + 3)) return td_fail_nomem(err);
  extent *extent = &pool->free[i];
  *out = extent->start;
  extent->start += bytes;
  extent->bytes -= bytes;
  if (!extent->bytes) remove_extent(pool, i);
  pool->n_used++;
  pool->used += bytes;
  return TD_OK;
}

void td_host_pool_free(td_host_pool *pool, void *memory, uint64_t bytes)
{
  bytes = td_host_pool_rounded(bytes);
  pool->n_used--;
  pool->used -= bytes;
  insert_extent(pool, memory, bytes);
}

void td_host_pool_trim(td_host_pool *pool)
{
  for (size_t i = pool->n_pieces; i-- > 0;) {
    piece unused = pool->pieces[i];
    if (unused.reserved) continue;
    size_t at = lower_bound(pool, unused.start);
    if (at == pool->n_free || pool->free[at].start != unused.start || pool->free[at].bytes != unused.bytes) continue;
    remove_extent(pool, at);
    pool->pieces[i] = pool->pieces[--pool->n_pieces];
    pool->reserved -= unused.bytes;
    pool->device->ops->host_free(pool->device, unused.start, (size_t)unused.bytes);
  }
}

uint64_t td_host_pool_used(const td_host_pool *pool)
{
  return pool->used;
}

uint64_t td_host_pool_reserved(const td_host_pool *pool)
{
  return pool->reserved;
}
