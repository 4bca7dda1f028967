#include "format/target.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fail.h"

td_status td_target_resolve(const char *path, char **resolved, td_error *err)
{
  struct stat info;
  if (!stat(path, &info) && !S_ISREG(info.st_mode))
    return td_fail(err, TD_E_IO, "cannot write %s: %s", path, S_ISDIR(info.st_mode) ? strerror(EISDIR) : "not a regular file");
  bool linked = !lstat(path, &info) && S_ISLNK(info.st_mode);
  char *name = linked ? realpath(path, NULL) : NULL;
  if (!name) name = strdup(path); /* no link, or one to nothing yet, which is replaced */
  if (!name) return td_fail_nomem(err);
  *resolved = name;
  return TD_OK;
}

void td_target_keep_mode(const char *part, const char *name)
{
  struct stat info;
  if (!stat(name, &info)) (void)!chmod(part, info.st_mode & 07777);
}
