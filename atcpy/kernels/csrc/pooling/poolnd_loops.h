/* poolnd for every ISA: a row of results takes in one row of the input after another, a tap of the
 * window at a time. The compiler makes vectors of the innermost loops.
 */
#ifndef ATC_POOLND_LOOPS_H
#define ATC_POOLND_LOOPS_H

#include "pooling/poolnd.h"

#include <math.h>
#include <string.h>

/* Results [first, last) of a row take tap k; result i reads element i · stride + offset. */
struct poolnd_run {
    int64_t first, last, offset;
};

static inline struct poolnd_run poolnd_run_of(const struct poolnd_params *p, int64_t k)
{
    const int64_t stride = p->stride[2];
    struct poolnd_run run = {.offset = k * p->dilation[2] - p->pad_begin[2]};
    run.first = run.offset < 0 ? ceil_div(-run.offset, stride) : 0;
    run.last =
        run.offset < p->in[2] ? min_i64(p->out[2], (p->in[2] - 1 - run.offset) / stride + 1) : 0;
    return run;
}

enum { POOLND_RUNS = 16 }; /* taps of a row whose runs are found once in a call: by divisions */

static inline void poolnd_find_runs(const struct poolnd_params *p, struct poolnd_run *runs)
{
    for (int64_t k = 0; k < p->kernel[2] && k < POOLND_RUNS; k++)
        runs[k] = poolnd_run_of(p, k);
}

/* Loops with the stride known, which become vectors, and one with any. */
#define POOLND_EACH(run, stride, statement)                                                        \
    do {                                                                                           \
        if ((stride) == 1) {                                                                       \
            for (int64_t i = (run).first, at = i + (run).offset; i < (run).last; i++, at++)        \
                statement;                                                                         \
        } else if ((stride) == 2) {                                                                \
            for (int64_t i = (run).first, at = 2 * i + (run).offset; i < (run).last; i++, at += 2) \
                statement;                                                                         \
        } else {                                                                                   \
            for (int64_t i = (run).first, at = i * (stride) + (run).offset; i < (run).last;        \
                 i++, at += (stride))                                                              \
                statement;                                                                         \
        }                                                                                          \
    } while (0)

#define DEFINE_JOIN_MAX(T, suffix)                                                                 \
    static inline void join_max_##suffix(T *restrict y, const T *restrict x,                       \
                                         struct poolnd_run run, int64_t stride)                    \
    {                                                                                              \
        POOLND_EACH(run, stride, y[i] = x[at] > y[i] || x[at] != x[at] ? x[at] : y[i]);            \
    }

/* The same with the positions of the largest: element `at` of x lies at first + at · step. */
#define DEFINE_JOIN_PLACED(T, suffix)                                                              \
    static inline void join_placed_##suffix(T *restrict y, int64_t *restrict positions,            \
                                            const T *restrict x, struct poolnd_run run,            \
                                            int64_t stride, int64_t first, int64_t step)           \
    {                                                                                              \
        POOLND_EACH(run, stride, {                                                                 \
            const bool is_first_nan = (x[at] != x[at]) & (y[i] == y[i]);                           \
            const bool is_better = (positions[i] < 0) | (x[at] > y[i]) | is_first_nan;             \
            positions[i] = is_better ? first + at * step : positions[i];                           \
            y[i] = is_better ? x[at] : y[i];                                                       \
        });                                                                                        \
    }

/* Where a call writes the positions of the results of an item. */
static inline int64_t *positions_of(const struct kernel_args *args, int64_t item)
{
    return (int64_t *)args->dst[1] + item * ((const struct poolnd_params *)args->params)->out[2];
}

/* The position of element x of row (plane, z, y) is first + x · step. */
struct poolnd_positions {
    int64_t first, step;
};

static inline struct poolnd_positions row_positions(const struct poolnd_params *p, int64_t plane,
                                                    int64_t z, int64_t y)
{
    const int64_t row = p->column_major ? y * p->in[0] + z : (z * p->in[1] + y) * p->in[2];
    return (struct poolnd_positions){plane * atc_volume(p->in) + row,
                                     p->column_major ? p->in[1] * p->in[0] : 1};
}

#define DEFINE_JOIN_SUMS(T, suffix, absolute, power)                                               \
    static inline void join_avg_##suffix(T *restrict y, const T *restrict x,                       \
                                         struct poolnd_run run, int64_t stride)                    \
    {                                                                                              \
        POOLND_EACH(run, stride, y[i] += x[at]);                                                   \
    }                                                                                              \
    static inline void join_lp_##suffix(T *restrict y, const T *restrict x, struct poolnd_run run, \
                                        int64_t stride, int64_t p)                                 \
    {                                                                                              \
        if (p == 1)                                                                                \
            POOLND_EACH(run, stride, y[i] += absolute(x[at]));                                     \
        else if (p == 2)                                                                           \
            POOLND_EACH(run, stride, y[i] += x[at] * x[at]);                                       \
        else                                                                                       \
            POOLND_EACH(run, stride, y[i] += power(absolute(x[at]), (T)p));                        \
    }                                                                                              \
    static inline void end_avg_##suffix(const struct kernel_args *args, T *y, int64_t count)       \
    {                                                                                              \
        const struct poolnd_params *p = args->params;                                              \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->out[2]);)               \
            for (int64_t i = piece.begin; i < piece.end; i++) {                                    \
                const int64_t divisor = count * poolnd_count(p, 2, i);                             \
                y[i] = divisor > 0 ? y[i] / (T)divisor : 0;                                        \
            }                                                                                      \
    }                                                                                              \
    static inline void end_lp_##suffix(const struct kernel_args *args, T *y)                       \
    {                                                                                              \
        const struct poolnd_params *p = args->params;                                              \
        struct atc_piece piece = {0};                                                              \
        while (p->p > 1 && atc_next_piece(args, &piece, p->out[2]))                                \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                y[i] = power(y[i], 1 / (T)p->p);                                                   \
    }

/* Rows of results: `start` is done for each first, `join` for the run of a tap of the windows,
 * whose results are i in `run`, and `finish` for the row.
 */
#define DEFINE_POOLND(T, suffix, start, join, finish)                                              \
    static inline __attribute__((always_inline)) void rows_of_##suffix(const struct kernel_args *args, bool is_long) \
    {                                                                                              \
        const struct poolnd_params *p = args->params;                                              \
        struct atc_meter meter = {.args = args};                                                   \
        struct poolnd_run runs[POOLND_RUNS];  \
        poolnd_find_runs(p, runs);  \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t oh = item % p->out[1], od = item / p->out[1] % p->out[0];                \
            const struct pool2d_taps d = poolnd_taps(p, 0, od), h = poolnd_taps(p, 1, oh);         \
            const int64_t plane = item / p->out[1] / p->out[0];                                    \
            const int64_t d0 = od * p->stride[0] - p->pad_begin[0];                                \
            const int64_t h0 = oh * p->stride[1] - p->pad_begin[1];                                \
            T *y = (T *)args->dst[0] + item * p->out[2];                                           \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->out[2]);)           \
                for (int64_t i = piece.begin; i < piece.end; i++)                                  \
                    start;                                                                         \
            for (int64_t kd = d.first; kd < d.last; kd++)                                          \
                for (int64_t kh = h.first; kh < h.last && !(is_long && atc_spend(&meter, 1)); kh++) {           \
                    const int64_t row = (plane * p->in[0] + d0 + kd * p->dilation[0]) * p->in[1] + \
                                        h0 + kh * p->dilation[1];                                  \
                    const T *x = (const T *)args->src[0] + row * p->in[2];                         \
                    for (int64_t kw = 0; kw < p->kernel[2] && !(is_long && atc_spend(&meter, p->out[2])); kw++) { \
                        const struct poolnd_run all = kw < POOLND_RUNS ? runs[kw] : poolnd_run_of(p, kw);                        \
                        for (struct atc_piece piece = {all.first, all.first};                      \
                             pool2d_next_taps(args, is_long, &piece, all.last);) {                            \
                            const struct poolnd_run run = {piece.begin, piece.end, all.offset};    \
                            join;                                                                  \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            finish;                                                                                \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline void rows_##suffix(const struct kernel_args *args)                               \
    {                                                                                              \
        if (poolnd_is_long(args->params))                                                          \
            rows_of_##suffix(args, true);                                                          \
        else                                                                                       \
            rows_of_##suffix(args, false);                                                         \
    }

#define DEFINE_MAX(T, suffix, lowest)                                                               \
    DEFINE_JOIN_MAX(T, suffix)                                                                     \
    DEFINE_JOIN_PLACED(T, suffix)                                                                  \
    DEFINE_POOLND(T, max_##suffix, y[i] = lowest, join_max_##suffix(y, x, run, p->stride[2]), (void)0)     \
    DEFINE_POOLND(T, placed_##suffix, (y[i] = lowest, positions_of(args, item)[i] = -1),           \
                  {                                                                                \
                      const struct poolnd_positions at = row_positions(                            \
                          p, plane, d0 + kd * p->dilation[0], h0 + kh * p->dilation[1]);           \
                      join_placed_##suffix(y, positions_of(args, item), x, run, p->stride[2],      \
                                           at.first, at.step);                                     \
                  },                                                                               \
                  (void)0)                                                                         \
    static inline void poolnd_max_##suffix(const struct kernel_args *args)                         \
    {                                                                                              \
        if (args->dst[1] != NULL)                                                                  \
            rows_placed_##suffix(args);                                                                \
        else                                                                                       \
            rows_max_##suffix(args);                                                               \
    }

#define DEFINE_FLOATS(T, suffix, absolute, power)                                                  \
    DEFINE_MAX(T, suffix, -(T)INFINITY)                                                            \
    DEFINE_JOIN_SUMS(T, suffix, absolute, power)                                                   \
    DEFINE_POOLND(T, avg_##suffix, y[i] = 0, join_avg_##suffix(y, x, run, p->stride[2]),                  \
                  end_avg_##suffix(args, y, poolnd_count(p, 0, od) * poolnd_count(p, 1, oh)))         \
    DEFINE_POOLND(T, lp_##suffix, y[i] = 0, join_lp_##suffix(y, x, run, p->stride[2], p->p),              \
                  end_lp_##suffix(args, y))                                                         \
    static inline void poolnd_##suffix(const struct kernel_args *args)                             \
    {                                                                                              \
        const struct poolnd_params *p = args->params;                                              \
        if (p->kind == POOLND_MAX)                                                                 \
            poolnd_max_##suffix(args);                                                             \
        else if (p->kind == POOLND_AVG)                                                            \
            rows_avg_##suffix(args);                                                               \
        else                                                                                       \
            rows_lp_##suffix(args);                                                                \
    }

DEFINE_FLOATS(float, f32, fabsf, powf)
DEFINE_FLOATS(double, f64, fabs, pow)

#endif
