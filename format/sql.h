/* A tape as SQL tables: op, access, output, storage, retained, action, mark, meta, and views on them.
 *
 * They are eponymous virtual tables over the blocks; a query decodes the columns that it uses, and of those only the blocks that its
 * constraints on trace and op leave over. */
#ifndef TD_FORMAT_SQL_H
#define TD_FORMAT_SQL_H

#include "format/db.h"

/* Adds the tables and views to the connection `handle`, whose main database is a tape. */
td_status td_sql_register(sqlite3 *handle, td_error *err);

/* Statements that make the views. */
extern const char td_sql_views[];

#endif
