/* explain: the life of one storage, or what one op waits for and holds. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/planner.h>
#include <tapedeck/size.h>

#include "listing.h"
#include "uses.h"
#include "verbs.h"

#define SHOWN 8

typedef struct story {
  const args *args;
  td_trace *trace;
  td_schedule *schedule; /* NULL: the trace has none */
  td_simulation *alone;  /* the step without a schedule */
  td_simulation *planned; /* with it; NULL without one */
  use *uses;
} story;

/* What there is to know of times and memory: with the schedule where there is one. */
static const td_simulation *machine(const story *s)
{
  return s->planned ? s->planned : s->alone;
}

static const char *op_name(const story *s, uint64_t op, char text[128])
{
  return op_text(s->trace, op, text, 128);
}

/* ---- one storage: text -------------------------------------------------------------------------------------------- */

static void print_accessing(const story *s, uint32_t storage, td_access_kind kind, const char *what)
{
  char text[128];
  const td_trace *trace = s->trace;
  uint64_t n = 0;
  for (uint64_t op = 0; op < trace->n_ops; op++)
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
      if (trace->accesses[i].storage != storage || trace->accesses[i].kind != (uint32_t)kind) continue;
      if (n < SHOWN) printf("%-12s %s\n", n ? "" : what, op_name(s, op, text));
      n++;
    }
  if (n > SHOWN) printf("%-12s and %" PRIu64 " more\n", "", n - SHOWN);
  if (!n) printf("%-12s by no op\n", what);
}

static void print_need(const story *s, uint32_t storage)
{
  const td_storage_info *info = &s->trace->storages[storage];
  const use *u = &s->uses[storage];
  char a[128], b[32];
  if (info->retained) puts("needed       to the end of the step and beyond: it is retained");
  else if (!info->activation) puts("needed       before and after the step: it is no activation, and no schedule moves it");
  else if (info->freed_before_op != TD_NEVER) printf("needed       until it is freed before %s\n", op_name(s, info->freed_before_op, a));
  else if (u->first_op != TD_NEVER) printf("needed       until its last access, by %s, as far as the trace tells\n", op_name(s, u->last_op, a));
  if (u->gap_to > u->gap_from + 1) {
    const td_timeline_point *from = &s->alone->timeline[u->gap_from], *to = &s->alone->timeline[u->gap_to];
    printf("longest gap  %" PRIu64 " ops and %s between op %" PRIu64 " and %s\n", u->gap_to - u->gap_from - 1,
           as_time(to->start_ns - from->end_ns, b), u->gap_from, op_name(s, u->gap_to, a));
  }
}

/* The op that first needs the storage after op `op`. */
static uint64_t next_access(const td_trace *trace, uint32_t storage, uint64_t op)
{
  for (; op < trace->n_ops; op++)
    for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++)
      if (trace->accesses[i].storage == storage) return op;
  return op;
}

static const td_transfer *find_transfer(const td_simulation *simulation, const td_action *action, size_t *from)
{
  for (size_t i = *from; i < simulation->n_transfers; i++) {
    const td_transfer *t = &simulation->transfers[i];
    if (t->sid != action->sid || t->op != action->op || t->kind != action->kind) continue;
    *from = i + 1;
    return t;
  }
  return NULL;
}

/* How long `op` waits just because this copy ends as late as it does. */
static uint64_t wait_for(const td_simulation *simulation, uint64_t op, const td_transfer *t)
{
  const td_timeline_point *point = &simulation->timeline[op];
  return t->end_ns == point->start_ns ? point->stall_ns : 0;
}

static void print_copy(const story *s, uint32_t storage, const td_action *action, const td_transfer *t)
{
  char a[128], b[32], c[32], d[32];
  bool out = action->kind == TD_COPY_D2H;
  if (!t) {
    printf("%-12s %s %s: nothing to copy\n", out ? "copied out" : "brought back", out ? "after" : "before", op_name(s, action->op, a));
    return;
  }
  printf("%-12s %s %s: from %s to %s, %s\n", out ? "copied out" : "brought back", out ? "after" : "before", op_name(s, action->op, a),
         as_time(t->start_ns, b), as_time(t->end_ns, c), as_time(t->end_ns - t->start_ns, d));
  if (out) return;
  uint64_t op = next_access(s->trace, storage, action->op), wait = wait_for(s->planned, op, t);
  if (wait) printf("%-12s %s waits %s for it\n", "cost", op_name(s, op, a), as_time(wait, b));
  else printf("%-12s nothing: it is back before %s needs it\n", "cost", op_name(s, op, a));
}

static void print_schedule_of(const story *s, uint32_t storage)
{
  char a[128], b[24];
  const td_storage_info *info = &s->trace->storages[storage];
  size_t from = 0;
  bool any = false;
  if (!s->schedule) {
    puts("\nThe tape has no schedule for this trace; tapedeck plan makes one.");
    return;
  }
  printf("\nWith schedule %" PRId64 " (%s, budget %s):\n", s->schedule->id, s->schedule->planner,
         s->schedule->memory_limit_bytes == UINT64_MAX ? "any" : td_format_size(s->schedule->memory_limit_bytes, b, sizeof b));
  for (size_t i = 0; i < s->schedule->n_actions; i++) {
    const td_action *action = &s->schedule->actions[i];
    if (action->sid != info->sid) continue;
    any = true;
    if (action->kind == TD_RELEASE_DEVICE) printf("%-12s after %s: it leaves the device\n", "evicted", op_name(s, action->op, a));
    else if (action->kind == TD_RELEASE_HOST) printf("%-12s after %s: its host copy goes\n", "host", op_name(s, action->op, a));
    else print_copy(s, storage, action, find_transfer(s->planned, action, &from));
  }
  if (!any) puts("it stays on the device as long as it is needed");
}

static int print_storage(const story *s, uint32_t storage)
{
  char size[24], a[128];
  const td_storage_info *info = &s->trace->storages[storage];
  const use *u = &s->uses[storage];
  printf("SID %" PRIu64 ": %s of %s\n", info->sid, info->retained ? "a retained activation" : info->activation ? "an activation" : "a storage that the step found",
         td_format_size(info->bytes, size, sizeof size));
  if (info->activation && u->first_op != TD_NEVER) printf("%-12s %s\n", "made by", op_name(s, u->first_op, a));
  print_accessing(s, storage, TD_WRITE, "written by");
  print_accessing(s, storage, TD_READ, "read by");
  print_need(s, storage);
  if (info->activation) print_schedule_of(s, storage);
  return EXIT_DONE;
}

/* ---- one storage: JSON -------------------------------------------------------------------------------------------- */

static void op_or_null(cJSON *object, const char *key, uint64_t op)
{
  if (op == TD_NEVER) cJSON_AddNullToObject(object, key);
  else json_u64(object, key, op);
}

static cJSON *actions_json(const story *s, uint32_t storage)
{
  static const char *const kinds[] = {"COPY_D2H", "COPY_H2D", "RELEASE_DEVICE", "RELEASE_HOST"};
  cJSON *list = cJSON_CreateArray();
  size_t from = 0;
  for (size_t i = 0; s->schedule && i < s->schedule->n_actions; i++) {
    const td_action *action = &s->schedule->actions[i];
    if (action->sid != s->trace->storages[storage].sid || action->kind > TD_RELEASE_HOST) continue;
    cJSON *item = cJSON_CreateObject();
    json_u64(item, "op", action->op);
    json_string(item, "phase", action->phase == TD_PRE ? "pre" : "post");
    json_string(item, "kind", kinds[action->kind]);
    const td_transfer *t = action->kind <= TD_COPY_H2D ? find_transfer(s->planned, action, &from) : NULL;
    if (t) {
      json_u64(item, "start_ns", t->start_ns);
      json_u64(item, "end_ns", t->end_ns);
    }
    if (t && action->kind == TD_COPY_H2D) json_u64(item, "stall_ns", wait_for(s->planned, next_access(s->trace, storage, action->op), t));
    cJSON_AddItemToArray(list, item);
  }
  return list;
}

static int print_storage_json(const story *s, uint32_t storage)
{
  const td_storage_info *info = &s->trace->storages[storage];
  const use *u = &s->uses[storage];
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "sid", info->sid);
  json_u64(json, "bytes", info->bytes);
  cJSON_AddBoolToObject(json, "activation", info->activation);
  cJSON_AddBoolToObject(json, "retained", info->retained);
  op_or_null(json, "first_op", u->first_op);
  op_or_null(json, "last_op", u->last_op);
  op_or_null(json, "freed_before_op", info->freed_before_op);
  json_u64(json, "reads", u->reads);
  json_u64(json, "writes", u->writes);
  cJSON_AddItemToObject(json, "actions", actions_json(s, storage));
  return json_print(s->args, json);
}

/* ---- one op -------------------------------------------------------------------------------------------------------- */

static void print_op_accesses(const story *s, uint64_t op, td_access_kind kind, const char *what)
{
  char size[24], from[128];
  const td_trace *trace = s->trace;
  uint64_t n = 0;
  for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
    uint32_t storage = trace->accesses[i].storage;
    const td_storage_info *info = &trace->storages[storage];
    if (trace->accesses[i].kind != (uint32_t)kind || n++ >= SHOWN) continue;
    printf("%-12s SID %" PRIu64 ", %s%s%s\n", n > 1 ? "" : what, info->sid, td_format_size(info->bytes, size, sizeof size),
           !info->activation ? ", found by the step" : s->uses[storage].first_op == op ? ", made here" : ", made by ",
           info->activation && s->uses[storage].first_op != op ? op_name(s, s->uses[storage].first_op, from) : "");
  }
  if (n > SHOWN) printf("%-12s and %" PRIu64 " more\n", "", n - SHOWN);
}

/* Bytes of activations that the op itself accesses: no schedule can do with less here. */
static uint64_t bytes_of_op(const story *s, uint64_t op)
{
  const td_trace *trace = s->trace;
  uint64_t bytes = 0;
  for (uint64_t i = trace->ops[op].first_access; i < trace->ops[op + 1].first_access; i++) {
    uint32_t storage = trace->accesses[i].storage;
    bool again = false;
    for (uint64_t k = trace->ops[op].first_access; k < i; k++) again |= trace->accesses[k].storage == storage;
    if (trace->storages[storage].activation && !again) bytes += trace->storages[storage].bytes;
  }
  return bytes;
}

/* The copy that ends as the op begins. */
static const td_transfer *held_by(const td_simulation *simulation, uint64_t op)
{
  for (size_t i = 0; simulation->timeline[op].stall_ns && i < simulation->n_transfers; i++)
    if (simulation->transfers[i].end_ns == simulation->timeline[op].start_ns) return &simulation->transfers[i];
  return NULL;
}

static void print_wait(const story *s, uint64_t op)
{
  char a[32];
  const td_timeline_point *point = &s->planned->timeline[op];
  const td_transfer *t = held_by(s->planned, op);
  if (!point->stall_ns) {
    puts("waits        for nothing");
    return;
  }
  printf("waits        %s", as_time(point->stall_ns, a));
  if (t && t->kind == TD_COPY_H2D) printf(", until the copy of SID %" PRIu64 " to the device ends\n", t->sid);
  else if (t) printf(", until the copy of SID %" PRIu64 " to the host ends and gives its room\n", t->sid);
  else puts(" for room");
}

static void print_actions_at(const story *s, uint64_t op, td_phase phase, const char *what)
{
  static const char *const verbs[] = {"copied out", "brought back", "evicted", "host copy given back"};
  uint64_t n = 0;
  for (size_t i = 0; i < s->schedule->n_actions; i++) {
    const td_action *action = &s->schedule->actions[i];
    if (action->op != op || action->phase != phase || action->kind > TD_RELEASE_HOST || n++ >= SHOWN) continue;
    printf("%-12s SID %" PRIu64 ": %s\n", n > 1 ? "" : what, action->sid, verbs[action->kind]);
  }
  if (n > SHOWN) printf("%-12s and %" PRIu64 " more\n", "", n - SHOWN);
}

static int print_op(const story *s, uint64_t op)
{
  char a[128], b[32], c[32];
  const td_op *o = &s->trace->ops[op];
  printf("%s: %s, %" PRIu64 " %s%s\n", op_name(s, op, a), as_time(o->dur_ns, b), o->leaves, o->leaves == 1 ? "leaf" : "leaves",
         o->opaque ? ", a region" : "");
  print_op_accesses(s, op, TD_READ, "reads");
  print_op_accesses(s, op, TD_WRITE, "writes");
  printf("holds        %s of activations on the device without a schedule; %s of it are its own\n",
         td_format_size(s->alone->timeline[op].device_bytes, b, sizeof b), td_format_size(bytes_of_op(s, op), c, sizeof c));
  if (!s->schedule) {
    puts("\nThe tape has no schedule for this trace; tapedeck plan makes one.");
    return EXIT_DONE;
  }
  printf("\nWith schedule %" PRId64 " (%s):\nholds        %s on the device, %s on the host\n", s->schedule->id, s->schedule->planner,
         td_format_size(s->planned->timeline[op].device_bytes, b, sizeof b), td_format_size(s->planned->timeline[op].host_bytes, c, sizeof c));
  printf("begins       after %s\n", as_time(s->planned->timeline[op].start_ns, b));
  print_wait(s, op);
  print_actions_at(s, op, TD_PRE, "before it");
  print_actions_at(s, op, TD_POST, "after it");
  return EXIT_DONE;
}

static int print_op_json(const story *s, uint64_t op)
{
  const td_trace *trace = s->trace;
  const td_op *o = &trace->ops[op];
  cJSON *json = cJSON_CreateObject();
  json_u64(json, "op", op);
  json_string(json, "name", trace->names[o->name].bytes);
  json_u64(json, "dur_ns", o->dur_ns);
  json_u64(json, "leaves", o->leaves);
  cJSON_AddBoolToObject(json, "opaque", o->opaque);
  json_u64(json, "own_bytes", bytes_of_op(s, op));
  json_u64(json, "device_bytes_without_schedule", s->alone->timeline[op].device_bytes);
  json_u64(json, "device_bytes", machine(s)->timeline[op].device_bytes);
  json_u64(json, "host_bytes", machine(s)->timeline[op].host_bytes);
  json_u64(json, "start_ns", machine(s)->timeline[op].start_ns);
  json_u64(json, "stall_ns", machine(s)->timeline[op].stall_ns);
  const td_transfer *t = held_by(machine(s), op);
  if (t) json_u64(json, "waits_for_sid", t->sid);
  else cJSON_AddNullToObject(json, "waits_for_sid");
  cJSON *accesses = cJSON_AddArrayToObject(json, "accesses");
  for (uint64_t i = o->first_access; i < o[1].first_access; i++) {
    cJSON *item = cJSON_CreateObject();
    json_u64(item, "sid", trace->storages[trace->accesses[i].storage].sid);
    json_string(item, "kind", trace->accesses[i].kind == TD_WRITE ? "W" : "R");
    json_u64(item, "bytes", trace->storages[trace->accesses[i].storage].bytes);
    cJSON_AddItemToArray(accesses, item);
  }
  return json_print(s->args, json);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------ */

typedef struct subject {
  bool is_op;
  uint64_t number;
} subject;

/* "7", "sid7", "sid:7": a storage; "op12", "op:12": an op. */
static bool read_subject(const args *args, subject *what)
{
  const char *text = args->operands[1], *digits = text;
  *what = (subject){.is_op = strncmp(text, "op", 2) == 0};
  if (what->is_op) digits += 2;
  else if (strncmp(text, "sid", 3) == 0 || strncmp(text, "SID", 3) == 0) digits += 3;
  if (digits > text && (*digits == ':' || *digits == ' ')) digits++;
  size_t length = strspn(digits, "0123456789");
  if (length && length <= 20 && !digits[length]) {
    what->number = strtoull(digits, NULL, 10);
    return true;
  }
  trouble(args, "'%s' is neither a SID, such as 7, nor an op, such as op12", text);
  return false;
}

static int tell(const story *s, const subject *what)
{
  bool json = arg(s->args, "json");
  if (what->is_op) {
    if (what->number >= s->trace->n_ops)
      return trouble(s->args, "there is no op %" PRIu64 ": the trace has ops 0 to %" PRIu64, what->number, s->trace->n_ops ? s->trace->n_ops - 1 : 0);
    return json ? print_op_json(s, what->number) : print_op(s, what->number);
  }
  uint32_t storage = find_storage(s->trace, what->number);
  if (storage == s->trace->n_storages) return trouble(s->args, "the trace has no SID %" PRIu64 "; tapedeck storages lists them", what->number);
  return json ? print_storage_json(s, storage) : print_storage(s, storage);
}

static int run(const args *args)
{
  story s = {.args = args};
  subject what;
  td_tape *tape;
  td_trace_info info;
  td_error err;
  int64_t number;
  if (!read_subject(args, &what) || !number_arg(args, "schedule", TD_NEWEST, &number) || !open_trace(args, &tape, &s.trace, &info))
    return EXIT_TROUBLE;
  td_status status = td_tape_load_schedule(tape, info.trace, number, &s.schedule, &err);
  if (status == TD_E_NOT_FOUND && number == TD_NEWEST) status = TD_OK;
  if (!status) status = td_simulate(s.trace, NULL, true, &s.alone, &err);
  if (!status && s.schedule) status = td_simulate(s.trace, s.schedule, true, &s.planned, &err);
  int exit_code = status ? failed(args, &err) : EXIT_DONE;
  if (!status && !(s.uses = list_uses(s.trace))) exit_code = trouble(args, "out of memory");
  else if (!status) exit_code = tell(&s, &what);
  free(s.uses);
  td_simulation_destroy(s.alone);
  td_simulation_destroy(s.planned);
  td_schedule_destroy(s.schedule);
  td_trace_destroy(s.trace);
  td_tape_close(tape);
  return exit_code;
}

static const option_def options[] = {{"schedule", "ID", "the schedule to explain it with; default: the newest", '\0'},
                                     OPTION_TRACE,
                                     OPTION_JSON,
                                     {0}};

const verb verb_explain = {
    .name = "explain",
    .operands = "TAPE SID|opN",
    .n_operands = 2,
    .summary = "Tell the life of one storage, or what one op waits for and holds",
    .details = "A number is a SID; op12 is op number 12. Times count from the beginning of the step, as the simulator plays it.",
    .example = "tapedeck explain step.tape 11",
    .options = options,
    .run = run,
};
