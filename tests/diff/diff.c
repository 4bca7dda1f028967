/* A trace beside a changed copy: the change is found, and nothing else. */
#include <criterion/criterion.h>

#include "net.h"

enum { LAYERS = 12 };

static uint32_t below(uint32_t *state, uint32_t n)
{
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(*state >> 4) * n >> 28);
}

/* A step that no number of storages up to 600 shares a factor with: the order they are recorded in is another. */
#define SHUFFLED 601

static td_diff *compare(const net *a, const net *b)
{
  td_trace *x = net_trace(a, 1), *y = net_trace(b, SHUFFLED);
  td_diff *diff = NULL;
  td_error err;
  cr_assert_eq(td_diff_traces(x, y, &diff, &err), TD_OK, "%s", err.message);
  td_trace_destroy(x);
  td_trace_destroy(y);
  return diff;
}

/* All figures but those named, which are given in this order: removed added names leaves opaque bindings accesses sizes
 * retained activations frees. */
static void expect(const net *a, const net *b, const char *what, const uint64_t *figures, uint64_t first)
{
  td_diff *d = compare(a, b);
  const uint64_t found[] = {d->removed,  d->added, d->names,    d->leaves,      d->opaque, d->bindings,
                            d->accesses, d->sizes, d->retained, d->activations, d->frees};
  static const char *const names[] = {"removed",  "added", "names",    "leaves",      "opaque", "bindings",
                                      "accesses", "sizes", "retained", "activations", "frees"};
  bool same = true;
  for (size_t i = 0; i < 11; i++) {
    cr_expect_eq(found[i], figures[i], "%s at %llu: %s is %llu, not %llu", what, (unsigned long long)first, names[i],
                 (unsigned long long)found[i], (unsigned long long)figures[i]);
    same &= figures[i] == 0;
  }
  cr_expect_eq(d->same, same, "%s", what);
  cr_expect_eq(d->first_difference, first, "%s: first at %llu, not %llu", what, (unsigned long long)d->first_difference,
               (unsigned long long)first);
  cr_expect_eq(d->common_ops, a->n_ops - figures[0] - figures[2] - figures[3]);
  cr_expect_eq(d->n_rows, a->n_ops + figures[1]);
  td_diff_destroy(d);
}

#define EXPECT(what, first, ...) expect(&a, &b, (what), (const uint64_t[11]){__VA_ARGS__}, (first))

enum { REMOVED, ADDED, NAMES, LEAVES, OPAQUE, BINDINGS, ACCESSES, SIZES, RETAINED, ACTIVATIONS, FREES };

static net a, b;

static void start(void)
{
  net_make(&a, LAYERS, LAYERS);
  b = a;
}

Test(diff, time_and_names_of_storages_are_no_difference)
{
  start();
  for (unsigned i = 0; i < b.n_ops; i++) b.ops[i].dur_ns += i;
  EXPECT("nothing", TD_NO_OP, 0);
}

Test(diff, each_change_of_one_op)
{
  for (unsigned i = 0; i < 4 * LAYERS; i++) {
    start();
    strcpy(b.ops[i].name, "other");
    EXPECT("renamed", i, [NAMES] = 1);
    start();
    b.ops[i].leaves += 3;
    EXPECT("leaves", i, [LEAVES] = 1);
    start();
    b.ops[i].opaque = true;
    EXPECT("opaque", i, [OPAQUE] = 1);
    start();
    b.ops[i].outputs[0].leaf = 5;
    EXPECT("bound to another leaf", i, [BINDINGS] = 1);
    start();
    b.ops[i].accesses[0].kind = TD_WRITE;
    EXPECT("written", i, [ACCESSES] = 1);
  }
}

/* Neighbours have the same names, and still each of them is known. */
Test(diff, several_ops_renamed)
{
  uint32_t state = 17;
  for (int round = 0; round < 2000; round++) {
    unsigned n = 0, first = 4 * LAYERS;
    start();
    for (unsigned i = 0; i < a.n_ops; i++)
      if (i % 2) strcpy(a.ops[i].name, a.ops[i - 1].name), a.ops[i].leaves = a.ops[i - 1].leaves;
    b = a;
    for (unsigned i = 0; i < b.n_ops; i++) {
      if (below(&state, 8)) continue;
      strcpy(b.ops[i].name, "other");
      if (i < first) first = i;
      n++;
    }
    EXPECT("several renamed", n ? first : TD_NO_OP, [NAMES] = n);
  }
}

Test(diff, an_op_more_or_less)
{
  for (unsigned i = 0; i <= 4 * LAYERS; i++) {
    start();
    net_access(net_insert(&b, i, "print"), a.ops[0].accesses[0].storage, TD_READ);
    EXPECT("inserted", i, [ADDED] = 1);
    if (i == 4 * LAYERS) break;
    start();
    net_remove(&b, i);
    td_diff *d = compare(&a, &b);
    cr_expect_eq(d->removed, 1);
    cr_expect_eq(d->added + d->names + d->leaves + d->sizes, 0, "removed %u", i);
    td_diff_destroy(d);
  }
}

/* Everything that reads the storage in place of another shows, from that op on. */
Test(diff, another_storage)
{
  for (unsigned i = 2; i < 2 * LAYERS; i += 2) {
    start();
    b.ops[i].accesses[0].storage = a.ops[0].accesses[2].storage;
    EXPECT("reads another", i, [ACCESSES] = 1);
  }
}

Test(diff, storages)
{
  for (unsigned i = 0; i < 4 * LAYERS; i++) {
    unsigned storage = a.ops[i].outputs[0].storage;
    start();
    storage = a.ops[i].outputs[0].storage;
    b.storages[storage].bytes *= 2;
    EXPECT("size", i, [SIZES] = 1);
    start();
    b.storages[storage].activation = false;
    EXPECT("activation", TD_NO_OP, [ACTIVATIONS] = 1);
    start();
    b.storages[storage].freed_before_op = i + 2;
    EXPECT("freed", TD_NO_OP, [FREES] = 1);
    start();
    b.storages[storage].retained = true;
    EXPECT("retained", TD_NO_OP, [RETAINED] = 1);
  }
}

/* Frees move with the ops around them. */
Test(diff, frees_are_at_places_not_numbers)
{
  start();
  for (unsigned i = 0; i < a.n_storages; i++)
    if (a.storages[i].activation && !a.storages[i].retained) a.storages[i].freed_before_op = 2 * LAYERS + i % (2 * LAYERS);
  b = a;
  net_insert(&b, 3, "print");
  for (unsigned i = 0; i < b.n_storages; i++)
    if (b.storages[i].freed_before_op != TD_NEVER) b.storages[i].freed_before_op++;
  EXPECT("inserted", 3, [ADDED] = 1);
}

/* All layers have the same names; which of them to leave without a partner, backward as forward, only the storages tell. Where the chain
 * is joined again one op reads another storage, and the gradient of a weight is gone. */
Test(diff, a_layer_less)
{
  net_make(&a, LAYERS, LAYERS);
  for (unsigned without = 0; without < LAYERS; without++) {
    net_make(&b, LAYERS, without);
    td_diff *d = compare(&a, &b);
    cr_expect_eq(d->removed, 4, "without %u", without);
    cr_expect_eq(d->added + d->names + d->leaves + d->bindings, 0, "without %u", without);
    cr_expect_eq(d->accesses, 1, "without %u", without);
    cr_expect_eq(d->retained, 1);
    td_diff_destroy(d);
    td_diff *back = compare(&b, &a);
    cr_expect_eq(back->added, 4, "with %u", without);
    cr_expect_eq(back->removed + back->bindings, 0, "with %u", without);
    cr_expect_eq(back->accesses, 1, "with %u", without);
    td_diff_destroy(back);
  }
}

Test(diff, empty_and_all_different)
{
  start();
  b.n_ops = b.n_storages = 0;
  td_diff *d = compare(&a, &b);
  cr_expect_eq(d->removed, a.n_ops);
  cr_expect_eq(d->first_difference, 0);
  td_diff_destroy(d);
  d = compare(&b, &a);
  cr_expect_eq(d->added, a.n_ops);
  cr_expect_eq(d->first_difference, 0);
  td_diff_destroy(d);
  d = compare(&b, &b);
  cr_expect(d->same);
  td_diff_destroy(d);
  b = a;
  for (unsigned i = 0; i < b.n_ops; i++) b.ops[i].name[0] = 'X';
  d = compare(&a, &b);
  cr_expect_eq(d->names, a.n_ops);
  cr_expect_eq(d->common_ops, 0);
  cr_expect_eq(d->accesses, 0);
  td_diff_destroy(d);
}

/* Where storages are numbered by first appearance, the first op that differs is this one. */
static uint64_t first_by_position(const net *x, const net *y)
{
  unsigned seen_x[NET_STORAGES] = {0}, seen_y[NET_STORAGES] = {0}, n = 0, m = 0;
  for (unsigned i = 0; i < x->n_ops || i < y->n_ops; i++) {
    if (i == x->n_ops || i == y->n_ops) return i;
    const net_op *p = &x->ops[i], *q = &y->ops[i];
    if (strcmp(p->name, q->name) != 0 || p->leaves != q->leaves || p->n_accesses != q->n_accesses) return i;
    for (unsigned k = 0; k < p->n_accesses; k++) {
      unsigned s = p->accesses[k].storage, t = q->accesses[k].storage;
      if (!seen_x[s]) seen_x[s] = ++n;
      if (!seen_y[t]) seen_y[t] = ++m;
      if (seen_x[s] != seen_y[t] || p->accesses[k].kind != q->accesses[k].kind) return i;
      if (x->storages[s].bytes != y->storages[t].bytes) return i;
    }
  }
  return TD_NO_OP;
}

Test(diff, the_first_difference_is_where_numbers_by_first_appearance_differ)
{
  uint32_t state = 11;
  for (int round = 0; round < 3000; round++) {
    start();
    for (uint32_t n = below(&state, 4); n; n--) {
      unsigned i = below(&state, b.n_ops), k = below(&state, b.n_ops);
      switch (below(&state, 5)) {
      case 0: net_remove(&b, i); break;
      case 1: *net_insert(&b, i, "mm") = a.ops[below(&state, a.n_ops)]; break;
      case 2: b.ops[i].accesses[0].storage = b.ops[k].accesses[0].storage; break;
      case 3: memcpy(b.ops[i].name, a.ops[k].name, sizeof a.ops[k].name); break;
      default: b.storages[b.ops[i].accesses[0].storage].bytes += 8;
      }
    }
    td_diff *d = compare(&a, &b);
    uint64_t first = first_by_position(&a, &b);
    cr_expect_eq(d->first_difference, first, "round %d: %llu, not %llu", round, (unsigned long long)d->first_difference,
                 (unsigned long long)first);
    uint64_t x = 0, y = 0;
    for (size_t i = 0; i < d->n_rows; i++) {
      if (d->rows[i].a != TD_NO_OP) cr_assert_eq(d->rows[i].a, x++);
      if (d->rows[i].b != TD_NO_OP) cr_assert_eq(d->rows[i].b, y++);
    }
    cr_assert(x == a.n_ops && y == b.n_ops);
    td_diff_destroy(d);
  }
}

/* ---- schedules ------------------------------------------------------------------------------------------------ */

static td_schedule_diff *compare_schedules(td_action *of_a, size_t n_a, td_action *of_b, size_t n_b)
{
  td_trace *x = net_trace(&a, 1), *y = net_trace(&b, SHUFFLED);
  td_diff *traces;
  td_schedule_diff *diff = NULL;
  td_schedule s = {.actions = of_a, .n_actions = n_a}, t = {.actions = of_b, .n_actions = n_b};
  cr_assert_eq(td_diff_traces(x, y, &traces, NULL), TD_OK);
  td_status status = td_diff_schedules(x, y, traces, &s, &t, &diff, NULL);
  cr_assert_eq(status, traces->same ? TD_OK : TD_E_ARG);
  td_diff_destroy(traces);
  td_trace_destroy(x);
  td_trace_destroy(y);
  return diff;
}

Test(diff, schedules)
{
  enum { POST = TD_POST, PRE = TD_PRE };
  td_action one[] = {{0, 33, POST, TD_COPY_D2H}, {1, 33, POST, TD_RELEASE_DEVICE}, {9, 33, PRE, TD_COPY_H2D}, {2, 43, POST, TD_COPY_D2H}};
  td_action two[] = {{0, 33, POST, TD_COPY_D2H}, {1, 33, POST, TD_RELEASE_DEVICE}, {8, 33, PRE, TD_COPY_H2D}, {4, 53, POST, TD_COPY_D2H}};
  start();
  td_schedule_diff *d = compare_schedules(one, 4, one, 4);
  cr_expect(d->same);
  cr_expect_eq(d->common, 4);
  cr_expect_eq(d->alike, 2);
  cr_expect_eq(d->n_moved, 0);
  td_schedule_diff_destroy(d);
  d = compare_schedules(one, 4, two, 4);
  cr_expect_not(d->same);
  cr_expect_eq(d->common, 2);
  cr_expect_eq(d->only_a, 2);
  cr_expect_eq(d->only_b, 2);
  cr_expect_eq(d->moved_both, 1);
  cr_expect_eq(d->alike, 0);
  cr_expect_eq(d->n_moved, 3);
  cr_expect_eq(d->moved[0].a.back, 9);
  cr_expect_eq(d->moved[0].b.back, 8);
  td_schedule_diff_destroy(d);
  b.ops[0].leaves++;
  cr_expect_null(compare_schedules(one, 4, two, 4));
}
