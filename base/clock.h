/* Time. */
#ifndef TD_BASE_CLOCK_H
#define TD_BASE_CLOCK_H

#include <stdint.h>

/* Nanoseconds since some fixed moment; never goes back. */
uint64_t td_now_ns(void);

/* Sleeps until td_now_ns reaches `ns`. */
void td_sleep_until_ns(uint64_t ns);

#endif
