/* Compares two traces: aligns their ops by name and leaves, pairs what is left over between, and then compares each pair. */
#include <tapedeck/diff.h>

#include <stdlib.h>

#include "base/fail.h"
#include "base/names.h"
#include "diff/align.h"
#include "diff/pairs.h"
#include "diff/place.h"

#define OPS_MAX ((uint64_t)1 << 31)

typedef struct side {
  const td_trace *trace;
  uint32_t *names; /* number in the trace -> number in both */
  uint64_t *keys;  /* by op: its name and number of leaves */
  size_t *partner; /* by op, and TD_ALONE behind the last */
} side;

typedef struct comparison {
  side a, b;
  td_names names;
  td_pairs pairs;
  td_diff *out;
} comparison;

/* ---- keys ------------------------------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t h)
{
  h = (h ^ h >> 33) * 0xff51afd7ed558ccdu;
  h = (h ^ h >> 33) * 0xc4ceb9fe1a85ec53u;
  return h ^ h >> 33;
}

static bool make_keys(comparison *c, side *s)
{
  const td_trace *trace = s->trace;
  s->names = malloc(((size_t)trace->n_names + 1) * sizeof *s->names);
  s->keys = malloc(((size_t)trace->n_ops + 1) * sizeof *s->keys);
  s->partner = malloc(((size_t)trace->n_ops + 1) * sizeof *s->partner);
  if (!s->names || !s->keys || !s->partner) return false;
  for (uint32_t i = 0; i < trace->n_names; i++) {
    s->names[i] = td_names_intern(&c->names, trace->names[i].bytes, trace->names[i].length);
    if (s->names[i] == TD_NAME_NONE) return false;
  }
  for (uint64_t op = 0; op < trace->n_ops; op++)
    s->keys[op] = mix(trace->ops[op].leaves * 0x9e3779b97f4a7c15u + s->names[trace->ops[op].name]);
  s->partner[trace->n_ops] = TD_ALONE;
  return true;
}

/* ---- what alignment leaves over ---------------------------------------------------------------------------------- */

static void join_ops(comparison *c, uint64_t x, uint64_t y)
{
  c->a.partner[x] = y;
  c->b.partner[y] = x;
}

static uint32_t name_of(const side *s, uint64_t op)
{
  return s->names[s->trace->ops[op].name];
}

/* Ops of both between two aligned pairs: as many of each stand for each other in order; otherwise those of one name do. */
static void join_left_over(comparison *c, uint64_t x, uint64_t x_end, uint64_t y, uint64_t y_end)
{
  if (x_end - x == y_end - y) {
    while (x < x_end) join_ops(c, x++, y++);
    return;
  }
  for (; x < x_end; x++) {
    uint64_t k = y;
    while (k < y_end && k - y < 64 && name_of(&c->a, x) != name_of(&c->b, k)) k++;
    if (k == y_end || k - y == 64) continue;
    join_ops(c, x, k);
    y = k + 1;
  }
}

static void join_gaps(comparison *c)
{
  uint64_t n = c->a.trace->n_ops, m = c->b.trace->n_ops;
  for (uint64_t x = 0, y = 0; x < n || y < m; x++, y++) {
    uint64_t x_end = x, y_end = y;
    while (x_end < n && c->a.partner[x_end] == TD_ALONE) x_end++;
    while (y_end < m && c->b.partner[y_end] == TD_ALONE) y_end++;
    join_left_over(c, x, x_end, y, y_end);
    x = x_end;
    y = y_end;
  }
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

/* A storage that was paired by this op has another size. */
static bool sizes_differ(const td_pairs *pairs, size_t made_before)
{
  for (size_t i = made_before; i < pairs->n_made; i++)
    if (pairs->a->storages[pairs->made[i].a].bytes != pairs->b->storages[pairs->made[i].b].bytes) return true;
  return false;
}

static uint32_t compare_ops(comparison *c, uint64_t x, uint64_t y)
{
  const td_op *a = &c->a.trace->ops[x], *b = &c->b.trace->ops[y];
  td_diff *out = c->out;
  size_t made = c->pairs.n_made;
  uint32_t changes = td_pairs_compare(&c->pairs, x, y);
  if (name_of(&c->a, x) != name_of(&c->b, y)) changes |= TD_DIFF_NAME;
  if (a->leaves != b->leaves) changes |= TD_DIFF_LEAVES;
  if (a->opaque != b->opaque) changes |= TD_DIFF_OPAQUE;
  if (sizes_differ(&c->pairs, made)) changes |= TD_DIFF_SIZES;
  if (!(changes & (TD_DIFF_NAME | TD_DIFF_LEAVES))) out->common_ops++;
  if (changes & TD_DIFF_NAME) out->names++;
  if (changes & TD_DIFF_LEAVES) out->leaves++;
  if (changes & TD_DIFF_OPAQUE) out->opaque++;
  if (changes & TD_DIFF_BINDINGS) out->bindings++;
  if (changes & TD_DIFF_ACCESSES) out->accesses++;
  return changes;
}

static void add_row(td_diff *out, uint64_t a, uint64_t b, uint32_t changes, uint64_t at)
{
  out->rows[out->n_rows++] = (td_diff_row){.a = a, .b = b, .changes = changes};
  if (out->first_difference == TD_NO_OP && (changes || a == TD_NO_OP || b == TD_NO_OP)) out->first_difference = at;
}

static td_status compare_rows(comparison *c, td_error *err)
{
  uint64_t n = c->a.trace->n_ops, m = c->b.trace->n_ops, x = 0, y = 0;
  td_diff *out = c->out;
  out->rows = malloc((size_t)(n + m + 1) * sizeof *out->rows);
  if (!out->rows) return td_fail_nomem(err);
  while (x < n || y < m) {
    for (; x < n && c->a.partner[x] == TD_ALONE; x++, out->removed++) add_row(out, x, TD_NO_OP, 0, x);
    for (; y < m && c->b.partner[y] == TD_ALONE; y++, out->added++) add_row(out, TD_NO_OP, y, 0, x);
    for (; x < n && c->a.partner[x] == y; x++, y++) add_row(out, x, y, compare_ops(c, x, y), x);
  }
  return TD_OK;
}

/* ---- storages ------------------------------------------------------------------------------------------------------ */

static unsigned kind_of(const td_storage_info *storage)
{
  return (unsigned)storage->activation + 2u * (unsigned)storage->retained;
}

/* Storages that no aligned op has paired: those of one kind stand for each other in the order recorded. */
static void join_unused(td_pairs *pairs)
{
  uint32_t n = pairs->a->n_storages, m = pairs->b->n_storages;
  for (unsigned kind = 0; kind < 4; kind++) {
    for (uint32_t x = 0, y = 0; x < n; x++) {
      if (pairs->to_b[x] != TD_NO_STORAGE || kind_of(&pairs->a->storages[x]) != kind) continue;
      while (y < m && (pairs->to_a[y] != TD_NO_STORAGE || kind_of(&pairs->b->storages[y]) != kind)) y++;
      if (y < m) td_pairs_join(pairs, x, y);
    }
  }
}

/* By op, how many aligned pairs stand before it; as far as frees go, two places with as many are the same. */
static uint32_t *count_before(const side *s)
{
  uint32_t *before = malloc(((size_t)s->trace->n_ops + 1) * sizeof *before), n = 0;
  for (uint64_t op = 0; before && op <= s->trace->n_ops; op++) {
    before[op] = n;
    if (op < s->trace->n_ops && s->partner[op] != TD_ALONE) n++;
  }
  return before;
}

static bool freed_alike(const comparison *c, const td_storage_info *a, const td_storage_info *b, const uint32_t *before_a,
                        const uint32_t *before_b)
{
  uint64_t in_a = a->freed_before_op, in_b = b->freed_before_op, n = c->a.trace->n_ops, m = c->b.trace->n_ops;
  if (in_a == TD_NEVER || in_b == TD_NEVER) return in_a == in_b;
  return before_a[in_a < n ? in_a : n] == before_b[in_b < m ? in_b : m];
}

static td_status compare_storages(comparison *c, td_error *err)
{
  td_diff *out = c->out;
  const td_trace *a = c->a.trace, *b = c->b.trace;
  uint32_t *before_a = count_before(&c->a), *before_b = count_before(&c->b);
  if (before_a && before_b) {
    join_unused(&c->pairs);
    for (uint32_t x = 0; x < a->n_storages; x++) {
      const td_storage_info *of_a = &a->storages[x], *of_b;
      if (c->pairs.to_b[x] == TD_NO_STORAGE) {
        out->retained += of_a->retained;
        continue;
      }
      of_b = &b->storages[c->pairs.to_b[x]];
      out->sizes += of_a->bytes != of_b->bytes;
      out->retained += of_a->retained != of_b->retained;
      out->activations += of_a->activation != of_b->activation;
      out->frees += !freed_alike(c, of_a, of_b, before_a, before_b);
    }
    if (a->has_frees != b->has_frees && !out->frees) out->frees = 1; /* one of them does not tell of frees, and the other saw none */
    for (uint32_t y = 0; y < b->n_storages; y++) out->retained += c->pairs.to_a[y] == TD_NO_STORAGE && b->storages[y].retained;
  }
  bool fits = before_a && before_b;
  free(before_a);
  free(before_b);
  return fits ? TD_OK : td_fail_nomem(err);
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

static td_status compare(comparison *c, td_error *err)
{
  const td_trace *a = c->a.trace, *b = c->b.trace;
  td_diff *out = c->out;
  bool fits = make_keys(c, &c->a) && make_keys(c, &c->b) && td_pairs_init(&c->pairs, a, b) &&
              td_align(c->a.keys, a->n_ops, c->b.keys, b->n_ops, c->a.partner, c->b.partner);
  if (!fits) return td_fail_nomem(err);
  td_aligned aligned = {c->a.keys, c->b.keys, a->n_ops, b->n_ops, c->a.partner, c->b.partner};
  td_place_blocks(&aligned, &c->pairs);
  join_gaps(c);
  td_status status = compare_rows(c, err);
  if (!status) status = compare_storages(c, err);
  out->partner = c->pairs.to_b;
  c->pairs.to_b = NULL;
  out->same = out->first_difference == TD_NO_OP && !out->sizes && !out->retained && !out->activations && !out->frees &&
              a->n_storages == b->n_storages;
  return status;
}

static void finish_side(side *s)
{
  free(s->names);
  free(s->keys);
  free(s->partner);
}

td_status td_diff_traces(const td_trace *a, const td_trace *b, td_diff **out, td_error *err)
{
  if (a->n_ops >= OPS_MAX || b->n_ops >= OPS_MAX) return td_fail(err, TD_E_ARG, "a trace of 2^31 ops or more cannot be compared");
  comparison c = {.a = {.trace = a}, .b = {.trace = b}, .out = calloc(1, sizeof *c.out)};
  if (!c.out) return td_fail_nomem(err);
  *c.out = (td_diff){.ops_a = a->n_ops, .ops_b = b->n_ops, .first_difference = TD_NO_OP};
  td_status status = compare(&c, err);
  finish_side(&c.a);
  finish_side(&c.b);
  td_names_finish(&c.names);
  td_pairs_finish(&c.pairs);
  if (status) td_diff_destroy(c.out);
  else *out = c.out;
  return status;
}

void td_diff_destroy(td_diff *diff)
{
  if (!diff) return;
  free(diff->rows);
  free(diff->partner);
  free(diff);
}
