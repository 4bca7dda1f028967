/* Sharding plans: how each parameter and module boundary is placed on a device mesh, frozen into stable JSON.
 *
 * A trace is recorded under one plan and is only right for it. The live form is what a training program has; the frozen one is
 * plain JSON, the same bytes for the same plan. docs/sharding.md describes both. */
#ifndef TAPEDECK_SHARDING_H
#define TAPEDECK_SHARDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/trace.h>

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

/* ---- plans in a program --------------------------------------------------------------------------------------- */

/* A plan that is built module by module, or read. One thread at a time. */
typedef struct td_sharding td_sharding;

/* An empty plan. */
TD_API td_status td_sharding_create(td_sharding **out, td_error *err);
/* A plan from its JSON: the live form, the frozen one, or null. TD_E_INPUT: the message says what is wrong where. */
TD_API td_status td_sharding_read(td_sharding **out, const char *json, td_error *err);
/* NULL is allowed. */
TD_API void td_sharding_destroy(td_sharding *plan);

/* What is given once stays: a second module, placement, field or axis of the same name is TD_E_INPUT. Strings are copied.
 * `class_name` is NULL in a plan without classes; either every module has one or none. */
TD_API td_status td_sharding_add_module(td_sharding *plan, const char *module, const char *class_name, td_error *err);
/* Where a parameter of a module lies along one axis. TD_E_NOT_FOUND: no such module. */
TD_API td_status td_sharding_add_placement(td_sharding *plan, const char *module, const char *param, const char *axis,
                                           const td_placement *placement, td_error *err);
/* Any other field of a module, such as "in_src"; `json` is the text of its value in the live form. */
TD_API td_status td_sharding_add_field(td_sharding *plan, const char *module, const char *field, const char *json, td_error *err);
TD_API td_status td_sharding_add_tie(td_sharding *plan, const char *param, const char *other, td_error *err);
TD_API td_status td_sharding_add_handler(td_sharding *plan, const char *param, const char *json, td_error *err);
/* The next axis of the mesh. */
TD_API td_status td_sharding_add_axis(td_sharding *plan, const char *axis, td_error *err);

/* The plan's JSON in either form; the caller frees it with free(). TD_E_INPUT: what was given cannot be frozen. */
TD_API td_status td_sharding_live_text(const td_sharding *plan, char **text, td_error *err);
TD_API td_status td_sharding_frozen_text(const td_sharding *plan, char **text, td_error *err);

/* XXH3-128 in hexadecimal of the frozen plan with all keys sorted, and injections by module: the same for plans that differ in
 * nothing but the order in which modules, parameters and fields were given. */
TD_API td_status td_sharding_digest(const td_sharding *plan, char digest[33], td_error *err);

/* A place where two plans differ. */
typedef struct td_sharding_difference {
  const char *module; /* NULL: of the whole plan */
  const char *name;   /* a parameter where there is an axis, else a frozen field of the module or key of the plan */
  const char *axis;   /* NULL: it is no parameter's placement */
  const char *from, *to; /* a placement's text, else JSON; NULL: not there */
} td_sharding_difference;

/* Calls `differs` for each difference in the order of `a`, then for what `b` alone has; texts are valid during the call, and a result
 * other than 0 ends it. Plans are equal if it is not called. */
TD_API td_status td_sharding_diff(const td_sharding *a, const td_sharding *b,
                                  int (*differs)(void *context, const td_sharding_difference *difference), void *context,
                                  td_error *err);

/* What is allowed in a plan but may be a mistake, a line each: an axis that mesh_dim_names lacks (it is taken to have size 1),
 * a tied pair whose parameters are placed differently. */
TD_API td_status td_sharding_remarks(const td_sharding *plan, void (*remark)(void *context, const char *line), void *context,
                                     td_error *err);

/* ---- plans in tapes ------------------------------------------------------------------------------------------- */

/* The plan that a process runs under, and its place in the job. What is 0 or NULL is not known. */
typedef struct td_sharding_place {
  const char *plan;   /* JSON, live or frozen */
  const char *digest; /* of the plan, as td_sharding_digest gives it, where only that is at hand */
  uint64_t world_size, rank; /* rank counts if world_size is not 0 */
  size_t n_mesh;             /* axes of the mesh, those of mesh_dim_names in that order */
  const uint64_t *mesh_shape;  /* n_mesh sizes */
  const uint64_t *mesh_coords; /* n_mesh coordinates of this process */
} td_sharding_place;

/* What a trace was recorded under: members of its meta, as the recorder, or td_tape_set_sharding, wrote them. The plan is frozen,
 * the digest is worked out. Freed with td_sharding_place_destroy. TD_E_INPUT: a member is there and no such thing. */
TD_API td_status td_tape_sharding(td_tape *tape, int64_t trace, td_sharding_place **out, td_error *err);
TD_API void td_sharding_place_destroy(td_sharding_place *place);

/* Attaches what is known to a trace of the tape at `path`, in place of what is there. A digest alone is not kept.
 * TD_E_INPUT: a plan that cannot be frozen, a coordinate beyond its axis, or the like. */
TD_API td_status td_tape_set_sharding(const char *path, int64_t trace, const td_sharding_place *place, td_error *err);

/* Whether a trace may be replayed by a process that runs under `mine`: the plan, the mesh's shape and the coordinates that `mine` knows
 * are in the tape and the same; so is the number of processes where both know it. The rank does not matter.
 * TD_E_DIVERGED: the message says the first difference. TD_E_NOT_FOUND: the tape does not say. */
TD_API td_status td_tape_check_sharding(const char *path, int64_t trace, const td_sharding_place *mine, td_error *err);

/* ---- sizes that differ by a placement ------------------------------------------------------------------------- */

/* Two traces of one job and what is known of their plans, meshes and parameters. */
typedef struct td_sharding_sizes td_sharding_sizes;

typedef enum td_size_reason {
  TD_SIZE_UNEXPLAINED = 0,
  TD_SIZE_BY_RATIO, /* the storages' names are not known; some tensor of the plans differs in this ratio */
  TD_SIZE_BY_NAME,  /* both are the parameter that the text names, and its placements make this difference */
} td_size_reason;

/* Reads what both tapes say; they may be closed afterwards. A trace without a plan is whole everywhere. TD_E_NOT_FOUND: neither
 * carries a plan. */
TD_API td_status td_sharding_sizes_create(td_sharding_sizes **out, td_tape *a, int64_t trace_a, td_tape *b, int64_t trace_b,
                                          td_error *err);
TD_API void td_sharding_sizes_destroy(td_sharding_sizes *sizes);

/* Why a storage has `bytes_a` in the one trace and its counterpart `bytes_b` in the other. `text` (may be NULL) receives one line, as
 * "layers.0.q: whole here, S(0) over tp=4 there"; "" if there is no reason. */
TD_API td_size_reason td_sharding_sizes_explain(const td_sharding_sizes *sizes, uint64_t sid_a, uint64_t bytes_a, uint64_t sid_b,
                                                uint64_t bytes_b, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
