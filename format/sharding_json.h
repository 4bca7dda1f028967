/* Sharding plans as trees of cJSON: building them, and finding keys in large ones. */
#ifndef TD_FORMAT_SHARDING_JSON_H
#define TD_FORMAT_SHARDING_JSON_H

#include <stdbool.h>

#include <cjson/cJSON.h>

#include <tapedeck/error.h>

/* What is being converted, for messages; the first failure sticks. */
typedef struct td_sharding_job {
  const char *module, *field; /* NULL: none in particular */
  td_error *err;
  td_status status;
} td_sharding_job;

/* Each fails the job and returns NULL, or false where it is one. */
void *td_sharding_fail(td_sharding_job *job, const char *what);
void *td_sharding_nomem(td_sharding_job *job);

/* The item, or the failure that it could not be made. */
cJSON *td_sharding_made(td_sharding_job *job, cJSON *item);
/* Adds to an object or, without a key, to an array; takes over `item`. False if there is none. */
bool td_sharding_attach(td_sharding_job *job, cJSON *to, const char *key, cJSON *item);

/* A member that is there and not null, or NULL. */
const cJSON *td_sharding_member(const cJSON *object, const char *key);
/* Nothing there, an empty list or an empty object. */
bool td_sharding_is_empty(const cJSON *item);

/* Both are there and say the same, whatever the order of keys. */
bool td_sharding_same(td_sharding_job *job, const cJSON *a, const cJSON *b);

/* The tree of a text in which every key stands once in its object, every number is finite and no text holds a NUL. */
cJSON *td_sharding_parse(td_sharding_job *job, const char *text);

/* The members of an object, or the texts of a list, sorted: cJSON looks through all of them for each. All zero is empty. */
typedef struct td_sharding_index {
  const cJSON **at;
  size_t n;
} td_sharding_index;

bool td_sharding_index_make(td_sharding_job *job, td_sharding_index *index, const cJSON *of);
void td_sharding_index_finish(td_sharding_index *index);
const cJSON *td_sharding_index_find(const td_sharding_index *index, const char *key);
/* A key that stands twice, or NULL. */
const char *td_sharding_index_twice(const td_sharding_index *index);

#endif
