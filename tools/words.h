/* Lists of words that an option or a verb may be, and which of them somebody may have meant. */
#ifndef TD_TOOLS_WORDS_H
#define TD_TOOLS_WORDS_H

#include "cli.h"

#define WORDS_MAX 32

typedef struct words {
  char text[512];
  const char *at[WORDS_MAX + 1]; /* NULL last */
} words;

/* The values that an option takes: of a placeholder such as "csv|dot" its parts; of PLANNER and DEVICE those that there are; else
 * none. They point into `list`. False if any value will do. */
bool option_words(const option_def *option, words *list);

/* The word that is nearest, if it is near enough to be meant; else NULL. */
const char *nearest_word(const char *word, const char *const *list);

/* " (did you mean WORD?)" or "" in a buffer. */
const char *did_you_mean(const char *word, const char *const *list, char *text, size_t size);

/* "a, b or c" in a buffer. */
const char *join_words(const char *const *list, char *text, size_t size);

#endif
