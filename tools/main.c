/* The program: a table of verbs. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/error.h>

#include "help.h"
#include "verbs.h"
#include "words.h"

static const verb *const verbs[] = {&verb_import, &verb_export,  &verb_info,    &verb_verify, &verb_recover, &verb_plan,
                                    &verb_simulate, &verb_replay, &verb_view, &verb_sql, &verb_merge, &verb_trim, &verb_compact,
                                    &verb_ops, &verb_storages, &verb_top, &verb_explain, &verb_check, &verb_diff,
                                    &verb_sharding, &verb_devices, NULL};

static const verb *find_verb(const char *name)
{
  for (const verb *const *v = verbs; *v; v++)
    if (strcmp(name, (*v)->name) == 0) return *v;
  return NULL;
}

/* ---- options -------------------------------------------------------------------------------------------------- */

enum { HELP = 1000, FIRST_LONG = 2000 };

static void describe(const verb *verb, struct option *longs, char *shorts)
{
  int n = 0;
  *shorts++ = ':'; /* tell a missing value from an unknown option */
  for (; verb->options[n].name; n++) {
    const option_def *option = &verb->options[n];
    longs[n] = (struct option){option->name, option->value ? required_argument : no_argument, NULL, FIRST_LONG + n};
    if (!option->letter) continue;
    *shorts++ = option->letter;
    if (option->value) *shorts++ = ':';
  }
  longs[n++] = (struct option){"help", no_argument, NULL, HELP};
  longs[n] = (struct option){0};
  *shorts = '\0';
}

static int position_of(const verb *verb, int code)
{
  if (code >= FIRST_LONG) return code - FIRST_LONG;
  for (int i = 0; verb->options[i].name; i++)
    if (verb->options[i].letter == code) return i;
  return -1;
}

static void unknown_option(const args *args, const char *given)
{
  const char *names[OPTIONS_MAX + 2];
  char word[64], hint[64];
  int n = 0;
  for (; args->verb->options[n].name; n++) names[n] = args->verb->options[n].name;
  names[n] = "help";
  names[n + 1] = NULL;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(given + strspn(given, "-"), "="), given + strspn(given, "-"));
  const char *nearest = nearest_word(word, names);
  snprintf(hint, sizeof hint, nearest ? " (did you mean --%s?)" : "", nearest);
  trouble(args, "unknown or ambiguous option %s%s; see tapedeck %s --help", given, hint, args->verb->name);
}

/* "cuda:1" is a device of the kind "cuda". */
static bool is_word(const option_def *option, const char *value, const char *word)
{
  size_t length = strlen(word);
  if (strncmp(value, word, length) != 0) return false;
  return !value[length] || (value[length] == ':' && strcmp(option->value, "DEVICE") == 0);
}

/* Where an option takes one of some words, its value is one. */
static bool check_words(const args *args)
{
  words list;
  char hint[64], all[512];
  for (int i = 0; args->verb->options[i].name; i++) {
    const char *value = args->values[i];
    bool known = !value || !option_words(&args->verb->options[i], &list);
    for (size_t k = 0; !known && list.at[k]; k++) known = is_word(&args->verb->options[i], value, list.at[k]);
    if (known) continue;
    trouble(args, "--%s %s: expected %s%s", args->verb->options[i].name, value, join_words(list.at, all, sizeof all),
            did_you_mean(value, list.at, hint, sizeof hint));
    return false;
  }
  return true;
}

static bool check_operands(const args *args)
{
  if (args->verb->n_operands == AT_LEAST_ONE ? args->n_operands > 0 : args->n_operands == args->verb->n_operands) return true;
  trouble(args, "expected %s; see tapedeck %s --help", args->verb->operands, args->verb->name);
  return false;
}

/* Fills `args`; false with *exit_code set if the verb is not to be run. */
static bool parse(args *args, int argc, char **argv, int *exit_code)
{
  struct option longs[OPTIONS_MAX + 2];
  char shorts[2 * OPTIONS_MAX + 2];
  int code;
  describe(args->verb, longs, shorts);
  opterr = 0;
  optind = 1;
  *exit_code = EXIT_TROUBLE;
  while ((code = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
    if (code == HELP) {
      print_verb_help(args->verb);
      *exit_code = EXIT_DONE;
      return false;
    }
    int position = position_of(args->verb, code);
    if (code == ':') {
      trouble(args, "option %s needs a value; see tapedeck %s --help", argv[optind - 1], args->verb->name);
      return false;
    }
    if (code == '?' || position < 0) {
      char letter[3] = {'-', (char)optopt, '\0'};
      bool is_letter = optopt > 0 && optopt < HELP;
      unknown_option(args, is_letter ? letter : argv[optind - 1]);
      return false;
    }
    args->values[position] = optarg ? optarg : "";
  }
  args->operands = argv + optind;
  args->n_operands = argc - optind;
  return check_operands(args) && check_words(args);
}

/* Whatever was printed must have arrived. */
static int flush_stdout(int exit_code)
{
  errno = 0;
  if ((!fflush(stdout) && !ferror(stdout)) || exit_code == EXIT_TROUBLE) return exit_code;
  fprintf(stderr, "tapedeck: cannot write standard output: %s\n", strerror(errno ? errno : EIO));
  return EXIT_TROUBLE;
}

static int run(const verb *verb, int argc, char **argv)
{
  args args = {.verb = verb};
  int exit_code;
  if (parse(&args, argc, argv, &exit_code)) exit_code = verb->run(&args);
  return flush_stdout(exit_code);
}

/* For the build, which writes it into files: --verbs, --man [VERB], --completion SHELL. */
static int generate(int argc, char **argv)
{
  if (strcmp(argv[1], "--verbs") == 0) {
    for (const verb *const *v = verbs; *v; v++) puts((*v)->name);
    return EXIT_DONE;
  }
  if (strcmp(argv[1], "--completion") == 0) return argc > 2 && print_completion(verbs, argv[2]) ? EXIT_DONE : EXIT_TROUBLE;
  const verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;
  if (argc > 2 && !verb) return EXIT_TROUBLE;
  print_manual(verbs, verb);
  return EXIT_DONE;
}

static int unknown_verb(const char *name)
{
  const char *names[sizeof verbs / sizeof *verbs];
  char hint[64];
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) names[i] = verbs[i] ? verbs[i]->name : NULL;
  fprintf(stderr, "tapedeck: no verb is called '%s'%s; tapedeck --help lists them\n", name,
          did_you_mean(name, names, hint, sizeof hint));
  return EXIT_TROUBLE;
}

int main(int argc, char **argv)
{
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, not the end of the program */
  const char *name = argc > 1 ? argv[1] : "--help";
  if (strcmp(name, "--version") == 0) {
    printf("tapedeck %s\n", td_version());
    return flush_stdout(EXIT_DONE);
  }
  if (strcmp(name, "help") == 0 && argc > 2) {
    const verb *verb = find_verb(argv[2]);
    if (!verb) return unknown_verb(argv[2]);
    print_verb_help(verb);
    return flush_stdout(EXIT_DONE);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
    print_help(verbs);
    return flush_stdout(argc > 1 ? EXIT_DONE : EXIT_TROUBLE);
  }
  if (strcmp(name, "--verbs") == 0 || strcmp(name, "--man") == 0 || strcmp(name, "--completion") == 0) return flush_stdout(generate(argc, argv));
  const verb *verb = find_verb(name);
  return verb ? run(verb, argc - 1, argv + 1) : unknown_verb(name);
}
