/* Tapes, traces and schedules: the file between the recorder, the planner and the replayer.
 *
 * A tape is a SQLite file that holds traces (one recorded training step each) and, for each trace, schedules of copies.
 * Here is how to open one, load its parts into plain arrays, add a schedule, and convert to and from interchange JSON. */
#ifndef TAPEDECK_TRACE_H
#define TAPEDECK_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a trace in memory ---------------------------------------------------------------------------------------- */

#define TD_NEVER UINT64_MAX /* freed_before_op of a storage that the trace does not see freed */

typedef enum td_access_kind { TD_READ = 0, TD_WRITE = 1 } td_access_kind;

/* A name is bytes, not text: it may hold NUL or invalid UTF-8. A NUL byte follows the last one. */
typedef struct td_name {
  const char *bytes;
  size_t length;
} td_name;

/* One operation. Its accesses are accesses[op.first_access] up to accesses[(op + 1).first_access], its outputs
 * likewise; the array of ops has one entry more than there are ops, to hold the ends. */
typedef struct td_op {
  uint64_t dur_ns;
  uint64_t leaves; /* flattened outputs, tensors and other values alike */
  uint64_t first_access;
  uint64_t first_output;
  uint32_t name; /* index into names */
  bool opaque;   /* one virtual op for a region whose ops were not recorded */
} td_op;

typedef struct td_access {
  uint32_t storage; /* index into storages */
  uint32_t kind;    /* td_access_kind */
} td_access;

/* Output leaf number `leaf` of an op lives in `storage`. */
typedef struct td_output_binding {
  uint64_t leaf;
  uint32_t storage; /* index into storages */
} td_output_binding;

typedef struct td_storage_info {
  uint64_t sid;
  uint64_t bytes;
  uint64_t freed_before_op; /* the op before which the framework freed it, n_ops at the end, TD_NEVER if not seen */
  bool activation;          /* first produced by an op of the step */
  bool retained;            /* an activation that is still held when the step ends */
} td_storage_info;

typedef struct td_mark {
  uint32_t name; /* index into names */
  uint64_t op;   /* the position before this op; n_ops is the end */
} td_mark;

/* A whole trace. The arrays belong to it and live until td_trace_destroy. */
typedef struct td_trace {
  uint64_t n_ops, n_accesses, n_outputs;
  uint32_t n_names, n_storages, n_activations, n_retained, n_marks;
  bool complete;           /* false: the recorder did not finish; the last ops, retained SIDs and marks are missing */
  bool has_frees;          /* the trace says when storages were freed */
  const td_op *ops;        /* n_ops + 1 entries */
  const td_access *accesses;
  const td_output_binding *outputs;
  const td_name *names;
  const td_storage_info *storages;
  const uint32_t *activations; /* indices into storages, in recorded order */
  const uint32_t *retained;    /* likewise */
  const td_mark *marks;
} td_trace;

TD_API void td_trace_destroy(td_trace *trace);

/* ---- schedules ------------------------------------------------------------------------------------------------ */

typedef enum td_action_kind {
  TD_COPY_D2H = 0,       /* device to host */
  TD_COPY_H2D = 1,       /* host to device */
  TD_RELEASE_DEVICE = 2, /* give the device bytes back, once its copy to the host has ended */
  TD_RELEASE_HOST = 3,   /* give the host copy back */
} td_action_kind;

typedef enum td_phase { TD_PRE = 0, TD_POST = 1 } td_phase;

/* Do `kind` to storage `sid` before (TD_PRE) or after (TD_POST) op number `op`. */
typedef struct td_action {
  uint64_t op; /* n_ops with TD_PRE is the end of the step */
  uint64_t sid;
  uint8_t phase; /* td_phase; TD_PRE carries TD_COPY_H2D only, TD_POST the other three */
  uint8_t kind;  /* td_action_kind */
} td_action;

/* The actions of one step in execution order: by op, then TD_PRE before TD_POST, then as given. */
typedef struct td_schedule {
  int64_t id; /* within the tape, from 1; 0 until it is stored */
  char *planner;
  uint64_t memory_limit_bytes; /* for activations on the device */
  uint64_t host_limit_bytes;   /* for copies on the host; UINT64_MAX: none */
  double d2h_bytes_per_s;
  double h2d_bytes_per_s;
  bool early;  /* judged with the last access as the end of a storage, even where the trace has frees */
  char *extra; /* further members as JSON text without braces around it ("a": 1, "b": 2), or NULL */
  size_t n_actions;
  td_action *actions;
} td_schedule;

/* Frees the schedule and all that hangs on it, each allocated with malloc. NULL is allowed. */
TD_API void td_schedule_destroy(td_schedule *schedule);

/* ---- tapes ---------------------------------------------------------------------------------------------------- */

typedef struct td_tape td_tape;

#define TD_NEWEST 0 /* in place of a trace or schedule number, which count from 1 */

/* What can be told of a trace without reading it. */
typedef struct td_trace_info {
  int64_t trace; /* its number in the tape */
  bool complete;
  uint64_t ops, accesses, outputs, storages, activations, retained;
  uint64_t compute_ns;       /* sum of all durations */
  uint64_t activation_bytes; /* sum over all activations */
  uint64_t retained_bytes;
  uint64_t other_bytes; /* parameters, batches and constants that the step touched */
  uint64_t peak_bytes;  /* most activation bytes alive at once without a schedule */
  uint64_t floor_bytes; /* no schedule can do with less */
  char digest[33];      /* 128 bits in hexadecimal; equal for steps that differ in nothing but time and SIDs */
} td_trace_info;

/* Opens an existing tape for reading. A file that is no tape, is damaged at first sight or comes from a newer version is
 * an error. Every call on one tape must be finished before the next begins; other processes may read or write it. */
TD_API td_status td_tape_open(td_tape **out, const char *path, td_error *err);
TD_API void td_tape_close(td_tape *tape);

TD_API const char *td_tape_path(const td_tape *tape);
TD_API td_status td_tape_trace_count(td_tape *tape, int64_t *count, td_error *err);

/* `trace` counts from 1; TD_NEWEST is the one recorded last. TD_E_NOT_FOUND if there is none. */
TD_API td_status td_tape_info(td_tape *tape, int64_t trace, td_trace_info *out, td_error *err);
TD_API td_status td_tape_load_trace(td_tape *tape, int64_t trace, td_trace **out, td_error *err);

/* The numbers of the schedules of a trace in the order they were made. The caller frees `ids` with free(). */
TD_API td_status td_tape_schedules(td_tape *tape, int64_t trace, int64_t **ids, size_t *count, td_error *err);
/* A schedule by its number, or the newest one of the trace. TD_E_NOT_FOUND if there is none. */
TD_API td_status td_tape_load_schedule(td_tape *tape, int64_t trace, int64_t schedule, td_schedule **out, td_error *err);

/* Appends a schedule to a trace of the tape at `path` and sets schedule->id. The file is changed in one transaction. */
TD_API td_status td_tape_add_schedule(const char *path, int64_t trace, td_schedule *schedule, td_error *err);

/* A member of a trace's meta, as the text of its JSON value; the caller frees it with free(). TD_E_NOT_FOUND if there is none. */
TD_API td_status td_tape_get_meta(td_tape *tape, int64_t trace, const char *key, char **json, td_error *err);

/* Sets a member of a trace's meta, in place of one with this key. `json` is the text of its value. In one transaction. */
TD_API td_status td_tape_set_meta(const char *path, int64_t trace, const char *key, const char *json, td_error *err);

/* Checks everything in the file that can be checked: SQLite's own structure, every block's checksum, every count and
 * every reference. Calls `damage` (may be NULL) with one line for each thing found and counts them in `n_damages`.
 * Returns TD_OK also when damages were found; an error means that it could not tell. */
TD_API td_status td_tape_verify(const char *path, void (*damage)(void *context, const char *line), void *context,
                                uint64_t *n_damages, td_error *err);

/* ---- rewriting ------------------------------------------------------------------------------------------------- */

/* Each of these writes a new tape at `out`, replacing what was there only when done; `out` may be an input, where it is one
 * file. */

typedef struct td_recover_report {
  uint64_t ops, lost_ops; /* saved; known to be lost */
  bool whole;             /* nothing was lost, and the trace was complete */
} td_recover_report;

/* Saves every whole block of a damaged or unfinished tape; calls `lost` (may be NULL) with one line for what is missing. The
 * new trace is complete only if nothing was lost. Lost sizes are 0, lost names "(lost)". */
TD_API td_status td_recover(const char *in, const char *out, int64_t trace, void (*lost)(void *context, const char *line),
                            void *context, td_recover_report *report, td_error *err);

/* All traces, schedules and further tables of `n` tapes in one. One file twice, or a damaged tape, is an error. */
TD_API td_status td_merge(const char *const *in, size_t n, const char *out, td_error *err);

/* The ops from `first` up to, without, `end` of a trace, numbered from 0. What was made before is no activation there; what
 * is still needed after is retained. Schedules are left out, since they do not fit. */
TD_API td_status td_trim(const char *in, int64_t trace, uint64_t first, uint64_t end, const char *out, td_error *err);

/* The same tape without the space that nothing uses. */
TD_API td_status td_compact(const char *in, const char *out, td_error *err);

/* ---- SQL ------------------------------------------------------------------------------------------------------- */

typedef enum td_value_type { TD_NULL, TD_INTEGER, TD_REAL, TD_TEXT, TD_BLOB } td_value_type;

typedef struct td_value {
  td_value_type type;
  int64_t integer;   /* TD_INTEGER */
  double real;       /* TD_REAL */
  const char *bytes; /* TD_TEXT and TD_BLOB; a NUL follows */
  size_t length;
} td_value;

/* Runs the statements in `sql` and calls `row` for each row; names and values are valid during the call, and a result other
 * than 0 ends it all. Besides SQLite's own there are the tables op, access, output, storage, retained, action, mark and meta, and the
 * views time_by_name, lifetime, alive, gap and largest; docs/sql.md has their columns. A number above 2^63-1 is text.
 * Nothing can be changed: a statement that does more than read fails with TD_E_ARG, and so does one that is no SQL. */
TD_API td_status td_tape_sql(td_tape *tape, const char *sql,
                             int (*row)(void *context, int n, const char *const *names, const td_value *values),
                             void *context, td_error *err);

/* ---- other formats -------------------------------------------------------------------------------------------- */

typedef struct td_import_report {
  uint64_t ops, accesses, storages, schedules;
  bool execution_trace;   /* the file was one; what follows is 0 otherwise */
  uint64_t nodes;         /* of the execution trace */
  uint64_t skipped;       /* nodes without an operator schema, as kernels and annotations: they are no ops */
  uint64_t split_sids;    /* storage ids that stood for more than one storage */
  uint64_t added_sids;    /* storages that were told apart from another with the same id */
  uint64_t timed_ops;     /* ops whose duration the profile has */
  uint64_t renamed_ops;   /* of these, ops that have another name in the profile: it may be another run's */
} td_import_report;

typedef struct td_import_options {
  int zstd_level;      /* 1 fast to 19 small; 0: 9 */
  const char *profile; /* of an execution trace: a Kineto trace of the same run, which has the durations; or NULL */
  bool keep_ids;       /* of an execution trace: SIDs are storage ids, though one id may be several storages */
} td_import_options;

/* Reads a trace from the file at `in`, which is interchange JSON or a PyTorch execution trace of schema 1.0.1 or later 1.x,
 * plain or compressed with gzip or zstd, and writes it as a new tape at `out`, replacing what was there only when done.
 * `options` and `report` may be NULL. docs/import.md says how an execution trace is read. */
TD_API td_status td_import(const char *in, const char *out, const td_import_options *options, td_import_report *report,
                           td_error *err);

/* Writes a trace as interchange JSON, with all its schedules in the order they were made. The same tape always gives the
 * same bytes. */
TD_API td_status td_export(td_tape *tape, int64_t trace, FILE *out, td_error *err);

#ifdef __cplusplus
}
#endif
#endif
