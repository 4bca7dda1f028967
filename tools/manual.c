/* Man pages, written in man(7) from the tables that --help prints. */
#include <stdarg.h>
#include <string.h>

#include <tapedeck/error.h>

#include "help.h"

/* Text in roff: a dash is a minus that can be copied, and nothing at the beginning of a line is a request. */
static void put(const char *text)
{
  bool begins = true;
  for (; *text; begins = *text == '\n', text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", stdout);
    switch (*text) {
    case '\\': fputs("\\e", stdout); break;
    case '-': fputs("\\-", stdout); break;
    case '\'': fputs("\\(aq", stdout); break;
    case '`': fputs("\\(ga", stdout); break;
    case '^': fputs("\\(ha", stdout); break;
    case '~': fputs("\\(ti", stdout); break;
    default: putchar(*text);
    }
  }
}

static void put_line(const char *text)
{
  put(text);
  putchar('\n');
}

static void begin_page(const char *page, const char *summary)
{
  printf(".TH ");
  for (const char *c = page; *c; c++) putchar(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c);
  printf(" 1 \"\" \"tapedeck %s\" \"User Commands\"\n.SH NAME\n", td_version());
  put(page);
  fputs(" \\- ", stdout);
  putchar(*summary >= 'A' && *summary <= 'Z' ? *summary - 'A' + 'a' : *summary);
  put_line(summary + 1);
}

static void put_options(const verb *verb)
{
  puts(".SH OPTIONS");
  for (const option_def *option = verb->options; option->name; option++) {
    puts(".TP");
    if (option->letter) printf("\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", stdout);
    put(option->name);
    fputs("\\fR", stdout);
    if (option->value) {
      fputs(" \\fI", stdout);
      put(option->value);
      fputs("\\fR", stdout);
    }
    putchar('\n');
    put_line(option->help);
  }
  puts(".TP\n\\fB\\-\\-help\\fR\nprint a summary");
}

static void put_example(const char *example)
{
  puts(".SH EXAMPLE\n.nf");
  put_line(example);
  puts(".fi");
}

static void put_exit_codes(void)
{
  puts(".SH EXIT STATUS\n"
       ".TP\n0\ndone\n"
       ".TP\n1\nthe answer is no: a difference, a damage, a fault\n"
       ".TP\n2\na wrong argument, or input that cannot be read; one line on standard error says what\n"
       ".TP\n3\nwhat was asked for cannot be met");
}

static void print_verb_page(const verb *verb)
{
  char page[64];
  snprintf(page, sizeof page, "tapedeck-%s", verb->name);
  begin_page(page, verb->summary);
  printf(".SH SYNOPSIS\n\\fBtapedeck %s\\fR ", verb->name);
  put(verb->operands);
  puts(" [\\fIOPTIONS\\fR]");
  puts(".SH DESCRIPTION");
  put(verb->summary);
  puts(".");
  if (verb->details) {
    puts(".PP");
    put_line(verb->details);
  }
  put_options(verb);
  put_example(verb->example);
  put_exit_codes();
  puts(".SH SEE ALSO\n.BR tapedeck (1)");
}

static void print_program_page(const verb *const *verbs)
{
  begin_page("tapedeck", "Record a training step, plan copies to host memory and back, replay the plan");
  puts(".SH SYNOPSIS\n\\fBtapedeck\\fR \\fIVERB\\fR ...\n"
       ".SH DESCRIPTION\n"
       "A tape holds recorded steps of training a neural network and, for each, schedules of what to copy from the device to host\n"
       "memory and back. The verbs make tapes, plan, replay, and tell what is in them.\n"
       ".SH VERBS");
  for (const verb *const *v = verbs; *v; v++) {
    printf(".TP\n\\fB%s\\fR ", (*v)->name);
    put_line((*v)->operands);
    put_line((*v)->summary);
  }
  put_example("tapedeck plan step.tape --budget 60%");
  put_exit_codes();
  puts(".SH SEE ALSO");
  for (const verb *const *v = verbs; *v; v++) printf(".BR tapedeck\\-%s (1)%s\n", (*v)->name, v[1] ? "," : "");
}

void print_manual(const verb *const *verbs, const verb *verb)
{
  if (verb) print_verb_page(verb);
  else print_program_page(verbs);
}
