/* The tables of a tape for any sqlite3:
 *
 *     sqlite3 step.tape ".load ./tapedeck_sqlite" "SELECT * FROM time_by_name"
 *
 * Compiled apart from the library, with SQLite's functions taken from whoever loads it (TD_SQLITE_EXTENSION, see db.h). */
#include "format/sql.h"

SQLITE_EXTENSION_INIT1

TD_API int sqlite3_tapedecksqlite_init(sqlite3 *handle, char **message, const sqlite3_api_routines *api);

int sqlite3_tapedecksqlite_init(sqlite3 *handle, char **message, const sqlite3_api_routines *api)
{
  td_error err;
  SQLITE_EXTENSION_INIT2(api);
  if (!td_sql_register(handle, &err)) return SQLITE_OK;
  *message = sqlite3_mprintf("%s", err.message);
  return SQLITE_ERROR;
}
