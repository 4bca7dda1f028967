/* Placements as text. */
#include <tapedeck/sharding.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

static td_status wrong(const char *text, size_t length, const char *what, td_error *err)
{
  return td_fail(err, TD_E_INPUT, "placement '%.*s': %s", length > 200 ? 200 : (int)length, text, what);
}

static bool is_space(char c)
{
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* An optional sign and decimal digits, in 32 bits, white space around it allowed. */
static bool parse_number(const char *text, size_t length, int32_t *number)
{
  int64_t value = 0;
  while (length && is_space(*text)) text++, length--;
  while (length && is_space(text[length - 1])) length--;
  bool negative = length && *text == '-';
  if (length && (*text == '-' || *text == '+')) text++, length--;
  if (!length) return false;
  for (; length; text++, length--) {
    if (*text < '0' || *text > '9' || value > INT32_MAX) return false;
    value = value * 10 + (*text - '0');
  }
  if (negative) value = -value;
  if (value < INT32_MIN || value > INT32_MAX) return false;
  *number = (int32_t)value;
  return true;
}

static void set_dim(td_placement *placement, int32_t written)
{
  placement->uneven = written < 0;
  placement->dim = written < 0 ? -(written + 1) : written;
}

/* What stands between "NAME(" and the last ")"; false if the text is not of that form. */
static bool inside(const char *text, size_t length, const char *name, const char **inner, size_t *n)
{
  size_t prefix = strlen(name);
  if (length < prefix + 2 || memcmp(text, name, prefix) != 0 || text[prefix] != '(' || text[length - 1] != ')') return false;
  *inner = text + prefix + 1;
  *n = length - prefix - 2;
  return true;
}

static td_status parse_shard(const char *text, size_t length, const char *inner, size_t n, td_placement *out, td_error *err)
{
  int32_t dim;
  if (memchr(inner, ',', n)) return wrong(text, length, "too many args", err);
  if (!parse_number(inner, n, &dim)) return wrong(text, length, "invalid dim", err);
  *out = (td_placement){.kind = TD_SHARD};
  set_dim(out, dim);
  return TD_OK;
}

static td_status parse_strided(const char *text, size_t length, const char *inner, size_t n, td_placement *out, td_error *err)
{
  const char *comma = memchr(inner, ',', n);
  size_t before = comma ? (size_t)(comma - inner) : 0, after = comma ? n - before - 1 : 0;
  int32_t dim, factor;
  if (!comma || memchr(comma + 1, ',', after)) return wrong(text, length, "expected SS(dim,factor)", err);
  if (!parse_number(inner, before, &dim)) return wrong(text, length, "invalid dim", err);
  if (!parse_number(comma + 1, after, &factor) || factor < 1) return wrong(text, length, "invalid split_factor", err);
  *out = (td_placement){.kind = TD_STRIDED_SHARD, .split_factor = factor};
  set_dim(out, dim);
  return TD_OK;
}

td_status td_placement_parse(const char *text, size_t length, td_placement *out, td_error *err)
{
  const char *inner;
  size_t n;
  if (!length) return wrong(text, length, "empty", err);
  if (length == 1 && *text == 'R') {
    *out = (td_placement){.kind = TD_REPLICATE};
    return TD_OK;
  }
  if (inside(text, length, "S", &inner, &n)) return parse_shard(text, length, inner, n, out, err);
  if (inside(text, length, "SS", &inner, &n)) return parse_strided(text, length, inner, n, out, err);
  if (!inside(text, length, "P", &inner, &n) || memchr(inner, '\n', n)) return wrong(text, length, "unknown form", err);
  if (!n) return wrong(text, length, "missing reduce op", err);
  *out = (td_placement){.kind = TD_PARTIAL, .reduce_op = inner, .reduce_op_length = n};
  return TD_OK;
}

td_status td_placement_format(const td_placement *p, char **text, td_error *err)
{
  int32_t dim = p->uneven ? -p->dim - 1 : p->dim;
  char *to = NULL;
  int n = 0;
  if ((p->kind == TD_SHARD || p->kind == TD_STRIDED_SHARD) && p->dim < 0)
    return td_fail(err, TD_E_INPUT, "a shard on dimension %d: a negative dimension cannot be written", p->dim);
  if (p->kind == TD_STRIDED_SHARD && p->split_factor < 1)
    return td_fail(err, TD_E_INPUT, "a strided shard with split factor %d: expected 1 or more", p->split_factor);
  if (p->kind == TD_PARTIAL && (!p->reduce_op_length || memchr(p->reduce_op, '\n', p->reduce_op_length)))
    return td_fail(err, TD_E_INPUT, "a partial placement needs a reduce op that is not empty and has no line feed");
  switch (p->kind) {
  case TD_REPLICATE: n = asprintf(&to, "R"); break;
  case TD_SHARD: n = asprintf(&to, "S(%d)", dim); break;
  case TD_STRIDED_SHARD: n = asprintf(&to, "SS(%d,%d)", dim, p->split_factor); break;
  case TD_PARTIAL: n = asprintf(&to, "P(%.*s)", (int)p->reduce_op_length, p->reduce_op); break;
  }
  if (n < 0 || !to) return td_fail_nomem(err);
  *text = to;
  return TD_OK;
}
