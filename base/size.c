#include <tapedeck/size.h>

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

typedef struct unit {
  const char *suffix; /* NULL: the last */
  double factor;
} unit;

static const unit units[] = {{"", 1}, {"B", 1}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {0}};
static const unit times[] = {{"", 1}, {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {0}};

/* A number of digits with an optional fraction and exponent; strtod alone would take "inf", "nan" and hexadecimal. */
static bool parse_number(const char *text, double *number, const char **rest)
{
  if (*text < '0' || *text > '9' || text[1] == 'x' || text[1] == 'X') return false;
  char *end;
  *number = strtod(text, &end);
  *rest = end;
  return isfinite(*number);
}

static bool parse_unit(const unit *list, const char *rest, double *factor)
{
  for (; list->suffix; list++) {
    if (strcmp(rest, list->suffix) == 0) {
      *factor = list->factor;
      return true;
    }
  }
  return false;
}

td_status td_parse_size(const char *text, uint64_t whole, uint64_t *bytes, td_error *err)
{
  double number, factor;
  const char *rest;
  if (!parse_number(text, &number, &rest)) goto bad;
  if (strcmp(rest, "%") == 0) {
    if (number > 100) return td_fail(err, TD_E_ARG, "'%s' is no size: at most 100%%", text);
    /* 33.3% of 1000 is 333, though 33.3 is a little less in binary. */
    *bytes = (uint64_t)((long double)whole * (long double)number / 100 + 1e-6L);
    return TD_OK;
  }
  if (*rest == '\0' && !strpbrk(text, ".eE")) { /* plain digits are exact up to 2^64-1 */
    errno = 0;
    unsigned long long exact = strtoull(text, NULL, 10);
    if (errno) goto bad;
    *bytes = exact;
    return TD_OK;
  }
  if (!parse_unit(units, rest, &factor) || number * factor >= 0x1p64) goto bad;
  *bytes = (uint64_t)(number * factor);
  return TD_OK;
bad:
  return td_fail(err, TD_E_ARG, "'%s' is no size: expected bytes, a number with KiB, MiB, GiB or TiB, or N%%", text);
}

td_status td_parse_rate(const char *text, double *bytes_per_s, td_error *err)
{
  double number, factor;
  const char *rest;
  if (parse_number(text, &number, &rest) && parse_unit(units, rest, &factor) && number * factor > 0 &&
      isfinite(number * factor)) {
    *bytes_per_s = number * factor;
    return TD_OK;
  }
  return td_fail(err, TD_E_ARG, "'%s' is no rate: expected bytes a second, or a number with KiB, MiB, GiB or TiB", text);
}

td_status td_parse_time(const char *text, uint64_t *ns, td_error *err)
{
  double number, factor;
  const char *rest;
  if (parse_number(text, &number, &rest) && parse_unit(times, rest, &factor) && number * factor < 0x1p63) {
    *ns = (uint64_t)(number * factor);
    return TD_OK;
  }
  return td_fail(err, TD_E_ARG, "'%s' is no time: expected nanoseconds, or a number with ns, us, ms or s", text);
}

char *td_format_size(uint64_t bytes, char *text, size_t size)
{
  size_t unit = 1;
  while (units[unit + 1].suffix && (double)bytes >= units[unit + 1].factor) unit++;
  if (unit == 1)
    snprintf(text, size, "%llu B", (unsigned long long)bytes);
  else
    snprintf(text, size, "%.1f %s", (double)bytes / units[unit].factor, units[unit].suffix);
  return text;
}
