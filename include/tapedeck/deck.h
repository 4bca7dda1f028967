/* The deck: what a training runtime calls while a step runs.
 *
 * A recorder, a replayer and a session are each a td_deck, made by their own header's create call and driven by the calls
 * here, so a runtime is instrumented once:
 *
 *     td_step_begin(deck);
 *       td_op_begin(deck, "matmul");
 *       td_read(deck, a);  td_read(deck, b);
 *       td_storage_alloc(deck, bytes, &c);  td_output(deck, 0, c);
 *       td_op_run(deck);                         // everything the op touches is on the device from here to td_op_end
 *       matmul(td_data(deck, a), td_data(deck, b), td_data(deck, c));
 *       td_op_end(deck, TD_MEASURE);
 *     td_step_end(deck);
 *
 * Calls on one deck must not overlap; they may come from different threads if the caller orders them.
 * Every call returns a td_status; td_deck_error has the message of the last one that failed. A call that fails leaves
 * the step as it was: end the op with td_op_abort or leave the step with td_step_abort. */
#ifndef TAPEDECK_DECK_H
#define TAPEDECK_DECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tapedeck/device.h>
#include <tapedeck/error.h>
#include <tapedeck/run.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_deck td_deck;

/* A block of bytes that tensors live in, as this deck knows it. Never used again for another one, so a stale handle is
 * noticed. (A SID is the number that a tape gives to a storage; it is another thing.) */
typedef struct td_storage {
  uint64_t id; /* 0: none */
} td_storage;

/* An opaque region of this step, from its forward begin to the end of the step. */
typedef struct td_region {
  uint32_t id;
} td_region;

/* Waits for pending copies, gives back all device and host memory, and frees the deck. A step that is still open is
 * aborted. NULL is allowed. */
TD_API void td_deck_destroy(td_deck *deck);

/* Never NULL; status TD_OK and an empty message if nothing failed yet. Overwritten by the next failing call. */
TD_API const td_error *td_deck_error(const td_deck *deck);

/* ---- steps ---------------------------------------------------------------------------------------------------- */

TD_API td_status td_step_begin(td_deck *deck);

/* Ends the step. Regions left open by a backward pass that stopped inside end with it. An activation that is still held
 * is retained. In a replay: TD_E_DIVERGED if ops are missing. The step is over in every case. */
TD_API td_status td_step_end(td_deck *deck);

/* Leaves the step after an exception: pending copies end, then everything that the step produced is forgotten, its
 * activations are freed, and nothing of it is recorded. Outside a step it does nothing. */
TD_API td_status td_step_abort(td_deck *deck);

TD_API bool td_in_step(const td_deck *deck);

/* The number of the current or latest op of the step; -1 before the first and outside a step. */
TD_API int64_t td_op_number(const td_deck *deck);

/* Marks the current position in the step (before the next op), such as "forward_end". */
TD_API td_status td_step_mark(td_deck *deck, const char *name);

/* ---- ops ------------------------------------------------------------------------------------------------------ */

#define TD_MEASURE UINT64_MAX /* as duration: the time from td_op_run to td_op_end */

/* Begins the next op. Between this and td_op_run or td_op_end it is told what it touches. The name is copied. */
TD_API td_status td_op_begin(td_deck *deck, const char *name);
TD_API td_status td_op_begin_n(td_deck *deck, const char *name, size_t length);

/* The op reads or writes a storage. The same again within one op changes nothing. In place is a write; a view of an
 * input is neither. */
TD_API td_status td_read(td_deck *deck, td_storage storage);
TD_API td_status td_write(td_deck *deck, td_storage storage);

/* Output leaf number `leaf` lives in `storage`. If the op did not name the storage before, this is a write as well. */
TD_API td_status td_output(td_deck *deck, uint64_t leaf, td_storage storage);

/* The number of flattened outputs, those that are no tensors included. Without this call: the highest leaf plus one. */
TD_API td_status td_leaves(td_deck *deck, uint64_t leaves);

/* The op starts computing: whatever it named so far is brought to the device and stays there until it ends. Outputs whose
 * size is known only afterwards may be told between this and td_op_end. Runtimes that keep their bytes themselves and only
 * record may leave it out. */
TD_API td_status td_op_run(td_deck *deck);

/* The op is over. `dur_ns`: how long it computed, or TD_MEASURE. */
TD_API td_status td_op_end(td_deck *deck, uint64_t dur_ns);

/* The op failed: it leaves no trace and its number is used again. Storages allocated by it remain the caller's to free. */
TD_API td_status td_op_abort(td_deck *deck);

/* ---- opaque regions ------------------------------------------------------------------------------------------- */

/* Ops inside a region are run but not recorded one by one: the region is one op NAME_fwd in the forward pass and one op
 * NAME_bwd in the backward pass. Regions nest and may interleave; only the outermost open one is an op. Whatever is
 * touched inside and was there before counts as touched by that op. Tell its outputs with td_output when no op inside is
 * open. Region durations are measured. */
TD_API td_status td_region_begin(td_deck *deck, const char *name, td_region *region);
TD_API td_status td_region_end(td_deck *deck, td_region region);
TD_API td_status td_region_backward_begin(td_deck *deck, td_region region);
TD_API td_status td_region_backward_end(td_deck *deck, td_region region);

/* Leaves the region, in whichever pass it is open, after an exception. If it was the outermost, its op leaves no trace. */
TD_API td_status td_region_abort(td_deck *deck, td_region region);

/* ---- storages ------------------------------------------------------------------------------------------------- */

/* A storage whose bytes are the caller's: it is recorded but never moved. `key` (an address, say; 0: none) finds it again
 * with td_storage_find. A key that comes back is a new storage, and the old one is freed. The caller holds it once. */
TD_API td_status td_storage_born(td_deck *deck, uint64_t key, uint64_t bytes, td_storage *storage);

/* A storage whose bytes are in the deck's device memory and may be moved to the host and back. The caller holds it once.
 * Makes room first where the deck has a limit. TD_E_STATE: the deck has no device. */
TD_API td_status td_storage_alloc(td_deck *deck, uint64_t bytes, td_storage *storage);

/* The caller's own allocator, for runtimes whose tensors own their bytes, as PyTorch's do. A deck that has one moves the bytes of
 * storages that the caller adopts. Each call is made from within a call on the deck, on the thread that made it, and names the
 * storage by its key; none may call the deck. */
typedef struct td_memory {
  void *context;
  /* Gives the storage `bytes` bytes on the device again, whose contents do not matter. False: there is no room. */
  bool (*alloc)(void *context, uint64_t key, uint64_t bytes);
  /* Takes the storage's bytes on the device away. The storage itself lives on, empty. */
  void (*free)(void *context, uint64_t key, uint64_t bytes);
  /* Where the storage's bytes on the device are now. */
  void *(*pointer)(void *context, uint64_t key);
  /* A copy reads or writes the bytes from here on: the caller keeps the storage alive until `drop`, which comes once for each hold. */
  void (*hold)(void *context, uint64_t key);
  /* False: nobody else held the storage, and it is gone with this; the caller tells td_storage_freed after this call on the deck. */
  bool (*drop)(void *context, uint64_t key);
} td_memory;

/* Outside a step, and once: `memory` is copied; its context must outlive the deck. TD_E_STATE: the deck has no device. */
TD_API td_status td_deck_set_memory(td_deck *deck, const td_memory *memory);

/* A storage whose bytes are in the caller's memory, on the device now, and may be moved through td_memory. `key` is not 0 and no other living
 * storage has it. The bytes are there already, so they count even over the limit; older storages are evicted for them as far as there
 * are any. The caller holds it once, and tells td_storage_freed when its own storage is gone, wherever the bytes are.
 * TD_E_STATE: the deck has no td_memory. */
TD_API td_status td_storage_adopt(td_deck *deck, uint64_t key, uint64_t bytes, td_storage *storage);

/* Brings an adopted or allocated storage back if it is away, and keeps it on the device until the next op begins: for what reads it outside
 * of ops. */
TD_API td_status td_storage_restore(td_deck *deck, td_storage storage);

/* TD_E_NOT_FOUND if no living storage has this key. */
TD_API td_status td_storage_find(td_deck *deck, uint64_t key, td_storage *storage);

/* The SID that the trace of the latest step has for a storage. TD_E_NOT_FOUND: the step has not touched it. */
TD_API td_status td_storage_sid(td_deck *deck, td_storage storage, uint64_t *sid);

/* The size of a storage whose bytes are the caller's has changed. */
TD_API td_status td_storage_resized(td_deck *deck, td_storage storage, uint64_t bytes);

/* One more or one less live tensor in the storage. The last release frees it. */
TD_API td_status td_acquire(td_deck *deck, td_storage storage);
TD_API td_status td_release(td_deck *deck, td_storage storage);

/* The storage is gone, whoever held it. Device and host bytes are given back once no copy uses them. */
TD_API td_status td_storage_freed(td_deck *deck, td_storage storage);

/* The device bytes of a storage made by td_storage_alloc. Between td_op_run and td_op_end it is valid for what the op
 * named. NULL if the bytes are not on the device now, or are the caller's. */
TD_API void *td_data(td_deck *deck, td_storage storage);

/* Copies the current bytes of a storage made by td_storage_alloc to `to`, wherever they are. `bytes` is at most its size. */
TD_API td_status td_fetch(td_deck *deck, td_storage storage, void *to, uint64_t bytes);

/* Copies `bytes` bytes at `from` over the first ones of a storage that is on the device, for devices whose memory the host cannot write.
 * Between td_op_run and td_op_end, for a storage that the op writes. */
TD_API td_status td_store(td_deck *deck, td_storage storage, const void *from, uint64_t bytes);

/* ---- what happened -------------------------------------------------------------------------------------------- */

/* Of the step that ended last; zeros before the first. */
TD_API void td_deck_stats(const td_deck *deck, td_step_stats *out);

/* Those of the step that ended last, in order; the first 256 of them. Valid until the next step begins. */
TD_API const td_wait *td_deck_waits(const td_deck *deck, size_t *count);

#ifdef __cplusplus
}
#endif
#endif
