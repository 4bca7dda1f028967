/* Errors, arrays, maps, names and sizes. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tapedeck/size.h>

#include "base/buffer.h"
#include "base/fail.h"
#include "base/map.h"
#include "base/names.h"

Test(fail, a_message_is_one_line_and_never_too_long)
{
  td_error err;
  cr_expect_eq(td_fail(&err, TD_E_IO, "a\nb\tc\x7f%s", "\x1b[31m"), TD_E_IO);
  cr_expect_str_eq(err.message, "a?b?c??[31m");
  char longer[2 * sizeof err.message];
  memset(longer, 'x', sizeof longer - 1);
  longer[sizeof longer - 1] = '\0';
  td_fail(&err, TD_E_ARG, "%s", longer);
  cr_expect_eq(strlen(err.message), sizeof err.message - 1);
  cr_expect_eq(td_fail(NULL, TD_E_ARG, "nobody listens"), TD_E_ARG);
}

Test(fail, a_message_may_quote_the_one_before)
{
  td_error err;
  td_fail(&err, TD_E_IO, "inner");
  td_fail(&err, TD_E_IO, "outer: %s", err.message);
  cr_expect_str_eq(err.message, "outer: inner");
}

Test(fail, every_status_has_a_name)
{
  for (int status = TD_OK; status <= TD_E_DIVERGED; status++)
    cr_expect_str_neq(td_status_name((td_status)status), "unknown status");
  cr_expect_str_eq(td_status_name((td_status)99), "unknown status");
}

Test(buffer, appends_nothing_and_much)
{
  td_buffer buffer = {0};
  cr_expect(td_buffer_append(&buffer, NULL, 0));
  for (int i = 0; i < 1000; i++) cr_assert(td_buffer_text(&buffer, "abc"));
  cr_expect_eq(buffer.length, 3000);
  cr_expect_eq(memcmp(buffer.bytes + 2997, "abc", 3), 0);
  cr_expect_not(td_buffer_reserve(&buffer, SIZE_MAX), "no overflow");
  td_buffer_finish(&buffer);
}

/* Against a plain array: keys collide, come and go. */
Test(map, agrees_with_an_array_through_random_puts_and_removes)
{
  enum { KEYS = 500 };
  uint32_t wanted[KEYS];
  memset(wanted, 0xff, sizeof wanted);
  td_map map = {0};
  srand(1);
  cr_expect_eq(td_map_get(&map, 7), TD_MAP_NONE);
  cr_expect_eq(td_map_remove(&map, 7), TD_MAP_NONE);
  for (int i = 0; i < 200000; i++) {
    unsigned k = (unsigned)rand() % KEYS;
    uint64_t key = k % 2 ? (uint64_t)k << 40 : UINT64_MAX - k;
    if (rand() % 3) {
      wanted[k] = (uint32_t)i;
      cr_assert(td_map_put(&map, key, (uint32_t)i));
    } else {
      cr_assert_eq(td_map_remove(&map, key), wanted[k]);
      wanted[k] = TD_MAP_NONE;
    }
    unsigned other = (unsigned)rand() % KEYS;
    cr_assert_eq(td_map_get(&map, other % 2 ? (uint64_t)other << 40 : UINT64_MAX - other), wanted[other]);
  }
  size_t count = 0;
  for (int k = 0; k < KEYS; k++) count += wanted[k] != TD_MAP_NONE;
  cr_expect_eq(map.count, count);
  td_map_finish(&map);
}

Test(names, the_same_bytes_have_the_same_number)
{
  td_names names = {0};
  char text[16];
  for (uint32_t i = 0; i < 3000; i++) {
    int n = snprintf(text, sizeof text, "op%u", i);
    cr_assert_eq(td_names_intern(&names, text, (size_t)n), i);
  }
  for (uint32_t i = 0; i < 3000; i++) {
    int n = snprintf(text, sizeof text, "op%u", i);
    cr_assert_eq(td_names_intern(&names, text, (size_t)n), i);
  }
  cr_expect_eq(td_names_intern(&names, "a\0b", 3), 3000);
  cr_expect_eq(td_names_intern(&names, "a\0c", 3), 3001);
  cr_expect_eq(td_names_intern(&names, "", 0), 3002);
  cr_expect_eq(td_names_intern(&names, NULL, 0), 3002);
  size_t length;
  cr_expect_eq(memcmp(td_names_get(&names, 3001, &length), "a\0c", 4), 0);
  cr_expect_eq(length, 3);
  td_names_finish(&names);
}

static void reads(const char *text, uint64_t wanted)
{
  uint64_t bytes = 0;
  td_error err;
  cr_expect_eq(td_parse_size(text, 1000, &bytes, &err), TD_OK, "%s", text);
  cr_expect_eq(bytes, wanted, "%s", text);
}

Test(size, is_read_as_people_write_it)
{
  reads("0", 0);
  reads("4096", 4096);
  reads("18446744073709551615", UINT64_MAX);
  reads("64KiB", 65536);
  reads("1.5GiB", 1610612736);
  reads("2TiB", (uint64_t)2 << 40);
  reads("1e3", 1000);
  reads("40%", 400);
  reads("33.3%", 333);
  reads("100%", 1000);
}

Test(size, anything_else_is_refused_and_nothing_set)
{
  static const char *const bad[] = {"",       "x",    "-1",   "+1",      " 1",  "1 KiB", "1KB", "0x10",
                                    "inf",    "nan",  "1e99", "101%",    "-5%", "%",     "1GiBs",
                                    "18446744073709551616", "99999999TiB", "1.5"  "x"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    uint64_t bytes = 77;
    td_error err;
    cr_expect_eq(td_parse_size(bad[i], 1000, &bytes, &err), TD_E_ARG, "'%s'", bad[i]);
    cr_expect_eq(bytes, 77);
  }
}

Test(rate, is_above_zero)
{
  double rate = 0;
  cr_expect_eq(td_parse_rate("16GiB", &rate, NULL), TD_OK);
  cr_expect_eq(rate, 17179869184.0);
  cr_expect_eq(td_parse_rate("1.6e10", &rate, NULL), TD_OK);
  cr_expect_eq(rate, 1.6e10);
  cr_expect_eq(td_parse_rate("0", &rate, NULL), TD_E_ARG);
  cr_expect_eq(td_parse_rate("40%", &rate, NULL), TD_E_ARG);
  cr_expect_eq(rate, 1.6e10);
}

Test(size, is_written_with_a_unit)
{
  char text[16];
  cr_expect_str_eq(td_format_size(0, text, sizeof text), "0 B");
  cr_expect_str_eq(td_format_size(1023, text, sizeof text), "1023 B");
  cr_expect_str_eq(td_format_size(1024, text, sizeof text), "1.0 KiB");
  cr_expect_str_eq(td_format_size(62045952, text, sizeof text), "59.2 MiB");
  cr_expect_str_eq(td_format_size(UINT64_MAX, text, sizeof text), "16777216.0 TiB");
}

Test(time, has_units)
{
  uint64_t ns = 7;
  cr_expect_eq(td_parse_time("5us", &ns, NULL), TD_OK);
  cr_expect_eq(ns, 5000);
  cr_expect_eq(td_parse_time("1.5ms", &ns, NULL), TD_OK);
  cr_expect_eq(ns, 1500000);
  cr_expect_eq(td_parse_time("800", &ns, NULL), TD_OK);
  cr_expect_eq(ns, 800);
  cr_expect_eq(td_parse_time("0", &ns, NULL), TD_OK);
  cr_expect_eq(ns, 0);
  static const char *const bad[] = {"", "-1", "5 us", "us", "1e30", "inf", "5GiB", "9223372036854775808"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) cr_expect_eq(td_parse_time(bad[i], &ns, NULL), TD_E_ARG, "'%s'", bad[i]);
  cr_expect_eq(ns, 0);
}
