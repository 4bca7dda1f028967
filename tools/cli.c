#include "cli.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tapedeck/size.h>

#include "progress.h"

const char *arg(const args *args, const char *name)
{
  for (int i = 0; args->verb->options[i].name; i++)
    if (strcmp(args->verb->options[i].name, name) == 0) return args->values[i];
  return NULL;
}

int trouble(const args *args, const char *format, ...)
{
  va_list list;
  va_start(list, format);
  fprintf(stderr, "tapedeck %s: ", args->verb->name);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  return EXIT_TROUBLE;
}

int failed(const args *args, const td_error *err)
{
  trouble(args, "%s", err->message);
  return err->status == TD_E_BUDGET ? EXIT_CANNOT : EXIT_TROUBLE;
}

bool number_arg(const args *args, const char *name, int64_t otherwise, int64_t *number)
{
  const char *text = arg(args, name);
  *number = otherwise;
  if (!text) return true;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 1 || *text == ' ') {
    trouble(args, "--%s %s: expected a number from 1", name, text);
    return false;
  }
  *number = value;
  return true;
}

bool range_arg(const args *args, const char *name, uint64_t *first, uint64_t *end)
{
  const char *text = arg(args, name);
  char *rest;
  if (!text) return true;
  if (*text >= '0' && *text <= '9') {
    errno = 0;
    unsigned long long from = strtoull(text, &rest, 10);
    if (*rest == ':' && rest[1] >= '0' && rest[1] <= '9') {
      unsigned long long to = strtoull(rest + 1, &rest, 10);
      *first = from;
      *end = to;
      if (!*rest && !errno && from <= to) return true;
    }
  }
  trouble(args, "--%s %s: expected FIRST:END, two op numbers", name, text);
  return false;
}

bool rate_arg(const args *args, const char *name, double *rate)
{
  td_error err;
  const char *text = arg(args, name);
  if (!text || !td_parse_rate(text, rate, &err)) return true;
  trouble(args, "--%s: %s", name, err.message);
  return false;
}

bool open_trace(const args *args, td_tape **tape, td_trace **trace, td_trace_info *info)
{
  td_error err;
  int64_t number;
  if (!number_arg(args, "trace", TD_NEWEST, &number)) return false;
  td_tape *opened = NULL;
  td_status status = td_tape_open(&opened, args->operands[0], &err);
  if (!status && info) status = td_tape_info(opened, number, info, &err);
  if (!status) status = td_tape_load_trace(opened, number, trace, &err);
  if (status) {
    td_tape_close(opened);
    failed(args, &err);
    return false;
  }
  *tape = opened;
  return true;
}

/* ---- output --------------------------------------------------------------------------------------------------- */

static char doomed[2][4300];

static void end_by_signal(int number)
{
  static const char clear[] = "\r\033[K";
  for (int i = 0; i < 2; i++)
    if (doomed[i][0]) unlink(doomed[i]);
  if (progress_drawn && write(STDERR_FILENO, clear, sizeof clear - 1) < 0) _exit(EXIT_TROUBLE);
  signal(number, SIG_DFL);
  raise(number);
}

/* A signal that whoever started the program has it ignore, as nohup does, stays ignored. */
void catch_signals(void)
{
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction before;
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler == SIG_IGN) continue;
    signal(numbers[i], end_by_signal);
  }
}

void remove_on_signal(const char *file, const char *other)
{
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  snprintf(doomed[0], sizeof doomed[0], "%s", file ? file : "");
  snprintf(doomed[1], sizeof doomed[1], "%s", other ? other : "");
  catch_signals();
  sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Where the file will stand: links are followed. */
static const char *resolve(const char *path, char *resolved)
{
  return realpath(path, resolved) ? resolved : path;
}

void remove_tape_on_signal(const char *out)
{
  char part[4200], journal[4224], resolved[PATH_MAX];
  snprintf(part, sizeof part, "%s.%ld.part", resolve(out, resolved), (long)getpid());
  snprintf(journal, sizeof journal, "%s-journal", part);
  remove_on_signal(part, journal);
}

bool would_lose(const args *args, const char *out, const char *in)
{
  struct stat to, from;
  if (!out || stat(out, &to) || stat(in, &from) || !S_ISREG(to.st_mode) || to.st_dev != from.st_dev || to.st_ino != from.st_ino)
    return false;
  trouble(args, "%s is both read and written", out);
  return true;
}

bool output_open(const args *args, output *out, const char *path)
{
  struct stat info;
  *out = (output){.path = path, .to = stdout};
  if (!path) return true;
  out->direct = !stat(path, &info) && !S_ISREG(info.st_mode); /* a pipe or device: nothing to replace */
  char resolved[PATH_MAX];
  if (!out->direct)
    snprintf(out->part, sizeof out->part, "%s.%ld.part", resolve(path, resolved), (long)getpid());
  out->to = fopen(out->direct ? path : out->part, "wb");
  if (!out->to) {
    trouble(args, "cannot write %s: %s", path, strerror(errno));
    return false;
  }
  if (!out->direct && !stat(path, &info)) chmod(out->part, info.st_mode & 07777); /* as private as what it replaces */
  if (!out->direct) remove_on_signal(out->part, NULL);
  return true;
}

/* A stream remembers that it failed, but not why: one more byte asks again. */
static bool flushed(FILE *to)
{
  errno = 0;
  if (ferror(to)) {
    clearerr(to);
    fputc('\n', to);
    fflush(to);
    return false;
  }
  return !fflush(to);
}

bool output_close(const args *args, output *out, bool whole)
{
  char resolved[PATH_MAX];
  if (!out->path) return true; /* main looks after stdout */
  bool written = flushed(out->to);
  int cause = errno;
  if (fclose(out->to) && written) {
    written = false;
    cause = errno;
  }
  bool named = out->direct || (whole && written && !rename(out->part, resolve(out->path, resolved)));
  if (whole && written && !named) cause = errno;
  if (!named) unlink(out->part);
  remove_on_signal(NULL, NULL);
  if (whole && !(written && named)) trouble(args, "cannot write %s: %s", out->path, strerror(cause ? cause : EIO));
  return written && named;
}

/* ---- JSON and text -------------------------------------------------------------------------------------------- */

void json_u64(cJSON *object, const char *key, uint64_t value)
{
  char digits[24];
  snprintf(digits, sizeof digits, "%" PRIu64, value); /* cJSON's own numbers are doubles */
  cJSON_AddRawToObject(object, key, digits);
}

/* A name's bytes need not be UTF-8, which JSON must be; those that are not become '?'. */
void json_string(cJSON *object, const char *key, const char *text)
{
  char *copy = strdup(text);
  for (char *c = copy; c && *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  cJSON_AddStringToObject(object, key, copy ? copy : "");
  free(copy);
}

#define NO_CHARACTER 0xfffd

size_t next_character(const char *bytes, size_t length, uint32_t *character)
{
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  uint8_t first = (uint8_t)*bytes;
  size_t n = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
  uint32_t c = n == 1 ? first : n ? first & (0x7fu >> n) : 0;
  *character = NO_CHARACTER;
  if (!n || n > length) return 1;
  for (size_t i = 1; i < n; i++) {
    if (((uint8_t)bytes[i] & 0xc0) != 0x80) return 1;
    c = c << 6 | ((uint8_t)bytes[i] & 0x3f);
  }
  if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return 1;
  *character = c;
  return n;
}

void put_json_string(FILE *to, const char *bytes, size_t length)
{
  fputc('"', to);
  for (size_t i = 0; i < length;) {
    uint32_t c;
    i += next_character(bytes + i, length - i, &c);
    if (c > 0xffff)
      fprintf(to, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
    else if (c < 0x20 || c >= 0x7f || strchr("<>&\"\\'", (int)c))
      fprintf(to, "\\u%04x", c);
    else
      fputc((int)c, to);
  }
  fputc('"', to);
}

void put_plain(FILE *to, const char *bytes, size_t length)
{
  for (size_t i = 0; i < length;) {
    uint32_t c;
    size_t n = next_character(bytes + i, length - i, &c);
    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || c == NO_CHARACTER)
      fputc('?', to);
    else
      fwrite(bytes + i, 1, n, to);
    i += n;
  }
}

int json_print(const args *args, cJSON *object)
{
  char *text = cJSON_Print(object);
  cJSON_Delete(object);
  if (!text) return trouble(args, "out of memory");
  puts(text);
  cJSON_free(text);
  return EXIT_DONE;
}

char *with_commas(uint64_t number, char *text)
{
  char digits[24];
  int n = snprintf(digits, sizeof digits, "%" PRIu64, number), to = 0;
  for (int i = 0; i < n; i++) {
    if (i && (n - i) % 3 == 0) text[to++] = ',';
    text[to++] = digits[i];
  }
  text[to] = '\0';
  return text;
}

char *as_time(uint64_t ns, char *text)
{
  static const char *const units[] = {"ns", "us", "ms", "s"};
  double value = (double)ns;
  int unit = 0;
  for (; unit < 3 && value >= 1000; unit++) value /= 1000;
  snprintf(text, 32, unit ? "%.3g %s" : "%.0f %s", value, units[unit]);
  if (unit == 3) snprintf(text, 32, "%.2f s", value);
  return text;
}
