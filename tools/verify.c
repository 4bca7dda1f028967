/* verify: is the tape sound? */
#include "progress.h"
#include "verbs.h"

typedef struct findings {
  cJSON *list; /* NULL: print them */
} findings;

static void note(void *context, const char *line)
{
  findings *found = context;
  if (found->list)
    cJSON_AddItemToArray(found->list, cJSON_CreateString(line));
  else
    puts(line);
}

static int run(const args *args)
{
  td_error err;
  uint64_t n;
  findings found = {.list = arg(args, "json") ? cJSON_CreateArray() : NULL};
  progress_begin("verifying");
  td_status status = td_tape_verify(args->operands[0], note, &found, &n, &err);
  progress_end();
  if (status) {
    cJSON_Delete(found.list);
    return failed(args, &err);
  }
  if (found.list) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "sound", n == 0);
    cJSON_AddItemToObject(json, "damages", found.list);
    if (json_print(args, json)) return EXIT_TROUBLE;
  } else if (n == 0) {
    printf("%s is sound\n", args->operands[0]);
  }
  return n ? EXIT_NO : EXIT_DONE;
}

static const option_def options[] = {OPTION_JSON, {0}};

const verb verb_verify = {
    .name = "verify",
    .operands = "TAPE",
    .n_operands = 1,
    .summary = "Check everything in a tape that can be checked",
    .details = "Exit code 0: sound; 1: damaged, each damage on a line; 2: cannot tell.",
    .example = "tapedeck verify step.tape",
    .options = options,
    .run = run,
};
