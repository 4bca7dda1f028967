/* What the fuzz targets share: files in memory, and a sound tape to start from. */
#ifndef TD_FUZZ_H
#define TD_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A name in a folder of this process's own, in memory where there is such a place; valid until eight more were asked for. */
const char *fuzz_file(const char *name);
void fuzz_write(const char *path, const void *bytes, size_t length);
/* The whole file, freed by the caller. */
uint8_t *fuzz_read(const char *path, size_t *length);

/* A property does not hold. */
void fuzz_fail(const char *what) __attribute__((noreturn));

/* A small sound tape with a schedule at `path`. */
void fuzz_make_tape(const char *path);

#endif
