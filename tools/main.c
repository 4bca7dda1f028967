/* The program: a table of verbs. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/error.h>

#include "verbs.h"

static const verb *const verbs[] = {&verb_import, &verb_export,  &verb_info,    &verb_verify, &verb_recover, &verb_plan,
                                    &verb_simulate, &verb_replay, &verb_view, &verb_sql, &verb_merge, &verb_trim, &verb_compact,
                                    &verb_sharding, &verb_devices};

#define N_VERBS (sizeof verbs / sizeof *verbs)

static void print_help(void)
{
  puts("Usage: tapedeck VERB ...\n\n"
       "Record a training step, plan what to copy to host memory and back, replay the plan.\n");
  for (size_t i = 0; i < N_VERBS; i++) printf("  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
  puts("\nExample:\n"
       "  tapedeck plan step.tape --budget 60%\n\n"
       "'tapedeck VERB --help' says more about one. Exit codes: 0 done, 1 the answer is no, 2 trouble, 3 cannot be met.");
}

static void print_verb_help(const verb *verb)
{
  printf("Usage: tapedeck %s %s [OPTIONS]\n\n%s.\n", verb->name, verb->operands, verb->summary);
  if (verb->details) printf("\n%s\n", verb->details);
  putchar('\n');
  for (const option_def *option = verb->options; option->name; option++) {
    char left[64], letter[5] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->value ? " " : "", option->value ? option->value : "");
    printf("  %-26s %s\n", left, option->help);
  }
  printf("  %-26s %s\n\nExample:\n  %s\n", "    --help", "print this", verb->example);
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
      trouble(args, "unknown or ambiguous option %s; see tapedeck %s --help", is_letter ? letter : argv[optind - 1],
              args->verb->name);
      return false;
    }
    args->values[position] = optarg ? optarg : "";
  }
  args->operands = argv + optind;
  args->n_operands = argc - optind;
  if (args->verb->n_operands == AT_LEAST_ONE ? args->n_operands > 0 : args->n_operands == args->verb->n_operands) return true;
  trouble(args, "expected %s; see tapedeck %s --help", args->verb->operands, args->verb->name);
  return false;
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

int main(int argc, char **argv)
{
  signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of the write, not the end of the program */
  const char *name = argc > 1 ? argv[1] : "--help";
  if (strcmp(name, "--version") == 0) {
    printf("tapedeck %s\n", td_version());
    return flush_stdout(EXIT_DONE);
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "help") == 0) {
    print_help();
    return flush_stdout(argc > 1 ? EXIT_DONE : EXIT_TROUBLE);
  }
  for (size_t i = 0; i < N_VERBS; i++)
    if (strcmp(name, verbs[i]->name) == 0) return run(verbs[i], argc - 1, argv + 1);
  fprintf(stderr, "tapedeck: no verb is called '%s'; tapedeck --help lists them\n", name);
  return EXIT_TROUBLE;
}
