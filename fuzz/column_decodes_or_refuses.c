/* Any bytes in a column's frame decode or are refused; what decodes codes into bytes that decode to the same. The input: column,
 * number of values (two bytes), then the frame's content. */
#include <string.h>

#include <zstd.h>

#include "format/column.h"
#include "fuzz.h"

static void check(td_column column, const td_values *columns, const uint64_t *values, size_t n)
{
  td_encoder encoder;
  td_decoder decoder;
  td_values again[TD_N_CODED];
  memcpy(again, columns, sizeof again);
  again[column] = (td_values){0};
  if (!td_encoder_init(&encoder, 1) || !td_decoder_init(&decoder)) return;
  if (!td_column_encode(&encoder, column, columns) ||
      td_column_decode(&decoder, column, encoder.frame.bytes, encoder.frame.length, n, again, NULL) ||
      (n && memcmp(again[column].at, values, n * sizeof *values) != 0))
    fuzz_fail("a column does not come back");
  td_values_finish(&again[column]);
  td_encoder_finish(&encoder);
  td_decoder_finish(&decoder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  uint8_t frame[70000];
  td_values columns[TD_N_CODED] = {0};
  td_decoder decoder;
  if (size < 3 || size > 60000) return 0;
  td_column column = data[0] % TD_N_CODED;
  size_t n = (size_t)data[1] | (size_t)data[2] << 8;
  size_t length = ZSTD_compress(frame, sizeof frame, data + 3, size - 3, 1);
  if (ZSTD_isError(length) || !td_decoder_init(&decoder)) return 0;
  if (column == TD_COL_OUTPUT_SID)
    for (size_t i = 0; i < 8; i++) { /* ops of two accesses and up to two outputs each */
      td_values_add(&columns[TD_COL_OP_ACCESSES], 2);
      td_values_add(&columns[TD_COL_OP_OUTPUTS], i % 3);
      td_values_add(&columns[TD_COL_ACCESS_SID], i);
      td_values_add(&columns[TD_COL_ACCESS_SID], i * 1000003);
    }
  if (!td_column_decode(&decoder, column, frame, length, n, columns, NULL))
    check(column, columns, columns[column].at, columns[column].count);
  td_decoder_finish(&decoder);
  for (unsigned i = 0; i < TD_N_CODED; i++) td_values_finish(&columns[i]);
  return 0;
}
