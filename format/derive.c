#include "format/derive.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/array.h"
#include "base/fail.h"

__extension__ typedef unsigned __int128 wide; /* a sum of sizes passes 64 bits */

static uint64_t clamp(wide sum)
{
  return sum > UINT64_MAX ? UINT64_MAX : (uint64_t)sum;
}

/* What the ops say of one storage. */
typedef struct use {
  uint64_t first, last; /* ops that access it; TD_NEVER before the first */
  uint32_t ordinal;     /* by first appearance, plus one; 0: not yet */
  uint32_t kinds;       /* how op number `last` accesses it: a bit a kind */
} use;

typedef struct derivation {
  td_reader *reader;
  td_storage_table table;
  use *uses; /* one a storage */
  size_t uses_capacity, n_uses;
  td_name *names;
  uint64_t *name_hashes;
  uint32_t *appeared; /* storages in the order of their first appearance */
  size_t n_appeared, appeared_capacity;
  XXH3_state_t *digest;
  td_buffer words; /* for the digest */
  uint64_t op;
  wide compute;
  uint64_t floor; /* most activation bytes that one op accesses */
} derivation;

static inline bool put_word(derivation *d, uint64_t word)
{
  if (d->words.capacity - d->words.length < 8 && !td_buffer_reserve(&d->words, 8)) return false;
  uint64_t little = htole64(word);
  memcpy(d->words.bytes + d->words.length, &little, 8);
  d->words.length += 8;
  return true;
}

static void digest_words(derivation *d)
{
  if (d->words.length) XXH3_128bits_update(d->digest, d->words.bytes, d->words.length);
  d->words.length = 0;
}

/* ---- ops ------------------------------------------------------------------------------------------------------ */

static td_status find_storage(derivation *d, uint64_t sid, const td_name *name, use **found, uint32_t *index, td_error *err)
{
  *index = td_storage_index(&d->table, sid);
  if (*index == TD_MAP_NONE) {
    if (d->reader->row.complete)
      return td_fail(err, TD_E_INPUT, "op %llu (%.100s) uses SID %llu, which no storage has", (unsigned long long)d->op,
                     name->bytes, (unsigned long long)sid);
    if (!td_storage_put(&d->table, sid, 0, TD_NEVER)) return td_fail_nomem(err);
    *index = td_storage_index(&d->table, sid);
  }
  if (*index >= d->n_uses) {
    if (!TD_GROW(d->uses, d->uses_capacity, d->table.count)) return td_fail_nomem(err);
    memset(d->uses + d->n_uses, 0, (d->table.count - d->n_uses) * sizeof *d->uses);
    d->n_uses = d->table.count;
  }
  *found = &d->uses[*index];
  if ((*found)->ordinal) return TD_OK;
  if (!TD_GROW(d->appeared, d->appeared_capacity, d->n_appeared + 1)) return td_fail_nomem(err);
  d->appeared[d->n_appeared++] = *index;
  (*found)->ordinal = (uint32_t)d->n_appeared;
  (*found)->first = (*found)->last = TD_NEVER;
  return TD_OK;
}

static td_status derive_op(derivation *d, size_t i, size_t *access, size_t *output, td_error *err)
{
  const td_values *columns = d->reader->columns;
  const td_name *name = &d->names[columns[TD_COL_OP_NAME].at[i]];
  uint64_t n_accesses = columns[TD_COL_OP_ACCESSES].at[i], n_outputs = columns[TD_COL_OP_OUTPUTS].at[i];
  bool fits = put_word(d, d->name_hashes[columns[TD_COL_OP_NAME].at[i]]) &&
              put_word(d, columns[TD_COL_OP_LEAVES].at[i] << 1 | columns[TD_COL_OP_OPAQUE].at[i]) &&
              put_word(d, n_accesses) && put_word(d, n_outputs);
  wide bytes = 0;
  use *used;
  uint32_t index;
  td_status status = TD_OK;
  for (; n_accesses && !status; n_accesses--, ++*access) {
    status = find_storage(d, columns[TD_COL_ACCESS_SID].at[*access], name, &used, &index, err);
    if (status) return status;
    uint32_t kind = (uint32_t)columns[TD_COL_ACCESS_KIND].at[*access];
    if (used->first == TD_NEVER) used->first = d->op;
    if (used->last != d->op) {
      used->last = d->op;
      used->kinds = 0;
      if (d->table.at[index].activation) bytes += d->table.at[index].bytes;
    }
    if (used->kinds >> kind & 1)
      return td_fail(err, TD_E_INPUT, "op %llu (%.100s) %s SID %llu twice", (unsigned long long)d->op, name->bytes,
                     kind == TD_READ ? "reads" : "writes", (unsigned long long)d->table.at[index].sid);
    used->kinds |= 1u << kind;
    fits &= put_word(d, (uint64_t)used->ordinal << 1 | kind);
    if (d->op >= d->table.at[index].freed_before_op && d->reader->row.complete)
      return td_fail(err, TD_E_INPUT, "op %llu (%.100s) uses SID %llu, which was freed before op %llu",
                     (unsigned long long)d->op, name->bytes, (unsigned long long)d->table.at[index].sid,
                     (unsigned long long)d->table.at[index].freed_before_op);
  }
  for (; n_outputs; n_outputs--, ++*output) {
    status = find_storage(d, columns[TD_COL_OUTPUT_SID].at[*output], name, &used, &index, err);
    if (status) return status;
    fits &= put_word(d, columns[TD_COL_OUTPUT_LEAF].at[*output]) && put_word(d, used->ordinal);
    if (columns[TD_COL_OUTPUT_LEAF].at[*output] >= columns[TD_COL_OP_LEAVES].at[i])
      return td_fail(err, TD_E_INPUT, "op %llu (%.100s) binds leaf %llu, but has %llu leaves", (unsigned long long)d->op,
                     name->bytes, (unsigned long long)columns[TD_COL_OUTPUT_LEAF].at[*output],
                     (unsigned long long)columns[TD_COL_OP_LEAVES].at[i]);
  }
  d->compute += columns[TD_COL_OP_DUR].at[i];
  if (bytes > d->floor) d->floor = clamp(bytes);
  d->op++;
  return fits ? TD_OK : td_fail_nomem(err);
}

static td_status derive_ops(derivation *d, td_error *err)
{
  bool found = true;
  td_status status = TD_OK;
  for (uint64_t seq = 0; found && !status; seq++) {
    size_t access = 0, output = 0;
    status = td_reader_ops(d->reader, TD_GROUP_OPS_MASK, seq, &found, err);
    for (size_t i = 0; i < d->reader->columns[TD_COL_OP_NAME].count && !status; i++)
      status = derive_op(d, i, &access, &output, err);
    digest_words(d);
  }
  const td_trace_row *row = &d->reader->row;
  if (!status && d->op != row->ops)
    return td_fail(err, TD_E_DAMAGED, "%s is damaged: trace %lld has %llu of %llu ops", d->reader->db->path,
                   (long long)row->id, (unsigned long long)d->op, (unsigned long long)row->ops);
  return status;
}

/* ---- storages ------------------------------------------------------------------------------------------------- */

static bool digest_storage(derivation *d, const td_storage_info *storage)
{
  return put_word(d, storage->bytes) && put_word(d, storage->freed_before_op) &&
         put_word(d, (uint64_t)storage->activation | (uint64_t)storage->retained << 1);
}

/* Those that appear in the ops, in that order; then the others, as they were recorded. */
static bool digest_storages(derivation *d)
{
  bool fits = put_word(d, d->reader->row.has_frees) && put_word(d, d->n_appeared) && put_word(d, d->table.count);
  for (size_t i = 0; i < d->n_appeared; i++) fits &= digest_storage(d, &d->table.at[d->appeared[i]]);
  for (size_t i = 0; i < d->table.count; i++)
    if (i >= d->n_uses || !d->uses[i].ordinal) fits &= digest_storage(d, &d->table.at[i]);
  digest_words(d);
  return fits;
}

/* Bytes that go before an op. */
typedef struct leaving {
  uint64_t end, bytes;
} leaving;

/* A heap, the earliest first. */
static void push(leaving *heap, size_t *n, leaving new)
{
  size_t i = (*n)++;
  for (; i && heap[(i - 1) / 2].end > new.end; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
  heap[i] = new;
}

static uint64_t pop(leaving *heap, size_t *n)
{
  uint64_t bytes = heap[0].bytes;
  leaving last = heap[--*n];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < *n; i = child) {
    if (child + 1 < *n && heap[child + 1].end < heap[child].end) child++;
    if (heap[child].end >= last.end) break;
    heap[i] = heap[child];
  }
  heap[i] = last;
  return bytes;
}

static int by_first(const void *a, const void *b)
{
  const use *x = *(const use *const *)a, *y = *(const use *const *)b;
  return (x->first > y->first) - (x->first < y->first);
}

static uint64_t end_of(const td_storage_info *storage, const use *used)
{
  if (storage->retained) return TD_NEVER;
  bool freed = storage->freed_before_op != TD_NEVER && storage->freed_before_op > used->last;
  return freed ? storage->freed_before_op : used->last + 1;
}

/* An activation counts from its first access for as long as it is needed. They appear in nearly that order: an output may be
 * bound before it is accessed. */
static td_status peak(const derivation *d, uint64_t *out, td_error *err)
{
  const use **order = malloc((d->n_appeared + 1) * sizeof *order);
  leaving *heap = malloc((d->n_appeared + 1) * sizeof *heap);
  size_t n = 0, n_leaving = 0;
  bool sorted = true;
  wide bytes = 0, most = 0;
  if (!order || !heap) {
    free(order);
    free(heap);
    return td_fail_nomem(err);
  }
  for (size_t i = 0; i < d->n_appeared; i++) {
    const use *used = &d->uses[d->appeared[i]];
    const td_storage_info *storage = &d->table.at[d->appeared[i]];
    if (!storage->activation || used->first == TD_NEVER || !storage->bytes) continue;
    order[n++] = used;
    sorted &= n < 2 || order[n - 2]->first <= used->first;
  }
  if (!sorted) qsort(order, n, sizeof *order, by_first);
  for (size_t i = 0; i < n; i++) {
    const td_storage_info *storage = &d->table.at[order[i] - d->uses];
    while (n_leaving && heap[0].end <= order[i]->first) bytes -= pop(heap, &n_leaving);
    bytes += storage->bytes;
    push(heap, &n_leaving, (leaving){.end = end_of(storage, order[i]), .bytes = storage->bytes});
    if (bytes > most) most = bytes;
  }
  free(order);
  free(heap);
  *out = clamp(most);
  return TD_OK;
}

static td_status summarise(derivation *d, td_summary *out, td_error *err)
{
  wide activations = 0, retained = 0, others = 0;
  for (size_t i = 0; i < d->table.count; i++) {
    const td_storage_info *storage = &d->table.at[i];
    if (storage->activation) activations += storage->bytes;
    else others += storage->bytes;
    if (storage->retained) retained += storage->bytes;
  }
  *out = (td_summary){.compute_ns = clamp(d->compute),
                      .activation_bytes = clamp(activations),
                      .retained_bytes = clamp(retained),
                      .other_bytes = clamp(others)};
  out->floor_bytes = out->retained_bytes > d->floor ? out->retained_bytes : d->floor;
  if (!digest_storages(d)) return td_fail_nomem(err);
  XXH128_hash_t hash = XXH3_128bits_digest(d->digest);
  snprintf(out->digest, sizeof out->digest, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
  return peak(d, &out->peak_bytes, err);
}

/* ---- the whole ------------------------------------------------------------------------------------------------ */

static td_status prepare(derivation *d, td_error *err)
{
  td_status status = td_reader_names(d->reader, &d->names, err);
  if (!status) status = td_reader_storages(d->reader, &d->table, err);
  if (!status && d->reader->row.complete) status = td_storage_table_check(&d->table, d->reader->row.ops, err);
  if (status) return status;
  size_t n_names = (size_t)d->reader->row.names;
  d->name_hashes = malloc((n_names + 1) * sizeof *d->name_hashes);
  d->digest = XXH3_createState();
  if (!d->name_hashes || !d->digest) return td_fail_nomem(err);
  for (size_t i = 0; i < n_names; i++) d->name_hashes[i] = XXH3_64bits(d->names[i].bytes, d->names[i].length);
  XXH3_128bits_reset(d->digest);
  return TD_OK;
}

td_status td_derive(td_reader *reader, td_summary *out, td_error *err)
{
  derivation d = {.reader = reader};
  td_summary summary;
  td_status status = prepare(&d, err);
  if (!status) status = derive_ops(&d, err);
  if (!status) status = summarise(&d, &summary, err);
  if (!status) *out = summary;
  td_storage_table_finish(&d.table);
  free(d.uses);
  free(d.names);
  free(d.name_hashes);
  free(d.appeared);
  XXH3_freeState(d.digest);
  td_buffer_finish(&d.words);
  return status;
}

td_status td_summary_get(const td_db *db, int64_t trace, td_summary *out, td_error *err)
{
  sqlite3_stmt *select = NULL;
  bool found = false;
  td_status status = td_db_prepare(db, &select, err, "SELECT * FROM summary WHERE trace = %lld", (long long)trace);
  if (!status) status = td_db_sealed_row(db, TD_TABLE_SUMMARY, select, &found, err);
  if (!status && !found)
    status = td_fail(err, TD_E_NOT_FOUND, "%s has no summary of trace %lld", db->path, (long long)trace);
  if (!status) {
    *out = (td_summary){.compute_ns = td_column_u64(select, 1),
                        .activation_bytes = td_column_u64(select, 2),
                        .retained_bytes = td_column_u64(select, 3),
                        .other_bytes = td_column_u64(select, 4),
                        .peak_bytes = td_column_u64(select, 5),
                        .floor_bytes = td_column_u64(select, 6)};
    snprintf(out->digest, sizeof out->digest, "%s", (const char *)sqlite3_column_text(select, 7));
  }
  sqlite3_finalize(select);
  return status;
}

td_status td_summary_put(const td_db *db, int64_t trace, const td_summary *summary, td_error *err)
{
  sqlite3_stmt *put = NULL;
  td_status status = td_db_prepare_put(db, TD_TABLE_SUMMARY, &put, err);
  if (!status) {
    const uint64_t numbers[] = {(uint64_t)trace,         summary->compute_ns,  summary->activation_bytes, summary->retained_bytes,
                                summary->other_bytes, summary->peak_bytes, summary->floor_bytes};
    for (int i = 0; i < 7; i++) td_bind_u64(put, i + 1, numbers[i]);
    sqlite3_bind_text(put, 8, summary->digest, -1, SQLITE_STATIC);
    status = td_db_run(db, put, err);
  }
  sqlite3_finalize(put);
  return status;
}
