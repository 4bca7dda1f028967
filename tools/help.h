/* What the tables of verbs and options say of themselves: help, man pages and completions for shells. */
#ifndef TD_TOOLS_HELP_H
#define TD_TOOLS_HELP_H

#include "cli.h"

/* `verbs` ends with NULL. */
void print_help(const verb *const *verbs);
void print_verb_help(const verb *verb);

/* A page in roff: of one verb, or, for NULL, of the program. */
void print_manual(const verb *const *verbs, const verb *verb);

/* For "bash", "zsh" or "fish". False if there is none for the shell. */
bool print_completion(const verb *const *verbs, const char *shell);

#endif
