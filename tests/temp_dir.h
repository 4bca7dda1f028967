/* A folder for one test, removed with all that is in it. */
#ifndef TD_TESTS_TEMP_DIR_H
#define TD_TESTS_TEMP_DIR_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct temp_dir {
  char path[64];
} temp_dir;

static inline temp_dir temp_dir_create(void)
{
  temp_dir dir = {.path = "/tmp/tapedeck-test-XXXXXX"};
  if (!mkdtemp(dir.path)) abort();
  return dir;
}

/* Valid until eight more were asked for. */
static inline const char *temp_file(const temp_dir *dir, const char *name)
{
  static char files[8][400];
  static unsigned next;
  char *file = files[next++ % 8];
  snprintf(file, sizeof files[0], "%s/%s", dir->path, name);
  return file;
}

/* How many entries the folder holds: what a failed writer left behind. */
static inline int temp_dir_count(const temp_dir *dir)
{
  int count = 0;
  DIR *listing = opendir(dir->path);
  if (!listing) return -1;
  for (struct dirent *entry; (entry = readdir(listing));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) count++;
  closedir(listing);
  return count;
}

static inline void temp_dir_remove(const temp_dir *dir)
{
  DIR *listing = opendir(dir->path);
  if (!listing) return;
  for (struct dirent *entry; (entry = readdir(listing));)
    if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
      unlinkat(dirfd(listing), entry->d_name, 0);
  closedir(listing);
  rmdir(dir->path);
}

#endif
