#include "format/column.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/array.h"
#include "base/fail.h"

const td_column_def td_columns[TD_N_CODED] = {
  [TD_COL_NAME_LENGTH] = {"name_length", "bytes", TD_GROUP_NAMES, TD_CODEC_VARINT},
  [TD_COL_NAME_BYTE] = {"name_byte", "byte", TD_GROUP_NAMES, TD_CODEC_PLANES},
  [TD_COL_OP_NAME] = {"op_name", "number of a name", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OP_DUR] = {"op_dur", "ns", TD_GROUP_OPS, TD_CODEC_PLANES},
  [TD_COL_OP_LEAVES] = {"op_leaves", "leaves", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OP_OPAQUE] = {"op_opaque", "0 or 1", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OP_ACCESSES] = {"op_accesses", "accesses", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OP_OUTPUTS] = {"op_outputs", "bound outputs", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_ACCESS_SID] = {"access_sid", "SID", TD_GROUP_OPS, TD_CODEC_ACCESS},
  [TD_COL_ACCESS_KIND] = {"access_kind", "0 read, 1 write", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OUTPUT_LEAF] = {"output_leaf", "leaf index", TD_GROUP_OPS, TD_CODEC_VARINT},
  [TD_COL_OUTPUT_SID] = {"output_sid", "SID", TD_GROUP_OPS, TD_CODEC_OUTPUT},
  [TD_COL_STORAGE_SID] = {"storage_sid", "SID", TD_GROUP_STORAGES, TD_CODEC_DELTA},
  [TD_COL_STORAGE_BYTES] = {"storage_bytes", "bytes", TD_GROUP_STORAGES, TD_CODEC_VARINT},
  [TD_COL_STORAGE_FREED] = {"storage_freed", "op number plus one, 0 never", TD_GROUP_STORAGES, TD_CODEC_DELTA_PLANES},
  [TD_COL_ACTIVATION_SID] = {"activation_sid", "SID", TD_GROUP_ACTIVATIONS, TD_CODEC_DELTA},
  [TD_COL_RETAINED_SID] = {"retained_sid", "SID", TD_GROUP_RETAINED, TD_CODEC_DELTA},
  [TD_COL_ACTION_OP] = {"action_op", "op number", TD_GROUP_ACTIONS, TD_CODEC_DELTA},
  [TD_COL_ACTION_KIND] = {"action_kind", "kind, plus 4 after the op", TD_GROUP_ACTIONS, TD_CODEC_VARINT},
  [TD_COL_ACTION_SID] = {"action_sid", "SID", TD_GROUP_ACTIONS, TD_CODEC_DELTA},
};

void td_values_finish(td_values *values)
{
  free(values->at);
  *values = (td_values){0};
}

bool td_values_grow(td_values *values)
{
  return TD_GROW(values->at, values->capacity, values->count + 1);
}

#define REMEMBERED 65536 /* SIDs */

bool td_encoder_init(td_encoder *encoder, int level)
{
  *encoder = (td_encoder){.zstd = ZSTD_createCCtx(), .last = calloc(REMEMBERED, sizeof *encoder->last)};
  return encoder->zstd && encoder->last && !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_compressionLevel, level)) &&
         !ZSTD_isError(ZSTD_CCtx_setParameter(encoder->zstd, ZSTD_c_checksumFlag, 1));
}

void td_encoder_finish(td_encoder *encoder)
{
  ZSTD_freeCCtx(encoder->zstd);
  td_buffer_finish(&encoder->raw);
  td_buffer_finish(&encoder->frame);
  free(encoder->last);
  *encoder = (td_encoder){0};
}

bool td_decoder_init(td_decoder *decoder)
{
  *decoder = (td_decoder){.zstd = ZSTD_createDCtx()};
  return decoder->zstd;
}

void td_decoder_finish(td_decoder *decoder)
{
  ZSTD_freeDCtx(decoder->zstd);
  td_buffer_finish(&decoder->raw);
  *decoder = (td_decoder){0};
}

/* ---- numbers -------------------------------------------------------------------------------------------------- */

#define VARINT_MAX 10 /* bytes of a LEB128 number of 64 bits */

/* Differences wrap around, so every pair of numbers has one; zigzag makes small negative ones small. */
static uint64_t zigzag(uint64_t difference)
{
  return difference << 1 ^ (0 - (difference >> 63));
}

static uint64_t unzigzag(uint64_t code)
{
  return code >> 1 ^ (0 - (code & 1));
}

static uint8_t *put_varint(uint8_t *to, uint64_t value)
{
  for (; value >= 0x80; value >>= 7) *to++ = (uint8_t)(value | 0x80);
  *to++ = (uint8_t)value;
  return to;
}

typedef struct bytes {
  const uint8_t *at, *end;
} bytes;

static bool take_long_varint(bytes *in, uint64_t *value)
{
  uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
    uint8_t byte = *in->at++;
    if (shift == 63 && byte > 1) return false;
    result |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) {
      *value = result;
      return true;
    }
  }
  return false;
}

static inline bool take_varint(bytes *in, uint64_t *value)
{
  if (in->at == in->end || *in->at >= 0x80) return take_long_varint(in, value);
  *value = *in->at++;
  return true;
}

/* ---- codecs, to bytes ----------------------------------------------------------------------------------------- */

/* Each puts the bytes into raw, where there is room for the longest form, and returns their end. */

static uint8_t *encode_varint(uint8_t *to, const td_values *values, bool delta)
{
  uint64_t before = 0;
  for (size_t i = 0; i < values->count; i++) {
    to = put_varint(to, delta ? zigzag(values->at[i] - before) : values->at[i]);
    before = values->at[i];
  }
  return to;
}

static uint8_t *encode_planes(uint8_t *to, const td_values *values, bool delta)
{
  uint64_t all = 0, before = 0;
  for (size_t i = 0; i < values->count; i++) {
    all |= delta ? zigzag(values->at[i] - before) : values->at[i];
    before = values->at[i];
  }
  unsigned planes = 1;
  while (planes < 8 && all >> (8 * planes)) planes++;
  *to++ = (uint8_t)planes;
  for (unsigned plane = 0; plane < planes; plane++) {
    before = 0;
    for (size_t i = 0; i < values->count; i++) {
      uint64_t value = delta ? zigzag(values->at[i] - before) : values->at[i];
      before = values->at[i];
      *to++ = (uint8_t)(value >> (8 * plane));
    }
  }
  return to;
}

enum { ACCESS_NEXT, ACCESS_LITERAL, ACCESS_DISTANCE }; /* codes from ACCESS_DISTANCE on: the distance back, plus one */
enum { OUTPUT_LITERAL, OUTPUT_DISTANCE };              /* likewise */

static uint8_t *encode_accesses(td_encoder *encoder, uint8_t *to, const td_values *sids)
{
  uint64_t before = encoder->n_accesses; /* what was last accessed there is of another block */
  to = put_varint(to, encoder->next);
  for (size_t i = 0; i < sids->count; i++) {
    uint64_t sid = sids->at[i], at = before + i + 1;
    struct td_last_access *last = &encoder->last[sid % REMEMBERED];
    if (last->sid == sid && last->at > before) {
      to = put_varint(to, at - last->at - 1 + ACCESS_DISTANCE);
    } else if (sid == encoder->next) {
      *to++ = ACCESS_NEXT;
    } else {
      *to++ = ACCESS_LITERAL;
      to = put_varint(to, zigzag(encoder->next - sid));
    }
    *last = (struct td_last_access){.sid = sid, .at = at};
    if (sid + 1 > encoder->next) encoder->next = sid + 1;
  }
  encoder->n_accesses += sids->count;
  return to;
}

#define LOOK_BACK 256 /* accesses; keeps an op with many of both from taking their product */

/* Looks back from the end of the op's own accesses. */
static size_t find_access(const uint64_t *end, size_t n_accesses, uint64_t sid)
{
  size_t most = n_accesses < LOOK_BACK ? n_accesses : LOOK_BACK;
  for (size_t distance = 1; distance <= most; distance++)
    if (end[-(ptrdiff_t)distance] == sid) return distance;
  return 0;
}

static uint8_t *encode_outputs(const td_encoder *encoder, uint8_t *to, const td_values *columns)
{
  const uint64_t *sid = columns[TD_COL_OUTPUT_SID].at, *end = columns[TD_COL_ACCESS_SID].at;
  to = put_varint(to, encoder->next);
  for (size_t op = 0; op < columns[TD_COL_OP_OUTPUTS].count; op++) {
    size_t n_accesses = columns[TD_COL_OP_ACCESSES].at[op];
    end = n_accesses ? end + n_accesses : end;
    for (uint64_t n = columns[TD_COL_OP_OUTPUTS].at[op]; n; n--, sid++) {
      size_t distance = find_access(end, n_accesses, *sid);
      if (distance) {
        to = put_varint(to, distance - 1 + OUTPUT_DISTANCE);
      } else {
        *to++ = OUTPUT_LITERAL;
        to = put_varint(to, zigzag(encoder->next - *sid));
      }
    }
  }
  return to;
}

/* ---- codecs, from bytes --------------------------------------------------------------------------------------- */

/* Most numbers take one byte: eight of those at once. Returns how many there were. */
static size_t take_short_varints(bytes *in, uint64_t *to, size_t count)
{
  size_t n = 0;
  for (; n + 8 <= count && in->end - in->at >= 8; n += 8, in->at += 8) {
    uint64_t eight;
    memcpy(&eight, in->at, 8);
    if (eight & 0x8080808080808080u) break;
    for (size_t i = 0; i < 8; i++) to[n + i] = in->at[i];
  }
  return n;
}

static bool decode_varint(bytes *in, uint64_t *to, size_t count, bool delta)
{
  uint64_t value, before = 0;
  for (size_t i = 0; i < count; i++) {
    if (!delta) i += take_short_varints(in, to + i, count - i);
    if (i == count) break;
    if (!take_varint(in, &value)) return false;
    to[i] = before = delta ? before + unzigzag(value) : value;
  }
  return true;
}

static bool decode_planes(bytes *in, uint64_t *to, size_t count, bool delta)
{
  if (in->at == in->end) return false;
  unsigned planes = *in->at++;
  if (planes < 1 || planes > 8 || (size_t)(in->end - in->at) != planes * count) return false;
  for (size_t i = 0; i < count; i++) to[i] = in->at[i];
  for (unsigned plane = 1; plane < planes; plane++)
    for (size_t i = 0; i < count; i++) to[i] |= (uint64_t)in->at[plane * count + i] << (8 * plane);
  in->at = in->end;
  for (size_t i = 0; delta && i < count; i++) to[i] = (i ? to[i - 1] : 0) + unzigzag(to[i]);
  return true;
}

static bool decode_accesses(bytes *in, uint64_t *to, size_t count)
{
  uint64_t next, code;
  if (!take_varint(in, &next)) return false;
  for (size_t i = 0; i < count; i++) {
    if (!take_varint(in, &code)) return false;
    if (code >= ACCESS_DISTANCE) {
      uint64_t distance = code - ACCESS_DISTANCE + 1;
      if (distance > i) return false;
      to[i] = to[i - distance];
      continue;
    }
    to[i] = next;
    if (code == ACCESS_LITERAL) {
      if (!take_varint(in, &code)) return false;
      to[i] = next - unzigzag(code);
    }
    if (to[i] + 1 > next) next = to[i] + 1;
  }
  return true;
}

static bool decode_outputs(bytes *in, uint64_t *to, size_t count, const td_values *columns)
{
  const td_values *accesses = &columns[TD_COL_ACCESS_SID], *n_outputs = &columns[TD_COL_OP_OUTPUTS];
  uint64_t base, code;
  size_t end = 0, output = 0;
  if (n_outputs->count != columns[TD_COL_OP_ACCESSES].count || !take_varint(in, &base)) return false;
  for (size_t op = 0; op < n_outputs->count; op++) {
    uint64_t n = n_outputs->at[op], n_accesses = columns[TD_COL_OP_ACCESSES].at[op];
    if (n_accesses > accesses->count - end || n > count - output) return false;
    end += n_accesses;
    for (; n; n--) {
      if (!take_varint(in, &code)) return false;
      if (code == OUTPUT_LITERAL) {
        if (!take_varint(in, &code)) return false;
        to[output++] = base - unzigzag(code);
      } else {
        uint64_t distance = code - OUTPUT_DISTANCE + 1;
        if (distance > end) return false;
        to[output++] = accesses->at[end - distance];
      }
    }
  }
  return output == count;
}

/* ---- blobs ---------------------------------------------------------------------------------------------------- */

/* The most bytes that `count` values take in any codec: a code and a literal each, and a number or two before them. */
static size_t longest_raw(size_t count)
{
  return 2 * VARINT_MAX + count * (1 + VARINT_MAX);
}

/* Compresses raw as one frame. Planes are flushed one by one, since each has its own statistics. */
static bool compress(td_encoder *encoder, size_t plane)
{
  td_buffer *raw = &encoder->raw, *frame = &encoder->frame;
  size_t n_planes = plane ? (raw->length - 1) / plane : 0;
  frame->length = 0;
  if (!td_buffer_reserve(frame, ZSTD_compressBound(raw->length) + 64 + 16 * n_planes)) return false;
  ZSTD_CCtx_reset(encoder->zstd, ZSTD_reset_session_only);
  ZSTD_CCtx_setPledgedSrcSize(encoder->zstd, raw->length);
  ZSTD_outBuffer out = {.dst = frame->bytes, .size = frame->capacity};
  ZSTD_inBuffer in = {.src = raw->bytes};
  for (size_t i = 1; i < n_planes; i++) {
    in.size = 1 + i * plane;
    if (ZSTD_compressStream2(encoder->zstd, &out, &in, ZSTD_e_flush) != 0) return false;
  }
  in.size = raw->length;
  if (ZSTD_compressStream2(encoder->zstd, &out, &in, ZSTD_e_end) != 0) return false;
  frame->length = out.pos;
  return true;
}

bool td_column_encode(td_encoder *encoder, td_column column, const td_values *columns)
{
  const td_values *values = &columns[column];
  td_codec codec = td_columns[column].codec;
  td_buffer *raw = &encoder->raw;
  raw->length = 0;
  if (!td_buffer_reserve(raw, longest_raw(values->count))) return false;
  uint8_t *end = NULL;
  switch (codec) {
  case TD_CODEC_VARINT: end = encode_varint(raw->bytes, values, false); break;
  case TD_CODEC_DELTA: end = encode_varint(raw->bytes, values, true); break;
  case TD_CODEC_PLANES: end = encode_planes(raw->bytes, values, false); break;
  case TD_CODEC_DELTA_PLANES: end = encode_planes(raw->bytes, values, true); break;
  case TD_CODEC_ACCESS: end = encode_accesses(encoder, raw->bytes, values); break;
  case TD_CODEC_OUTPUT: end = encode_outputs(encoder, raw->bytes, columns); break;
  }
  if (!end) return false;
  raw->length = (size_t)(end - raw->bytes);
  return compress(encoder, codec == TD_CODEC_PLANES || codec == TD_CODEC_DELTA_PLANES ? values->count : 0);
}

static td_status decompress(td_decoder *decoder, const void *frame, size_t length, uint64_t count, td_error *err)
{
  unsigned long long size = ZSTD_getFrameContentSize(frame, length);
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN ||
      ZSTD_findFrameCompressedSize(frame, length) != length)
    return td_fail(err, TD_E_DAMAGED, "not one whole zstd frame that says its size");
  if (count > TD_BLOB_VALUES_MAX || size < count || size > longest_raw((size_t)count))
    return td_fail(err, TD_E_DAMAGED, "%llu bytes cannot hold %llu values", size, (unsigned long long)count);
  decoder->raw.length = 0;
  if (!td_buffer_reserve(&decoder->raw, (size_t)size + 1)) return td_fail_nomem(err);
  size_t got = ZSTD_decompressDCtx(decoder->zstd, decoder->raw.bytes, (size_t)size, frame, length);
  if (ZSTD_isError(got)) return td_fail(err, TD_E_DAMAGED, "zstd: %s", ZSTD_getErrorName(got));
  if (got != size) return td_fail(err, TD_E_DAMAGED, "a zstd frame that is shorter than it says");
  decoder->raw.length = got;
  return TD_OK;
}

td_status td_column_decode(td_decoder *decoder, td_column column, const void *frame, size_t length, uint64_t count,
                           td_values *columns, td_error *err)
{
  td_status status = decompress(decoder, frame, length, count, err);
  if (status) return status;
  td_values *values = &columns[column];
  size_t n = (size_t)count;
  if (!TD_GROW(values->at, values->capacity, n)) return td_fail_nomem(err);
  bytes in = {.at = decoder->raw.bytes, .end = decoder->raw.bytes + decoder->raw.length};
  bool sound = false;
  switch (td_columns[column].codec) {
  case TD_CODEC_VARINT: sound = decode_varint(&in, values->at, n, false); break;
  case TD_CODEC_DELTA: sound = decode_varint(&in, values->at, n, true); break;
  case TD_CODEC_PLANES: sound = decode_planes(&in, values->at, n, false); break;
  case TD_CODEC_DELTA_PLANES: sound = decode_planes(&in, values->at, n, true); break;
  case TD_CODEC_ACCESS: sound = decode_accesses(&in, values->at, n); break;
  case TD_CODEC_OUTPUT: sound = decode_outputs(&in, values->at, n, columns); break;
  }
  if (!sound || in.at != in.end) return td_fail(err, TD_E_DAMAGED, "bytes that are not %llu values", (unsigned long long)count);
  values->count = n;
  return TD_OK;
}
