/* sharding: plans from their live form to the frozen one and back, and in tapes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/sharding.h>

#include "place.h"
#include "verbs.h"

#define PLAN_MAX ((size_t)256 << 20) /* bytes; a plan of a very large model has some */

char *read_plan_text(const args *args, const char *path)
{
  FILE *file = fopen(path, "rb");
  size_t n = 0, capacity = 1 << 16;
  char *text = file ? malloc(capacity) : NULL;
  errno = file ? ENOMEM : errno;
  for (size_t got = 1; text && got;) {
    got = fread(text + n, 1, capacity - n - 1, file);
    n += got;
    if (n + 1 < capacity) continue;
    char *grown = n < PLAN_MAX ? realloc(text, capacity *= 2) : NULL;
    if (!grown) free(text);
    text = grown;
  }
  bool whole = text && !ferror(file), nul = whole && memchr(text, '\0', n);
  if (nul) trouble(args, "%s: not JSON: it holds a NUL byte", path);
  else if (!whole) trouble(args, "cannot read %s: %s", path, strerror(errno));
  else text[n] = '\0';
  if (file) fclose(file);
  if (whole && !nul) return text;
  free(text);
  return NULL;
}

/* ---- plans ---------------------------------------------------------------------------------------------------- */

/* The text of the plan that a file holds: a tape that carries one, or JSON. NULL, with a message, if there is none. */
static char *load_text(const args *args, const char *path)
{
  td_tape *tape;
  td_error err;
  td_sharding_place *place = NULL;
  int64_t trace;
  if (!number_arg(args, "trace", TD_NEWEST, &trace)) return NULL;
  if (td_tape_open(&tape, path, &err)) return read_plan_text(args, path);
  td_status status = td_tape_sharding(tape, trace, &place, &err);
  td_tape_close(tape);
  char *text = !status && place->plan ? strdup(place->plan) : NULL;
  if (status) failed(args, &err);
  else if (!text) trouble(args, "%s: the tape carries no sharding plan", path);
  td_sharding_place_destroy(place);
  return text;
}

static td_sharding *load_plan(const args *args, const char *path)
{
  td_error err;
  td_sharding *plan = NULL;
  char *text = load_text(args, path);
  if (text && td_sharding_read(&plan, text, &err)) trouble(args, "%s: %s", path, err.message);
  free(text);
  return plan;
}

/* ---- show ----------------------------------------------------------------------------------------------------- */

static void print_plan(const cJSON *plan)
{
  const cJSON *module, *param, *axis, *name;
  printf("%-40s %-32s %s\n", "module", "parameter", "placement");
  cJSON_ArrayForEach(module, cJSON_GetObjectItemCaseSensitive(plan, "param_plan"))
  {
    const char *class = cJSON_GetStringValue(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(plan, "boundary_classes"), module->string));
    printf("%s%s%s%s\n", *module->string ? module->string : "(root)", class ? " (" : "", class ? class : "", class ? ")" : "");
    cJSON_ArrayForEach(param, cJSON_GetObjectItemCaseSensitive(module, "params"))
    {
      printf("%-40s %-32s", "", param->string);
      cJSON_ArrayForEach(axis, param) printf(" %s=%s", axis->string, axis->valuestring);
      putchar('\n');
    }
  }
  printf("mesh:");
  cJSON_ArrayForEach(name, cJSON_GetObjectItemCaseSensitive(plan, "mesh_dim_names")) printf(" %s", name->valuestring);
  putchar('\n');
}

static void print_remark(void *context, const char *line)
{
  (void)context;
  printf("note: %s\n", line);
}

static int show(const args *args)
{
  td_error err;
  char *text = NULL, digest[33];
  td_sharding *plan = load_plan(args, args->operands[1]);
  if (!plan) return EXIT_TROUBLE;
  td_status status = td_sharding_frozen_text(plan, &text, &err);
  if (!status) status = td_sharding_digest(plan, digest, &err);
  if (!status) {
    cJSON *tree = cJSON_Parse(text);
    print_plan(tree);
    cJSON_Delete(tree);
    printf("digest: %s\n", digest);
    status = td_sharding_remarks(plan, print_remark, NULL, &err);
  }
  free(text);
  td_sharding_destroy(plan);
  return status ? failed(args, &err) : EXIT_DONE;
}

/* ---- diff ----------------------------------------------------------------------------------------------------- */

/* A line a difference: module, parameter or field, axis, from, to. */
static int print_difference(void *context, const td_sharding_difference *d)
{
  ++*(int *)context;
  printf("%s\t%s\t%s\t%s\t%s\n", d->module ? d->module : "-", d->name, d->axis ? d->axis : "-", d->from ? d->from : "-",
         d->to ? d->to : "-");
  return 0;
}

static int diff(const args *args)
{
  td_error err;
  int n = 0;
  td_sharding *a = load_plan(args, args->operands[1]), *b = a ? load_plan(args, args->operands[2]) : NULL;
  td_status status = b ? td_sharding_diff(a, b, print_difference, &n, &err) : TD_OK;
  bool loaded = a && b;
  td_sharding_destroy(a);
  td_sharding_destroy(b);
  if (status) return failed(args, &err);
  return !loaded ? EXIT_TROUBLE : n ? EXIT_NO : EXIT_DONE;
}

/* ---- attach, freeze, thaw ------------------------------------------------------------------------------------- */

static int attach(const args *args)
{
  td_error err;
  place_args place = {0};
  int64_t trace;
  if (!place_from_args(args, &place) || !number_arg(args, "trace", TD_NEWEST, &trace)) return EXIT_TROUBLE;
  char *text = load_text(args, args->operands[2]);
  if (!text) return EXIT_TROUBLE;
  place.place.plan = text;
  td_status status = td_tape_set_sharding(args->operands[1], trace, &place.place, &err);
  free(text);
  return status ? failed(args, &err) : EXIT_DONE;
}

static int transform(const args *args, td_status (*f)(const char *, char **, td_error *))
{
  td_error err;
  char *result = NULL, *text = read_plan_text(args, args->operands[1]);
  if (!text) return EXIT_TROUBLE;
  td_status status = f(text, &result, &err);
  free(text);
  if (status) return trouble(args, "%s: %s", args->operands[1], err.message);
  puts(result);
  free(result);
  return EXIT_DONE;
}

static int freeze(const args *args)
{
  return transform(args, td_sharding_freeze);
}

static int thaw(const args *args)
{
  return transform(args, td_sharding_thaw);
}

static const struct action {
  const char *name;
  int n_operands; /* its own name included */
  const char *expected;
  int (*run)(const args *);
} actions[] = {
    {"freeze", 2, "one file", freeze},       {"thaw", 2, "one file", thaw},
    {"show", 2, "one file", show},           {"diff", 3, "two plans or tapes", diff},
    {"attach", 3, "a tape and a plan", attach},
};

static int run(const args *args)
{
  const char *name = args->operands[0];
  for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
    if (strcmp(name, actions[i].name) != 0) continue;
    if (args->n_operands != actions[i].n_operands) return trouble(args, "%s: expected %s", name, actions[i].expected);
    return actions[i].run(args);
  }
  return trouble(args, "'%s': expected freeze, thaw, show, diff or attach", name);
}

static const option_def options[] = {PLACE_OPTIONS, OPTION_TRACE, {0}};

const verb verb_sharding = {
    .name = "sharding",
    .operands = "freeze|thaw|show PLAN, diff A B, attach TAPE PLAN",
    .n_operands = AT_LEAST_ONE,
    .summary = "Freeze, thaw, show and compare sharding plans, or attach one to a tape",
    .details = "PLAN is live or frozen JSON; show, diff and attach take it from a tape that carries one, too. diff exits with 1 if\n"
               "they differ, and prints module, parameter, axis, from and to. All options but --trace are for attach.",
    .example = "tapedeck sharding attach step.tape plan.json --mesh-shape 2,4 --mesh-coords 0,3",
    .options = options,
    .run = run,
};
