#include "format/source.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <zlib.h>
#include <zstd.h>

#include "base/fail.h"
#include "base/progress.h"

#define CHUNK 65536
#define WINDOW_LOG_MAX 27 /* zstd's own default: 128 MiB is the most that a frame may ask for */

struct td_source {
  char *path;
  FILE *file;
  uint64_t read, size; /* bytes of the file; size 0: it is no regular file */
  enum { PLAIN, GZIP, ZSTD } form;
  z_stream gzip;
  ZSTD_DStream *zstd;
  ZSTD_inBuffer in; /* what was read and not yet decompressed */
  bool frame_open;  /* a compressed frame has begun and not ended */
  uint8_t raw[CHUNK], out[CHUNK];
};

static td_status failed(const td_source *source, const char *what, td_error *err)
{
  return td_fail(err, TD_E_IO, "cannot read %s: %s", source->path, what);
}

static td_status fill(td_source *source, td_error *err)
{
  errno = 0;
  size_t n = fread(source->raw, 1, sizeof source->raw, source->file);
  source->in = (ZSTD_inBuffer){.src = source->raw, .size = n};
  source->read += n;
  td_progress(source->read, source->size, "bytes");
  return n == 0 && ferror(source->file) ? failed(source, strerror(errno), err) : TD_OK;
}

static td_status start(td_source *source, td_error *err)
{
  source->file = fopen(source->path, "rb");
  if (!source->file) return td_fail(err, TD_E_IO, "cannot open %s: %s", source->path, strerror(errno));
  struct stat info;
  if (!fstat(fileno(source->file), &info) && S_ISREG(info.st_mode)) source->size = (uint64_t)info.st_size;
  td_status status = fill(source, err);
  if (status) return status;
  const uint8_t *raw = source->raw;
  if (source->in.size >= 4 && memcmp(raw, "\x28\xb5\x2f\xfd", 4) == 0) {
    source->form = ZSTD;
    source->zstd = ZSTD_createDStream();
    if (!source->zstd || ZSTD_isError(ZSTD_DCtx_setParameter(source->zstd, ZSTD_d_windowLogMax, WINDOW_LOG_MAX)))
      return td_fail_nomem(err);
  } else if (source->in.size >= 2 && raw[0] == 0x1f && raw[1] == 0x8b) {
    source->form = GZIP;
    if (inflateInit2(&source->gzip, 15 + 16) != Z_OK) return td_fail_nomem(err); /* 16: gzip's header and checksum */
  }
  return TD_OK;
}

td_status td_source_open(td_source **out, const char *path, td_error *err)
{
  td_source *source = calloc(1, sizeof *source);
  if (!source) return td_fail_nomem(err);
  source->path = strdup(path);
  td_status status = source->path ? start(source, err) : td_fail_nomem(err);
  if (status)
    td_source_close(source);
  else
    *out = source;
  return status;
}

void td_source_close(td_source *source)
{
  if (!source) return;
  if (source->file) fclose(source->file);
  if (source->form == GZIP) inflateEnd(&source->gzip);
  ZSTD_freeDStream(source->zstd);
  free(source->path);
  free(source);
}

static td_status step_zstd(td_source *source, size_t *length, td_error *err)
{
  ZSTD_outBuffer to = {.dst = source->out, .size = sizeof source->out};
  size_t left = ZSTD_decompressStream(source->zstd, &to, &source->in);
  if (ZSTD_isError(left)) return failed(source, ZSTD_getErrorName(left), err);
  source->frame_open = left != 0;
  *length = to.pos;
  return TD_OK;
}

static td_status step_gzip(td_source *source, size_t *length, td_error *err)
{
  z_stream *stream = &source->gzip;
  stream->next_in = source->raw + source->in.pos;
  stream->avail_in = (uInt)(source->in.size - source->in.pos);
  stream->next_out = source->out;
  stream->avail_out = sizeof source->out;
  int code = inflate(stream, Z_NO_FLUSH);
  if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
    return failed(source, stream->msg ? stream->msg : "not sound gzip data", err);
  source->in.pos = source->in.size - stream->avail_in;
  source->frame_open = code != Z_STREAM_END;
  if (code == Z_STREAM_END) inflateReset(stream); /* another member may follow */
  *length = sizeof source->out - stream->avail_out;
  return TD_OK;
}

td_status td_source_read(td_source *source, const uint8_t **bytes, size_t *length, td_error *err)
{
  *bytes = source->form == PLAIN ? source->raw : source->out;
  for (;;) {
    if (source->in.pos == source->in.size) {
      td_status status = fill(source, err);
      if (status) return status;
      if (source->in.size == 0 && source->frame_open) return failed(source, "the compressed data is cut off", err);
      if (source->in.size == 0) {
        *length = 0;
        return TD_OK;
      }
    }
    if (source->form == PLAIN) {
      source->in.pos = *length = source->in.size;
      return TD_OK;
    }
    *length = 0;
    td_status status = source->form == ZSTD ? step_zstd(source, length, err) : step_gzip(source, length, err);
    if (status || *length) return status;
  }
}

const char *td_source_path(const td_source *source)
{
  return source->path;
}
