/* Where a new tape will stand. */
#ifndef TD_FORMAT_TARGET_H
#define TD_FORMAT_TARGET_H

#include <tapedeck/error.h>

/* The name that `path` stands for, links followed; the caller frees it with free(). TD_E_IO: something that is no regular file
 * has it, which a rename would replace. */
td_status td_target_resolve(const char *path, char **resolved, td_error *err);

/* Gives the file that is about to take this name the permissions of the one that has it. */
void td_target_keep_mode(const char *part, const char *name);

#endif
