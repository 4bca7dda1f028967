/* Running a recorded step on a deck, with storages of the recorded sizes and a pattern in place of what the ops compute.
 *
 * Each write fills its storage with a pattern made from SID and version, and each read checks every byte of it, so a byte that came back
 * wrong, late or not at all is found. */
#ifndef TD_TOOLS_PLAY_H
#define TD_TOOLS_PLAY_H

#include <tapedeck/deck.h>
#include <tapedeck/trace.h>

typedef struct play {
  /* Given by the caller. */
  td_deck *deck;
  const td_trace *trace;
  bool on_host;                                /* the device's memory can be touched here; else it is copied */
  void (*started)(void *context);              /* an op has what it needs and runs; may be NULL */
  void (*compute)(void *context, uint64_t ns); /* what it does besides until it ends, of the recorded duration; may be NULL */
  void *context;

  /* Found. */
  td_error error; /* why a step failed */
  uint64_t checked_bytes, wrong_bytes;
  uint64_t first_wrong_op, first_wrong_sid;

  /* Its own. */
  td_storage *storage; /* by index into the trace's storages; {0}: not there */
  uint64_t *version;   /* likewise: writes so far */
  uint64_t *end;       /* the op before which each goes */
  uint32_t *frees;     /* storages in the order in which they go */
  size_t n_frees, next_free;
  uint8_t *scratch;    /* as large as the largest storage, where the device's memory cannot be touched */
} play;

/* The rest is zero. False if memory ran out. play_finish in every case. */
bool play_init(play *play);
void play_finish(play *play);

/* One whole step. Everything that is retained is checked after it, and freed. A failed step is aborted. Under
 * a policy that passes over differences, the trace need not be the one that the deck replays. */
td_status play_step(play *play);

#endif
