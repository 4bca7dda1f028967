#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <tapedeck/progress.h>
#include <tapedeck/size.h>

#include "cli.h"

#define FIRST_MS 500 /* what is done by then shows no bar */
#define EACH_MS 100

volatile sig_atomic_t progress_drawn;

static struct {
  const char *what; /* NULL: nobody watches */
  uint64_t begun_ms, drawn_ms, done;
} bar;

static uint64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int columns(void)
{
  struct winsize size;
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? 80 : size.ws_col;
}

static const char *amount(double value, const char *unit, char *text, size_t size)
{
  char number[32];
  if (value < 0 || value > 1e18) value = 0;
  if (strcmp(unit, "bytes") == 0) return td_format_size((uint64_t)value, text, size);
  snprintf(text, size, "%s %s", with_commas((uint64_t)value, number), unit);
  return text;
}

static void draw(uint64_t done, uint64_t total, const char *unit, uint64_t elapsed_ms)
{
  char right[128], size[64], rate[64], left[24] = "";
  double per_s = (double)done * 1000 / (double)elapsed_ms;
  if (total && per_s > 0) {
    double s = (double)(total - done) / per_s;
    if (s < 360000) snprintf(left, sizeof left, ", %d:%02d left", (int)s / 60, (int)s % 60);
  }
  snprintf(right, sizeof right, "%s, %s/s%s", amount((double)done, unit, size, sizeof size), amount(per_s, unit, rate, sizeof rate), left);
  progress_drawn = 1; /* before it is: a signal may come between */
  int room = columns() - (int)strlen(bar.what) - (int)strlen(right) - 12;
  if (!total || room < 4) {
    fprintf(stderr, "\r\033[K%s  %.*s", bar.what, columns() > 40 ? columns() - 20 : 20, right);
  } else {
    if (room > 40) room = 40;
    int full = (int)((double)room * (double)done / (double)total);
    fprintf(stderr, "\r\033[K%s [", bar.what);
    for (int i = 0; i < room; i++) fputc(i < full ? '#' : '.', stderr);
    fprintf(stderr, "] %3d%% %s", (int)(100 * (double)done / (double)total), right);
  }
  fflush(stderr);
}

void progress_show(uint64_t done, uint64_t total, const char *unit)
{
  if (!bar.what) return;
  uint64_t now = now_ms();
  if (done < bar.done) bar.begun_ms = now; /* the next thing has begun */
  bar.done = done;
  if (now - bar.begun_ms < FIRST_MS || now - bar.drawn_ms < EACH_MS) return;
  bar.drawn_ms = now;
  draw(total && done > total ? total : done, total, unit, now - bar.begun_ms);
}

static void listen(void *context, uint64_t done, uint64_t total, const char *unit)
{
  (void)context;
  progress_show(done, total, unit);
}

void progress_begin(const char *what)
{
  if (!isatty(STDERR_FILENO)) return;
  catch_signals();
  bar.what = what;
  bar.begun_ms = now_ms();
  bar.done = 0;
  td_on_progress(listen, NULL);
}

void progress_end(void)
{
  td_on_progress(NULL, NULL);
  if (progress_drawn) fputs("\r\033[K", stderr);
  progress_drawn = 0;
  bar.what = NULL;
}
