/* The fewest bytes that must move, both ways, as a linear program for GLPK: every gap is away in part or in whole, at each op enough is
 * away for the budget, and a version of a storage is copied out as much as the gap of it that is away most. Time plays no part. With
 * whole storages it is an integer program. */
#ifndef TD_TESTS_LP_H
#define TD_TESTS_LP_H

#include <stdlib.h>
#include <string.h>

#include <glpk.h>

#include <tapedeck/planner.h>

typedef struct lp_gap {
  uint64_t from, to; /* away during these ops, without `to` */
  double bytes;
  bool returns;
  int version; /* column of its copy out */
} lp_gap;

typedef struct lp {
  const td_trace *trace;
  double budget, *alive; /* by op */
  bool *asked;           /* by op: it has a row */
  lp_gap *gaps;          /* column of gap i: n_versions + i + 1 */
  int n_gaps, n_versions;
  glp_prob *problem;
} lp;

static inline void lp_add_gap(lp *l, uint64_t from, uint64_t to, double bytes, bool returns, int version)
{
  if (from < to && bytes > 0) l->gaps[l->n_gaps++] = (lp_gap){from, to, bytes, returns, version};
}

/* Walks the accesses once, with the last use of each storage at hand. */
static inline void lp_list_gaps(lp *l, bool early)
{
  const td_trace *t = l->trace;
  uint64_t *last = malloc((t->n_storages + 1) * sizeof *last);
  int *version = calloc(t->n_storages + 1, sizeof *version);
  for (uint32_t i = 0; i < t->n_storages; i++) last[i] = TD_NEVER;
  for (uint64_t op = 0; op < t->n_ops; op++) {
    for (uint64_t k = t->ops[op].first_access; k < t->ops[op + 1].first_access; k++) {
      uint32_t i = t->accesses[k].storage;
      double bytes = (double)t->storages[i].bytes;
      if (!t->storages[i].activation) continue;
      if (last[i] == TD_NEVER) l->alive[op] += bytes;
      else if (last[i] != op) lp_add_gap(l, last[i] + 1, op, bytes, true, version[i]);
      if (last[i] == TD_NEVER || t->accesses[k].kind == TD_WRITE) version[i] = ++l->n_versions;
      last[i] = op;
    }
  }
  for (uint32_t i = 0; i < t->n_storages; i++) {
    const td_storage_info *s = &t->storages[i];
    if (last[i] == TD_NEVER) continue;
    uint64_t freed = !early && s->freed_before_op != TD_NEVER && s->freed_before_op > last[i] ? s->freed_before_op : last[i] + 1;
    lp_add_gap(l, last[i] + 1, s->retained ? t->n_ops : freed, (double)s->bytes, s->retained, version[i]);
    if (!s->retained) l->alive[freed] -= (double)s->bytes;
  }
  for (uint64_t op = 1; op <= t->n_ops; op++) l->alive[op] += l->alive[op - 1];
  free(last);
  free(version);
}

static inline void lp_set_up(lp *l, bool whole)
{
  l->problem = glp_create_prob();
  glp_set_obj_dir(l->problem, GLP_MIN);
  glp_add_cols(l->problem, l->n_versions + l->n_gaps + 1);
  for (int c = 1; c <= l->n_versions + l->n_gaps + 1; c++) {
    glp_set_col_kind(l->problem, c, whole ? GLP_IV : GLP_CV);
    glp_set_col_bnds(l->problem, c, GLP_DB, 0, 1);
  }
  for (int i = 0; i < l->n_gaps; i++) {
    const lp_gap *g = &l->gaps[i];
    int row = glp_add_rows(l->problem, 1);
    glp_set_obj_coef(l->problem, l->n_versions + i + 1, g->returns ? g->bytes / 1e3 : 0);
    glp_set_obj_coef(l->problem, g->version, g->bytes / 1e3);
    glp_set_row_bnds(l->problem, row, GLP_UP, 0, 0);
    glp_set_mat_row(l->problem, row, 2, (int[]){0, l->n_versions + i + 1, g->version}, (double[]){0, 1, -1});
  }
}

static inline void lp_ask(lp *l, uint64_t op)
{
  int *columns = malloc(((size_t)l->n_gaps + 1) * sizeof *columns), n = 0;
  double *values = malloc(((size_t)l->n_gaps + 1) * sizeof *values);
  for (int i = 0; i < l->n_gaps; i++) {
    if (l->gaps[i].from > op || l->gaps[i].to <= op) continue;
    columns[++n] = l->n_versions + i + 1;
    values[n] = l->gaps[i].bytes / 1e3;
  }
  int row = glp_add_rows(l->problem, 1);
  glp_set_row_bnds(l->problem, row, GLP_LO, (l->alive[op] - l->budget) / 1e3, 0);
  glp_set_mat_row(l->problem, row, n, columns, values);
  l->asked[op] = true;
  free(columns);
  free(values);
}

/* Asks for the op that is most over the budget in each stretch of ops that are. False if none is. */
static inline bool lp_ask_more(lp *l, bool whole)
{
  uint64_t n = l->trace->n_ops, worst = TD_NEVER;
  double *away = calloc(n + 2, sizeof *away), sum = 0, most = 0;
  bool any = false;
  for (int i = 0; i < l->n_gaps; i++) {
    int c = l->n_versions + i + 1;
    double part = whole ? glp_mip_col_val(l->problem, c) : glp_get_col_prim(l->problem, c);
    away[l->gaps[i].from] += part * l->gaps[i].bytes;
    away[l->gaps[i].to] -= part * l->gaps[i].bytes;
  }
  for (uint64_t op = 0; op <= n; op++) {
    sum += away[op];
    double over = op < n ? l->alive[op] - sum - l->budget : 0;
    if (over > 0.5 && !l->asked[op] && over > most) {
      most = over;
      worst = op;
    } else if (over <= 0.5 && worst != TD_NEVER) {
      lp_ask(l, worst);
      any = true;
      worst = TD_NEVER;
      most = 0;
    }
  }
  free(away);
  return any;
}

/* -1 if there is no answer within the time. */
static inline double lp_bytes(const td_trace *trace, uint64_t budget, bool early, bool whole, int seconds)
{
  lp l = {.trace = trace, .budget = (double)budget};
  l.alive = calloc(trace->n_ops + 2, sizeof *l.alive);
  l.asked = calloc(trace->n_ops + 2, sizeof *l.asked);
  l.gaps = calloc(trace->n_accesses + trace->n_storages + 1, sizeof *l.gaps);
  lp_list_gaps(&l, early);
  lp_set_up(&l, whole);
  glp_term_out(GLP_OFF);
  glp_smcp simplex;
  glp_iocp branch;
  glp_init_smcp(&simplex);
  glp_init_iocp(&branch);
  simplex.msg_lev = branch.msg_lev = GLP_MSG_OFF;
  simplex.meth = GLP_DUALP;
  simplex.tm_lim = branch.tm_lim = seconds * 1000;
  bool solved = true;
  do {
    solved = !glp_simplex(l.problem, &simplex) && glp_get_status(l.problem) == GLP_OPT;
    if (solved && whole) solved = !glp_intopt(l.problem, &branch) && glp_mip_status(l.problem) == GLP_OPT;
  } while (solved && lp_ask_more(&l, whole));
  double bytes = !solved ? -1 : 1e3 * (whole ? glp_mip_obj_val(l.problem) : glp_get_obj_val(l.problem));
  glp_delete_prob(l.problem);
  free(l.alive);
  free(l.asked);
  free(l.gaps);
  return bytes;
}

#endif
