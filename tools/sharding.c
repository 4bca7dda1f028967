/* sharding: plans from their live form to the frozen one and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/sharding.h>

#include "verbs.h"

#define PLAN_MAX ((size_t)256 << 20) /* bytes; a plan of a very large model has some */

static char *read_file(const args *args, const char *path)
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
  if (text && ferror(file)) {
    free(text);
    text = NULL;
  }
  if (!text) trouble(args, "cannot read %s: %s", path, strerror(errno));
  else text[n] = '\0';
  if (file) fclose(file);
  return text;
}

/* ---- plans ---------------------------------------------------------------------------------------------------- */

#define META_KEY "sharding_plan"

static int keep_value(void *context, int n, const char *const *names, const td_value *values)
{
  (void)names;
  char **text = context;
  if (n == 1 && values[0].type == TD_TEXT) *text = strdup(values[0].bytes);
  return 1;
}

/* The frozen plan that a file holds: a tape that carries one, or its JSON, live or frozen. NULL, with a message, if there is
 * none. */
static cJSON *load_plan(const args *args, const char *path)
{
  td_tape *tape;
  td_error err;
  char *text = NULL, *frozen = NULL;
  if (!td_tape_open(&tape, path, &err)) {
    td_status status = td_tape_sql(tape, "SELECT value FROM trace_meta WHERE part = 'meta' AND key = '" META_KEY "' ORDER BY trace DESC",
                                   keep_value, &text, &err);
    td_tape_close(tape);
    if (!text) trouble(args, "%s: %s", path, status ? err.message : "the tape carries no sharding plan");
  } else {
    text = read_file(args, path);
  }
  if (!text) return NULL;
  cJSON *plan = cJSON_Parse(text);
  if (plan && !cJSON_GetObjectItemCaseSensitive(plan, "param_plan")) { /* live */
    cJSON_Delete(plan);
    plan = NULL;
    if (td_sharding_freeze(text, &frozen, &err)) trouble(args, "%s: %s", path, err.message);
    else plan = cJSON_Parse(frozen);
  } else if (!plan) {
    trouble(args, "%s: not JSON", path);
  } else { /* says what is wrong with it */
    char *live = NULL;
    if (td_sharding_thaw(text, &live, &err)) {
      trouble(args, "%s: %s", path, err.message);
      cJSON_Delete(plan);
      plan = NULL;
    }
    free(live);
  }
  free(text);
  free(frozen);
  return plan;
}

static const cJSON *params_of(const cJSON *plan, const char *module)
{
  return cJSON_GetObjectItemCaseSensitive(
      cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(plan, "param_plan"), module), "params");
}

static const char *placement_of(const cJSON *params, const char *param, const char *axis)
{
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(params, param), axis);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static int show(const args *args)
{
  cJSON *plan = load_plan(args, args->operands[1]);
  if (!plan) return EXIT_TROUBLE;
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
  cJSON_Delete(plan);
  return EXIT_DONE;
}

/* What `a` places, where `b` places it otherwise or not at all; with `only_missing`, the latter alone. */
static int print_differences(const cJSON *a, const cJSON *b, bool only_missing)
{
  int n = 0;
  const cJSON *module, *param, *axis;
  cJSON_ArrayForEach(module, cJSON_GetObjectItemCaseSensitive(a, "param_plan"))
    cJSON_ArrayForEach(param, cJSON_GetObjectItemCaseSensitive(module, "params"))
      cJSON_ArrayForEach(axis, param)
      {
        const char *here = axis->valuestring, *there = placement_of(params_of(b, module->string), param->string, axis->string);
        if (there && (only_missing || strcmp(here, there) == 0)) continue;
        printf("%s\t%s\t%s\t%s\t%s\n", module->string, param->string, axis->string, only_missing ? "-" : here,
               only_missing ? here : there ? there : "-");
        n++;
      }
  return n;
}

/* A line a difference: module, parameter, axis, from, to; what is not a parameter's placement is named by its key. */
static int diff(const args *args, const char *other)
{
  static const char *const keys[] = {"param_plan", "injections", "tied_pairs", "special_handlers", "boundary_classes", "mesh_dim_names"};
  cJSON *a = load_plan(args, args->operands[1]), *b = a ? load_plan(args, other) : NULL;
  int n = 0;
  if (b) {
    int placements = print_differences(a, b, false) + print_differences(b, a, true);
    n = placements;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
      bool same = cJSON_Compare(cJSON_GetObjectItemCaseSensitive(a, keys[i]), cJSON_GetObjectItemCaseSensitive(b, keys[i]), true);
      if (same || (i == 0 && placements)) continue;
      printf("%s\tdiffers\n", keys[i]);
      n++;
    }
  }
  bool loaded = a && b;
  cJSON_Delete(a);
  cJSON_Delete(b);
  return !loaded ? EXIT_TROUBLE : n ? EXIT_NO : EXIT_DONE;
}

static int attach(const args *args, const char *path)
{
  td_error err;
  cJSON *plan = load_plan(args, path);
  char *text = plan ? cJSON_PrintUnformatted(plan) : NULL;
  cJSON_Delete(plan);
  if (!text) return EXIT_TROUBLE;
  td_status status = td_tape_set_meta(args->operands[1], TD_NEWEST, META_KEY, text, &err);
  cJSON_free(text);
  return status ? failed(args, &err) : EXIT_DONE;
}

/* freeze and thaw */
static int transform(const args *args, bool freezing)
{
  td_error err;
  char *result = NULL, *text = read_file(args, args->operands[1]);
  if (!text) return EXIT_TROUBLE;
  td_status status = freezing ? td_sharding_freeze(text, &result, &err) : td_sharding_thaw(text, &result, &err);
  free(text);
  if (status) return trouble(args, "%s: %s", args->operands[1], err.message);
  puts(result);
  free(result);
  return EXIT_DONE;
}

static int run(const args *args)
{
  const char *action = args->operands[0];
  bool two = strcmp(action, "diff") == 0 || strcmp(action, "attach") == 0;
  bool one = strcmp(action, "freeze") == 0 || strcmp(action, "thaw") == 0 || strcmp(action, "show") == 0;
  if (!one && !two) return trouble(args, "'%s': expected freeze, thaw, show, diff or attach", action);
  if (args->n_operands != (two ? 3 : 2))
    return trouble(args, "%s: expected %s", action, !two ? "one file" : *action == 'd' ? "two plans or tapes" : "a tape and a plan");
  if (strcmp(action, "show") == 0) return show(args);
  if (strcmp(action, "diff") == 0) return diff(args, args->operands[2]);
  if (strcmp(action, "attach") == 0) return attach(args, args->operands[2]);
  return transform(args, strcmp(action, "freeze") == 0);
}

static const option_def options[] = {{0}};

const verb verb_sharding = {
    .name = "sharding",
    .operands = "freeze|thaw|show PLAN, diff A B, attach TAPE PLAN",
    .n_operands = AT_LEAST_ONE,
    .summary = "Freeze, thaw, show and compare sharding plans, or attach one to a tape",
    .details = "PLAN is live or frozen JSON; show and diff take tapes that carry one, too. diff exits with 1 if they differ, and prints\n"
               "module, parameter, axis, from and to.",
    .example = "tapedeck sharding freeze live.json >frozen.json",
    .options = options,
    .run = run,
};
