#include "diff/pairs.h"

#include <stdlib.h>
#include <string.h>

bool td_pairs_init(td_pairs *pairs, const td_trace *a, const td_trace *b)
{
  size_t n = a->n_storages, m = b->n_storages;
  *pairs = (td_pairs){.a = a,
                      .b = b,
                      .to_b = malloc((n + 1) * sizeof *pairs->to_b),
                      .to_a = malloc((m + 1) * sizeof *pairs->to_a),
                      .made = malloc(((n < m ? n : m) + 1) * sizeof *pairs->made)};
  if (!pairs->to_b || !pairs->to_a || !pairs->made) return false;
  memset(pairs->to_b, 0xff, (n + 1) * sizeof *pairs->to_b);
  memset(pairs->to_a, 0xff, (m + 1) * sizeof *pairs->to_a);
  return true;
}

void td_pairs_finish(td_pairs *pairs)
{
  free(pairs->to_b);
  free(pairs->to_a);
  free(pairs->made);
  *pairs = (td_pairs){0};
}

bool td_pairs_join(td_pairs *pairs, uint32_t a, uint32_t b)
{
  if (pairs->to_b[a] != TD_NO_STORAGE || pairs->to_a[b] != TD_NO_STORAGE) return pairs->to_b[a] == b;
  pairs->to_b[a] = b;
  pairs->to_a[b] = a;
  pairs->made[pairs->n_made++] = (struct td_pair_made){a, b};
  return true;
}

void td_pairs_undo(td_pairs *pairs, size_t n_made)
{
  while (pairs->n_made > n_made) {
    struct td_pair_made last = pairs->made[--pairs->n_made];
    pairs->to_b[last.a] = pairs->to_a[last.b] = TD_NO_STORAGE;
  }
}

static bool same_accesses(td_pairs *pairs, const td_op *x, const td_op *y)
{
  uint64_t n = x[1].first_access - x->first_access;
  if (y[1].first_access - y->first_access != n) return false;
  const td_access *a = pairs->a->accesses + x->first_access, *b = pairs->b->accesses + y->first_access;
  bool same = true;
  for (uint64_t i = 0; i < n; i++)
    if (!td_pairs_join(pairs, a[i].storage, b[i].storage) || a[i].kind != b[i].kind) same = false;
  return same;
}

static bool same_outputs(td_pairs *pairs, const td_op *x, const td_op *y)
{
  uint64_t n = x[1].first_output - x->first_output;
  if (y[1].first_output - y->first_output != n) return false;
  const td_output_binding *a = pairs->a->outputs + x->first_output, *b = pairs->b->outputs + y->first_output;
  bool same = true;
  for (uint64_t i = 0; i < n; i++)
    if (!td_pairs_join(pairs, a[i].storage, b[i].storage) || a[i].leaf != b[i].leaf) same = false;
  return same;
}

uint32_t td_pairs_compare(td_pairs *pairs, uint64_t x, uint64_t y)
{
  const td_op *a = &pairs->a->ops[x], *b = &pairs->b->ops[y];
  uint32_t changes = 0;
  if (!same_accesses(pairs, a, b)) changes |= TD_DIFF_ACCESSES;
  if (!same_outputs(pairs, a, b)) changes |= TD_DIFF_BINDINGS;
  return changes;
}
