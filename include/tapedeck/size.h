/* Sizes, rates and times as people write them. */
#ifndef TAPEDECK_SIZE_H
#define TAPEDECK_SIZE_H

#include <stddef.h>
#include <stdint.h>

#include <tapedeck/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "4096", "64KiB", "1.5GiB", "40%" (of `whole`, rounded down). TD_E_ARG, with what was expected, for anything else. */
TD_API td_status td_parse_size(const char *text, uint64_t whole, uint64_t *bytes, td_error *err);

/* "16GiB", "1e9": bytes a second, above 0. */
TD_API td_status td_parse_rate(const char *text, double *bytes_per_s, td_error *err);

/* "5us", "1.5ms", "800": nanoseconds. */
TD_API td_status td_parse_time(const char *text, uint64_t *ns, td_error *err);

/* "59.2 MiB", "512 B", into `text` of at least 16 bytes; returns it. */
TD_API char *td_format_size(uint64_t bytes, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
