/* Small traces as interchange JSON, and files made from text. */
#ifndef TD_TESTS_FIXTURE_H
#define TD_TESTS_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two ops, three storages, of which 7 and 18446744073709551615 are activations. Everything that a trace can have is there,
 * in the order and spacing in which it is exported. */
#define FULL_TRACE                                                                                                     \
  "{\"meta\": {\"model\": \"mlp\", \"lr\": 1.50e-3, \"nested\": {\"a\": [1, null, \"\\u00e9\"]}},\n"                   \
  "\"ops\": [\n"                                                                                                       \
  "{\"name\": \"aten.mm.default\", \"dur_ns\": 35135, \"leaves\": 2, \"out\": [[1, 7]], \"acc\": [[3, \"R\"], [7, \"W\"]]},\n" \
  "{\"name\": \"\\u0000odd \\\"name\\\\ \\udc80\\udcff \xc3\xa9\", \"dur_ns\": 18446744073709551615, \"leaves\": 1, \"out\": [[0, " \
  "18446744073709551615]], \"acc\": [[7, \"R\"], [7, \"W\"], [18446744073709551615, \"W\"]], \"opaque\": true}\n"        \
  "],\n"                                                                                                               \
  "\"storages\": {\"3\": 4096, \"18446744073709551615\": 9007199254740993, \"7\": 65536},\n"                           \
  "\"activation_sids\": [7, 18446744073709551615],\n"                                                                  \
  "\"retained\": [18446744073709551615],\n"                                                                            \
  "\"freed_before_op\": {\"7\": 2},\n"                                                                                 \
  "\"marks\": [[\"forward_end\", 1], [\"end\", 2]],\n"                                                                 \
  "\"schedules\": [\n"                                                                                                 \
  "{\"planner\": \"mine\", \"memory_limit_bytes\": 62045952, \"d2h_bytes_per_s\": 16000000000, \"h2d_bytes_per_s\": "  \
  "1.1e+300, \"early\": true, \"note\": {\"x\": 1e0}, \"actions\": [[0, \"post\", \"COPY_D2H\", 7], [0, \"post\", "    \
  "\"RELEASE_DEVICE\", 7], [1, \"pre\", \"COPY_H2D\", 7]]},\n"                                                         \
  "{\"planner\": \"\", \"actions\": []}\n"                                                                             \
  "],\n"                                                                                                               \
  "\"stat\": {\"wall\": 1.0}}\n"

static inline void write_file(const char *path, const void *bytes, size_t length)
{
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, length, file) != length || fclose(file)) abort();
}

/* The whole file with a NUL after it; the caller frees it. NULL if it cannot be read. */
static inline char *read_file(const char *path, size_t *length)
{
  FILE *file = fopen(path, "rb");
  if (!file) return NULL;
  size_t n = 0, capacity = 1 << 16;
  char *bytes = malloc(capacity);
  for (size_t got; (got = fread(bytes + n, 1, capacity - n - 1, file)) > 0;) {
    n += got;
    if (n + 1 == capacity) bytes = realloc(bytes, capacity *= 2);
  }
  fclose(file);
  bytes[n] = '\0';
  if (length) *length = n;
  return bytes;
}

#endif
