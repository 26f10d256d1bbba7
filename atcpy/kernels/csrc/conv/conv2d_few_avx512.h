/* The micro-kernel of conv2d on AVX-512 for planes of input and at most 8 channels of results:
 * lanes are results, of which a tile has up to 32, and not channels, of which half or more would be
 * computed for nothing. Sums are transposed before they are stored.
 */
#ifndef ATC_CONV2D_FEW_AVX512_H
#define ATC_CONV2D_FEW_AVX512_H

#include "conv/conv2d.h"
#include "conv/lanes_avx512.h"
#include "simd/activation_vector.h"

enum { FEW_CHANNELS = CONV_C0 / 2, FEW_VECTORS = 2 };

/* to[j] = the 8 channels of result j / 4 · 8 + j % 4, and of the one 4 behind it. */
static inline void transpose_channels(const __m512 from[FEW_CHANNELS], __m512 to[LANES / 2])
{
    __m512 fours[FEW_CHANNELS]; /* fours[4g + j], lane group i: channels 4g … of result 4i + j */
#pragma GCC unroll 2
    for (int g = 0; g < FEW_CHANNELS; g += 4) {
        const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(from[g], from[g + 1]));
        const __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(from[g + 2], from[g + 3]));
        const __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(from[g], from[g + 1]));
        const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(from[g + 2], from[g + 3]));
        fours[g] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        fours[g + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        fours[g + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
        fours[g + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    }
    const __m512i low = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i high = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
        const __m512d first = _mm512_castps_pd(fours[j]), second = _mm512_castps_pd(fours[4 + j]);
        to[j] = _mm512_castpd_ps(_mm512_permutex2var_pd(first, low, second));
        to[4 + j] = _mm512_castpd_ps(_mm512_permutex2var_pd(first, high, second));
    }
}

/* The 8 channels of `result`, and of the one 4 behind it if there is one. */
static inline __m512 load_results(const float *from, int64_t step, int64_t result, int64_t width)
{
    const __m512 low = _mm512_castps256_ps512(_mm256_loadu_ps(from + result * step));
    return result + 4 < width
               ? _mm512_insertf32x8(low, _mm256_loadu_ps(from + (result + 4) * step), 1)
               : low;
}

/* Adds what the sums began with to those of up to 16 results, and stores them. */
static inline void store_few(const struct conv2d_tile *t, const __m512 acc[FEW_CHANNELS],
                             int64_t begin)
{
    const int64_t width = min_i64(t->width - begin, LANES), step = t->dst_step;
    float *dst = t->dst + begin * step;
    __m512 results[LANES / 2];
    transpose_channels(acc, results);
    const enum activation activation = t->last ? t->activation : ACT_NONE;
    const __m512 low = _mm512_set1_ps(activation == ACT_CLIP ? t->alpha : 0.0f);
    const __m512 high = _mm512_set1_ps(t->beta);
    for (int j = 0; j < LANES / 2; j++) {
        const int64_t result = j / 4 * 8 + j % 4;
        if (result >= width)
            continue;
        __m512 y = results[j];
        if (!t->first)
            y = _mm512_add_ps(y, load_results(dst, step, result, width));
        else if (t->residual != NULL)
            y = _mm512_add_ps(y, load_results(t->residual + begin * t->residual_step,
                                              t->residual_step, result, width));
        if (activation == ACT_RELU || activation == ACT_CLIP)
            y = _mm512_max_ps(low, y);
        if (activation == ACT_CLIP)
            y = _mm512_min_ps(high, y);
        _mm256_storeu_ps(dst + result * step, _mm512_castps512_ps256(y));
        if (result + 4 < width)
            _mm256_storeu_ps(dst + (result + 4) * step, _mm512_extractf32x8_ps(y, 1));
    }
    if (!activates_in_registers(activation))
        activate_stored_avx2(activation, dst, width, step, FEW_CHANNELS, t->alpha, t->beta);
}

static inline __attribute__((always_inline)) void micro_few_channels(const struct conv2d_tile *t,
                                                                     int vectors, int channels)
{
    __m512 acc[FEW_VECTORS][FEW_CHANNELS];
    __mmask16 inside[FEW_VECTORS];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
        inside[v] = lanes_inside(v * LANES, t->width);
#pragma GCC unroll 8
        for (int c = 0; c < FEW_CHANNELS; c++)
            acc[v][c] = _mm512_set1_ps(c < channels && t->first ? t->bias[c] : 0.0f);
    }
    const float *prefetched = t->prefetched;
    for (int64_t c1 = 0; c1 < t->n_c1; c1++) {
        const float *plane = t->in + c1 * t->c1_stride;
        const float *weights = t->weights + c1 * t->weight_c1;
        for (int64_t tap = 0; tap < t->n_taps; tap++, weights += CONV_C0) {
            const float *in = plane + t->taps[tap].in;
            __m512 x[FEW_VECTORS];
            prefetched = conv2d_prefetch(prefetched, 1);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
                x[v] = _mm512_maskz_loadu_ps(inside[v], in + v * LANES);
#pragma GCC unroll 8
            for (int c = 0; c < channels; c++) {
                const __m512 w = _mm512_set1_ps(weights[c]);
#pragma GCC unroll 2
                for (int v = 0; v < vectors; v++)
                    acc[v][c] = _mm512_fmadd_ps(x[v], w, acc[v][c]);
            }
        }
    }
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++)
        store_few(t, acc[v], v * LANES);
}

/* One function a number of vectors, with a loop for each number of channels, rounded up to even. */
static inline __attribute__((always_inline)) void micro_few(const struct conv2d_tile *tile,
                                                            int vectors)
{
#define TILES(channels)                                                                            \
    CONV2D_FOR_TILES(t, tile, tile->width, 1, micro_few_channels(t, vectors, channels))
    if (tile->channels > 6) {
        TILES(8);
    } else if (tile->channels > 4) {
        TILES(6);
    } else if (tile->channels > 2) {
        TILES(4);
    } else {
        TILES(2);
    }
#undef TILES
}

static void micro_few_1(const struct conv2d_tile *tile)
{
    micro_few(tile, 1);
}

static void micro_few_2(const struct conv2d_tile *tile)
{
    micro_few(tile, 2);
}

#define EIGHT(name) name, name, name, name, name, name, name, name
static const conv2d_micro few_plain[FEW_VECTORS * LANES] = {
    EIGHT(micro_few_1),
    EIGHT(micro_few_1),
    EIGHT(micro_few_2),
    EIGHT(micro_few_2),
};
#undef EIGHT

#endif
