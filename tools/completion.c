/* Completions for bash, zsh and fish. Each is the tables of verbs and options as data, and a few lines that look them up. */
#include <string.h>

#include "help.h"
#include "words.h"

/* In single quotes, which all three shells read alike but for a quote in them. */
static void put_quoted(const char *text)
{
  putchar('\'');
  for (; *text; text++) {
    if (*text == '\'') fputs("'\\''", stdout);
    else putchar(*text);
  }
  putchar('\'');
}

static void put_words(const words *list)
{
  for (size_t i = 0; list->at[i]; i++) printf("%s%s", i ? " " : "", list->at[i]);
}

/* ---- bash ------------------------------------------------------------------------------------------------------ */

static void put_bash_values(const verb *const *verbs)
{
  words list;
  for (; *verbs; verbs++)
    for (const option_def *option = (*verbs)->options; option->name; option++) {
      if (!option_words(option, &list)) continue;
      printf("    '%s --%s') words='", (*verbs)->name, option->name);
      put_words(&list);
      puts("' ;;");
    }
}

static void print_bash(const verb *const *verbs)
{
  fputs("# bash completion for tapedeck\n"
        "_tapedeck() {\n"
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]} words=\n"
        "  COMPREPLY=()\n"
        "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "    words='",
        stdout);
  for (const verb *const *v = verbs; *v; v++) printf("%s ", (*v)->name);
  fputs("--help --version'\n"
        "  else\n"
        "    case \"$verb $before\" in\n",
        stdout);
  put_bash_values(verbs);
  puts("    esac\n"
       "    case \"$word\" in\n"
       "    -*)\n"
       "      case \"$verb\" in");
  for (const verb *const *v = verbs; *v; v++) {
    printf("      %s) words='", (*v)->name);
    for (const option_def *option = (*v)->options; option->name; option++) printf("--%s ", option->name);
    puts("--help' ;;");
  }
  puts("      esac\n"
       "      ;;\n"
       "    esac\n"
       "  fi\n"
       "  if [ -n \"$words\" ]; then\n"
       "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
       "  else\n"
       "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
       "    compopt -o filenames 2>/dev/null\n"
       "  fi\n"
       "}\n"
       "complete -F _tapedeck tapedeck");
}

/* ---- zsh ------------------------------------------------------------------------------------------------------- */

/* '--name[help]:value:(words)', with what zsh reads as syntax escaped. */
static void put_zsh_option(const option_def *option)
{
  words list;
  printf("'--%s[", option->name);
  for (const char *c = option->help; *c; c++) {
    if (strchr("[]:\\", *c)) putchar('\\');
    if (*c == '\'') fputs("'\\''", stdout);
    else putchar(*c);
  }
  putchar(']');
  if (option->value && option_words(option, &list)) {
    printf(":%s:(", option->name);
    put_words(&list);
    putchar(')');
  } else if (option->value) {
    printf(":%s:%s", option->name, strcmp(option->name, "output") == 0 ? "_files" : "");
  }
  putchar('\'');
}

static void print_zsh(const verb *const *verbs)
{
  puts("#compdef tapedeck\n"
       "_tapedeck() {\n"
       "  local -a verbs\n"
       "  verbs=(");
  for (const verb *const *v = verbs; *v; v++) {
    char line[200];
    snprintf(line, sizeof line, "%s:%s", (*v)->name, (*v)->summary);
    fputs("    ", stdout);
    put_quoted(line);
    putchar('\n');
  }
  puts("  )\n"
       "  if (( CURRENT == 2 )); then\n"
       "    _describe verb verbs\n"
       "    return\n"
       "  fi\n"
       "  local verb=$words[2]\n"
       "  shift words\n"
       "  (( CURRENT-- ))\n"
       "  case $verb in");
  for (const verb *const *v = verbs; *v; v++) {
    printf("  %s) _arguments ", (*v)->name);
    for (const option_def *option = (*v)->options; option->name; option++) {
      put_zsh_option(option);
      putchar(' ');
    }
    puts("'--help[print help]' '*:file:_files' ;;");
  }
  puts("  esac\n"
       "}\n"
       "_tapedeck \"$@\"");
}

/* ---- fish ------------------------------------------------------------------------------------------------------- */

static void put_fish_option(const verb *verb, const option_def *option)
{
  words list;
  printf("complete -c tapedeck -n '__fish_seen_subcommand_from %s' -l %s", verb->name, option->name);
  if (option->letter) printf(" -s %c", option->letter);
  if (option->value) fputs(" -r", stdout);
  if (option_words(option, &list)) {
    fputs(" -f -a '", stdout);
    put_words(&list);
    putchar('\'');
  }
  fputs(" -d ", stdout);
  put_quoted(option->help);
  putchar('\n');
}

static void print_fish(const verb *const *verbs)
{
  puts("# fish completion for tapedeck");
  for (const verb *const *v = verbs; *v; v++) {
    printf("complete -c tapedeck -n __fish_use_subcommand -f -a %s -d ", (*v)->name);
    put_quoted((*v)->summary);
    putchar('\n');
    for (const option_def *option = (*v)->options; option->name; option++) put_fish_option(*v, option);
  }
}

bool print_completion(const verb *const *verbs, const char *shell)
{
  if (strcmp(shell, "bash") == 0) print_bash(verbs);
  else if (strcmp(shell, "zsh") == 0) print_zsh(verbs);
  else if (strcmp(shell, "fish") == 0) print_fish(verbs);
  else return false;
  return true;
}
