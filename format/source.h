/* The bytes of a file that may be compressed with zstd or gzip; which, the file itself says. */
#ifndef TD_FORMAT_SOURCE_H
#define TD_FORMAT_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

typedef struct td_source td_source;

td_status td_source_open(td_source **out, const char *path, td_error *err);
void td_source_close(td_source *source);

/* The next bytes, valid until the next call; *length is 0 at the end. A compressed file that is cut off is an error. */
td_status td_source_read(td_source *source, const uint8_t **bytes, size_t *length, td_error *err);

const char *td_source_path(const td_source *source);

#endif
