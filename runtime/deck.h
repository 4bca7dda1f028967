/* The deck from inside: what the op lifecycle, the regions and the roles share.
 *
 * The deck keeps storages, ops and regions; its role says what a step is for. A recorder's role writes what the deck saw;
 * a replayer's role compares it with a trace and carries out actions. Both find the same facts here: op numbers, SIDs by
 * first appearance in the step, which storages are activations, and where their bytes are. */
#ifndef TD_RUNTIME_DECK_H
#define TD_RUNTIME_DECK_H

#include <tapedeck/deck.h>

#include "base/buffer.h"
#include "base/map.h"
#include "runtime/residency.h"
#include "runtime/victims.h"

#define TD_SID_NONE UINT64_MAX

/* One storage. Slots stay in place; a freed one is used again under another handle. */
typedef struct td_slot {
  td_storage handle; /* {0}: the slot is free */
  uint64_t key;      /* the caller's; 0: none */
  uint64_t holds;    /* live tensors */
  uint64_t born_step; /* the step it was born in; 0: outside of any */
  uint64_t born_op;   /* the op stamp at its birth inside an op; 0: outside */
  uint64_t read_op, written_op; /* the op stamp of its latest access of each kind */
  uint64_t output_op;           /* the op stamp of its latest output binding */
  uint64_t touched;             /* the touch stamp of its latest use, which protects it from eviction */
  uint64_t step;                /* the step that `sid` and `activation` speak of */
  uint64_t sid;                 /* by first appearance in the step */
  uint32_t next_free;           /* of a free slot */
  bool owned;                   /* the deck moves the bytes: they are in its device memory, or adopted */
  bool activation;
  bool freeing;      /* freed while the open op uses it; goes when the op ends */
  td_resident resident; /* `bytes` is the size in every case */
  td_victim victim;     /* in the deck's victims while it is owned and on the device */
} td_slot;

/* A free slot keeps the id it had with the top bit set, so that no handle matches it. */
#define TD_SLOT_FREE ((uint64_t)1 << 63)

static inline bool td_slot_living(const td_slot *slot)
{
  return !(slot->handle.id & TD_SLOT_FREE);
}

typedef struct td_op_access {
  td_slot *slot;
  uint32_t kind; /* td_access_kind */
} td_op_access;

typedef struct td_op_output {
  uint64_t leaf;
  td_slot *slot;
} td_op_output;

/* The op that is open. Held until it ends and no longer. */
typedef struct td_open_op {
  td_buffer name;
  uint64_t leaves, dur_ns;
  uint64_t started_ns;
  bool open, running, opaque, leaves_told;
  td_op_access *accesses;
  td_op_output *outputs;
  size_t n_accesses, accesses_capacity, n_outputs, outputs_capacity;
} td_open_op;

typedef struct td_region_state {
  size_t name, name_length; /* in region_names */
  bool forward_open, backward_open;
} td_region_state;

typedef struct td_role td_role;

/* What a step is for. Each call gets the deck in the state it speaks of; one that fails leaves it so. */
typedef struct td_role_ops {
  const char *name;
  bool replays;
  void (*attached)(td_role *role, td_deck *deck); /* it is the deck's from here on, and the deck has a device; may be NULL */
  td_status (*step_begin)(td_role *role, td_deck *deck, td_error *err);
  td_status (*op_begin)(td_role *role, td_deck *deck, td_error *err); /* number and name are known */
  uint64_t (*output_bytes)(td_role *role, td_deck *deck); /* what the op is expected to adopt; may be NULL */
  td_status (*op_check)(td_role *role, td_deck *deck, td_error *err); /* all is known; may refuse; may be NULL */
  void (*op_abort)(td_role *role, td_deck *deck); /* it was never there; may be NULL */
  td_status (*op_end)(td_role *role, td_deck *deck, td_error *err);   /* SIDs are given; the op is over in any case */
  void (*storage_changed)(td_role *role, td_deck *deck, const td_slot *slot); /* resized; may be NULL */
  void (*storage_freed)(td_role *role, td_deck *deck, const td_slot *slot);   /* had a SID in this step; may be NULL */
  td_status (*mark)(td_role *role, td_deck *deck, const char *name, td_error *err); /* may be NULL */
  td_status (*step_end)(td_role *role, td_deck *deck, td_error *err);
  void (*step_abort)(td_role *role, td_deck *deck);
  void (*destroy)(td_role *role);
} td_role_ops;

struct td_role {
  const td_role_ops *ops;
};

/* Whoever wants to know when steps begin and end, between which it may change the role. */
typedef struct td_step_listener {
  void *context;
  void (*entered)(void *context, td_deck *deck);
  void (*left)(void *context, td_deck *deck); /* the step is over, whole or not */
  td_status (*ended)(void *context, td_deck *deck, td_error *err); /* after left, if the step was whole */
  void (*destroy)(void *context);
} td_step_listener;

#define TD_SLOT_CHUNK 256
#define TD_WAITS_KEPT 256

struct td_deck {
  td_error error;
  char divergence[sizeof ((td_error *)0)->message]; /* of the step that ended last, where its role is gone */
  td_role *role;
  td_step_listener listener;

  td_device *device; /* NULL: records only */
  td_residency *residency;
  uint64_t limit_bytes; /* on the device */
  bool has_memory;      /* the caller's, whose storages may be adopted */
  td_victims victims;

  td_slot **chunks;
  size_t n_chunks, chunks_capacity;
  uint32_t n_slots, free_slot; /* free_slot: TD_MAP_NONE at the end */
  td_map keys;                 /* the caller's key -> slot number */

  bool in_step;
  uint64_t step;      /* counts steps, from 1 */
  uint64_t op_stamp;  /* counts ops over all steps, aborted ones included, from 1 */
  uint64_t touch_stamp;
  int64_t op_number;
  uint64_t next_sid;
  td_open_op op;
  size_t n_freeing; /* slots that go when the open op ends */

  td_region_state *regions;
  size_t n_regions, regions_capacity, open_regions;
  td_buffer region_names;
  bool inner_op; /* an op is open inside a region */

  uint64_t step_began_ns;
  td_step_stats stats;
  td_wait waits[TD_WAITS_KEPT];
  td_storage wait_storage[TD_WAITS_KEPT];
  size_t n_waits;
};

/* Takes over `role` and destroys it with the deck. `limit_bytes` 0: the device's capacity. `device` may be NULL. */
td_status td_deck_create(td_deck **out, td_role *role, td_device *device, uint64_t limit_bytes, td_error *err);
/* Between steps: destroys the old role and takes over the new one. */
void td_deck_set_role(td_deck *deck, td_role *role);

/* Fills the deck's own error. */
td_status td_deck_fail(td_deck *deck, td_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- storages.c ---- */
/* NULL, and the deck's error, if the handle is stale. */
td_slot *td_deck_slot(td_deck *deck, td_storage storage);
td_slot *td_deck_slot_at(const td_deck *deck, uint32_t number);
/* Like td_deck_slot, without an error. */
td_slot *td_deck_find(const td_deck *deck, td_storage storage);
/* The bytes are on the device and stay until the next touch stamp; brings them back, evicting others, if they are away. */
td_status td_deck_need(td_deck *deck, td_slot *slot);
/* Evicts the oldest storages that nothing protects until `bytes` more fit, counting those already on their way out. */
td_status td_deck_make_room(td_deck *deck, uint64_t bytes);
/* What is over the limit is evicted, whatever it is, and waited for. */
td_status td_deck_squeeze(td_deck *deck);
/* Makes room for bytes that the caller is going to adopt, as far as that can be. */
td_status td_deck_expect(td_deck *deck, uint64_t bytes);
/* Prefetches a storage that is away. Does nothing where there is no room: it is brought back when needed. */
td_status td_deck_prefetch(td_deck *deck, td_slot *slot);
/* Gives the device bytes back; they are lost unless the host copy is current. */
void td_deck_release_device(td_deck *deck, td_slot *slot);
/* The bytes of an adopted storage are the caller's alone from here on, on the device; they are brought there first. */
td_status td_deck_disown(td_deck *deck, td_slot *slot);
void td_deck_free_slot(td_deck *deck, td_slot *slot);
void td_deck_free_pending(td_deck *deck);
void td_storages_finish(td_deck *deck);

/* ---- regions.c ---- */
void td_regions_reset(td_deck *deck);
/* At the end of the step: ends the op of regions that are still open. */
td_status td_regions_close(td_deck *deck);

/* ---- ops.c ---- */
td_status td_deck_op_open(td_deck *deck, const char *name, size_t length, const char *suffix, bool opaque);
td_status td_deck_op_start(td_deck *deck);
td_status td_deck_op_close(td_deck *deck, uint64_t dur_ns);
void td_deck_op_drop(td_deck *deck);

#endif
