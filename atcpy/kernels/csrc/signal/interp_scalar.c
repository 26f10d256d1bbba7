/* interp of every type but float32, plainly. */
#include "signal/interp_loops.h"

#include <math.h>

/* A sum as an integer: cut off toward zero, or the nearest one; NaN is 0. */
#define DEFINE_STORE(T, suffix, low, high)                                                         \
    static inline T cut_##suffix(double x)                                                         \
    {                                                                                              \
        if (!(x > (double)(low)))                                                                  \
            return x == x ? (low) : 0;                                                             \
        return x < (double)(high) ? (T)x : (high);                                                 \
    }                                                                                              \
                                                                                                   \
    static inline T nearest_##suffix(double x)                                                     \
    {                                                                                              \
        return cut_##suffix(rint(x));                                                              \
    }

DEFINE_STORE(int8_t, i8, INT8_MIN, INT8_MAX)
DEFINE_STORE(uint8_t, u8, 0, UINT8_MAX)
DEFINE_STORE(int16_t, i16, INT16_MIN, INT16_MAX)
DEFINE_STORE(uint16_t, u16, 0, UINT16_MAX)
DEFINE_STORE(int32_t, i32, INT32_MIN, INT32_MAX)
DEFINE_STORE(int64_t, i64, INT64_MIN, INT64_MAX)

#define DEFINE_INTEGERS(T, suffix)                                                                 \
    DEFINE_INTERP(T, double, suffix##_cut, cut_##suffix)                                           \
    DEFINE_INTERP(T, double, suffix##_nearest, nearest_##suffix)

DEFINE_INTERP(double, double, f64, AS_IT_IS)
DEFINE_INTEGERS(int8_t, i8)
DEFINE_INTEGERS(uint8_t, u8)
DEFINE_INTEGERS(int16_t, i16)
DEFINE_INTEGERS(uint16_t, u16)
DEFINE_INTEGERS(int32_t, i32)
DEFINE_INTEGERS(int64_t, i64)

/* The weights that a choice of taps has in the outer dims, the innermost first, but for those of 1;
 * returns how many there are.
 */
static int outer_weights(const struct kernel_args *args, const struct interp_row *row,
                         const int64_t *tap, float *outer)
{
    const float *weights = args->src[INTERP_WEIGHTS];
    int count = 0;
    for (int i = INTERP_DIMS - 2; i >= 0; i--) {
        const float weight = weights[row->first_weight[i] + tap[i]];
        if (weight != 1)
            outer[count++] = weight;
    }
    return count;
}

/* Adds what a choice of taps in the outer dims gives to the sums of a row of results: the first
 * choice of taps sets them. Two taps of pictures, channels second, are a loop of their own.
 */
#define DEFINE_FLOATS(T, suffix)                                                                   \
    static inline void add_pairs_##suffix(const struct kernel_args *args,                          \
                                          const struct interp_row *row, const T *x, float outer,   \
                                          float *restrict sums, bool first)                        \
    {                                                                                              \
        const int last = INTERP_DIMS - 1;                                                          \
        const int64_t length = ((const struct interp_params *)args->params)->out[last];            \
        const float *w = (const float *)args->src[INTERP_WEIGHTS] + row->first_weight[last];       \
        const int32_t *indices = row->indices[last];                                               \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, length);)                  \
            for (int64_t o = piece.begin; o < piece.end; o++, indices += 2, w += 2) {              \
                if (indices[0] < 0)                                                                \
                    continue;                                                                      \
                const float low = w[0] * outer * (float)x[indices[0]];                             \
                const float high = w[1] * outer * (float)x[indices[1]];                            \
                sums[o] = (first ? low : sums[o] + low) + high;                                    \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static inline void add_##suffix(struct atc_meter *meter, const struct interp_row *row,         \
                                    const int64_t *tap, float *restrict sums, bool first)          \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        const struct interp_params *p = args->params;                                              \
        const int last = INTERP_DIMS - 1;                                                          \
        const int64_t taps = p->taps[last], inner = p->inner;                                      \
        const float *weights = (const float *)args->src[INTERP_WEIGHTS] + row->first_weight[last]; \
        const T *x = (const T *)args->src[INTERP_X] + row->x +                                     \
                     interp_source(p, row, tap) * p->in[last] * inner;                             \
        float outer[INTERP_DIMS - 1];                                                              \
        const int count = outer_weights(args, row, tap, outer);                                    \
        if (taps == 2 && inner == 1 && count <= 1) {                                               \
            add_pairs_##suffix(args, row, x, count ? outer[0] : 1, sums, first);                   \
            return;                                                                                \
        }                                                                                          \
        for (int64_t o = 0; o < p->out[last] && !atc_spend(meter, taps * inner); o++) {            \
            const int32_t *indices = row->indices[last] + o * taps;                                \
            for (int64_t k = 0; k < taps && indices[0] >= 0; k++) {                                \
                float w = weights[o * taps + k];                                                   \
                for (int i = 0; i < count; i++)                                                    \
                    w *= outer[i];                                                                 \
                for (int64_t c = 0; c < inner; c++) {                                              \
                    const float product = w * (float)x[indices[k] * inner + c];                    \
                    float *sum = sums + o * inner + c;                                             \
                    *sum = first && k == 0 ? product : *sum + product;                             \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    /* Results [begin, end) of a row as integers. */                                               \
    static inline void cut_row_##suffix(const struct interp_params *p,                             \
                                        const struct interp_row *row, const float *restrict sums,  \
                                        int64_t begin, int64_t end, T fill, T *restrict y)         \
    {                                                                                              \
        const int64_t taps = p->taps[INTERP_DIMS - 1], inner = p->inner;                           \
        const int32_t *indices = row->indices[INTERP_DIMS - 1];                                    \
        if (inner == 1 && !row->is_fill) {                                                         \
            for (int64_t o = begin; o < end; o++)                                                  \
                y[o] = indices[o * taps] < 0 ? fill : cut_##suffix((double)sums[o]);               \
            return;                                                                                \
        }                                                                                          \
        for (int64_t o = begin; o < end; o++)                                                      \
            for (int64_t c = o * inner; c < (o + 1) * inner; c++)                                  \
                y[c] = row->is_fill || indices[o * taps] < 0 ? fill                                \
                                                             : cut_##suffix((double)sums[c]);      \
    }                                                                                              \
                                                                                                   \
    static inline void interp_##suffix##_floats(const struct kernel_args *args)                    \
    {                                                                                              \
        const struct interp_params *p = args->params;                                              \
        const int last = INTERP_DIMS - 1;                                                          \
        float *sums = args->scratch;                                                               \
        struct atc_meter meter = {.args = args};                                                   \
        T fill;                                                                                    \
        memcpy(&fill, &p->fill, sizeof fill);                                                      \
        if (!interp_tables_ok(args))                                                               \
            return;                                                                                \
        struct interp_row row = interp_row_at(args, args->begin);                               \
        for (int64_t item = args->begin; item < args->end; item++, interp_next_row(p, &row)) {                               \
            int64_t tap[INTERP_DIMS - 1] = {0};                                                    \
            T *y = (T *)args->dst[0] + item * p->out[last] * p->inner;                             \
            bool first = true;                                                                     \
            if (!row.is_fill)                                                                      \
                do {                                                                               \
                    if (atc_spend(&meter, p->out[last]))                                           \
                        return;                                                                    \
                    add_##suffix(&meter, &row, tap, sums, first);                                  \
                    first = false;                                                                 \
                } while (interp_next(p, tap));                                                     \
            for (int64_t begin = 0, end; begin < p->out[last]; begin = end) {                      \
                end = min_i64(begin + 1 + ATC_PIECE / p->inner, p->out[last]);                     \
                if (atc_spend(&meter, (end - begin) * p->inner))                                   \
                    return;                                                                        \
                cut_row_##suffix(p, &row, sums, begin, end, fill, y);                              \
            }                                                                                      \
        }                                                                                          \
    }

DEFINE_FLOATS(int8_t, i8)
DEFINE_FLOATS(uint8_t, u8)
DEFINE_FLOATS(int16_t, i16)
DEFINE_FLOATS(uint16_t, u16)

void interp_f64_scalar(const struct kernel_args *args)
{
    interp_f64(args);
}

#define DEFINE_ROW(type, cut_f32)                                                                  \
    void interp_##type##_scalar(const struct kernel_args *args)                                    \
    {                                                                                              \
        const int64_t sums = ((const struct interp_params *)args->params)->sums;                   \
        if (sums == INTERP_CUT_F32)                                                                \
            cut_f32(args);                                                                         \
        else if (sums == INTERP_NEAREST)                                                           \
            interp_##type##_nearest(args);                                                         \
        else                                                                                       \
            interp_##type##_cut(args);                                                             \
    }

DEFINE_ROW(i8, interp_i8_floats)
DEFINE_ROW(u8, interp_u8_floats)
DEFINE_ROW(i16, interp_i16_floats)
DEFINE_ROW(u16, interp_u16_floats)
DEFINE_ROW(i32, interp_i32_cut)
DEFINE_ROW(i64, interp_i64_cut)

#define MOVE(size)                                                                                 \
    case size:                                                                                     \
        for (int64_t o = 0; o < n; o++)                                                            \
            memcpy(y + o * size, x + indices[o] * (int64_t)(size), size);                          \
        break;

/* Moves n results, none of which is the fill; those of common sizes without a call. */
static inline void move_some(uint8_t *restrict y, const uint8_t *restrict x,
                             const int32_t *restrict indices, int64_t n, int64_t bytes)
{
    switch (bytes) {
        MOVE(1)
        MOVE(2)
        MOVE(4)
        MOVE(8)
        MOVE(16)
    default:
        for (int64_t o = 0; o < n; o++)
            memcpy(y + o * bytes, x + indices[o] * bytes, (size_t)bytes);
    }
}

static inline bool has_fill(const int32_t *indices, int64_t n)
{
    int32_t joined = 0;
    for (int64_t o = 0; o < n; o++)
        joined |= indices[o];
    return joined < 0;
}

/* Results [begin, end) of a row. */
static inline void move_row(const struct interp_params *p, const struct interp_row *row,
                            const uint8_t *x, uint8_t *y, int64_t begin, int64_t end)
{
    const int64_t bytes = p->inner * p->item;
    const int32_t *indices = row->indices[INTERP_DIMS - 1];
    if (!row->is_fill && !has_fill(indices + begin, end - begin)) {
        move_some(y + begin * bytes, x, indices + begin, end - begin, bytes);
        return;
    }
    for (int64_t o = begin; o < end;) {
        const int64_t first = o;
        while (o < end && !row->is_fill && indices[o] >= 0)
            o++;
        move_some(y + first * bytes, x, indices + first, o - first, bytes);
        for (; o < end && (row->is_fill || indices[o] < 0); o++)
            for (int64_t c = 0; c < p->inner; c++)
                memcpy(y + o * bytes + c * p->item, &p->fill, (size_t)p->item);
    }
}

/* Elements of whatever type, moved. */
void interp_any_scalar(const struct kernel_args *args)
{
    const struct interp_params *p = args->params;
    const int last = INTERP_DIMS - 1;
    const int64_t bytes = p->inner * p->item, each = 1 + ATC_PIECE / 16 / (1 + bytes / 8);
    const int64_t none[INTERP_DIMS - 1] = {0};
    struct atc_meter meter = {.args = args};
    if (!interp_tables_ok(args))
        return;
    struct interp_row row = interp_row_at(args, args->begin);
    for (int64_t item = args->begin; item < args->end; item++, interp_next_row(p, &row)) {
        const int64_t from =
            row.is_fill ? 0 : interp_source(p, &row, none) * p->in[last] * p->inner;
        const uint8_t *x = (const uint8_t *)args->src[INTERP_X] + (row.x + from) * p->item;
        uint8_t *y = (uint8_t *)args->dst[0] + item * p->out[last] * bytes;
        for (int64_t o = 0; o < p->out[last]; o += each) {
            const int64_t end = min_i64(o + each, p->out[last]);
            if (atc_spend(&meter, (end - o) * (1 + bytes / 8)))
                return;
            move_row(p, &row, x, y, o, end);
        }
    }
}
