/* Runs a fuzz target over files and folders of inputs, without a fuzzer. A name that ends in .hex holds the bytes as hexadecimal
 * digits, so that a corpus is text. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static size_t from_hex(uint8_t *bytes, size_t length)
{
  size_t n = 0;
  unsigned value = 0, digits = 0;
  for (size_t i = 0; i < length; i++) {
    if (!isxdigit(bytes[i])) continue;
    value = value << 4 | (unsigned)(isdigit(bytes[i]) ? bytes[i] - '0' : tolower(bytes[i]) - 'a' + 10);
    if (++digits % 2 == 0) bytes[n++] = (uint8_t)value;
  }
  return n;
}

static void run_file(const char *path)
{
  size_t length, name = strlen(path);
  uint8_t *bytes = fuzz_read(path, &length);
  if (name > 4 && strcmp(path + name - 4, ".hex") == 0) length = from_hex(bytes, length);
  uint8_t *exact = malloc(length ? length : 1); /* so that reading past the end is seen */
  memcpy(exact, bytes, length);
  free(bytes);
  LLVMFuzzerTestOneInput(exact, length);
  free(exact);
}

int main(int argc, char **argv)
{
  int n = 0;
  for (int i = 1; i < argc; i++) {
    DIR *folder = opendir(argv[i]);
    if (!folder) {
      run_file(argv[i]);
      n++;
      continue;
    }
    for (struct dirent *entry; (entry = readdir(folder)); ) {
      char path[4096];
      snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
      if (entry->d_name[0] == '.') continue;
      run_file(path);
      n++;
    }
    closedir(folder);
  }
  printf("%d inputs\n", n);
  return n == 0;
}
