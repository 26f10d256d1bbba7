/* qdepthwise on AVX-512 VNNI: one instruction for two taps of 16 channels, or for four. */
#include "quant/qdepthwise_loops.h"
#include "quant/qgemm_finish_avx512.h"
#include "simd/count_up.h"

static inline __attribute__((always_inline)) void
sum_up(const struct qdw_windows *w, const struct qgemm_tile *tile, bool quads, int results)
{
    __m512i acc[QDW_WIDTH];
#pragma GCC unroll 8
    for (int r = 0; r < results; r++)
        acc[r] = qgemm_start_avx512(tile, 0);
    for (int64_t t = 0; t < w->taps; t++) {
        const __m512i weights = _mm512_loadu_si512(w->weights + t * QDW_C0);
        const uint32_t *x = w->in + w->offsets[t];
#pragma GCC unroll 8
        for (int r = 0; r < results; r++) {
            const __m512i window = _mm512_loadu_si512(x + r * w->step);
            acc[r] = quads ? _mm512_dpbusd_epi32(acc[r], window, weights)
                           : _mm512_dpwssd_epi32(acc[r], window, weights);
        }
    }
    qgemm_finish_avx512(tile, acc, tile->dst, 0, results, 0, 1);
}

#define DEFINE(name, quads, results)                                                               \
    static void name##_##results(const struct qdw_windows *w, const struct qgemm_tile *tile)       \
    {                                                                                              \
        sum_up(w, tile, quads, results);                                                           \
    }
#define NAME(name, results) name##_##results,

COUNT_TO_8(DEFINE, pairs, false)
COUNT_TO_8(DEFINE, quads, true)

static void sum_pairs(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    static const qdw_micro by_results[] = {COUNT_TO_8(NAME, pairs)};
    by_results[w->results - 1](w, tile);
}

static void sum_quads(const struct qdw_windows *w, const struct qgemm_tile *tile)
{
    static const qdw_micro by_results[] = {COUNT_TO_8(NAME, quads)};
    by_results[w->results - 1](w, tile);
}

/* Four pixels of 16 channels, to 16 lanes of four: quarters change places, then bytes in each. */
static void pack_four(const uint8_t *from, uint32_t *to, int64_t positions, uint8_t flip)
{
    const __m512i quarters =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    const __m512i flips = _mm512_set1_epi8((char)flip);
    for (int64_t i = 0; i < positions; i++) {
        const __m512i pixels = _mm512_xor_si512(_mm512_loadu_si512(from + i * QDW_C0), flips);
        const __m512i mixed = _mm512_permutexvar_epi32(quarters, pixels);
        _mm512_storeu_si512(to + i * QDW_C0, _mm512_shuffle_epi8(mixed, bytes));
    }
}

void qdepthwise_any_avx512vnni(const struct kernel_args *args)
{
    qdepthwise_items(args, &(struct qdw_isa){sum_pairs, sum_quads, pack_four});
}
