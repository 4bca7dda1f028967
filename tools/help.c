#include "help.h"

#define WIDE 26 /* of the column of options */

void print_help(const verb *const *verbs)
{
  puts("Usage: tapedeck VERB ...\n\n"
       "Record a training step, plan what to copy to host memory and back, replay the plan.\n");
  for (; *verbs; verbs++) printf("  %-10s %s\n", (*verbs)->name, (*verbs)->summary);
  puts("\nExample:\n"
       "  tapedeck plan step.tape --budget 60%\n\n"
       "'tapedeck VERB --help' says more about one, and so does 'man tapedeck-VERB'.\n"
       "Exit codes: 0 done, 1 the answer is no, 2 trouble, 3 cannot be met.");
}

void print_verb_help(const verb *verb)
{
  printf("Usage: tapedeck %s %s [OPTIONS]\n\n%s.\n", verb->name, verb->operands, verb->summary);
  if (verb->details) printf("\n%s\n", verb->details);
  putchar('\n');
  for (const option_def *option = verb->options; option->name; option++) {
    char left[160], letter[5] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    int length = snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->value ? " " : "", option->value ? option->value : "");
    if (length > WIDE) printf("  %s\n  %-*s %s\n", left, WIDE, "", option->help);
    else printf("  %-*s %s\n", WIDE, left, option->help);
  }
  printf("  %-*s %s\n\nExample:\n  %s\n", WIDE, "    --help", "print this", verb->example);
}
