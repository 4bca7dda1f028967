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

static int run(const args *args)
{
  const char *action = args->operands[0];
  td_error err;
  char *result = NULL;
  bool freezing = strcmp(action, "freeze") == 0;
  if (!freezing && strcmp(action, "thaw") != 0) return trouble(args, "'%s': expected freeze or thaw", action);
  char *text = read_file(args, args->operands[1]);
  if (!text) return EXIT_TROUBLE;
  td_status status = freezing ? td_sharding_freeze(text, &result, &err) : td_sharding_thaw(text, &result, &err);
  free(text);
  if (status) return trouble(args, "%s: %s", args->operands[1], err.message);
  puts(result);
  free(result);
  return EXIT_DONE;
}

static const option_def options[] = {{0}};

const verb verb_sharding = {
    .name = "sharding",
    .operands = "freeze|thaw PLAN.json",
    .n_operands = 2,
    .summary = "Freeze a sharding plan into stable JSON, or thaw it",
    .example = "tapedeck sharding freeze live.json >frozen.json",
    .options = options,
    .run = run,
};
