/* interp for every ISA: rows of the input are mixed over the outer dims, then along the last. */
#ifndef ATC_INTERP_LOOPS_H
#define ATC_INTERP_LOOPS_H

#include "signal/interp.h"

/* T: elements; W: weights and sums; STORE: a sum as an element. */
#define DEFINE_INTERP(T, W, suffix, STORE)                                                         \
    static inline void interp_mix_##suffix(struct atc_meter *meter,                               \
                                           const struct interp_row *row, W *restrict mixed)        \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        const struct interp_params *p = args->params;                                              \
        const W *weights = args->src[INTERP_WEIGHTS];                                              \
        const int64_t length = p->in[INTERP_DIMS - 1] * p->inner;                                  \
        int64_t tap[INTERP_DIMS - 1] = {0};                                                        \
        bool first = true;                                                                         \
        do {                                                                                       \
            const T *x = (const T *)args->src[INTERP_X] + row->x +                                 \
                         interp_source(p, row, tap) * length;                                      \
            W w = 1;                                                                               \
            for (int i = 0; i < INTERP_DIMS - 1; i++)                                              \
                w *= weights[row->first_weight[i] + tap[i]];                                       \
            if (atc_spend(meter, length))                                                          \
                return;                                                                            \
            for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, length);)              \
                if (first)                                                                         \
                    for (int64_t i = piece.begin; i < piece.end; i++)                              \
                        mixed[i] = w * (W)x[i];                                                    \
                else                                                                               \
                    for (int64_t i = piece.begin; i < piece.end; i++)                              \
                        mixed[i] += w * (W)x[i];                                                   \
            first = false;                                                                         \
        } while (interp_next(p, tap));                                                             \
    }                                                                                              \
                                                                                                   \
    /* Linear interpolation of single elements: a loop without branches. */                        \
    static inline void interp_pairs_##suffix(const int32_t *restrict indices,                      \
                                             const W *restrict weights, const W *restrict mixed,   \
                                             T *restrict y, int64_t n, T fill)                     \
    {                                                                                              \
        for (int64_t o = 0; o < n; o++) {                                                          \
            const bool is_fill = indices[2 * o] < 0;                                               \
            const int32_t low = is_fill ? 0 : indices[2 * o];                                      \
            const int32_t high = is_fill ? 0 : indices[2 * o + 1];                                 \
            const W sum = 0 + weights[2 * o] * mixed[low] + weights[2 * o + 1] * mixed[high];      \
            y[o] = is_fill ? fill : STORE(sum);                                                    \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline void interp_along_##suffix(struct atc_meter *meter,                             \
                                             const struct interp_row *row,                         \
                                             const W *restrict mixed, T *restrict y, T fill)       \
    {                                                                                              \
        const struct kernel_args *args = meter->args;                                              \
        const struct interp_params *p = args->params;                                              \
        const int last = INTERP_DIMS - 1;                                                          \
        const int64_t taps = p->taps[last], inner = p->inner;                                      \
        const int64_t each = 1 + ATC_PIECE / 16 / (inner * taps);                                  \
        const int32_t *indices = row->indices[last];                                               \
        const W *weights = (const W *)args->src[INTERP_WEIGHTS] + row->first_weight[last];         \
        for (int64_t first = 0; first < p->out[last]; first += each) {                             \
            const int64_t end = min_i64(first + each, p->out[last]);                               \
            if (atc_spend(meter, (end - first) * inner * taps))                                    \
                return;                                                                            \
            if (taps == 2 && inner == 1) {                                                         \
                interp_pairs_##suffix(indices, weights, mixed, y + first, end - first, fill);      \
                indices += 2 * (end - first);                                                      \
                weights += 2 * (end - first);                                                      \
                continue;                                                                          \
            }                                                                                      \
            for (int64_t o = first; o < end; o++, indices += taps, weights += taps)                \
            for (int64_t c = 0; c < inner; c++) {                                                  \
                W sum = 0;                                                                         \
                for (int64_t k = 0; k < taps && indices[0] >= 0; k++)                              \
                    sum += weights[k] * mixed[indices[k] * inner + c];                             \
                y[o * inner + c] = indices[0] < 0 ? fill : STORE(sum);                             \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static inline void interp_##suffix(const struct kernel_args *args)                             \
    {                                                                                              \
        const struct interp_params *p = args->params;                                              \
        const int64_t length = p->out[INTERP_DIMS - 1] * p->inner;                                 \
        struct atc_meter meter = {.args = args};                                                   \
        T fill;                                                                                    \
        memcpy(&fill, &p->fill, sizeof fill);                                                      \
        if (!interp_tables_ok(args))                                                               \
            return;                                                                                \
        struct interp_row row = interp_row_at(args, args->begin);                               \
        for (int64_t item = args->begin; item < args->end; item++, interp_next_row(p, &row)) {                               \
            T *y = (T *)args->dst[0] + item * length;                                              \
            if (row.is_fill) {                                                                     \
                for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, length);)          \
                    for (int64_t i = piece.begin; i < piece.end; i++)                              \
                        y[i] = fill;                                                               \
                continue;                                                                          \
            }                                                                                      \
            interp_mix_##suffix(&meter, &row, args->scratch);                                        \
            interp_along_##suffix(&meter, &row, args->scratch, y, fill);                             \
        }                                                                                          \
    }

#define AS_IT_IS(x) (x)

DEFINE_INTERP(float, float, f32, AS_IT_IS)

#endif
