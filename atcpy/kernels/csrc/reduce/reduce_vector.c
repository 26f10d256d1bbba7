/* reduce on vectors: along a row, or over neighbouring columns. */
#include "core/pieces.h"
#include "reduce/reduce.h"
#include "simd/short_rows_vector.h"
#include "simd/vector.h"

#include <math.h>

enum {
    ROW_RUN = 16 * VF,               /* of a row, summed in float before it is added in double */
    COLUMN_RUN = 32,                 /* of a column */
    LINE_FLOATS = VF < 16 ? 16 : VF, /* floats of a line of the cache */
    AHEAD = 4, /* rows; where they are in other pages, the CPU does not read ahead itself */
    FAR = AHEAD * 1024,
    PARTS = VF >= 8 ? REDUCE_COLUMNS / VF : 8, /* vectors of a full item, at once */
};

static inline vf term(enum reduce_kind kind, vf x)
{
    switch (kind) {
    case REDUCE_L1:
        return vf_abs(x);
    case REDUCE_L2:
    case REDUCE_SUM_SQUARE:
        return vf_mul(x, x);
    default:
        return x;
    }
}

/* What follows a sum over n elements. */
static inline float finish(enum reduce_kind kind, double sum, int64_t n)
{
    switch (kind) {
    case REDUCE_MEAN:
        return (float)(sum / (double)n);
    case REDUCE_L2:
        return sqrtf((float)sum);
    case REDUCE_LOG_SUM:
        return logf((float)sum);
    default:
        return (float)sum;
    }
}

static inline bool takes_extreme(enum reduce_kind kind)
{
    return kind == REDUCE_MAX || kind == REDUCE_MIN;
}

static inline vf extreme(enum reduce_kind kind, vf a, vf b)
{
    return kind == REDUCE_MAX ? vf_max(a, b) : vf_min(a, b);
}

/* n floats side by side added to `total`, four accumulators at a time. */
static inline __attribute__((always_inline)) vd sum_row(enum reduce_kind kind, const float *src,
                                                        int64_t n, vd total)
{
    int64_t i = 0;
    for (; i + ROW_RUN <= n; i += ROW_RUN) {
        vf acc[4];
        for (int a = 0; a < 4; a++)
            acc[a] = term(kind, vf_load(src + i + a * VF));
        for (int64_t k = i + 4 * VF; k < i + ROW_RUN; k += 4 * VF)
            for (int a = 0; a < 4; a++)
                acc[a] = vf_add(acc[a], term(kind, vf_load(src + k + a * VF)));
        total = vd_add(total, vf_add(vf_add(acc[0], acc[1]), vf_add(acc[2], acc[3])));
    }
    vf rest = vf_set1(0);
    for (; i + VF <= n; i += VF)
        rest = vf_add(rest, term(kind, vf_load(src + i)));
    if (i < n)
        rest = vf_add(rest, term(kind, vf_load_n(src + i, n - i, 0)));
    return vd_add(total, rest);
}

static inline __attribute__((always_inline)) vf extreme_row(const struct kernel_args *args,
                                                            bool is_long, enum reduce_kind kind,
                                                            const float *src, int64_t n, vf best,
                                                            float none)
{
    vf acc[4] = {best, best, best, best};
    int64_t i = 0, end = n;
    do {
        if (is_long)
            end = min_i64(i + ATC_PIECE, n);
        for (; i + 4 * VF <= end; i += 4 * VF)
            for (int a = 0; a < 4; a++)
                acc[a] = extreme(kind, acc[a], vf_load(src + i + a * VF));
        for (; i < end; i += VF) {
            const vf x = i + VF <= n ? vf_load(src + i) : vf_load_n(src + i, n - i, none);
            acc[0] = extreme(kind, acc[0], x);
        }
    } while (is_long && i < n && !atc_stopped(args));
    return extreme(kind, extreme(kind, acc[0], acc[1]), extreme(kind, acc[2], acc[3]));
}

/* One result whose innermost reduced dim is dense. `is_long` is a constant where this is inlined,
 * so that a result of few elements asks nothing.
 */
static inline __attribute__((always_inline)) float
reduce_rows(struct atc_meter *meter, bool is_long, enum reduce_kind kind, const float *src)
{
    const struct kernel_args *args = meter->args;
    const struct reduce_params *p = args->params;
    const float none = kind == REDUCE_MIN ? INFINITY : -INFINITY;
    vf best = vf_set1(none);
    vd total = vd_zero();
    for (int64_t i = 0; i < p->reduced[0]; i++)
        for (int64_t j = 0; j < p->reduced[1]; j++)
            for (int64_t k = 0; k < p->reduced[2]; k++) {
                const float *row = src + i * p->reduced_stride[0] + j * p->reduced_stride[1] +
                                   k * p->reduced_stride[2];
                const int64_t n = p->reduced[3];
                if (is_long && atc_spend(meter, n))
                    return none;
                if (takes_extreme(kind)) {
                    best = extreme_row(args, is_long, kind, row, n, best, none);
                    continue;
                }
                int64_t at = 0, end = n;
                do {
                    if (is_long)
                        end = min_i64(at + ATC_PIECE, n);
                    total = sum_row(kind, row + at, end - at, total);
                    at = end;
                } while (is_long && at < n && !atc_stopped(args));
            }
    if (!takes_extreme(kind))
        return finish(kind, vd_sum(total), reduce_product(p->reduced));
    return kind == REDUCE_MAX ? vf_largest_lane(best) : -vf_largest_lane(vf_neg(best));
}

/* Joins the rows of a column of up to VF results into `best`, four at a time, which do not wait for
 * each other; returns how many rows there were.
 */
static inline __attribute__((always_inline)) int64_t extreme_column(enum reduce_kind kind,
                                                                    const float *at, int64_t stride,
                                                                    int64_t rows, int64_t lanes,
                                                                    vf *best)
{
    vf acc[4] = {*best, *best, *best, *best};
    int64_t m = 0;
    for (; m + 4 <= rows; m += 4)
        for (int a = 0; a < 4; a++) {
            const float *row = at + (m + a) * stride;
            acc[a] = extreme(kind, acc[a], lanes == VF ? vf_load(row) : vf_load_n(row, lanes, 0));
        }
    *best = extreme(kind, extreme(kind, acc[0], acc[1]), extreme(kind, acc[2], acc[3]));
    return m;
}

/* `parts` vectors of neighbouring results; the last has `last` lanes. */
static inline __attribute__((always_inline)) void
reduce_columns(struct atc_meter *meter, bool is_long, enum reduce_kind kind, const float *src,
               int parts, int64_t last, float *dst)
{
    const struct reduce_params *p = meter->args->params;
    const float none = kind == REDUCE_MIN ? INFINITY : takes_extreme(kind) ? -INFINITY : 0;
    vf acc[PARTS];
    vd total[PARTS];
    for (int a = 0; a < parts; a++) {
        acc[a] = vf_set1(none);
        total[a] = vd_zero();
    }
    for (int64_t i = 0; i < p->reduced[0]; i++)
        for (int64_t j = 0; j < p->reduced[1]; j++)
            for (int64_t k = 0; k < p->reduced[2]; k++) {
                const float *at = src + i * p->reduced_stride[0] + j * p->reduced_stride[1] +
                                  k * p->reduced_stride[2];
                if (is_long && atc_spend(meter, VF * min_i64(p->reduced[3], COLUMN_RUN)))
                    return;
                int64_t m = 0;
                if (parts == 1 && takes_extreme(kind) && !is_long)
                    m = extreme_column(kind, at, p->reduced_stride[3], p->reduced[3], last, acc);
                at += m * p->reduced_stride[3];
                const int64_t ahead = AHEAD * p->reduced_stride[3];
                for (; m < p->reduced[3]; m++, at += p->reduced_stride[3]) {
                    for (int a = 0; a < parts && parts == PARTS && ahead > FAR;
                         a += LINE_FLOATS / VF)
                        __builtin_prefetch(at + ahead + a * VF);
                    for (int a = 0; a < parts; a++) {
                        const vf x = a < parts - 1 || last == VF ? vf_load(at + a * VF)
                                                                 : vf_load_n(at + a * VF, last, 0);
                        acc[a] = takes_extreme(kind) ? extreme(kind, acc[a], x)
                                                     : vf_add(acc[a], term(kind, x));
                    }
                    if ((m + 1) % COLUMN_RUN != 0)
                        continue;
                    if (is_long && atc_spend(meter, COLUMN_RUN * VF))
                        return;
                    if (takes_extreme(kind))
                        continue;
                    for (int a = 0; a < parts; a++) {
                        total[a] = vd_add(total[a], acc[a]);
                        acc[a] = vf_set1(0);
                    }
                }
                if (takes_extreme(kind))
                    continue;
                for (int a = 0; a < parts; a++) {
                    total[a] = vd_add(total[a], acc[a]);
                    acc[a] = vf_set1(0);
                }
            }
    const int64_t n = reduce_product(p->reduced);
    for (int a = 0; a < parts; a++) {
        const int64_t lanes = a < parts - 1 ? VF : last;
        vf y = acc[a];
        if (!takes_extreme(kind))
            y = vd_quotient(total[a], kind == REDUCE_MEAN ? (double)n : 1);
        if (kind == REDUCE_L2)
            y = vf_sqrt(y);
        vf_store_n(dst + a * VF, y, lanes);
        if (kind == REDUCE_LOG_SUM)
            for (int64_t c = 0; c < lanes; c++)
                dst[a * VF + c] = logf(dst[a * VF + c]);
    }
}

/* VF neighbouring results of short rows that lie behind each other; `lanes` of them are written. */
static inline __attribute__((always_inline)) void
reduce_short_rows(enum reduce_kind kind, const float *src, int64_t n, int64_t lanes, float *dst)
{
    float columns[SHORT_ROW * VF];
    load_short_rows(src, n, lanes, columns);
    if (takes_extreme(kind)) {
        vf best = vf_load(columns);
        for (int64_t k = 1; k < n; k++)
            best = extreme(kind, best, vf_load(columns + k * VF));
        vf_store_n(dst, best, lanes);
        return;
    }
    vd total = vd_zero();
    for (int64_t k = 0; k < n; k++)
        total = vd_add(total, term(kind, vf_load(columns + k * VF)));
    const vf y = vd_quotient(total, kind == REDUCE_MEAN ? (double)n : 1);
    vf_store_n(dst, kind == REDUCE_L2 ? vf_sqrt(y) : y, lanes);
    if (kind == REDUCE_LOG_SUM)
        for (int64_t c = 0; c < lanes; c++)
            dst[c] = logf(dst[c]);
}

/* Whether every result is of a dense row that a few loads of one lane each cover. */
static inline bool has_short_rows(const struct reduce_params *p)
{
    const int64_t n = p->reduced[3];
    if (p->inner != 1 || n < 1 || n > SHORT_ROW || reduce_product(p->reduced) != n ||
        p->reduced_stride[3] != 1)
        return false;
    for (int i = REDUCE_DIMS - 1, dense = true; i >= 0; i--) {
        if (p->kept[i] == 1)
            continue;
        if (!dense || p->kept_stride[i] != n)
            return false;
        dense = false;
    }
    return true;
}

/* One item. `kind` is a constant where this is inlined, so that the loops are without choices. */
static inline __attribute__((always_inline)) void reduce_one(struct atc_meter *meter, bool is_long,
                                                             enum reduce_kind kind,
                                                             const float *src, int64_t columns,
                                                             float *dst)
{
    const struct reduce_params *p = meter->args->params;
    if (p->inner == 1 && p->reduced_stride[3] == 1)
        *dst = reduce_rows(meter, is_long, kind, src);
    else if (columns == REDUCE_COLUMNS)
        for (int64_t c = 0; c < REDUCE_COLUMNS; c += PARTS * VF)
            reduce_columns(meter, is_long, kind, src + c, PARTS, VF, dst + c);
    else {
        int64_t c = 0;
        for (; !takes_extreme(kind) && c + 2 * VF <= columns; c += 2 * VF)
            reduce_columns(meter, is_long, kind, src + c, 2, VF, dst + c);
        for (; c < columns; c += VF)
            reduce_columns(meter, is_long, kind, src + c, 1, min_i64(VF, columns - c), dst + c);
    }
}

/* All items of a call. */
static inline __attribute__((always_inline)) void reduce_all(const struct kernel_args *args,
                                                             bool is_long, enum reduce_kind kind)
{
    const struct reduce_params *p = args->params;
    const float *src = args->src[0];
    float *dst = args->dst[0];
    if (has_short_rows(p)) {
        const int64_t n = p->reduced[3];
        for (int64_t item = args->begin; item < args->end; item += VF)
            reduce_short_rows(kind, src + item * n, n, min_i64(VF, args->end - item), dst + item);
        return;
    }
    struct atc_meter meter = {.args = args};
    const int64_t row_stride = reduce_row_stride(p, ATC_PIECE);
    if (!is_long && row_stride >= 0) {
        for (int64_t item = args->begin; item < args->end; item++)
            dst[item] = reduce_rows(&meter, is_long, kind, src + item * row_stride);
        return;
    }
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct reduce_item at = reduce_item_at(p, item);
        reduce_one(&meter, is_long, kind, src + at.src, at.columns, dst + at.dst);
    }
}

static inline __attribute__((always_inline)) void reduce_items(const struct kernel_args *args,
                                                               bool is_long)
{
    const struct reduce_params *p = args->params;
    switch ((enum reduce_kind)p->kind) {
    case REDUCE_MAX:
        reduce_all(args, is_long, REDUCE_MAX);
        break;
    case REDUCE_MIN:
        reduce_all(args, is_long, REDUCE_MIN);
        break;
    case REDUCE_L1:
        reduce_all(args, is_long, REDUCE_L1);
        break;
    case REDUCE_L2:
        reduce_all(args, is_long, REDUCE_L2);
        break;
    case REDUCE_SUM_SQUARE:
        reduce_all(args, is_long, REDUCE_SUM_SQUARE);
        break;
    case REDUCE_LOG_SUM:
        reduce_all(args, is_long, REDUCE_LOG_SUM);
        break;
    case REDUCE_MEAN:
        reduce_all(args, is_long, REDUCE_MEAN);
        break;
    default:
        reduce_all(args, is_long, REDUCE_SUM);
        break;
    }
}

void FOR_ISA(reduce_f32)(const struct kernel_args *args)
{
    const struct reduce_params *p = args->params;
    if (reduce_product(p->reduced) > ATC_PIECE)
        reduce_items(args, true);
    else
        reduce_items(args, false);
}
