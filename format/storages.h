/* The storages of a trace: a table by SID, and the lists of activations and retained ones in recorded order. */
#ifndef TD_FORMAT_STORAGES_H
#define TD_FORMAT_STORAGES_H

#include <tapedeck/trace.h>

#include "base/map.h"

typedef struct td_storage_list {
  uint32_t *at; /* indices into the table */
  size_t count, capacity;
} td_storage_list;

/* All zero is an empty table. */
typedef struct td_storage_table {
  td_storage_info *at;
  size_t count, capacity;
  uint32_t *by_small_sid; /* the index of each SID below n_small; most recorders number storages from 0 */
  size_t n_small;
  td_map by_large_sid;
  td_storage_list activations, retained;
} td_storage_table;

void td_storage_table_finish(td_storage_table *table);

/* The index of a SID, or TD_MAP_NONE. */
static inline uint32_t td_storage_index(const td_storage_table *table, uint64_t sid)
{
  return sid < table->n_small ? table->by_small_sid[sid] : td_map_get(&table->by_large_sid, sid);
}

/* Adds the storage, or replaces what was known of its size and free. False if memory ran out. */
bool td_storage_put(td_storage_table *table, uint64_t sid, uint64_t bytes, uint64_t freed_before_op);

/* Appends a storage of the table to a list and sets its flag. TD_E_INPUT: it is there already. */
td_status td_storage_list_activation(td_storage_table *table, uint32_t index, td_error *err);
td_status td_storage_list_retained(td_storage_table *table, uint32_t index, td_error *err);

/* What must hold in a complete trace: retained storages and those with a free are activations, not both, and no free lies
 * beyond the last op. TD_E_INPUT: the message says which is not. */
td_status td_storage_table_check(const td_storage_table *table, uint64_t n_ops, td_error *err);

#endif
