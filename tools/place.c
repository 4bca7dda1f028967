#include "place.h"

#include <errno.h>
#include <stdlib.h>

/* "0,1": at most MESH_AXES_MAX whole numbers. */
static bool numbers_arg(const args *args, const char *name, uint64_t *numbers, size_t *n)
{
  const char *text = arg(args, name), *at = text;
  size_t count = 0;
  while (at) {
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(at, &end, 10);
    if (errno || *at < '0' || *at > '9' || (*end && *end != ',') || count == MESH_AXES_MAX) {
      trouble(args, "--%s %s: expected at most %d numbers such as 0,1", name, text, MESH_AXES_MAX);
      return false;
    }
    numbers[count++] = number;
    at = *end ? end + 1 : NULL;
  }
  if (text && *n && *n != count) {
    trouble(args, "--mesh-shape and --mesh-coords differ in length");
    return false;
  }
  if (text) *n = count;
  return true;
}

static bool rank_arg(const args *args, td_sharding_place *place)
{
  uint64_t rank[MESH_AXES_MAX];
  int64_t world = 0;
  size_t n = 0;
  if (arg(args, "world-size") && !number_arg(args, "world-size", 0, &world)) return false;
  if (!numbers_arg(args, "rank", rank, &n)) return false;
  if (n > 1 || (n == 1) != (world > 0)) {
    trouble(args, "--rank is one number and goes with --world-size");
    return false;
  }
  place->world_size = (uint64_t)world;
  if (n) place->rank = rank[0];
  return true;
}

bool place_from_args(const args *args, place_args *out)
{
  td_sharding_place *place = &out->place;
  if (!numbers_arg(args, "mesh-shape", out->shape, &place->n_mesh)) return false;
  if (!numbers_arg(args, "mesh-coords", out->coords, &place->n_mesh) || !rank_arg(args, place)) return false;
  if (arg(args, "mesh-shape")) place->mesh_shape = out->shape;
  if (arg(args, "mesh-coords")) place->mesh_coords = out->coords;
  return true;
}

bool place_is_tapes(const args *args)
{
  place_args place = {0};
  const char *path = arg(args, "sharding");
  int64_t trace;
  td_error err;
  if (!place_from_args(args, &place) || !number_arg(args, "trace", TD_NEWEST, &trace)) return false;
  char *plan = path ? read_plan_text(args, path) : NULL;
  place.place.plan = plan;
  bool refused = (path && !plan) || td_tape_check_sharding(args->operands[0], trace, &place.place, &err);
  if (refused && (!path || plan)) failed(args, &err);
  free(plan);
  return !refused;
}
