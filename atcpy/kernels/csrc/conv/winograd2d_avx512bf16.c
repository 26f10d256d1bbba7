/* winograd2d of small tiles on AVX512-BF16, whose products read pairs of bfloat16. */
#include "conv/winograd2d_body_vector.h"

enum { IN = WINO_SMALL + WINO_TAPS - 1, POSITIONS = IN * IN };

/* Sixteen pairs of bfloat16, of which each of these has one. */
ALWAYS_INLINE void store_pairs(float *at, vf first, vf second)
{
    const __m512i alternate = _mm512_add_epi32(
        _mm512_set1_epi32(16 << 16),
        _mm512_cvtepu8_epi32(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)));
    const __m512i lanes = _mm512_add_epi32(alternate, _mm512_slli_epi32(alternate, 16));
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    _mm512_storeu_si512(at, _mm512_permutexvar_epi16(lanes, halves));
}

static void filters(const float *weights, const float *next, float *out, int64_t stride)
{
    enum { PAIRS = CONV_C0 * CONV_C0 / 2 }; /* of a tap, each in the room of a float */
    for (int64_t i = 0; i < PAIRS; i += VF) {
        vf first[WINO_TAPS * WINO_TAPS], second[WINO_TAPS * WINO_TAPS];
#pragma GCC unroll 9
        for (int64_t tap = 0; tap < WINO_TAPS * WINO_TAPS; tap++) {
            __builtin_prefetch(next + tap * PAIRS + i);
            vf_load_bf16_pairs((const uint16_t *)(weights + tap * PAIRS + i), first + tap,
                               second + tap);
        }
        vf u[POSITIONS], v[POSITIONS];
        transform_small_filter(first, u);
        transform_small_filter(second, v);
#pragma GCC unroll 16
        for (int64_t at = 0; at < POSITIONS; at++)
            store_pairs(out + at * stride + i, u[at], v[at]);
    }
}

ALWAYS_INLINE void put_bf16(float *position, int64_t lane, vf x)
{
    vf_store_bf16((uint16_t *)position + lane, x);
}

static void input(const struct wino_input *tile, float *out, int64_t stride)
{
    transform_input(tile, IN, b_times_small, put_bf16, out, stride);
}

static void results(const struct wino_results *tile)
{
    transform_results(tile, IN, WINO_SMALL, a_times_small);
}

static const struct wino_transforms small = {filters, input, results};
static const struct wino_isa isa = {&conv2d_isa_avx512bf16, NULL, &small, NULL};

void winograd2d_f32_avx512bf16(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}

void winograd2d_bf16_avx512bf16(const struct kernel_args *args)
{
    winograd2d_drive(args, &isa);
}
