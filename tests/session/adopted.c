/* Storages in the caller's own memory: a small framework whose tensors own their bytes, as PyTorch's do. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include <tapedeck/recorder.h>
#include <tapedeck/session.h>

#include "temp_dir.h"

enum { LAYERS = 20, BYTES = 3000 };

/* A storage of the framework: its bytes may be taken away and given back, itself lives while somebody holds it. */
typedef struct object {
  uint8_t *bytes;
  uint64_t size;
  int holds;
  td_storage storage;
  struct object *next_dead;
} object;

typedef struct framework {
  td_deck *deck;
  uint64_t live, most_live; /* bytes that are really allocated */
  int objects, holds_of_deck;
  object *dead; /* to be told to the deck: a death may come while the deck is at work */
  bool refuses; /* there is no room */
  int refusals; /* so often */
} framework;

static td_error err;
static temp_dir dir;

static void start(void)
{
  dir = temp_dir_create();
}

static void end(void)
{
  temp_dir_remove(&dir);
}

TestSuite(adopted, .init = start, .fini = end);

static object *object_of(uint64_t key)
{
  return (object *)(uintptr_t)key;
}

static void grow(framework *f, object *o)
{
  o->bytes = malloc(o->size ? o->size : 1);
  memset(o->bytes, 0xee, o->size);
  f->live += o->size;
  if (f->live > f->most_live) f->most_live = f->live;
}

static void shrink(framework *f, object *o)
{
  free(o->bytes);
  o->bytes = NULL;
  f->live -= o->size;
}

static object *new_object(framework *f, uint64_t size)
{
  object *o = calloc(1, sizeof *o);
  o->size = size;
  o->holds = 1;
  grow(f, o);
  f->objects++;
  return o;
}

static void let_go(framework *f, object *o)
{
  if (--o->holds) return;
  if (o->bytes) shrink(f, o);
  o->next_dead = f->dead;
  f->dead = o;
}

static void tell_deaths(framework *f)
{
  while (f->dead) {
    object *o = f->dead;
    f->dead = o->next_dead;
    if (f->deck) td_storage_freed(f->deck, o->storage);
    f->objects--;
    free(o);
  }
}

static bool give(void *context, uint64_t key, uint64_t bytes)
{
  framework *f = context;
  cr_assert_null(object_of(key)->bytes);
  cr_assert_eq(object_of(key)->size, bytes);
  if (f->refuses || (f->refusals && f->refusals--)) return false;
  grow(f, object_of(key));
  return true;
}

static void take(void *context, uint64_t key, uint64_t bytes)
{
  cr_assert_eq(object_of(key)->size, bytes);
  cr_assert_not_null(object_of(key)->bytes);
  shrink(context, object_of(key));
}

static void *pointer(void *context, uint64_t key)
{
  (void)context;
  return object_of(key)->bytes;
}

static void hold(void *context, uint64_t key)
{
  cr_assert_gt(object_of(key)->holds, 0, "it is dead");
  ((framework *)context)->holds_of_deck++;
  object_of(key)->holds++;
}

static bool drop(void *context, uint64_t key)
{
  ((framework *)context)->holds_of_deck--;
  bool lives = object_of(key)->holds > 1;
  let_go(context, object_of(key));
  return lives;
}

static void use(framework *f, td_deck *deck)
{
  f->deck = deck;
  cr_assert_eq(td_deck_set_memory(deck, &(td_memory){.context = f, .alloc = give, .free = take, .pointer = pointer, .hold = hold, .drop = drop}),
               TD_OK);
}

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", td_deck_error(f->deck)->message)

static object *forward(framework *f, const object *in, uint8_t salt)
{
  tell_deaths(f);
  CHECK(td_op_begin(f->deck, "forward"));
  if (in) CHECK(td_read(f->deck, in->storage));
  CHECK(td_op_run(f->deck));
  object *out = new_object(f, BYTES);
  for (int i = 0; i < BYTES; i++) out->bytes[i] = (uint8_t)((in ? in->bytes[i] : i) * 3 + salt);
  CHECK(td_storage_adopt(f->deck, (uintptr_t)out, BYTES, &out->storage));
  CHECK(td_output(f->deck, 0, out->storage));
  CHECK(td_op_end(f->deck, 100000));
  return out;
}

static uint64_t backward(framework *f, object *a, uint64_t sum)
{
  tell_deaths(f);
  CHECK(td_op_begin(f->deck, "backward"));
  CHECK(td_read(f->deck, a->storage));
  CHECK(td_op_run(f->deck));
  for (int i = 0; i < BYTES; i++) sum = sum * 31 + a->bytes[i];
  CHECK(td_op_end(f->deck, 100000));
  return sum;
}

/* A step whose sum hangs on every byte; keeps one activation beyond its end. */
static uint64_t step(framework *f, object **kept)
{
  object *layer[LAYERS];
  uint64_t sum = 0;
  CHECK(td_step_begin(f->deck));
  for (int i = 0; i < LAYERS; i++) layer[i] = forward(f, i ? layer[i - 1] : NULL, (uint8_t)i);
  *kept = layer[1];
  for (int i = LAYERS; i-- > 0;) {
    sum = backward(f, layer[i], sum);
    if (i != 1) let_go(f, layer[i]);
  }
  tell_deaths(f);
  cr_assert_eq(td_step_end(f->deck), TD_OK, "%s", td_deck_error(f->deck)->message);
  tell_deaths(f);
  return sum;
}

static uint64_t sum_of(const object *o)
{
  uint64_t sum = 0;
  cr_assert_not_null(o->bytes, "what outlives the step is whole");
  for (int i = 0; i < BYTES; i++) sum = sum * 31 + o->bytes[i];
  return sum;
}

static void finish(framework *f)
{
  td_deck_destroy(f->deck);
  f->deck = NULL;
  tell_deaths(f);
  cr_expect_eq(f->holds_of_deck, 0);
}

static void run(uint64_t budget, uint64_t *sums, uint64_t *kept_sums, int steps)
{
  framework f = {0};
  td_device *device;
  td_deck *deck;
  const char *path = temp_file(&dir, "adopted.tape");
  cr_assert_eq(td_device_open(&device, "host", &(td_device_options){.d2h_bytes_per_s = 3e8, .h2d_bytes_per_s = 3e8}, &err), TD_OK);
  cr_assert_eq(td_session_create(&deck, &(td_session_options){.path = path, .device = device, .budget_bytes = budget,
                                                              .d2h_bytes_per_s = 3e8, .h2d_bytes_per_s = 3e8}, &err),
               TD_OK, "%s", err.message);
  use(&f, deck);
  for (int i = 0; i < steps; i++) {
    object *kept;
    td_step_stats stats;
    f.most_live = f.live;
    sums[i] = step(&f, &kept);
    kept_sums[i] = sum_of(kept);
    td_deck_stats(deck, &stats);
    cr_expect_eq(stats.diverged_ops, 0, "%s", td_replayer_divergence(deck));
    cr_expect_eq(stats.replayed, i > 1);
    cr_expect_leq(f.most_live, budget + (stats.replayed ? 0 : BYTES), "step %d holds %d of %d bytes", i, (int)f.most_live, (int)budget);
    cr_expect(budget > LAYERS * BYTES || stats.d2h_bytes > 0);
    let_go(&f, kept);
    tell_deaths(&f);
    cr_expect_eq(f.live, 0);
  }
  finish(&f);
  td_device_close(device);
}

Test(adopted, a_step_inside_a_budget_gives_the_same_bits)
{
  uint64_t free_sums[6], free_kept[6], sums[6], kept[6];
  run(1 << 20, free_sums, free_kept, 6);
  run(6 * BYTES, sums, kept, 6);
  cr_expect_arr_eq(sums, free_sums, sizeof sums);
  cr_expect_arr_eq(kept, free_kept, sizeof kept);
  run(3 * BYTES, sums, kept, 6);
  cr_expect_arr_eq(sums, free_sums, sizeof sums);
}

static framework recording(td_device **device, td_deck **deck, uint64_t limit)
{
  framework f = {0};
  const char *path = temp_file(&dir, "recording.tape");
  cr_assert_eq(td_device_open(device, "host", NULL, &err), TD_OK);
  cr_assert_eq(td_recorder_create(deck, &(td_recorder_options){.path = path, .device = *device, .limit_bytes = limit}, &err), TD_OK);
  return f;
}

Test(adopted, an_aborted_step_gives_everything_back_to_who_holds_it)
{
  td_device *device;
  td_deck *deck;
  object *layer[LAYERS];
  framework fw = recording(&device, &deck, 4 * BYTES), *f = &fw;
  use(f, deck);
  CHECK(td_step_begin(deck));
  for (int i = 0; i < LAYERS; i++) layer[i] = forward(f, i ? layer[i - 1] : NULL, (uint8_t)i);
  CHECK(td_step_abort(deck));
  uint8_t expected[BYTES];
  for (int i = 0; i < BYTES; i++) expected[i] = (uint8_t)i;
  for (int n = 0; n < LAYERS; n++) {
    for (int i = 0; i < BYTES; i++) expected[i] = (uint8_t)(expected[i] * 3 + n);
    cr_assert_not_null(layer[n]->bytes);
    cr_assert_arr_eq(layer[n]->bytes, expected, BYTES);
    let_go(f, layer[n]);
  }
  tell_deaths(f);
  finish(f);
  td_device_close(device);
}

Test(adopted, what_is_read_outside_of_ops_is_restored)
{
  td_device *device;
  td_deck *deck;
  object *layer[LAYERS];
  framework fw = recording(&device, &deck, 4 * BYTES), *f = &fw;
  use(f, deck);
  CHECK(td_step_begin(deck));
  for (int i = 0; i < LAYERS; i++) layer[i] = forward(f, i ? layer[i - 1] : NULL, (uint8_t)i);
  CHECK(td_storage_restore(deck, layer[0]->storage));
  for (int i = 0; i < BYTES; i++) cr_assert_eq(layer[0]->bytes[i], (uint8_t)(i * 3));
  f->refuses = true; /* the framework's own allocator has no room for it */
  cr_expect_eq(td_storage_restore(deck, layer[1]->storage), TD_E_NOMEM);
  f->refuses = false;
  CHECK(td_storage_restore(deck, layer[1]->storage));
  for (int i = 0; i < LAYERS; i++) let_go(f, layer[i]); /* some of them while they are away */
  tell_deaths(f);
  CHECK(td_step_end(deck));
  finish(f);
  cr_expect_eq(f->live, 0);
  td_device_close(device);
}

Test(adopted, a_storage_that_grows_has_its_new_bytes)
{
  td_device *device;
  td_deck *deck;
  framework fw = recording(&device, &deck, 4 * BYTES), *f = &fw;
  use(f, deck);
  CHECK(td_step_begin(deck));
  object *a = forward(f, NULL, 1), *b[3];
  shrink(f, a);
  a->size = 2 * BYTES;
  grow(f, a);
  memset(a->bytes, 7, a->size);
  CHECK(td_storage_resized(deck, a->storage, a->size));
  for (int i = 0; i < 3; i++) b[i] = forward(f, NULL, 1);
  CHECK(td_storage_restore(deck, a->storage));
  for (int i = 0; i < 2 * BYTES; i++) cr_assert_eq(a->bytes[i], 7);
  let_go(f, a);
  for (int i = 0; i < 3; i++) let_go(f, b[i]);
  tell_deaths(f);
  CHECK(td_step_end(deck));
  finish(f);
  td_device_close(device);
}

Test(adopted, misuse_is_told)
{
  td_device *device;
  td_deck *deck;
  framework fw = recording(&device, &deck, 0), *f = &fw;
  td_storage storage;
  f->deck = deck;
  cr_expect_eq(td_storage_adopt(deck, 1, 10, &storage), TD_E_STATE);
  cr_expect_eq(td_deck_set_memory(deck, &(td_memory){.context = f}), TD_E_ARG);
  use(f, deck);
  cr_expect_eq(td_deck_set_memory(deck, &(td_memory){.context = f, .alloc = give, .free = take, .pointer = pointer, .hold = hold, .drop = drop}),
               TD_E_STATE);
  cr_expect_eq(td_storage_adopt(deck, 0, 10, &storage), TD_E_ARG);
  object *a = new_object(f, 10);
  CHECK(td_storage_adopt(deck, (uintptr_t)a, 10, &a->storage));
  cr_expect_eq(td_storage_adopt(deck, (uintptr_t)a, 10, &storage), TD_E_ARG);
  let_go(f, a);
  tell_deaths(f);
  finish(f);
  td_device_close(device);
}

/* One that the framework has no room for does not keep the others away. */
Test(adopted, a_step_that_cannot_bring_one_home_brings_the_others)
{
  td_device *device;
  td_deck *deck;
  object *layer[LAYERS];
  framework fw = recording(&device, &deck, 4 * BYTES), *f = &fw;
  use(f, deck);
  CHECK(td_step_begin(deck));
  for (int i = 0; i < LAYERS; i++) layer[i] = forward(f, i ? layer[i - 1] : NULL, (uint8_t)i);
  f->refusals = 1;
  cr_expect_eq(td_step_end(deck), TD_E_NOMEM);
  cr_expect_eq(td_deck_error(deck)->status, TD_E_NOMEM);
  int away = 0;
  for (int i = 0; i < LAYERS; i++) away += !layer[i]->bytes;
  cr_expect_eq(away, 1);
  for (int i = 0; i < LAYERS; i++) let_go(f, layer[i]);
  tell_deaths(f);
  finish(f);
  td_device_close(device);
}

Test(adopted, what_was_restored_stays_until_the_next_op)
{
  td_device *device;
  td_deck *deck;
  object *layer[LAYERS];
  framework fw = recording(&device, &deck, 4 * BYTES), *f = &fw;
  use(f, deck);
  CHECK(td_step_begin(deck));
  for (int i = 0; i < LAYERS; i++) layer[i] = forward(f, i ? layer[i - 1] : NULL, (uint8_t)i);
  CHECK(td_storage_restore(deck, layer[0]->storage));
  object *more = new_object(f, BYTES); /* outside of any op */
  CHECK(td_storage_adopt(deck, (uintptr_t)more, BYTES, &more->storage));
  cr_expect_not_null(layer[0]->bytes);
  for (int i = 0; i < LAYERS; i++) let_go(f, layer[i]);
  let_go(f, more);
  tell_deaths(f);
  CHECK(td_step_end(deck));
  finish(f);
  td_device_close(device);
}

/* An address that comes back within one op is another storage. */
Test(adopted, a_key_that_was_freed_in_the_op_may_come_back_in_it)
{
  td_device *device;
  td_deck *deck;
  td_storage first, second;
  framework fw = recording(&device, &deck, 0), *f = &fw;
  use(f, deck);
  object *a = new_object(f, BYTES);
  CHECK(td_step_begin(deck));
  CHECK(td_op_begin(deck, "op"));
  CHECK(td_storage_adopt(deck, (uintptr_t)a, BYTES, &first));
  CHECK(td_output(deck, 0, first));
  CHECK(td_storage_freed(deck, first));
  td_storage found;
  cr_expect_eq(td_storage_find(deck, (uintptr_t)a, &found), TD_E_NOT_FOUND);
  CHECK(td_storage_adopt(deck, (uintptr_t)a, BYTES, &second));
  CHECK(td_output(deck, 1, second));
  cr_expect_neq(first.id, second.id);
  CHECK(td_op_end(deck, 0));
  CHECK(td_storage_find(deck, (uintptr_t)a, &found));
  cr_expect_eq(found.id, second.id);
  a->storage = second;
  let_go(f, a);
  tell_deaths(f);
  CHECK(td_step_end(deck));
  finish(f);
  td_device_close(device);
}
