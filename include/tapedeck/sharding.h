/* Sharding plans: how each parameter and module boundary is placed on a device mesh, frozen into stable JSON.
 *
 * A trace is recorded under one plan and is only right for it. The live form is what a training program has; the frozen one is
 * plain JSON, the same bytes for the same plan. docs/sharding.md describes both. */
#ifndef TAPEDECK_SHARDING_H
#define TAPEDECK_SHARDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_placement_kind { TD_REPLICATE, TD_SHARD, TD_PARTIAL, TD_STRIDED_SHARD } td_placement_kind;

/* Where a tensor lies along one axis of the mesh. */
typedef struct td_placement {
  td_placement_kind kind;
  int32_t dim;           /* of TD_SHARD and TD_STRIDED_SHARD, from 0 */
  bool uneven;           /* likewise: the shards differ in size */
  int32_t split_factor;  /* of TD_STRIDED_SHARD, from 1 */
  const char *reduce_op; /* of TD_PARTIAL: not empty, without a line feed; the caller's */
  size_t reduce_op_length;
} td_placement;

/* Reads "R", "S(0)", "P(sum)" or "SS(0,2)"; a dimension d of an uneven shard stands as -d-1. reduce_op points into `text`.
 * TD_E_INPUT: the message names the text and what is wrong with it. */
TD_API td_status td_placement_parse(const char *text, size_t length, td_placement *out, td_error *err);

/* The text of a placement; the caller frees it with free(). TD_E_INPUT: it cannot be written, as a negative dimension. */
TD_API td_status td_placement_format(const td_placement *placement, char **text, td_error *err);

/* From the live form to the frozen one and back, both as JSON text; the caller frees the result with free(). TD_E_INPUT: the
 * message names the module and field, and what is wrong there. */
TD_API td_status td_sharding_freeze(const char *live, char **frozen, td_error *err);
TD_API td_status td_sharding_thaw(const char *frozen, char **live, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
