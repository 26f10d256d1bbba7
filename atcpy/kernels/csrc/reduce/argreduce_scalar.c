/* argreduce by its definition. */
#include "core/pieces.h"
#include "reduce/argreduce.h"

enum { BLOCK = 256 }; /* elements of a row whose positions are compared with the best */

/* True if v comes before the best so far; a NaN comes before every number. */
#define BEATS(op, v, best, last)                                                                   \
    ((v)op(best) || ((v) != (v) && (best) == (best)) ||                                            \
     ((last) && ((v) == (best) || ((v) != (v) && (best) != (best)))))

#define SCAN(T, op)                                                                                \
    for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, p->n);)                     \
        for (int64_t k = piece.begin; k < piece.end; k++)                                          \
            for (int64_t c = 0; c < columns; c++) {                                                \
                const T v = src[k * p->inner + c];                                                 \
                if (BEATS(op, v, best[c], p->last)) {                                              \
                    best[c] = v;                                                                   \
                    dst[c] = k;                                                                    \
                }                                                                                  \
            }

/* Rows of elements that lie behind each other. Few elements of a long row beat all before them; of
 * short rows there are many, so that nothing is asked for each.
 */
#define SCAN_SINGLY(T, op, last)                                                                   \
    for (int64_t item = args->begin; item < args->end; item++) {                                   \
        const T *src = (const T *)args->src[0] + item * p->n;                                      \
        T best = src[0];                                                                           \
        int64_t at = 0;                                                                            \
        for (struct atc_piece piece = {1, 1}; atc_next_piece(args, &piece, p->n);)                 \
            for (int64_t i = piece.begin; i < piece.end; i++)                                      \
                if (__builtin_expect(BEATS(op, src[i], best, last), 0)) {                          \
                    best = src[i];                                                                 \
                    at = i;                                                                        \
                }                                                                                  \
        ((int64_t *)args->dst[0])[item] = at;                                                      \
    }

/* Rows of integers of up to 32 bits, which SSE2 compares: the best element of each block, by
 * vectors, and at last its position in the best block.
 */
#define SCAN_BLOCKS(T, op, last)                                                                   \
    for (int64_t item = args->begin; item < args->end; item++) {                                   \
        const T *src = (const T *)args->src[0] + item * p->n;                                      \
        T best = src[0];                                                                           \
        int64_t first = 0;                                                                         \
        for (struct atc_piece piece = {0, 0}; atc_next_piece(args, &piece, p->n);)                 \
            for (int64_t block = piece.begin; block < piece.end; block += BLOCK) {                 \
                T v = src[block];                                                                  \
                for (int64_t i = block + 1; i < min_i64(block + BLOCK, piece.end); i++)            \
                    v = src[i] op v ? src[i] : v;                                                  \
                if (BEATS(op, v, best, last)) {                                                    \
                    best = v;                                                                      \
                    first = block;                                                                 \
                }                                                                                  \
            }                                                                                      \
        const int64_t end = min_i64(first + BLOCK, p->n);                                          \
        int64_t at = (last) ? end - 1 : first;                                                     \
        for (int64_t left = end - first; left > 1 && src[at] != best; left--)                      \
            at += (last) ? -1 : 1;                                                                 \
        ((int64_t *)args->dst[0])[item] = at;                                                      \
    }

#define DEFINE_ARGREDUCE(T, symbol, SCAN_ROWS)                                                     \
    void symbol(const struct kernel_args *args)                                                    \
    {                                                                                              \
        const struct argreduce_params *p = args->params;                                           \
        if (p->inner == 1) {                                                                       \
            if (p->kind == ARG_MAX && !p->last)                                                    \
                SCAN_ROWS(T, >, false)                                                             \
            else if (p->kind == ARG_MAX)                                                           \
                SCAN_ROWS(T, >, true)                                                              \
            else if (!p->last)                                                                     \
                SCAN_ROWS(T, <, false)                                                             \
            else                                                                                   \
                SCAN_ROWS(T, <, true)                                                              \
            return;                                                                                \
        }                                                                                          \
        const int64_t chunks = ceil_div(p->inner, ARG_COLUMNS);                                    \
        for (int64_t item = args->begin; item < args->end; item++) {                               \
            const int64_t outer = item / chunks, column = item % chunks * ARG_COLUMNS;             \
            const int64_t columns = min_i64(ARG_COLUMNS, p->inner - column);                       \
            const T *src = (const T *)args->src[0] + outer * p->n * p->inner + column;             \
            int64_t *dst = (int64_t *)args->dst[0] + outer * p->inner + column;                    \
            T best[ARG_COLUMNS];                                                                   \
            for (int64_t c = 0; c < columns; c++) {                                                \
                best[c] = src[c];                                                                  \
                dst[c] = 0;                                                                        \
            }                                                                                      \
            if (p->kind == ARG_MAX)                                                                \
                SCAN(T, >)                                                                         \
            else                                                                                   \
                SCAN(T, <)                                                                         \
        }                                                                                          \
    }

DEFINE_ARGREDUCE(float, argreduce_f32_scalar, SCAN_SINGLY)
DEFINE_ARGREDUCE(double, argreduce_f64_scalar, SCAN_SINGLY)
DEFINE_ARGREDUCE(int8_t, argreduce_i8_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(uint8_t, argreduce_u8_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(int16_t, argreduce_i16_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(uint16_t, argreduce_u16_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(int32_t, argreduce_i32_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(uint32_t, argreduce_u32_scalar, SCAN_BLOCKS)
DEFINE_ARGREDUCE(int64_t, argreduce_i64_scalar, SCAN_SINGLY)
DEFINE_ARGREDUCE(uint64_t, argreduce_u64_scalar, SCAN_SINGLY)
