#include "diff_text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tapedeck/size.h>

#include "listing.h"

#define ROWS_SHOWN 40     /* of one change */
#define ACCESSES_SHOWN 12 /* of one op */
#define PLACES_SHOWN 8

static bool differs(const td_diff_row *row)
{
  return row->changes || row->a == TD_NO_OP || row->b == TD_NO_OP;
}

/* ---- like changes ------------------------------------------------------------------------------------------------- */

static uint64_t stir(uint64_t hash, uint64_t value)
{
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 29;
}

static uint64_t stir_bytes(uint64_t hash, const char *bytes, size_t length)
{
  for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
  return stir(hash, length);
}

static uint64_t stir_op(uint64_t hash, const td_trace *trace, uint64_t op)
{
  if (op == TD_NO_OP) return stir(hash, 1);
  const td_op *o = &trace->ops[op];
  hash = stir_bytes(hash, trace->names[o->name].bytes, trace->names[o->name].length);
  hash = stir(stir(hash, o->leaves), o[1].first_access - o->first_access);
  for (uint64_t i = o->first_access; i < o[1].first_access; i++)
    hash = stir(stir(hash, trace->accesses[i].kind), trace->storages[trace->accesses[i].storage].bytes);
  return hash;
}

/* The same for runs of the same ops, with storages of the same sizes, that differ in the same. */
static uint64_t signature(const compared *c, const change *run)
{
  uint64_t hash = run->end - run->first;
  for (size_t i = run->first; i < run->end; i++) {
    const td_diff_row *row = &c->diff->rows[i];
    hash = stir(stir_op(stir_op(hash, c->a, row->a), c->b, row->b), row->changes);
  }
  return hash;
}

static void sum_up(const compared *c, change *run)
{
  for (size_t i = run->first; i < run->end; i++) {
    const td_diff_row *row = &c->diff->rows[i];
    run->kinds |= row->changes;
    run->removed += row->b == TD_NO_OP;
    run->added += row->a == TD_NO_OP;
  }
}

typedef struct signed_run {
  uint64_t signature;
  size_t run;
} signed_run;

static int by_signature(const void *a, const void *b)
{
  const signed_run *x = a, *y = b;
  if (x->signature != y->signature) return x->signature < y->signature ? -1 : 1;
  return (x->run > y->run) - (x->run < y->run);
}

static bool fold(const compared *c, change *runs, size_t n)
{
  signed_run *order = malloc((n + 1) * sizeof *order);
  if (!order) return false;
  for (size_t i = 0; i < n; i++) order[i] = (signed_run){signature(c, &runs[i]), i};
  if (n) qsort(order, n, sizeof *order, by_signature);
  for (size_t i = 0, end; i < n; i = end) {
    for (end = i; end < n && order[end].signature == order[i].signature; end++) {
      bool last = end + 1 == n || order[end + 1].signature != order[i].signature;
      runs[order[end].run].next = last ? SIZE_MAX : order[end + 1].run;
    }
    runs[order[i].run].places = end - i;
  }
  free(order);
  return true;
}

change *list_changes(const compared *c, size_t *n)
{
  const td_diff *diff = c->diff;
  size_t count = 0;
  for (size_t i = 0; i < diff->n_rows; i++) count += differs(&diff->rows[i]) && (!i || !differs(&diff->rows[i - 1]));
  change *runs = calloc(count + 1, sizeof *runs);
  if (!runs) return NULL;
  *n = 0;
  for (size_t i = 0; i < diff->n_rows; i++) {
    if (!differs(&diff->rows[i])) continue;
    change *run = &runs[(*n)++];
    for (run->first = i; i < diff->n_rows && differs(&diff->rows[i]);) i++;
    run->end = i;
    sum_up(c, run);
  }
  if (fold(c, runs, *n)) return runs;
  free(runs);
  return NULL;
}

/* ---- text ------------------------------------------------------------------------------------------------------------ */

typedef struct painter {
  const compared *c;
  bool colour;
  int width;          /* of an op number */
  uint64_t *first_op; /* by storage of A: the op of A that it first stands beside its partner in */
} painter;

static const char *paint(const painter *p, const char *code)
{
  return p->colour ? code : "";
}

static void put_number(const painter *p, uint64_t op)
{
  if (op == TD_NO_OP) printf(" %*s", p->width, "");
  else printf(" %*" PRIu64, p->width, op);
}

static void put_accesses(const td_trace *trace, const td_op *op)
{
  uint64_t n = op[1].first_access - op->first_access;
  for (uint64_t i = 0; i < n && i < ACCESSES_SHOWN; i++) {
    const td_access *access = &trace->accesses[op->first_access + i];
    printf(" %c%" PRIu64, access->kind == TD_WRITE ? 'W' : 'R', trace->storages[access->storage].sid);
  }
  if (n > ACCESSES_SHOWN) printf(" and %" PRIu64 " more", n - ACCESSES_SHOWN);
}

static void put_outputs(const td_trace *trace, const td_op *op)
{
  uint64_t n = op[1].first_output - op->first_output;
  fputs(" ->", stdout);
  for (uint64_t i = 0; i < n && i < ACCESSES_SHOWN; i++) {
    const td_output_binding *output = &trace->outputs[op->first_output + i];
    printf(" %" PRIu64 ":%" PRIu64, output->leaf, trace->storages[output->storage].sid);
  }
  if (n > ACCESSES_SHOWN) printf(" and %" PRIu64 " more", n - ACCESSES_SHOWN);
}

/* The sizes of the storages that first appear in this op of A and have another size in B, as A or as B has them. */
static void put_sizes(const painter *p, uint64_t op, bool of_a)
{
  const compared *c = p->c;
  char size[24];
  uint64_t shown = 0, last = UINT64_MAX;
  for (uint64_t i = c->a->ops[op].first_access; i < c->a->ops[op + 1].first_access && shown < ACCESSES_SHOWN; i++) {
    uint32_t x = c->a->accesses[i].storage, y = c->diff->partner[x];
    if (p->first_op[x] != op || x == last || y == TD_NO_STORAGE || c->a->storages[x].bytes == c->b->storages[y].bytes) continue;
    const td_storage_info *storage = of_a ? &c->a->storages[x] : &c->b->storages[y];
    printf("  SID %" PRIu64 ": %s", storage->sid, td_format_size(storage->bytes, size, sizeof size));
    last = x;
    shown++;
  }
}

static void put_op(const painter *p, const td_diff_row *row, bool of_a)
{
  const td_trace *trace = of_a ? p->c->a : p->c->b;
  const td_op *op = &trace->ops[of_a ? row->a : row->b];
  bool alone = row->a == TD_NO_OP || row->b == TD_NO_OP;
  char name[81];
  printf("%s%c", paint(p, of_a ? "\033[31m" : "\033[32m"), of_a ? '-' : '+');
  put_number(p, of_a ? row->a : TD_NO_OP);
  put_number(p, of_a ? TD_NO_OP : row->b);
  printf("  %s", name_text(&trace->names[op->name], name, 80));
  if (row->changes & TD_DIFF_LEAVES) printf("  %" PRIu64 " %s", op->leaves, op->leaves == 1 ? "leaf" : "leaves");
  if (row->changes & TD_DIFF_OPAQUE) printf("  %s", op->opaque ? "a region" : "an op");
  if (alone || row->changes & TD_DIFF_ACCESSES) {
    putchar(' ');
    put_accesses(trace, op);
  }
  if (row->changes & TD_DIFF_BINDINGS) put_outputs(trace, op);
  if (row->changes & TD_DIFF_SIZES) put_sizes(p, row->a, of_a);
  printf("%s\n", paint(p, "\033[0m"));
}

static void put_same(const painter *p, const td_diff_row *row)
{
  char name[81];
  putchar(' ');
  put_number(p, row->a);
  put_number(p, row->b);
  printf("  %s\n", name_text(&p->c->a->names[p->c->a->ops[row->a].name], name, 80));
}

/* As in a unified diff, what goes stands before what comes. */
static void put_rows(const painter *p, size_t first, size_t end, size_t most)
{
  size_t shown = end - first > most ? first + most : end;
  for (size_t i = first; i < shown; i++)
    if (p->c->diff->rows[i].a != TD_NO_OP) put_op(p, &p->c->diff->rows[i], true);
  for (size_t i = first; i < shown; i++)
    if (p->c->diff->rows[i].b != TD_NO_OP) put_op(p, &p->c->diff->rows[i], false);
  if (shown < end) printf("  ... and %zu more ops\n", end - shown);
}

/* The op of A at which a run stands. */
static uint64_t place_of(const td_diff *diff, const change *run)
{
  for (size_t i = run->first; i < diff->n_rows; i++)
    if (diff->rows[i].a != TD_NO_OP) return diff->rows[i].a;
  return diff->ops_a;
}

static void put_places(const painter *p, const change *changes, const change *run)
{
  size_t shown = 0;
  if (run->places < 2) return;
  printf("%s  the same change in %zu more place%s, at op", paint(p, "\033[36m"), run->places - 1, run->places > 2 ? "s" : "");
  for (size_t i = run->next; i != SIZE_MAX && shown < PLACES_SHOWN; i = changes[i].next, shown++)
    printf("%s %" PRIu64, shown ? "," : "", place_of(p->c->diff, &changes[i]));
  printf("%s%s\n", shown < run->places - 1 ? ", ..." : "", paint(p, "\033[0m"));
}

static void put_change(const painter *p, const change *changes, size_t i, size_t n, size_t context, size_t most)
{
  const td_diff *diff = p->c->diff;
  const change *run = &changes[i];
  size_t from = run->first > context ? run->first - context : 0, to = run->end + context < diff->n_rows ? run->end + context : diff->n_rows;
  if (i && changes[i - 1].end > from) from = changes[i - 1].end;
  if (i + 1 < n && changes[i + 1].first < to) to = changes[i + 1].first;
  uint64_t alike = run->end - run->first - run->removed - run->added;
  printf("%s@@ op %" PRIu64 ": -%" PRIu64 " +%" PRIu64 " @@%s\n", paint(p, "\033[36m"), place_of(diff, run), run->removed + alike,
         run->added + alike, paint(p, "\033[0m"));
  for (size_t k = from; k < run->first; k++) put_same(p, &diff->rows[k]);
  put_rows(p, run->first, run->end, most);
  for (size_t k = run->end; k < to; k++) put_same(p, &diff->rows[k]);
  put_places(p, changes, run);
}

static uint64_t *first_ops(const compared *c)
{
  uint64_t *first = malloc(((size_t)c->a->n_storages + 1) * sizeof *first);
  if (!first) return NULL;
  for (uint32_t i = 0; i < c->a->n_storages; i++) first[i] = TD_NO_OP;
  for (size_t i = 0; i < c->diff->n_rows; i++) {
    uint64_t op = c->diff->rows[i].a;
    if (op == TD_NO_OP || c->diff->rows[i].b == TD_NO_OP) continue;
    for (uint64_t k = c->a->ops[op].first_access; k < c->a->ops[op + 1].first_access; k++)
      if (first[c->a->accesses[k].storage] == TD_NO_OP) first[c->a->accesses[k].storage] = op;
  }
  return first;
}

static bool wants_colour(void)
{
  const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
  return isatty(STDOUT_FILENO) && !(no && *no) && !(term && strcmp(term, "dumb") == 0);
}

void print_changes(const compared *c, const change *changes, size_t n, size_t context, size_t limit)
{
  char digits[24];
  size_t shown = 0, left = 0;
  uint64_t most = c->diff->ops_a > c->diff->ops_b ? c->diff->ops_a : c->diff->ops_b;
  painter p = {.c = c, .colour = wants_colour(), .first_op = first_ops(c)};
  p.width = snprintf(digits, sizeof digits, "%" PRIu64, most);
  for (size_t i = 0; i < n && p.first_op; i++) {
    if (!changes[i].places) continue;
    if (shown++ < limit) put_change(&p, changes, i, n, context, limit == SIZE_MAX ? SIZE_MAX : ROWS_SHOWN);
    else left++;
  }
  if (left) printf("... and %zu more; --limit all shows them\n", left);
  free(p.first_op);
}
