/* What the readers of both forms of input share while a tape is imported. */
#ifndef TD_FORMAT_IMPORT_H
#define TD_FORMAT_IMPORT_H

#include "format/json_reader.h"
#include "format/writer.h"

/* A member of the outermost object that was read before its form was known. */
typedef struct td_early_member {
  char *key;
  size_t key_length;
  char *json;
} td_early_member;

typedef struct td_importing {
  const char *path;
  td_json *json; /* inside the outermost object */
  td_writer *writer;
  const td_import_options *options;
  td_import_report report;
  td_early_member *early;
  size_t n_early, early_capacity;
  td_error *err; /* the reader's too; never NULL */
} td_importing;

/* Each reads on from behind the key of the outermost object's first member that says which form it is, to the end of the
 * file, and tells the writer everything. */
td_status td_interchange_import(td_importing *importing, const char *key, size_t length);
td_status td_et_import(td_importing *importing);

/* Whether the key is one that only interchange JSON has. */
bool td_interchange_key(const char *key, size_t length);

#endif
