/* winograd2d: what conv2d computes, for filters of 3x3 at stride 1 or 2 in one group, by Winograd's
 * F(4x4, 3x3) or F(2x2, 3x3), at stride 2 by F(2, 2): at stride 1, a tile of 4x4 results takes 36
 * products for a pair of channels, one of 2x2 takes 16, where the definition takes 144 and 36.
 * Operands and arguments are those of conv2d, with blocks of input channels, and `tile`, 4 or 2.
 *
 *     y = Aᵀ [Σ (G g Gᵀ) ∘ (Bᵀ d B)] A      g: a filter of 3x3, d: 6x6 or 4x4 inputs; a sum over
 *                                            channels
 *
 * The points of the interpolation are 0, ±1, (±2) and infinity. The filters are transformed in each
 * run (adr/0022). NaN and infinity spread over the tiles that read them.
 *
 * At stride 2, a tile has 2x2 results. In each direction, two results of three taps read the first,
 * the third and the fifth input by two taps, which is F(2, 2), and the others by the tap in the
 * middle: 5 products for 6. Sums that go to the same results are one sum over more channels:
 *
 *     y0 = s0 + s1    s0 = (d0 − d2)·g0 + d1·g1    s1 = d2·(g0 + g2)
 *     y1 = s2 + s1    s2 = (d4 − d2)·g2 + d3·g1
 *
 * In both directions these are 9 sums of 25 products, where the definition takes 36.
 *
 * Tiles of 4x4 are multiplied in float32. Tiles of 2x2 at stride 1 are for weights in pairs of
 * bfloat16: both factors are rounded to that type once they are transformed (adr/0029). Channels
 * are even then: the second of a pair may not be one beyond c.
 *
 * It is chosen for sizes of a picture, which may be open then. A task that `falls_back` computes by
 * the definition where tiles turn out to be few: they do not pay for the transformed filters.
 */
#ifndef ATC_WINOGRAD2D_H
#define ATC_WINOGRAD2D_H

#include "conv/conv2d.h"

#define WINOGRAD2D_FIELDS(I64, I64S, F64, ENUM)                                                    \
    CONV2D_SIZES(I64) I64(tile) I64(falls_back) CONV2D_TYPES(ENUM) CONV2D_FINISH(F64, ENUM)
DECLARE_PARAMS(winograd2d, WINOGRAD2D_FIELDS)

enum {
    WINO_TAPS = 3,
    WINO_LARGE = 4, /* results of a tile in a row or column */
    WINO_SMALL = 2,
    WINO_MAX_IN = WINO_LARGE + WINO_TAPS - 1, /* inputs that they read */
    WINO_STRIDED_IN = 5,                      /* that a tile at stride 2 reads */
    WINO_STRIDED_FILTERS = 4,                 /* transformed taps in a row or column */
    WINO_STRIDED_SUMS = 3,                    /* of which two results are made */
};

/* The inputs of a tile in one block of channels. Rows in the padding are rows of zeros; columns
 * outside [begin, end) are in the padding. bfloat16 lie in the room of half as many floats.
 */
struct wino_input {
    const float *rows[WINO_MAX_IN]; /* from column `begin` on */
    int64_t begin, end;
    bool is_bf16;
};

/* The results of a tile in one block of channels, of which `rows` x `columns` are inside. */
struct wino_results {
    const float *sums; /* at each position, `stride` floats apart */
    int64_t stride;
    const float *bias;
    const float *residual; /* NULL: none */
    float *dst;
    int64_t residual_row, dst_row; /* floats from one row of results to the next */
    bool residual_bf16, dst_bf16;
    int64_t rows, columns;
    enum activation activation;
    float alpha, beta;
};

/* The transforms of tiles of one size. Positions of what they write or read lie `stride` floats
 * apart: sums are floats; filters and inputs, too, or pairs of bfloat16 if the VNNI factor of the
 * products is 2.
 */
struct wino_transforms {
    /* G g Gᵀ of the filters from a block of input channels to one of output channels,
     * [3][3][16][16], in float32 or, where products read pairs, in pairs. `next` are those of the
     * package that it is called with next: to be prefetched, since weights mostly come from memory,
     * and are read in too many places at once for the CPU to foresee.
     */
    void (*filters)(const float *weights, const float *next, float *out, int64_t stride);
    /* Bᵀ d B */
    void (*input)(const struct wino_input *tile, float *out, int64_t stride);
    /* Aᵀ m A, and what follows the convolution */
    void (*results)(const struct wino_results *tile);
};

/* What an ISA brings: transforms of large tiles, of small ones, of those at stride 2, or of all. */
struct wino_isa {
    const struct conv2d_isa *gemm;
    const struct wino_transforms *large, *small, *strided;
};

void winograd2d_drive(const struct kernel_args *args, const struct wino_isa *isa);

#endif
