/* strided_copy on AVX-512: transposes of elements of 4 bytes, 16 x 16 in registers. */
#include "move/strided_copy.h"
#include "simd/transpose_avx512.h"

/* Indices of a permutation of two vectors for 16 elements of triples, `first` being the number of
 * the first one: those of the first two rows, then of the third beside what the first step made.
 */
#define OF_PAIR(e) ((e) % 3 < 2 ? (e) % 3 * 16 + (e) / 3 : 0)
#define OF_THIRD(e, lane) ((e) % 3 < 2 ? (lane) : 16 + (e) / 3)
#define LANES(OF, first)                                                                           \
    _mm512_setr_epi32(OF(first, 0), OF(first, 1), OF(first, 2), OF(first, 3), OF(first, 4),        \
                      OF(first, 5), OF(first, 6), OF(first, 7), OF(first, 8), OF(first, 9),        \
                      OF(first, 10), OF(first, 11), OF(first, 12), OF(first, 13), OF(first, 14),   \
                      OF(first, 15))
#define PAIR(first, lane)  OF_PAIR((first) + (lane))
#define THIRD(first, lane) OF_THIRD((first) + (lane), lane)

/* The triples of up to 16 elements of each of three rows. */
static inline __attribute__((always_inline)) void make_triples(const float *src, int64_t apart,
                                                               __mmask16 mask, __m512 triples[3])
{
    const __m512i pair[3] = {LANES(PAIR, 0), LANES(PAIR, 16), LANES(PAIR, 32)};
    const __m512i third[3] = {LANES(THIRD, 0), LANES(THIRD, 16), LANES(THIRD, 32)};
    const __m512 a = _mm512_maskz_loadu_ps(mask, src);
    const __m512 b = _mm512_maskz_loadu_ps(mask, src + apart);
    const __m512 c = _mm512_maskz_loadu_ps(mask, src + 2 * apart);
    for (int v = 0; v < 3; v++)
        triples[v] = _mm512_permutex2var_ps(_mm512_permutex2var_ps(a, pair[v], b), third[v], c);
}

static void store_few_triples(const float *src, int64_t apart, float *dst, int64_t n)
{
    __m512 triples[3];
    make_triples(src, apart, lanes16(n), triples);
    for (int64_t v = 0, left = 3 * n; v < 3 && left > 0; v++, left -= TILE512)
        _mm512_mask_storeu_ps(dst + v * TILE512, lanes16(min_i64(TILE512, left)), triples[v]);
}

/* Elements of three rows whose triples end where a cache line of `dst` begins: 33 = 2 * 16 + 1. */
static int64_t triples_to_line(const float *dst)
{
    const int64_t elements = (int64_t)((uintptr_t)dst / sizeof *dst) % TILE512;
    return (TILE512 - elements) * 11 % TILE512;
}

/* Three long rows become triples, as colours of planes become pixels: tiles would be mostly empty.
 */
static void interleave_3(const float *src, int64_t apart, float *dst, int64_t n, bool is_streamed)
{
    const bool streams = is_streamed && (uintptr_t)dst % sizeof *dst == 0;
    const int64_t head = streams ? min_i64(n, triples_to_line(dst)) : 0;
    if (head > 0)
        store_few_triples(src, apart, dst, head);
    int64_t i = head;
    for (; i + TILE512 <= n; i += TILE512) {
        /* Of masked loads, CPUs do not read ahead. */
        __m512 triples[3];
        make_triples(src + i, apart, 0xffff, triples);
        for (int v = 0; v < 3; v++)
            if (streams)
                _mm512_stream_ps(dst + 3 * i + v * TILE512, triples[v]);
            else
                _mm512_storeu_ps(dst + 3 * i + v * TILE512, triples[v]);
    }
    if (i < n)
        store_few_triples(src + i, apart, dst + 3 * i, n - i);
}

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    if (p->columns == 3 && p->dst_row == 3) {
        interleave_3(src, p->src_column, dst, p->rows, p->is_streamed);
        return;
    }
    for (int64_t r = 0; r < p->rows; r += TILE512) {
        const int64_t rows = p->rows - r < TILE512 ? p->rows - r : TILE512;
        for (int64_t c = 0; c < p->columns; c += TILE512) {
            const int64_t columns = p->columns - c < TILE512 ? p->columns - c : TILE512;
            const float *in = src + r + c * p->src_column;
            float *out = dst + r * p->dst_row + c;
            if (rows == TILE512 && columns == TILE512)
                transpose_tile16(in, p->src_column, TILE512, 0xffff, out, p->dst_row, TILE512,
                                 0xffff);
            else
                transpose_tile16(in, p->src_column, columns, lanes16(rows), out, p->dst_row, rows,
                                 lanes16(columns));
        }
    }
}

void strided_copy_b32_avx512f(const struct kernel_args *args)
{
    strided_copy_drive(args, transpose_plate);
}
