/* What a module of a sharding plan has, in the live form and in the frozen one. */
#ifndef TD_FORMAT_SHARDING_FIELDS_H
#define TD_FORMAT_SHARDING_FIELDS_H

#include <tapedeck/sharding.h>

#include "format/sharding_json.h"

typedef enum td_sharding_section { TD_PARAM_PLAN, TD_INJECTION } td_sharding_section;
typedef enum td_sharding_condition { TD_NOT_NULL, TD_NOT_EMPTY, TD_NOT_ZERO } td_sharding_condition; /* else it is not written */

typedef enum td_sharding_value {
  TD_PARAMS,  /* {name: {axis: placement}} */
  TD_NESTED,  /* placements at any depth, and scalars that are no text */
  TD_WRAPPED, /* targets, callables, placements and data */
  TD_LIST,
  TD_OBJECT,
  TD_NUMBER,
  TD_AS_IS,
} td_sharding_value;

typedef struct td_sharding_field {
  const char *live, *frozen; /* its names */
  td_sharding_section section;
  td_sharding_condition when;
  td_sharding_value value;
} td_sharding_field;

typedef struct td_sharding_table {
  const td_sharding_field *fields; /* in the order in which they are written */
  size_t n;
} td_sharding_table;

extern const td_sharding_table td_sharding_fields;

/* Nothing is in the live spec but fields of the table. */
bool td_sharding_check_spec(td_sharding_job *job, const td_sharding_table *table, const cJSON *spec);
/* The field is in the table, and the value, in the live form, can be frozen. */
bool td_sharding_check_field(td_sharding_job *job, const td_sharding_table *table, const char *field, const cJSON *value);
/* A placement in the live form from its text. */
cJSON *td_sharding_thaw_placement(td_sharding_job *job, const char *text);
/* Nothing is in the frozen entry but fields of the section, and in an injection "match". */
bool td_sharding_check_entry(td_sharding_job *job, const td_sharding_table *table, td_sharding_section section, const cJSON *entry);

/* The fields of one section of a module, from one form to the other. */
bool td_sharding_freeze_section(td_sharding_job *job, const td_sharding_table *table, td_sharding_section section, const cJSON *spec,
                                cJSON *to);
bool td_sharding_thaw_section(td_sharding_job *job, const td_sharding_table *table, td_sharding_section section, const cJSON *entry,
                              cJSON *to);

/* ---- whole plans (sharding.c) ---- */

/* One object from the other; by another table than ours in tests alone. NULL: the job failed. */
cJSON *td_sharding_freeze_tree(td_sharding_job *job, const td_sharding_table *table, const cJSON *live);
cJSON *td_sharding_thaw_tree(td_sharding_job *job, const td_sharding_table *table, const cJSON *frozen);

#endif
