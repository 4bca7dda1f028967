/* devices: what there is, and how fast its link to the host is. */
#include <tapedeck/device.h>
#include <tapedeck/size.h>

#include "verbs.h"

/* One device: what it is, or why it cannot be used. */
typedef struct found {
  char name[32], description[160];
  uint64_t capacity;
  td_link_speed speed;
  bool usable;
  td_error why;
} found;

static void look_at(const char *name, found *out)
{
  td_device *device;
  *out = (found){0};
  snprintf(out->name, sizeof out->name, "%s", name);
  if (td_device_open(&device, name, NULL, &out->why)) return;
  snprintf(out->description, sizeof out->description, "%s", td_device_description(device));
  out->capacity = td_device_capacity(device);
  out->usable = td_device_measure(device, &out->speed, &out->why) == TD_OK;
  td_device_close(device);
}

static void print_row(const found *f)
{
  char memory[32] = "", out[32], in[32], latency_out[32], latency_in[32], d2h[40], h2d[40];
  if (!f->usable) {
    printf("%-9s  not usable: %s\n", f->name, f->why.message);
    return;
  }
  if (f->capacity != UINT64_MAX) td_format_size(f->capacity, memory, sizeof memory);
  snprintf(d2h, sizeof d2h, "%s/s", td_format_size((uint64_t)f->speed.d2h_bytes_per_s, out, sizeof out));
  snprintf(h2d, sizeof h2d, "%s/s", td_format_size((uint64_t)f->speed.h2d_bytes_per_s, in, sizeof in));
  printf("%-9s  %-10s  %-12s  %-10s  %-12s  %-10s  %s\n", f->name, *memory ? memory : "any", d2h,
         as_time(f->speed.d2h_latency_ns, latency_out), h2d, as_time(f->speed.h2d_latency_ns, latency_in), f->description);
}

static cJSON *row_json(const found *f)
{
  cJSON *json = cJSON_CreateObject();
  json_string(json, "name", f->name);
  cJSON_AddBoolToObject(json, "usable", f->usable);
  if (!f->usable) {
    json_string(json, "why", f->why.message);
    return json;
  }
  json_string(json, "description", f->description);
  if (f->capacity == UINT64_MAX) cJSON_AddNullToObject(json, "capacity_bytes");
  else json_u64(json, "capacity_bytes", f->capacity);
  json_u64(json, "d2h_bytes_per_s", (uint64_t)f->speed.d2h_bytes_per_s);
  json_u64(json, "d2h_latency_ns", f->speed.d2h_latency_ns);
  json_u64(json, "h2d_bytes_per_s", (uint64_t)f->speed.h2d_bytes_per_s);
  json_u64(json, "h2d_latency_ns", f->speed.h2d_latency_ns);
  return json;
}

/* Every kind, and further devices of a kind that has one. */
static int run(const args *args)
{
  cJSON *json = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(json, "devices");
  bool as_json = arg(args, "json");
  if (!as_json) printf("%-9s  %-10s  %-12s  %-10s  %-12s  %-10s  %s\n", "NAME", "MEMORY", "D2H", "LATENCY", "H2D", "LATENCY", "DEVICE");
  for (const char *const *kind = td_device_names(); *kind; kind++) {
    found f = {.usable = true};
    for (int i = 0; f.usable && i < 64; i++) {
      char name[32];
      snprintf(name, sizeof name, i ? "%s:%d" : "%s", *kind, i);
      look_at(name, &f);
      if (i && !f.usable) break;
      if (as_json) cJSON_AddItemToArray(list, row_json(&f));
      else print_row(&f);
    }
  }
  if (as_json) return json_print(args, json);
  cJSON_Delete(json);
  return EXIT_DONE;
}

static const option_def options[] = {OPTION_JSON, {0}};

const verb verb_devices = {
    .name = "devices",
    .operands = "",
    .n_operands = 0,
    .summary = "List the devices that can be used, with the measured speed of their links",
    .details = "Each direction is measured by itself with warm copies: what a byte takes, and what a copy takes whatever its size.",
    .example = "tapedeck devices",
    .options = options,
    .run = run,
};
