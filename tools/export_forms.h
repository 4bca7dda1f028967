/* The forms that export writes besides interchange, one file each. */
#ifndef TD_TOOLS_EXPORT_FORMS_H
#define TD_TOOLS_EXPORT_FORMS_H

#include "cli.h"

/* Both print their own trouble and return an exit code. */
int export_chrome(const args *args, td_tape *tape, int64_t trace);
int export_csv(const args *args, td_tape *tape, const char *folder);

#endif
