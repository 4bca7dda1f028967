/* What all verbs share: options, errors, output files and JSON. */
#ifndef TD_TOOLS_CLI_H
#define TD_TOOLS_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include <tapedeck/trace.h>

/* Exit codes, the same for every verb. */
enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_TROUBLE = 2, EXIT_CANNOT = 3 };

typedef struct option_def {
  const char *name;  /* without the dashes */
  const char *value; /* a placeholder such as "SIZE"; NULL: a flag */
  const char *help;
  char letter; /* '\0': none */
} option_def;

#define OPTIONS_MAX 16

typedef struct verb verb;

/* The command line of a verb. */
typedef struct args {
  const verb *verb;
  const char *values[OPTIONS_MAX]; /* by position in verb->options; NULL: not given */
  char **operands;
  int n_operands;
} args;

struct verb {
  const char *name;
  const char *operands; /* as the usage line shows them */
  int n_operands;      /* or AT_LEAST_ONE */
  const char *summary; /* one line */
  const char *details; /* a paragraph, or NULL */
  const char *example;
  const option_def *options; /* name NULL last */
  int (*run)(const args *args);
};

#define AT_LEAST_ONE (-1)

#define OPTION_JSON {"json", NULL, "print one JSON object", '\0'}
#define OPTION_TRACE {"trace", "N", "the trace to read; default: the newest", '\0'}

/* The value of an option, "" for a flag that is there, NULL if it was not given. */
const char *arg(const args *args, const char *name);

/* Prints "tapedeck VERB: MESSAGE" on stderr and returns EXIT_TROUBLE. */
int trouble(const args *args, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the error's message. */
int failed(const args *args, const td_error *err);

/* The number that an option gives, or `otherwise`. False, with a message, if it is none from 1 to 2^63-1. */
bool number_arg(const args *args, const char *name, int64_t otherwise, int64_t *number);
/* The range of ops "FIRST:END" that an option gives; both are left as they are without it. False, with a message, if it is none. */
bool range_arg(const args *args, const char *name, uint64_t *first, uint64_t *end);
bool rate_arg(const args *args, const char *name, double *rate);

/* Opens the tape that the first operand names and loads the trace that --trace asks for. `info` may be NULL. False, with a
 * message, on failure. */
bool open_trace(const args *args, td_tape **tape, td_trace **trace, td_trace_info *info);

/* ---- output ---- */

/* A file that gets its name when it is whole; what is half done goes, on Ctrl-C too. One at a time. */
typedef struct output {
  const char *path; /* NULL: stdout */
  FILE *to;
  bool direct; /* not a regular file: written in place */
  char part[4200];
} output;

/* True, with a message, if `out` is the same file as `in`, which would be lost. `out` may be NULL. */
bool would_lose(const args *args, const char *out, const char *in);

bool output_open(const args *args, output *out, const char *path);
/* Ends it: gives it its name if `whole` and all could be written. False, with a message if it was whole, otherwise. */
bool output_close(const args *args, output *out, bool whole);

/* From now on a signal that ends the program clears the line of a bar first. */
void catch_signals(void);
/* Removes these two files if a signal ends the program; NULL: none. For files that the library writes. */
void remove_on_signal(const char *file, const char *other);
/* The same for what the library writes while it makes the tape `out`. */
void remove_tape_on_signal(const char *out);

/* ---- JSON ---- */

void json_u64(cJSON *object, const char *key, uint64_t value); /* every digit */
void json_string(cJSON *object, const char *key, const char *text);
/* Prints and frees it; returns EXIT_DONE, or EXIT_TROUBLE if memory ran out. */
int json_print(const args *args, cJSON *object);

/* A name is bytes: these read it as UTF-8, and what is none is U+FFFD, the sign for it. */

/* The next character of at least one byte; returns how many bytes it takes. */
size_t next_character(const char *bytes, size_t length, uint32_t *character);
/* As a JSON string, all ASCII, and harmless inside a script of a page, too. */
void put_json_string(FILE *to, const char *bytes, size_t length);
/* As it is, but for control characters, which a terminal would obey. */
void put_plain(FILE *to, const char *bytes, size_t length);

/* "12,345" in a buffer of 32 bytes. */
char *with_commas(uint64_t number, char *text);
/* "1.23 ms" in a buffer of 32 bytes. */
char *as_time(uint64_t ns, char *text);

#endif
