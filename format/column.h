/* Columns: how arrays of numbers become the blobs of a tape, and back.
 *
 * A trace is a set of columns cut into blocks. One const table says of each column what it counts, its unit and its codec;
 * encoder, decoder and verify all walk it. A blob is one zstd frame with a checksum; docs/format.md describes its bytes. */
#ifndef TD_FORMAT_COLUMN_H
#define TD_FORMAT_COLUMN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

#include "base/buffer.h"

/* The numbers are part of the format (block.col). A column is decoded after those with smaller numbers. */
typedef enum td_column {
  TD_COL_NAME_LENGTH,
  TD_COL_NAME_BYTE,
  TD_COL_OP_NAME,
  TD_COL_OP_DUR,
  TD_COL_OP_LEAVES,
  TD_COL_OP_OPAQUE,
  TD_COL_OP_ACCESSES,
  TD_COL_OP_OUTPUTS,
  TD_COL_ACCESS_SID,
  TD_COL_ACCESS_KIND,
  TD_COL_OUTPUT_LEAF,
  TD_COL_OUTPUT_SID,
  TD_COL_STORAGE_SID,
  TD_COL_STORAGE_BYTES,
  TD_COL_STORAGE_FREED,
  TD_COL_ACTIVATION_SID,
  TD_COL_RETAINED_SID,
  TD_N_COLUMNS,
  /* Those of a schedule stand in its own row. */
  TD_COL_ACTION_OP = TD_N_COLUMNS,
  TD_COL_ACTION_KIND,
  TD_COL_ACTION_SID,
  TD_N_CODED,
} td_column;

/* Columns of one group have a block each in the same places (block.seq). */
typedef enum td_group { TD_GROUP_NAMES, TD_GROUP_OPS, TD_GROUP_STORAGES, TD_GROUP_ACTIVATIONS, TD_GROUP_RETAINED,
                        TD_GROUP_ACTIONS } td_group;

typedef enum td_codec {
  TD_CODEC_VARINT,       /* LEB128 */
  TD_CODEC_DELTA,        /* difference to the value before, zigzag, LEB128 */
  TD_CODEC_PLANES,       /* all lowest bytes, then all next ones, ...: noisy numbers */
  TD_CODEC_DELTA_PLANES, /* differences, zigzag, in planes */
  TD_CODEC_ACCESS,       /* SIDs as distances back to the same SID, or relative to the newest */
  TD_CODEC_OUTPUT,       /* SIDs as distances back into the accesses */
} td_codec;

typedef struct td_column_def {
  const char *name;
  const char *unit;
  td_group group;
  td_codec codec;
} td_column_def;

extern const td_column_def td_columns[TD_N_CODED];

#define TD_COL_BIT(column) (1u << (column))
#define TD_GROUP_OPS_MASK                                                                                              \
  (TD_COL_BIT(TD_COL_OP_NAME) | TD_COL_BIT(TD_COL_OP_DUR) | TD_COL_BIT(TD_COL_OP_LEAVES) | TD_COL_BIT(TD_COL_OP_OPAQUE) | \
   TD_COL_BIT(TD_COL_OP_ACCESSES) | TD_COL_BIT(TD_COL_OP_OUTPUTS) | TD_COL_BIT(TD_COL_ACCESS_SID) |                    \
   TD_COL_BIT(TD_COL_ACCESS_KIND) | TD_COL_BIT(TD_COL_OUTPUT_LEAF) | TD_COL_BIT(TD_COL_OUTPUT_SID))
#define TD_GROUP_NAMES_MASK (TD_COL_BIT(TD_COL_NAME_LENGTH) | TD_COL_BIT(TD_COL_NAME_BYTE))
#define TD_GROUP_STORAGES_MASK                                                                                         \
  (TD_COL_BIT(TD_COL_STORAGE_SID) | TD_COL_BIT(TD_COL_STORAGE_BYTES) | TD_COL_BIT(TD_COL_STORAGE_FREED))

/* A blob with more values is refused, whatever it says. */
#define TD_BLOB_VALUES_MAX ((size_t)1 << 24)

typedef struct td_values {
  uint64_t *at;
  size_t count, capacity;
} td_values;

void td_values_finish(td_values *values);
bool td_values_grow(td_values *values);

static inline bool td_values_add(td_values *values, uint64_t value)
{
  if (values->count == values->capacity && !td_values_grow(values)) return false;
  values->at[values->count++] = value;
  return true;
}

typedef struct td_encoder {
  struct ZSTD_CCtx_s *zstd;
  td_buffer raw, frame;
  struct td_last_access {
    uint64_t sid, at;
  } *last;             /* the last access of some SIDs, by their lower bits: one that is forgotten costs a few bytes */
  uint64_t n_accesses; /* coded in the blocks before; td_last_access.at counts from 1 over all blocks */
  uint64_t next;       /* the newest SID of the trace so far plus one */
} td_encoder;

typedef struct td_decoder {
  struct ZSTD_DCtx_s *zstd;
  td_buffer raw;
} td_decoder;

/* `level` is zstd's. False if memory ran out. */
bool td_encoder_init(td_encoder *encoder, int level);
void td_encoder_finish(td_encoder *encoder);
bool td_decoder_init(td_decoder *decoder);
void td_decoder_finish(td_decoder *decoder);

/* Codes columns[column] into encoder->frame. `columns` are those of one block, by td_column; TD_COL_OUTPUT_SID is coded
 * right after TD_COL_ACCESS_SID of its block was, and needs it and both counts. False if memory ran out. */
bool td_column_encode(td_encoder *encoder, td_column column, const td_values *columns);

/* Decodes a blob that must hold `count` values into columns[column]. TD_COL_OUTPUT_SID needs TD_COL_ACCESS_SID and both
 * counts in `columns`. TD_E_DAMAGED: the message says what is wrong with the blob. */
td_status td_column_decode(td_decoder *decoder, td_column column, const void *frame, size_t length, uint64_t count,
                           td_values *columns, td_error *err);

#endif
