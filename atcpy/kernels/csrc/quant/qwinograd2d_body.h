/* The transforms of qwinograd2d on vectors of VECTOR_BYTES, which the file of an ISA defines. They
 * wrap around, as unsigned integers do.
 */
#ifndef ATC_QWINOGRAD2D_BODY_H
#define ATC_QWINOGRAD2D_BODY_H

#include "quant/qwinograd2d.h"

#include <string.h>

void FOR_ISA(qgemm_any)(const struct kernel_args *args); /* the definition */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

typedef int16_t vi16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint16_t vu16 __attribute__((vector_size(VECTOR_BYTES)));
typedef uint32_t vu32 __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t vi32 __attribute__((vector_size(VECTOR_BYTES)));

enum {
    CHANNELS = VECTOR_BYTES / sizeof(int16_t), /* of transformed inputs in a vector */
    COLUMNS = VECTOR_BYTES / sizeof(int32_t),
    PARTS = QGEMM_PANEL / COLUMNS, /* vectors of a panel */
    QUADS = QGEMM_PANEL / QGEMM_K0,
};

ALWAYS_INLINE vu32 load_u32(const void *at)
{
    vu32 x;
    memcpy(&x, at, sizeof x);
    return x;
}

ALWAYS_INLINE void store_u16(int16_t *at, vu16 x)
{
    memcpy(at, &x, sizeof x);
}

/* G times a column of three. */
ALWAYS_INLINE void g_times(vu16 g0, vu16 g1, vu16 g2, vu16 *u)
{
    const vu16 even = g0 + g2, far = g0 + (g2 << 2), twice = g1 + g1;
    u[0] = g0 * 6;
    u[1] = -(even + even + twice);
    u[2] = twice - even - even;
    u[3] = far + twice;
    u[4] = far - twice;
    u[5] = g2 * 6;
}

/* Bᵀ times a column of six, whose elements lie `step` vectors apart. */
ALWAYS_INLINE void b_times(const vu16 *d, int step, vu16 *v)
{
    const vu16 d0 = d[0], d1 = d[step], d2 = d[2 * step], d3 = d[3 * step], d4 = d[4 * step];
    const vu16 even = d4 - (d2 << 2), odd = d3 - (d1 << 2);
    const vu16 far = d4 - d2, twice = (d3 - d1) << 1;
    v[0] = ((d0 - d2) << 2) + far;
    v[1] = even + odd;
    v[2] = even - odd;
    v[3] = far + twice;
    v[4] = far - twice;
    v[5] = ((d1 - d3) << 2) + d[5 * step] - d3;
}

/* Aᵀ times a column of six. */
ALWAYS_INLINE void a_times(const vu32 *m, int step, vu32 *y)
{
    const vu32 even = (m[step] + m[2 * step]) << 1, odd = m[step] - m[2 * step];
    const vu32 far = m[3 * step] + m[4 * step], twice = m[3 * step] - m[4 * step];
    y[0] = m[0] + even + far;
    y[1] = (odd + twice) << 1;
    y[2] = even + (far << 2);
    y[3] = (odd + (twice << 2) + (m[5 * step] << 1)) << 1;
}

/* Pair `pair` of each column's four bytes in 16 bits each. */
typedef vu16 (*widen_pair)(vu32 fours, int pair, bool is_signed);

ALWAYS_INLINE void transform_some(const struct qwino_filters *f, bool is_signed, widen_pair widen,
                                  int16_t *out, int64_t stride)
{
    enum { TAPS = QWINO_TAPS };
    for (int quad = 0; quad < QUADS; quad++)
        for (int part = 0; part < PARTS; part++) {
            const int64_t first = quad * QGEMM_BLOCK + part * VECTOR_BYTES;
            vu32 fours[TAPS * TAPS];
#pragma GCC unroll 9
            for (int tap = 0; tap < TAPS * TAPS; tap++) {
                const int64_t at = first + tap * QUADS * QGEMM_BLOCK;
                fours[tap] = load_u32(f->w + at);
                __builtin_prefetch(f->next + at);
            }
#pragma GCC unroll 2
            for (int pair = 0; pair < 2; pair++) {
                vu16 g[TAPS * TAPS], columns[TAPS][QWINO_IN];
#pragma GCC unroll 9
                for (int tap = 0; tap < TAPS * TAPS; tap++)
                    g[tap] = widen(fours[tap], pair, is_signed);
                if (f->zero != NULL) {
                    const vu16 zero = (vu16)load_u32(f->zero + part * CHANNELS);
#pragma GCC unroll 9
                    for (int tap = 0; tap < TAPS * TAPS; tap++)
                        g[tap] -= zero;
                }
#pragma GCC unroll 3
                for (int i = 0; i < TAPS; i++)
                    g_times(g[i], g[i + TAPS], g[i + 2 * TAPS], columns[i]);
                int16_t *to = out + (2 * quad + pair) * QWINO_GROUP + part * CHANNELS;
#pragma GCC unroll 6
                for (int row = 0; row < QWINO_IN; row++) {
                    vu16 u[QWINO_IN];
                    g_times(columns[0][row], columns[1][row], columns[2][row], u);
#pragma GCC unroll 6
                    for (int column = 0; column < QWINO_IN; column++)
                        store_u16(to + (row * QWINO_IN + column) * stride, u[column]);
                }
            }
        }
}

/* Filters of either sign, each by loops of its own. */
ALWAYS_INLINE void transform_filters(const struct qwino_filters *f, widen_pair widen, int16_t *out,
                                     int64_t stride)
{
    if (f->is_signed)
        transform_some(f, true, widen, out, stride);
    else
        transform_some(f, false, widen, out, stride);
}

/* Channels of a pixel in 16 bits. */
typedef vu16 (*load_pixel)(const uint8_t *pixel, bool is_signed);

/* Bᵀ times a tile of constants has one element that is not 0, in the second row and column: the
 * constant times (-6)^2. So zero points are taken off at one position.
 */
enum { QWINO_OF_CONSTANT = QWINO_IN + 1, QWINO_CONSTANT = 36 };

/* Bᵀ times rows of six columns, which were multiplied by B. */
ALWAYS_INLINE void transform_rows(const struct qwino_input *t, vu16 columns[QWINO_IN][QWINO_IN],
                                  int16_t *out, int64_t stride)
{
    const vu16 constant = (vu16){0} + (uint16_t)(QWINO_CONSTANT * t->zero);
#pragma GCC unroll 6
    for (int row = 0; row < QWINO_IN; row++) {
        vu16 v[QWINO_IN];
        b_times(&columns[0][row], QWINO_IN, v);
#pragma GCC unroll 6
        for (int column = 0; column < QWINO_IN; column++) {
            const int position = row * QWINO_IN + column;
            store_u16(out + position * stride,
                      position == QWINO_OF_CONSTANT ? v[column] - constant : v[column]);
        }
    }
}

static inline bool is_inside(const struct qwino_input *t)
{
    return t->top == 0 && t->bottom == QWINO_IN && t->left == 0 && t->right == QWINO_IN;
}

/* The tile in the channels of a vector, which lie `at` behind the first ones. */
ALWAYS_INLINE void transform_pixels(const struct qwino_input *t, bool inside, bool is_signed,
                                    load_pixel load, int64_t at, int16_t *out, int64_t stride)
{
    const vu16 zero = (vu16){0} + (uint16_t)t->zero;
    vu16 columns[QWINO_IN][QWINO_IN];
#pragma GCC unroll 6
    for (int column = 0; column < QWINO_IN; column++) {
        vu16 d[QWINO_IN];
#pragma GCC unroll 6
        for (int row = 0; row < QWINO_IN; row++)
            d[row] = inside || (row >= t->top && row < t->bottom && column >= t->left &&
                                column < t->right)
                         ? load(t->x + at + row * t->row + column * QGEMM_PANEL, is_signed)
                         : zero;
        b_times(d, 1, columns[column]);
    }
    transform_rows(t, columns, out, stride);
}

/* Vectors of the channels of one pixel, of a whole block at most. */
ALWAYS_INLINE void transform_input(const struct qwino_input *t, load_pixel load, int16_t *out,
                                   int64_t stride)
{
    for (int c = 0; c < t->blocks * QGEMM_PANEL; c += CHANNELS) {
        const int64_t at = t->from + c / QGEMM_PANEL * t->plane + c % QGEMM_PANEL;
        if (!is_inside(t))
            transform_pixels(t, false, t->is_signed, load, at, out + c, stride);
        else if (t->is_signed)
            transform_pixels(t, true, true, load, at, out + c, stride);
        else
            transform_pixels(t, true, false, load, at, out + c, stride);
    }
}

/* Finishes up to four sums that lie side by side, as vectors of a panel, each less its start. */
typedef void (*finish_row)(const struct qgemm_tile *tile, vi32 sums[][PARTS], int columns,
                           uint8_t *dst);

/* 576 times some results as results less the middle of the values that they can have, of which
 * `middle` is 64 times.
 */
ALWAYS_INLINE vi32 reduce(vu32 y, vu32 middle)
{
    const vu32 inverse_of_9 = (vu32){0} + UINT32_C(0x38E38E39);
    return (vi32)(y * inverse_of_9 - middle) >> QWINO_SHIFT;
}

ALWAYS_INLINE void transform_results(const struct qwino_results *t, finish_row finish)
{
    vu32 rows[PARTS][QWINO_TILE][QWINO_IN], middle[PARTS];
    for (int part = 0; part < PARTS; part++) {
        const int32_t *sums = t->sums + part * COLUMNS;
        middle[part] = load_u32(t->middle + part * COLUMNS);
#pragma GCC unroll 6
        for (int column = 0; column < QWINO_IN; column++) {
            vu32 m[QWINO_IN], y[QWINO_TILE];
#pragma GCC unroll 6
            for (int row = 0; row < QWINO_IN; row++)
                m[row] = load_u32(sums + (row * QWINO_IN + column) * t->stride);
            a_times(m, 1, y);
#pragma GCC unroll 4
            for (int row = 0; row < QWINO_TILE; row++)
                rows[part][row][column] = y[row];
        }
    }
    uint8_t *dst = t->finish->dst;
    for (int row = 0; row < t->rows; row++, dst += t->dst_row) {
        vi32 sums[QWINO_TILE][PARTS];
#pragma GCC unroll 4
        for (int part = 0; part < PARTS; part++) {
            vu32 y[QWINO_TILE];
            a_times(rows[part][row], 1, y);
#pragma GCC unroll 4
            for (int column = 0; column < QWINO_TILE; column++)
                sums[column][part] = reduce(y[column], middle[part]);
        }
        finish(t->finish, sums, (int)t->columns, dst);
    }
}

#endif
