/* The first difference of two traces is where their storages, numbered by first appearance, or anything else of an op differs first;
 * every op has its row, in order; either way round as many ops are common; and a trace is the same as itself.
 *
 * The input: two traces with ff between. An op is a byte (name, leaves, opaque, number of accesses, whether the last is bound) and one
 * for each access. */
#include <stdbool.h>
#include <string.h>

#include <tapedeck/diff.h>

#include "fuzz.h"

enum { OPS = 1000, STORAGES = 32, NAMES = 8 };

typedef struct step {
  td_trace trace;
  td_op ops[OPS + 1];
  td_access accesses[3 * OPS];
  td_output_binding outputs[OPS];
  td_storage_info storages[STORAGES];
} step;

static const td_name names[NAMES] = {{"a", 1}, {"b", 1}, {"", 0}, {"d\0e", 3}, {"d", 1}, {"\xff", 1}, {"g", 1}, {"h", 1}};

/* Returns how many bytes it took. */
static size_t read_step(step *s, const uint8_t *data, size_t size)
{
  size_t at = 0, n = 0, n_accesses = 0, n_outputs = 0;
  for (; at < size && data[at] != 0xff && n < OPS; n++) {
    uint8_t what = data[at++];
    s->ops[n] = (td_op){.leaves = 1 + (what >> 3 & 1), .first_access = n_accesses, .first_output = n_outputs, .name = what % NAMES, .opaque = what >> 4 & 1};
    for (unsigned k = what >> 5 & 3; k && at < size && data[at] != 0xff; k--, at++)
      s->accesses[n_accesses++] = (td_access){data[at] % STORAGES, data[at] >> 5 & 1};
    if (what >> 7 && n_accesses > s->ops[n].first_access)
      s->outputs[n_outputs++] = (td_output_binding){0, s->accesses[n_accesses - 1].storage};
  }
  s->ops[n] = (td_op){.first_access = n_accesses, .first_output = n_outputs};
  for (unsigned i = 0; i < STORAGES; i++)
    s->storages[i] = (td_storage_info){.sid = i, .bytes = 64 * (i % 3), .freed_before_op = TD_NEVER, .activation = true};
  s->trace = (td_trace){.n_ops = n, .n_accesses = n_accesses, .n_outputs = n_outputs, .n_names = NAMES, .n_storages = STORAGES, .complete = true,
                        .ops = s->ops, .accesses = s->accesses, .outputs = s->outputs, .names = names, .storages = s->storages};
  return at;
}

/* ---- by position ------------------------------------------------------------------------------------------------- */

static unsigned number(unsigned *seen, unsigned *n, uint32_t storage)
{
  if (!seen[storage]) seen[storage] = ++*n;
  return seen[storage];
}

static bool same_op(const step *a, const step *b, size_t i, unsigned *in_a, unsigned *in_b, unsigned *n, unsigned *m)
{
  const td_op *x = &a->ops[i], *y = &b->ops[i];
  const td_name *p = &names[x->name], *q = &names[y->name];
  bool same = p->length == q->length && memcmp(p->bytes, q->bytes, p->length) == 0 && x->leaves == y->leaves && x->opaque == y->opaque &&
              x[1].first_access - x->first_access == y[1].first_access - y->first_access &&
              x[1].first_output - x->first_output == y[1].first_output - y->first_output;
  for (uint64_t k = 0; same && k < x[1].first_access - x->first_access; k++) {
    const td_access *s = &a->accesses[x->first_access + k], *t = &b->accesses[y->first_access + k];
    same = s->kind == t->kind && number(in_a, n, s->storage) == number(in_b, m, t->storage) &&
           a->storages[s->storage].bytes == b->storages[t->storage].bytes;
  }
  return same;
}

static uint64_t first_by_position(const step *a, const step *b)
{
  unsigned in_a[STORAGES] = {0}, in_b[STORAGES] = {0}, n = 0, m = 0;
  uint64_t i = 0;
  while (i < a->trace.n_ops && i < b->trace.n_ops && same_op(a, b, i, in_a, in_b, &n, &m)) i++;
  return i == a->trace.n_ops && i == b->trace.n_ops ? TD_NO_OP : i;
}

static void check_rows(const td_diff *diff)
{
  uint64_t a = 0, b = 0;
  for (size_t i = 0; i < diff->n_rows; i++) {
    if (diff->rows[i].a != TD_NO_OP && diff->rows[i].a != a++) fuzz_fail("an op of A is not in its place");
    if (diff->rows[i].b != TD_NO_OP && diff->rows[i].b != b++) fuzz_fail("an op of B is not in its place");
  }
  if (a != diff->ops_a || b != diff->ops_b) fuzz_fail("an op has no row");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  static step a, b;
  td_diff *there, *back, *itself;
  size_t at = read_step(&a, data, size);
  read_step(&b, data + (at < size ? at + 1 : at), at < size ? size - at - 1 : 0);
  if (td_diff_traces(&a.trace, &b.trace, &there, NULL) || td_diff_traces(&b.trace, &a.trace, &back, NULL) ||
      td_diff_traces(&a.trace, &a.trace, &itself, NULL))
    fuzz_fail("two traces are not compared");
  check_rows(there);
  check_rows(back);
  uint64_t first = first_by_position(&a, &b);
  if (there->first_difference != first || back->first_difference != first) fuzz_fail("the first difference is elsewhere");
  if (there->same != back->same || there->common_ops != back->common_ops) fuzz_fail("the other way round the answer is another");
  if (!itself->same || itself->common_ops != a.trace.n_ops) fuzz_fail("a trace is not the same as itself");
  td_diff_destroy(there);
  td_diff_destroy(back);
  td_diff_destroy(itself);
  return 0;
}
