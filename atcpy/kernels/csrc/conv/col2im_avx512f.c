/* col2im on AVX-512, where blocks lie side by side: all taps of a vector of the image at a time, in
 * the order in which the scalar kernel adds them.
 */
#include "conv/col2im.h"
#include "conv/lanes_avx512.h"
#include "core/pieces.h"

enum { VECTORS = 4 }; /* of a row at a time */

/* Taps [begin, end) of a dim that element i of the image is in. */
struct range {
    int64_t begin, end;
};

static struct range taps_of(const struct col2im_params *p, int dim, int64_t i)
{
    const int64_t at = i + p->pad[dim], cols = p->cols[dim], dilation = p->dilation[dim];
    if (dilation == 1) /* a division takes as long as a short row */
        return (struct range){at < cols ? 0 : at - cols + 1, min_i64(p->kernel[dim], at + 1)};
    return (struct range){at < cols ? 0 : ceil_div(at - cols + 1, dilation),
                          min_i64(p->kernel[dim], at / dilation + 1)};
}

/* The taps along the last dim of a vector of the image: where each one's blocks begin behind those
 * of a row of tap 0, and which of its lanes are blocks.
 */
struct vector_taps {
    int64_t from[COL2IM_ROW_TAPS];
    __mmask16 lanes[COL2IM_ROW_TAPS];
    __m512i bits[COL2IM_ROW_TAPS];
    bool all;         /* lanes of all taps */
    __mmask16 stored; /* lanes inside the image */
};

static void find_taps(const struct col2im_params *p, int64_t w, int64_t blocks,
                      struct vector_taps *taps)
{
    taps->all = true;
    taps->stored = lanes_inside(0, p->image[2] - w);
    for (int64_t k = 0; k < p->kernel[2]; k++) {
        const int64_t j = w + p->pad[2] - k * p->dilation[2];
        const __mmask16 lanes = lanes_inside(j, p->cols[2]);
        taps->all &= lanes == 0xffff;
        taps->lanes[k] = lanes;
        taps->bits[k] = _mm512_maskz_set1_epi32(lanes, -1);
        /* A load of no lanes from a page that is not there takes hundreds of cycles. */
        taps->from[k] = k * blocks + (lanes == 0 ? 0 : j);
    }
}

/* Adds the taps of a row. CPUs do not read ahead of masked loads: they are for the ends of memory.
 */
static inline __m512 add_taps(__m512 sum, const float *row, int64_t n,
                              const struct vector_taps *taps, bool is_inside)
{
    if (taps->all)
        for (int64_t k = 0; k < n; k++)
            sum = _mm512_add_ps(sum, _mm512_loadu_ps(row + taps->from[k]));
    else if (is_inside)
        for (int64_t k = 0; k < n; k++) {
            const __m512i x = _mm512_loadu_si512(row + taps->from[k]);
            sum = _mm512_add_ps(sum, _mm512_castsi512_ps(_mm512_and_si512(x, taps->bits[k])));
        }
    else
        for (int64_t k = 0; k < n; k++)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(taps->lanes[k], row + taps->from[k]));
    return sum;
}

/* All rows of some vectors from column w of the image on, at depth d of a plane of n columns; `x`
 * begins at the plane's first tap, `y` at row 0.
 */
static inline __attribute__((always_inline)) void sum_columns(const struct col2im_params *p,
                                                              const float *x, int64_t n, float *y,
                                                              int64_t d, int64_t w, int64_t kernel)
{
    const int64_t cols = p->cols[2], width = p->image[2], blocks = p->cols[0] * p->cols[1] * cols;
    const int64_t vectors = min_i64(VECTORS, ceil_div(width - w, LANES));
    const struct range kd = taps_of(p, 0, d);
    struct vector_taps taps[VECTORS];
    for (int64_t v = 0; v < vectors; v++)
        find_taps(p, w + v * LANES, blocks, taps + v);
    for (int64_t h = 0; h < p->image[1]; h++, y += width) {
        const struct range kh = taps_of(p, 1, h);
        for (int64_t v = 0; v < vectors; v++) {
            __m512 sum = _mm512_setzero_ps();
            for (int64_t i = kd.begin; i < kd.end; i++)
                for (int64_t j = kh.begin; j < kh.end; j++) {
                    const int64_t jd = d + p->pad[0] - i * p->dilation[0];
                    const int64_t jh = h + p->pad[1] - j * p->dilation[1];
                    const int64_t row =
                        (i * p->kernel[1] + j) * kernel * blocks + (jd * p->cols[1] + jh) * cols;
                    const bool is_inside =
                        row >= LANES && row + (kernel - 1) * blocks + cols + LANES <= n;
                    sum = add_taps(sum, x + row, kernel, taps + v, is_inside);
                }
            _mm512_mask_storeu_ps(y + w + v * LANES, taps[v].stored, sum);
        }
    }
}

static void sum_columns_of(const struct col2im_params *p, const float *x, int64_t n, float *y,
                           int64_t d, int64_t w)
{
    switch (p->kernel[2]) { /* by loops of constant length, for what is most common */
    case 3:
        sum_columns(p, x, n, y, d, w, 3);
        break;
    default:
        sum_columns(p, x, n, y, d, w, p->kernel[2]);
    }
}

void col2im_small_f32_avx512f(const struct kernel_args *args)
{
    const struct col2im_params *p = args->params;
    const int64_t image = p->image[1] * p->image[2];
    const int64_t columns = atc_volume(p->kernel) * atc_volume(p->cols);
    for (int64_t item = args->begin; item < args->end; item++)
        for (int64_t d = 0; d < p->image[0]; d++)
            for (int64_t w = 0; w < p->image[2]; w += VECTORS * LANES)
                sum_columns_of(p, (const float *)args->src[0] + item * columns, columns,
                               (float *)args->dst[0] + (item * p->image[0] + d) * image, d, w);
}
