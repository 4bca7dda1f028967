#include "words.h"

#include <string.h>

#include <tapedeck/device.h>
#include <tapedeck/planner.h>

static void copy_list(const char *const *names, words *list)
{
  size_t n = 0;
  for (; n < WORDS_MAX && names[n]; n++) list->at[n] = names[n];
  list->at[n] = NULL;
}

bool option_words(const option_def *option, words *list)
{
  size_t n = 0;
  if (!option->value) return false;
  if (strcmp(option->value, "PLANNER") == 0) {
    copy_list(td_planner_names(), list);
    return true;
  }
  if (strcmp(option->value, "DEVICE") == 0) {
    copy_list(td_device_names(), list);
    return true;
  }
  if (!strchr(option->value, '|')) return false;
  snprintf(list->text, sizeof list->text, "%s", option->value);
  char *bar = list->text;
  do {
    list->at[n++] = bar;
    bar = strchr(bar, '|');
    if (bar) *bar++ = '\0';
  } while (bar && n < WORDS_MAX);
  list->at[n] = NULL;
  return true;
}

#define LENGTH_MAX 40

static unsigned least(unsigned a, unsigned b)
{
  return a < b ? a : b;
}

/* Insertions, deletions, changes and swaps of neighbours that make one word of the other (Damerau's distance). */
static unsigned distance(const char *a, const char *b)
{
  unsigned rows[LENGTH_MAX + 2][LENGTH_MAX + 2];
  size_t n = strlen(a), m = strlen(b);
  for (size_t i = 0; i <= n; i++) rows[i][0] = (unsigned)i;
  for (size_t k = 0; k <= m; k++) rows[0][k] = (unsigned)k;
  for (size_t i = 1; i <= n; i++) {
    for (size_t k = 1; k <= m; k++) {
      rows[i][k] = least(least(rows[i - 1][k], rows[i][k - 1]) + 1, rows[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
      if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1]) rows[i][k] = least(rows[i][k], rows[i - 2][k - 2] + 1);
    }
  }
  return rows[n][m];
}

const char *nearest_word(const char *word, const char *const *list)
{
  size_t length = strlen(word);
  unsigned best = (unsigned)(length / 3 + 1);
  const char *nearest = NULL;
  if (!length || length > LENGTH_MAX) return NULL;
  for (; *list; list++) {
    if (strlen(*list) > LENGTH_MAX) continue;
    unsigned d = length > 1 && strncmp(word, *list, length) == 0 ? 1 : distance(word, *list);
    if (d > best || (d == best && nearest)) continue;
    best = d;
    nearest = *list;
  }
  return nearest;
}

const char *did_you_mean(const char *word, const char *const *list, char *text, size_t size)
{
  const char *nearest = nearest_word(word, list);
  *text = '\0';
  if (nearest) snprintf(text, size, " (did you mean %s?)", nearest);
  return text;
}

const char *join_words(const char *const *list, char *text, size_t size)
{
  size_t n = 0;
  *text = '\0';
  for (; *list && n + 1 < size; list++)
    n += (size_t)snprintf(text + n, size - n, "%s%s", !n ? "" : list[1] ? ", " : " or ", *list);
  return text;
}
