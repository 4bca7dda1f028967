/* Measuring: each figure beside its alternative in the same run, medians of several. */
#ifndef TD_BENCH_H
#define TD_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include <tapedeck/trace.h>

/* Runs `f` five times, and gives the median of what it returns. */
double bench_median(double (*f)(void *context), void *context);

/* Wall time and processor time of all threads, ns. */
uint64_t bench_wall_ns(void);
uint64_t bench_cpu_ns(void);

/* Prints a row; the ratio is ours over other. */
void bench_row(const char *name, const char *unit, double ours, double other, const char *against);

/* A file in the bench's own folder; valid until four more were asked for. */
const char *bench_file(const char *name);

/* The recorded traces, where they are; else NULL: made ones are measured. */
const char *bench_traces(void);

/* The linear program's bound on bytes, both ways; 0 where it is not known, as without GLPK. */
bool bench_knows_bytes(void);
double bench_fewest_bytes(const td_trace *trace, uint64_t budget, bool early);

void bench_tape(void);
void bench_plan(void);
void bench_replay(void);
void bench_diff(void);

#endif
