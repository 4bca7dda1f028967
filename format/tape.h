/* What an open tape is, for those in this room who read more of it than the public calls give. */
#ifndef TD_FORMAT_TAPE_H
#define TD_FORMAT_TAPE_H

#include "format/db.h"

struct td_tape {
  td_db db;
  bool has_sql; /* its SQL tables are there */
};

#endif
