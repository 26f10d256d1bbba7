/* byte_table on AVX2: 16 tables of 16 bytes, chosen by the four upper bits of a byte. */
#include "quant/byte_table.h"

#include <immintrin.h>

enum { TABLES = 16, VECTOR = 32 };

static inline __m256i map(const __m256i tables[TABLES], __m256i x)
{
    const __m256i low = _mm256_and_si256(x, _mm256_set1_epi8(0x0f));
    __m256i y[TABLES];
#pragma GCC unroll 16
    for (int i = 0; i < TABLES; i++)
        y[i] = _mm256_shuffle_epi8(tables[i], low);
    /* A blend looks at the top bit of a byte. */
    const __m256i bit_4 = _mm256_slli_epi16(x, 3), bit_5 = _mm256_slli_epi16(x, 2);
    const __m256i bit_6 = _mm256_slli_epi16(x, 1);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        y[i] = _mm256_blendv_epi8(y[2 * i], y[2 * i + 1], bit_4);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        y[i] = _mm256_blendv_epi8(y[2 * i], y[2 * i + 1], bit_5);
    const __m256i lower = _mm256_blendv_epi8(y[0], y[1], bit_6);
    return _mm256_blendv_epi8(lower, _mm256_blendv_epi8(y[2], y[3], bit_6), x);
}

void byte_table_any_avx2(const struct kernel_args *args)
{
    const struct byte_table_params *p = args->params;
    const uint8_t *x = args->src[0], *table = args->src[1];
    uint8_t *y = args->dst[0];
    __m256i tables[TABLES];
    for (int i = 0; i < TABLES; i++)
        tables[i] = _mm256_broadcastsi128_si256(
            _mm_loadu_si128((const __m128i *)(const void *)(table + i * TABLES)));
    const int64_t end = min_i64(args->end * BYTE_TABLE_CHUNK, p->n);
    int64_t i = args->begin * BYTE_TABLE_CHUNK;
    for (; i + VECTOR <= end; i += VECTOR) {
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(x + i));
        _mm256_storeu_si256((__m256i *)(void *)(y + i), map(tables, bytes));
    }
    for (; i < end; i++)
        y[i] = table[x[i]];
}
