/* Options that say where in a job a process is. */
#ifndef TD_TOOLS_PLACE_H
#define TD_TOOLS_PLACE_H

#include <tapedeck/sharding.h>

#include "cli.h"

#define MESH_AXES_MAX 16

#define PLACE_OPTIONS                                                                                                  \
  {"rank", "N", "number of the process in the job", '\0'}, {"world-size", "N", "processes in the job", '\0'},          \
      {"mesh-shape", "A,B,...", "sizes of the mesh's axes", '\0'},                                                     \
      {"mesh-coords", "A,B,...", "the process's coordinates in the mesh", '\0'}

typedef struct place_args {
  td_sharding_place place; /* points into what follows */
  uint64_t shape[MESH_AXES_MAX], coords[MESH_AXES_MAX];
} place_args;

/* What the options say; those that the verb does not have, or that were not given, are not known. False, with a message, if one
 * is no such thing. */
bool place_from_args(const args *args, place_args *out);

/* Refuses, with a message, a tape of another plan (--sharding) or another place than the options say. */
bool place_is_tapes(const args *args);

/* The text of a plan's file; freed with free(). NULL, with a message, if it cannot be read. */
char *read_plan_text(const args *args, const char *path);

#endif
