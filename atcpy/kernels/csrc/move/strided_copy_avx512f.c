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

/* Three long rows become triples, as colours of planes become pixels: tiles would be mostly empty.
 */
static void interleave_3(const float *src, int64_t apart, float *dst, int64_t n)
{
    const __m512i pair[3] = {LANES(PAIR, 0), LANES(PAIR, 16), LANES(PAIR, 32)};
    const __m512i third[3] = {LANES(THIRD, 0), LANES(THIRD, 16), LANES(THIRD, 32)};
    for (int64_t i = 0; i < n; i += TILE512) {
        const __mmask16 mask = lanes16(min_i64(TILE512, n - i));
        const __m512 a = _mm512_maskz_loadu_ps(mask, src + i);
        const __m512 b = _mm512_maskz_loadu_ps(mask, src + apart + i);
        const __m512 c = _mm512_maskz_loadu_ps(mask, src + 2 * apart + i);
        for (int64_t v = 0, left = 3 * (n - i); v < 3 && left > 0; v++, left -= TILE512) {
            const __m512 two = _mm512_permutex2var_ps(a, pair[v], b);
            _mm512_mask_storeu_ps(dst + 3 * i + v * TILE512, lanes16(min_i64(TILE512, left)),
                                  _mm512_permutex2var_ps(two, third[v], c));
        }
    }
}

static void transpose_plate(uint8_t *to, const uint8_t *from, const struct plate *p)
{
    const float *src = (const float *)(const void *)from;
    float *dst = (float *)(void *)to;
    if (p->columns == 3 && p->dst_row == 3) {
        interleave_3(src, p->src_column, dst, p->rows);
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
