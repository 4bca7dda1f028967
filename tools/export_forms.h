/* The forms that export writes besides interchange, one file each. */
#ifndef TD_TOOLS_EXPORT_FORMS_H
#define TD_TOOLS_EXPORT_FORMS_H

#include "cli.h"

/* Each prints its own trouble and return an exit code. */
int export_chrome(const args *args, td_tape *tape, int64_t trace);
/* With --ops or --trace only what belongs to those ops, or that trace; of the blocks of ops only those needed are read. */
int export_csv(const args *args, td_tape *tape, const char *folder);
int export_dot(const args *args, td_tape *tape, int64_t trace);

#endif
