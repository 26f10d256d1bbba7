/* byte_table on AVX-512: 16 tables of 16 bytes, chosen by the four upper bits of a byte. */
#include "quant/byte_table.h"

#include <immintrin.h>

enum { TABLES = 16, VECTOR = 64 };

/* Two tables that differ in the lowest of the upper bits. */
static inline __m512i look_up(const __m512i tables[2], __m512i low, __mmask64 bit)
{
    return _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(tables[0], low), bit, tables[1], low);
}

static inline __m512i map(const __m512i tables[TABLES], __m512i x)
{
    const __m512i low = _mm512_and_si512(x, _mm512_set1_epi8(0x0f));
    __mmask64 bits[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        bits[i] = _mm512_test_epi8_mask(x, _mm512_set1_epi8((char)(0x10 << i)));
    __m512i y[TABLES / 2];
#pragma GCC unroll 8
    for (int i = 0; i < TABLES / 2; i++)
        y[i] = look_up(tables + 2 * i, low, bits[0]);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        y[i] = _mm512_mask_blend_epi8(bits[1], y[2 * i], y[2 * i + 1]);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++)
        y[i] = _mm512_mask_blend_epi8(bits[2], y[2 * i], y[2 * i + 1]);
    return _mm512_mask_blend_epi8(bits[3], y[0], y[1]);
}

void byte_table_any_avx512f(const struct kernel_args *args)
{
    const struct byte_table_params *p = args->params;
    const uint8_t *x = args->src[0], *table = args->src[1];
    uint8_t *y = args->dst[0];
    __m512i tables[TABLES];
#pragma GCC unroll 16
    for (int i = 0; i < TABLES; i++)
        tables[i] = _mm512_broadcast_i32x4(
            _mm_loadu_si128((const __m128i *)(const void *)(table + i * TABLES)));
    const int64_t end = min_i64(args->end * BYTE_TABLE_CHUNK, p->n);
    int64_t i = args->begin * BYTE_TABLE_CHUNK;
    for (; i + VECTOR <= end; i += VECTOR)
        _mm512_storeu_si512(y + i, map(tables, _mm512_loadu_si512(x + i)));
    if (i < end) {
        const __mmask64 lanes = (UINT64_C(1) << (end - i)) - 1;
        _mm512_mask_storeu_epi8(y + i, lanes, map(tables, _mm512_maskz_loadu_epi8(lanes, x + i)));
    }
}
