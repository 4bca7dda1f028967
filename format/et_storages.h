/* The storages of an execution trace, told apart.
 *
 * PyTorch numbers a storage by its address, so one id is reused for whatever is allocated there later. Where a fresh allocation or
 * sizes show it, a new generation begins, with a SID of its own: the id plus the generation times the power of ten above all ids,
 * so that a reader still sees the id. */
#ifndef TD_FORMAT_ET_STORAGES_H
#define TD_FORMAT_ET_STORAGES_H

#include "base/map.h"
#include "format/et_nodes.h"

typedef struct td_et_storage {
  uint64_t sid;
  uint64_t bytes;       /* the end of what was seen of it */
  uint64_t generation;  /* from 0 */
  uint64_t accessed[2]; /* by td_access_kind: the number of the last op that did, from 1 */
  uint64_t input_of;    /* the last op that had it among its inputs */
  uint64_t born_in;     /* the op that it was first seen in */
  uint64_t fresh_in;    /* the last op that had it among its outputs only, and where those end */
  uint64_t fresh_bytes;
  bool activation;
} td_et_storage;

typedef struct td_et_storages {
  td_et_storage *at; /* every generation, in the order in which they were first seen */
  size_t count, capacity;
  td_map current; /* id -> index of its newest generation */
  uint64_t largest_id;
  uint64_t split, added; /* ids with several generations; generations after the first */
  bool keep_ids;
} td_et_storages;

void td_et_storages_finish(td_et_storages *storages);

/* The storage that the input of op number `op` lives in; valid until the next call. TD_E_INPUT: no SID is left for it. */
td_status td_et_storages_input(td_et_storages *storages, const td_et_tensor *input, uint64_t op, td_et_storage **out,
                               td_error *err);

/* Makes known what the op's outputs live in, its inputs being known. `allocates`: outputs are new, whatever their sizes. */
td_status td_et_storages_outputs(td_et_storages *storages, const td_et_tensor *outputs, size_t n, uint64_t op, bool allocates,
                                 td_error *err);

/* The newest generation of an id that was made known. */
td_et_storage *td_et_storages_get(const td_et_storages *storages, uint64_t id);

#endif
