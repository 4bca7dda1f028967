/* A bar on the terminal while something takes long; nothing where standard error is none. */
#ifndef TD_TOOLS_PROGRESS_H
#define TD_TOOLS_PROGRESS_H

#include <signal.h>
#include <stdint.h>

/* Shows how far the library's calls come, after the word `what`, until progress_end. */
void progress_begin(const char *what);
void progress_end(void);

/* The same for what the program itself does. */
void progress_show(uint64_t done, uint64_t total, const char *unit);

/* A bar stands on the terminal. */
extern volatile sig_atomic_t progress_drawn;

#endif
