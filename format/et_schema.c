/* Operator schemas: which arguments an op mutates. */
#include "format/et_nodes.h"

#include <string.h>

/* Past a quoted default value, which may hold any of the characters that mean something. */
static const char *past_quotes(const char *at)
{
  char quote = *at++;
  while (*at && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
  return *at ? at + 1 : at;
}

/* The end of an argument: the comma behind it, the parenthesis that closes the list, or the end of the text. Says whether its
 * type is annotated as written to; a default value has no say. */
static const char *past_argument(const char *at, bool *mutates)
{
  unsigned depth = 0;
  bool in_default = false;
  *mutates = false;
  while (*at) {
    if (*at == '"' || *at == '\'') {
      at = past_quotes(at);
      continue;
    }
    if (depth == 0 && (*at == ',' || *at == ')')) break;
    if (*at == '(' || *at == '[') depth++;
    if ((*at == ')' || *at == ']') && depth) depth--;
    if (*at == '=' && !depth) in_default = true;
    if (*at == '!' && depth && !in_default) *mutates = true;
    at++;
  }
  return at;
}

void td_et_schema_mark(const char *schema, td_et_tensor *inputs, size_t n)
{
  const char *at = strchr(schema, '(');
  size_t i = 0;
  for (uint64_t number = 0; at && *at && *at != ')' && i < n;) {
    at++; /* the parenthesis or comma */
    at += strspn(at, " ");
    const char *start = at;
    bool mutates;
    at = past_argument(at, &mutates);
    if (at == start + 1 && *start == '*') continue; /* what follows is given by name */
    for (; i < n && inputs[i].leaf == number; i++) inputs[i].write = mutates;
    number++;
  }
}
