/* Traces and schedules written as text, for tests that fit on a line.
 *
 * A trace is a list of storages: "SID BYTES [retained] [freed=OP] W0 R1 R5": written by op 0, read by ops 1 and 5. A SID with
 * an x before it is no activation. */
#ifndef TD_TESTS_SCRIPT_H
#define TD_TESTS_SCRIPT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>

typedef struct script_access {
  uint64_t op;
  td_access access;
} script_access;

static inline int script_by_op(const void *a, const void *b)
{
  const script_access *x = a, *y = b;
  if (x->op != y->op) return x->op < y->op ? -1 : 1;
  return (x->access.storage > y->access.storage) - (x->access.storage < y->access.storage);
}

/* Every op takes `dur_ns`. `lines` ends with NULL. */
static inline td_trace *script_trace(uint64_t n_ops, uint64_t dur_ns, const char *const *lines)
{
  td_trace *trace = calloc(1, sizeof *trace);
  td_op *ops = calloc(n_ops + 1, sizeof *ops);
  td_name *names = malloc(sizeof *names);
  td_storage_info *storages = calloc(1000, sizeof *storages);
  uint32_t *activations = calloc(1000, sizeof *activations), *retained = calloc(1000, sizeof *retained);
  script_access *list = calloc(100000, sizeof *list);
  size_t n = 0;
  *names = (td_name){.bytes = "op", .length = 2};
  for (; *lines; lines++) {
    char copy[4096], *rest = copy;
    uint32_t number = trace->n_storages++;
    td_storage_info *storage = &storages[number];
    snprintf(copy, sizeof copy, "%s", *lines);
    char *word = strtok_r(rest, " ", &rest);
    storage->activation = *word != 'x';
    storage->sid = strtoull(word + !storage->activation, NULL, 10);
    storage->bytes = strtoull(strtok_r(NULL, " ", &rest), NULL, 10);
    storage->freed_before_op = TD_NEVER;
    if (storage->activation) activations[trace->n_activations++] = number;
    while ((word = strtok_r(NULL, " ", &rest))) {
      if (strcmp(word, "retained") == 0) {
        storage->retained = true;
        retained[trace->n_retained++] = number;
      } else if (strncmp(word, "freed=", 6) == 0) {
        storage->freed_before_op = strtoull(word + 6, NULL, 10);
        trace->has_frees = true;
      } else {
        list[n++] = (script_access){.op = strtoull(word + 1, NULL, 10),
                                    .access = {.storage = number, .kind = *word == 'W' ? TD_WRITE : TD_READ}};
      }
    }
  }
  qsort(list, n, sizeof *list, script_by_op);
  td_access *accesses = calloc(n + 1, sizeof *accesses);
  size_t at = 0;
  for (uint64_t op = 0; op <= n_ops; op++) {
    ops[op] = (td_op){.dur_ns = dur_ns, .leaves = 1, .first_access = at};
    for (; at < n && list[at].op == op; at++) accesses[at] = list[at].access;
  }
  free(list);
  trace->n_ops = n_ops;
  trace->n_accesses = n;
  trace->n_names = 1;
  trace->complete = true;
  trace->ops = ops;
  trace->accesses = accesses;
  trace->names = names;
  trace->storages = storages;
  trace->activations = activations;
  trace->retained = retained;
  return trace;
}

#define TRACE(n_ops, ...) script_trace((n_ops), 1000, (const char *const[]){__VA_ARGS__, NULL})

static inline uint32_t script_below(uint32_t *state, uint32_t n)
{
  *state = *state * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(*state >> 4) * n >> 28);
}

/* Up to 30 storages in up to 42 ops; a third of the traces have frees. */
static inline td_trace *script_random_trace(uint32_t *state)
{
  static char text[40][512];
  const char *lines[41] = {0};
  uint32_t n_ops = 2 + script_below(state, 40), n = 1 + script_below(state, 30), frees = script_below(state, 3) == 0;
  for (uint32_t i = 0; i < n; i++) {
    bool retained = script_below(state, 6) == 0;
    uint32_t first = script_below(state, n_ops), last = first;
    char uses[400] = "";
    int length = 0;
    for (uint32_t op = first; op < n_ops; op += 1 + script_below(state, 9)) {
      length += snprintf(uses + length, sizeof uses - (size_t)length, " %c%u", op == first || !script_below(state, 4) ? 'W' : 'R', op);
      last = op;
    }
    length = snprintf(text[i], sizeof text[i], "%u %u", i, script_below(state, 5) ? script_below(state, 1000) : 0);
    if (retained) length += snprintf(text[i] + length, sizeof text[i] - (size_t)length, " retained");
    else if (frees)
      length += snprintf(text[i] + length, sizeof text[i] - (size_t)length, " freed=%u",
                         last + 1 + script_below(state, n_ops - last));
    snprintf(text[i] + length, sizeof text[i] - (size_t)length, "%s", uses);
    lines[i] = text[i];
  }
  return script_trace(n_ops, 100, lines);
}

static const char *const script_kinds[] = {"D2H", "H2D", "RELEASE_DEVICE", "RELEASE_HOST"};

/* "post 0 D2H 1, pre 5 H2D 1"; freed by the caller. */
static inline char *script_of(const td_schedule *schedule)
{
  char *text = calloc(schedule->n_actions + 1, 64);
  for (size_t i = 0; i < schedule->n_actions; i++) {
    const td_action *a = &schedule->actions[i];
    sprintf(text + strlen(text), "%s%s %d %s %d", i ? ", " : "", a->phase == TD_POST ? "post" : "pre", (int)a->op,
            script_kinds[a->kind], (int)a->sid);
  }
  return text;
}

/* The reverse; a byte takes a nanosecond each way. */
static inline td_schedule *script_schedule(uint64_t limit, const char *text)
{
  td_schedule *schedule = calloc(1, sizeof *schedule);
  schedule->planner = strdup("script");
  schedule->memory_limit_bytes = limit;
  schedule->host_limit_bytes = UINT64_MAX;
  schedule->d2h_bytes_per_s = schedule->h2d_bytes_per_s = 1e9;
  schedule->actions = calloc(strlen(text) / 8 + 1, sizeof *schedule->actions);
  char phase[16], kind[32];
  unsigned long long op, sid;
  int length;
  while (sscanf(text, "%15s %llu %31s %llu%n", phase, &op, kind, &sid, &length) == 4) {
    td_action *a = &schedule->actions[schedule->n_actions++];
    *a = (td_action){.op = op, .sid = sid, .phase = strcmp(phase, "post") ? TD_PRE : TD_POST};
    while (strcmp(script_kinds[a->kind], kind) != 0) a->kind++;
    text += length + (text[length] == ',');
  }
  return schedule;
}

#endif
