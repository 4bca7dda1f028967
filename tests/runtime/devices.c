/* Every device keeps the same promises: the host, a real OpenCL device, and a double of the CUDA driver. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include <dlfcn.h>
#include <string.h>

#include "runtime/residency.h"

static td_error err;
static td_device *device;

#define CHECK(call) cr_assert_eq((call), TD_OK, "%s", err.message)

typedef struct named {
  char name[16];
} named;

static named kinds[] = {{"host"}, {"opencl"}, {"cuda"}};

/* False where the driver is not there: then the message says what was looked for, and there is nothing to test. ./run test installs the
 * drivers; a machine of somebody else's may have none. */
static bool open_kind(const named *kind, uint64_t capacity)
{
  td_status status = td_device_open(&device, kind->name, &(td_device_options){.capacity_bytes = capacity}, &err);
  if (status == TD_OK) return true;
  cr_assert_eq(status, TD_E_DEVICE, "%s", err.message);
  cr_assert(strstr(err.message, "looked") || strstr(err.message, "has no"), "%s", err.message);
  cr_assert_null(getenv("TD_ALL_DEVICES"), "%s", err.message);
  return false;
}

/* The double judges what the device did; a real driver says nothing. */
static void close_kind(void)
{
  cr_expect_eq(device->ops->used_bytes(device), 0);
  td_device_close(device);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  int (*faults)(const char **, int *) = NULL;
  void *address = driver ? dlsym(driver, "cuda_double_faults") : NULL;
  memcpy(&faults, &address, sizeof faults);
  if (faults) {
    const char *what;
    int live;
    cr_expect_eq(faults(&what, &live), 0, "%s", what);
    cr_expect_eq(live, 0, "streams, events or contexts are left");
  }
  if (driver) dlclose(driver);
}

#define EACH_DEVICE(test)                                                                                                 \
  ParameterizedTestParameters(devices, test)                                                                              \
  {                                                                                                                       \
    return cr_make_param_array(named, kinds, sizeof kinds / sizeof *kinds);                                               \
  }                                                                                                                       \
  ParameterizedTest(named *kind, devices, test)

static void put(void *at, uint8_t value, size_t bytes)
{
  uint8_t *from = malloc(bytes);
  td_event done;
  memset(from, value, bytes);
  CHECK(device->ops->copy(device, TD_H2D, at, from, bytes, (td_event){0}, &done, &err));
  CHECK(device->ops->wait(device, done, &err));
  free(from);
}

static void expect(const void *at, uint8_t value, size_t bytes)
{
  uint8_t *to = calloc(1, bytes);
  td_event done;
  CHECK(device->ops->copy(device, TD_D2H, to, at, bytes, (td_event){0}, &done, &err));
  CHECK(device->ops->wait(device, done, &err));
  for (size_t i = 0; i < bytes; i++) cr_assert_eq(to[i], value, "byte %zu is %d, not %d", i, to[i], value);
  free(to);
}

EACH_DEVICE(memory_is_counted_and_limited)
{
  if (!open_kind(kind, 1000000)) return;
  void *a, *b = NULL, *none;
  CHECK(device->ops->mem_alloc(device, 600000, &a, &err));
  cr_expect_eq(device->ops->mem_alloc(device, 400001, &b, &err), TD_E_NOMEM);
  cr_expect_null(b);
  CHECK(device->ops->mem_alloc(device, 400000, &b, &err));
  CHECK(device->ops->mem_alloc(device, 0, &none, &err));
  cr_expect_eq(device->ops->used_bytes(device), 1000000);
  put(a, 1, 600000);
  put(b, 2, 400000);
  expect(a, 1, 600000);
  expect(b, 2, 400000);
  device->ops->mem_free(device, a, 600000);
  device->ops->mem_free(device, b, 400000);
  device->ops->mem_free(device, none, 0);
  close_kind();
}

/* A chain that goes out and in again: each copy is told to come after the one before, of the other direction. */
EACH_DEVICE(copies_follow_what_they_are_told_to)
{
  enum { BYTES = 30000, ROUNDS = 200 };
  if (!open_kind(kind, 0)) return;
  void *place[2], *host;
  td_event out = {0}, in = {0};
  for (int i = 0; i < 2; i++) CHECK(device->ops->mem_alloc(device, BYTES, &place[i], &err));
  CHECK(device->ops->host_alloc(device, BYTES, &host, &err));
  put(place[0], 7, BYTES);
  put(place[1], 9, BYTES);
  for (int i = 0; i < ROUNDS; i++) { /* what is in one place goes to the other and back */
    CHECK(device->ops->copy(device, TD_D2H, host, place[i % 2], BYTES, in, &out, &err));
    CHECK(device->ops->copy(device, TD_H2D, place[(i + 1) % 2], host, BYTES, out, &in, &err));
    cr_expect_eq(in.ticket, (uint64_t)i + 3);
  }
  CHECK(device->ops->join(device, in, &err));
  CHECK(device->ops->wait(device, in, &err));
  cr_expect(device->ops->passed(device, out));
  expect(place[0], 7, BYTES);
  expect(place[1], 7, BYTES);
  device->ops->host_free(device, host, BYTES);
  for (int i = 0; i < 2; i++) device->ops->mem_free(device, place[i], BYTES);
  close_kind();
}

EACH_DEVICE(the_link_is_measured)
{
  td_link_speed speed;
  if (!open_kind(kind, 40 << 20)) return; /* too small for the largest copy that it likes to measure with twice */
  CHECK(td_device_measure(device, &speed, &err));
  cr_expect_gt(speed.d2h_bytes_per_s, 1e6);
  cr_expect_gt(speed.h2d_bytes_per_s, 1e6);
  cr_expect_lt(speed.d2h_latency_ns, 1000000000);
  close_kind();
  if (!open_kind(kind, 1000)) return;
  cr_expect_eq(td_device_measure(device, &speed, &err), TD_E_NOMEM);
  close_kind();
}

/* ---- residency, against its table ----------------------------------------------------------------------------- */

typedef enum state { NOWHERE, DEVICE, BOTH, STALE, HOST, OUTDATED, N_STATES } state;
typedef enum action { WRITE, D2H, H2D, NEED, RELEASE_DEVICE, RELEASE_HOST, DROP, N_ACTIONS } action;

#define SAME (-1)
#define ERROR (-2)

/* What runtime/residency.h says. A write binds first, and writes all bytes. */
static const int table[N_STATES][N_ACTIONS] = {
    [NOWHERE] = {DEVICE, ERROR, ERROR, ERROR, SAME, SAME, NOWHERE},
    [DEVICE] = {DEVICE, BOTH, SAME, SAME, NOWHERE, SAME, NOWHERE},
    [BOTH] = {STALE, SAME, SAME, SAME, HOST, DEVICE, NOWHERE},
    [STALE] = {STALE, BOTH, SAME, SAME, OUTDATED, DEVICE, NOWHERE},
    [HOST] = {STALE, ERROR, BOTH, BOTH, SAME, NOWHERE, NOWHERE},
    [OUTDATED] = {STALE, ERROR, ERROR, ERROR, SAME, NOWHERE, NOWHERE},
};

static state state_of(const td_resident *r)
{
  if (r->device) return !r->host ? DEVICE : td_residency_current_on_host(r) ? BOTH : STALE;
  return !r->host ? NOWHERE : td_residency_current_on_host(r) ? HOST : OUTDATED;
}

static td_residency *residency;

static td_status act(td_resident *r, action action, uint8_t *value)
{
  uint8_t bytes[6000];
  switch (action) {
  case WRITE:
    CHECK(td_residency_bind(residency, r, &err));
    CHECK(td_residency_written(residency, r, &err));
    memset(bytes, ++*value, r->bytes);
    return td_residency_store(residency, r, bytes, r->bytes, &err);
  case D2H: return td_residency_copy_d2h(residency, r, &err);
  case H2D: return td_residency_copy_h2d(residency, r, &err);
  case NEED: return td_residency_need(residency, r, NULL, &err);
  case RELEASE_DEVICE: td_residency_release_device(residency, r); return TD_OK;
  case RELEASE_HOST: td_residency_release_host(residency, r); return TD_OK;
  default: td_residency_drop(residency, r); return TD_OK;
  }
}

static void expect_value(td_resident *r, uint8_t value)
{
  uint8_t bytes[6000];
  CHECK(td_residency_fetch(residency, r, bytes, r->bytes, &err));
  for (uint64_t i = 0; i < r->bytes; i++) cr_assert_eq(bytes[i], value, "byte %d is %d, not %d", (int)i, bytes[i], value);
}

/* Random actions on a few storages, most of them while copies of before are still in flight. Each leads where the table says; whatever has
 * current bytes anywhere has the right ones; and the counts are sums over the states. */
EACH_DEVICE(residency_does_what_its_table_says)
{
  enum { N = 12 };
  int rounds = strcmp(kind->name, "host") == 0 ? 60000 : 4000;
  if (!open_kind(kind, 0)) return;
  CHECK(td_residency_create(&residency, device, UINT64_MAX, &err));
  td_resident r[N] = {0};
  uint8_t value[N] = {0};
  uint32_t noise = 99;
  for (int i = 0; i < N; i++) r[i].bytes = 1 + (uint64_t)i * 977 % 5000;
  for (int round = 0; round < rounds; round++) {
    noise = noise * 1664525u + 1013904223u;
    int i = (int)(noise >> 8) % N, action = (int)(noise >> 20) % N_ACTIONS;
    state before = state_of(&r[i]);
    int then = table[before][action];
    cr_assert_eq(act(&r[i], (enum action)action, &value[i]), then == ERROR ? TD_E_STATE : TD_OK, "%s", err.message);
    cr_assert_eq(state_of(&r[i]), then < 0 ? before : (state)then, "action %d in state %d leads to %d", action, before,
                 state_of(&r[i]));
    state now = state_of(&r[i]);
    if (noise >> 30 == 0 && now != NOWHERE && now != OUTDATED) expect_value(&r[i], value[i]);
  }
  uint64_t on_device = 0;
  for (int i = 0; i < N; i++) {
    if (r[i].device) on_device += r[i].bytes;
  }
  CHECK(td_residency_settle(residency, &err));
  cr_expect_eq(td_residency_bytes(residency), on_device);
  for (int i = 0; i < N; i++) td_residency_drop(residency, &r[i]);
  CHECK(td_residency_settle(residency, &err));
  cr_expect_eq(td_residency_bytes(residency), 0);
  cr_expect_eq(td_residency_host_bytes(residency), 0);
  td_residency_destroy(residency);
  close_kind();
}

Test(devices, names_that_are_none_are_told)
{
  static const char *const wrong[] = {"", "gpu", "host:", "cuda:x", "cuda:1x", "hostess", "cuda:99999999999"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    cr_expect_eq(td_device_open(&device, wrong[i], NULL, &err), TD_E_NOT_FOUND, "%s", wrong[i]);
  cr_expect(strstr(err.message, "there are: host, opencl, cuda"));
  cr_expect_eq(td_device_open(&device, "host:1", NULL, &err), TD_E_NOT_FOUND);
}
