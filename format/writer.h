/* Writing a trace to a new tape, op by op, in blocks.
 *
 * The file is written beside its final name and renamed when finished; until then it is a readable, unfinished tape.
 * Memory is bounded by one block of ops and what is known of each storage. One thread at a time. */
#ifndef TD_FORMAT_WRITER_H
#define TD_FORMAT_WRITER_H

#include <tapedeck/trace.h>

typedef struct td_writer td_writer;

typedef struct td_writer_options {
  const char *path; /* of a regular file, or of none; links are followed */
  int level;        /* of zstd; 0: ours */
  bool recording;   /* the unfinished file is PATH.part, where it can be found after a crash; else PATH.PID.part */
} td_writer_options;

/* Creates the unfinished file. One that a dead writer left is replaced. */
td_status td_writer_create(td_writer **out, const td_writer_options *options, td_error *err);

/* Gives the writer up: closes and removes the unfinished file. NULL is allowed. */
void td_writer_abandon(td_writer *writer);

/* Gives the writer up after a failure, and leaves what was committed as an unfinished tape. */
void td_writer_leave(td_writer *writer);

/* A name, and its number for the calls below, from 0 in the order they first came; the same bytes give the same number. */
td_status td_writer_name(td_writer *writer, const char *bytes, size_t length, uint32_t *name, td_error *err);

typedef struct td_written_access {
  uint64_t sid;
  uint32_t kind; /* td_access_kind */
} td_written_access;

typedef struct td_written_output {
  uint64_t leaf, sid;
} td_written_output;

/* Appends the next op. SIDs need not be known yet, but must be when the trace is finished. */
td_status td_writer_op(td_writer *writer, uint32_t name, uint64_t dur_ns, uint64_t leaves, bool opaque,
                       const td_written_access *accesses, size_t n_accesses, const td_written_output *outputs,
                       size_t n_outputs, td_error *err);

/* What is known of a storage. May be told again: the later word counts. `retained` is taken from td_writer_retained. */
td_status td_writer_storage(td_writer *writer, const td_storage_info *storage, td_error *err);

/* The lists that keep their order. A SID may be listed before the storage is known. */
td_status td_writer_activation(td_writer *writer, uint64_t sid, td_error *err);
td_status td_writer_retained(td_writer *writer, uint64_t sid, td_error *err);

td_status td_writer_mark(td_writer *writer, uint32_t name, uint64_t op, td_error *err);

/* A member of the interchange's "meta" object, or of the trace itself (`top`), in order. The key is bytes, `json` the text of
 * its value. */
td_status td_writer_meta(td_writer *writer, bool top, const char *key, size_t key_length, const char *json, td_error *err);

/* A schedule, in the order they were made. Whether it fits the trace is for the simulator to say. */
td_status td_writer_schedule(td_writer *writer, td_schedule *schedule, td_error *err);

/* The trace says when storages were freed, even if none was. Set by the first storage that has a freed_before_op, too. */
void td_writer_has_frees(td_writer *writer);

/* Commits what was appended so far as a block of its own, so that a reader sees it. */
td_status td_writer_commit(td_writer *writer, td_error *err);

/* Checks every reference, writes what is derived (counts, digest, peak, floor), marks the trace complete, and gives the
 * file its name. The writer is gone afterwards in every case; on failure the unfinished file of a recording stays, another
 * is removed, and what was at `path` before is untouched. TD_E_INPUT: an op uses a SID that no storage has, or the like; the message says which.
 * `digest` (33 bytes, may be NULL) receives the trace's digest. */
td_status td_writer_finish(td_writer *writer, char *digest, td_error *err);

/* Gives an unfinished trace its final name: what a recovery saved. Gone afterwards in every case. */
td_status td_writer_finish_partial(td_writer *writer, td_error *err);

#endif
