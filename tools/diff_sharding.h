/* Sizes that differ between two ranks because their sharding plans place a tensor differently. */
#ifndef TD_TOOLS_DIFF_SHARDING_H
#define TD_TOOLS_DIFF_SHARDING_H

#include <tapedeck/diff.h>

#include "cli.h"

#define EXPLAINED_SHOWN 20

/* How the pairs of storages of different sizes come out. All zero: no tape carries a plan. */
typedef struct sizes_explained {
  bool asked; /* one of the tapes carries a plan */
  uint64_t by_name, by_ratio, unexplained;
  size_t n_lines;
  char lines[EXPLAINED_SHOWN][256]; /* the first ones, each reason once */
} sizes_explained;

/* Looks at every pair. An op at which all sizes that differ are explained by name is no difference any more: the bit goes. False, with a
 * message, on failure. */
bool explain_sizes(const args *args, td_tape *a, int64_t number_a, td_tape *b, int64_t number_b, const td_trace *trace_a,
                   const td_trace *trace_b, td_diff *diff, sizes_explained *out);

void print_explained(const sizes_explained *explained);
void explained_json(cJSON *json, const sizes_explained *explained);

#endif
