/* Status codes and error detail, common to every call of Tapedeck.
 *
 * A call returns a td_status and, where it takes one, fills a td_error that the caller owns. `err` may be NULL.
 * On failure every output parameter is left untouched. The library never prints, exits or aborts. */
#ifndef TAPEDECK_ERROR_H
#define TAPEDECK_ERROR_H

#if defined(__GNUC__)
#define TD_API __attribute__((visibility("default")))
#else
#define TD_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_status {
  TD_OK = 0,
  TD_E_NOMEM,     /* host memory ran out */
  TD_E_IO,        /* a file could not be opened, read, written or renamed; the message names it and the cause */
  TD_E_FORMAT,    /* the file is not of the expected form */
  TD_E_DAMAGED,   /* the file is of the expected form but broken: a checksum, a count or a reference is wrong */
  TD_E_VERSION,   /* the file was written by a newer version; the message names both */
  TD_E_INPUT,     /* the data contradicts itself: an unknown SID, a number out of range */
  TD_E_ARG,       /* the caller passed something that is never valid */
  TD_E_STATE,     /* the call is not valid now: an op_end without op_begin, a step inside a step */
  TD_E_NOT_FOUND, /* no such trace, schedule, storage or device */
  TD_E_BUDGET,    /* the memory limit cannot be met */
  TD_E_DEVICE,    /* the device refused or failed */
  TD_E_DIVERGED,  /* a replayed step is not the recorded one */
} td_status;

/* What went wrong, for a person: one line, UTF-8, always NUL-terminated. */
typedef struct td_error {
  td_status status;
  char message[508];
} td_error;

/* A short constant name, such as "not found"; "unknown status" for any other value. */
TD_API const char *td_status_name(td_status status);

/* The version of the library, such as "0.1.0". */
TD_API const char *td_version(void);

#ifdef __cplusplus
}
#endif
#endif
