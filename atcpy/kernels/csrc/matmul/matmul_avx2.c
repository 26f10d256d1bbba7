/* matmul on AVX2: up to 6 rows of one panel in 12 accumulators, a broadcast. */
#include "core/pieces.h"
#include "simd/activation_vector.h"
#include "matmul/matmul.h"
#include "simd/transpose_avx2.h"

enum { MAX_BLOCKS = 1, MAX_ROWS = 6, LANES = 8, HALVES = 2, ROW_SUMS = 4 };

/* Lanes of half a panel that hold results: all ones, or none. */
static inline __m256i half_mask(const struct matmul_tile *t, int half)
{
    const int left = (int)min_i64(t->columns, MATMUL_PANEL) - half * LANES;
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(left), lane);
}

static inline __m256 load_half(const struct matmul_tile *t, const float *src, int half)
{
    if (t->columns >= MATMUL_PANEL)
        return _mm256_loadu_ps(src + half * LANES);
    if (t->columns <= half * LANES)
        return _mm256_setzero_ps();
    return _mm256_maskload_ps(src + half * LANES, half_mask(t, half));
}

/* The first n < 8 lanes in up to three stores: on Zen 3, a masked one takes twelve cycles. */
static inline void store_lanes(float *dst, int64_t n, __m256 y)
{
    __m128 part = _mm256_castps256_ps128(y);
    if (n & 4) {
        _mm_storeu_ps(dst, part);
        dst += 4;
        part = _mm256_extractf128_ps(y, 1);
    }
    if (n & 2) {
        _mm_storel_pi((__m64 *)dst, part);
        dst += 2;
        part = _mm_movehl_ps(part, part);
    }
    if (n & 1)
        _mm_store_ss(dst, part);
}

static inline void store_half(const struct matmul_tile *t, float *dst, int half, __m256 y)
{
    const int64_t left = t->columns - half * LANES;
    if (left >= LANES)
        _mm256_storeu_ps(dst + half * LANES, y);
    else if (left > 0)
        store_lanes(dst + half * LANES, left, y);
}

static inline __m256 load_bias(const struct matmul_tile *t, int row, int half)
{
    const float *bias = t->bias + row * t->bias_row;
    return t->bias_col == 0 ? _mm256_broadcast_ss(bias) : load_half(t, bias, half);
}

/* Scale, bias and ReLU over sums in registers: a masked store that is read again at once waits. */
static inline __attribute__((always_inline)) void finish(const struct matmul_tile *t,
                                                         __m256 (*acc)[HALVES], int rows)
{
    if (t->scale != 1)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int h = 0; h < HALVES; h++)
                acc[i][h] = _mm256_mul_ps(acc[i][h], _mm256_set1_ps(t->scale));
    if (t->bias != NULL)
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++) {
            __m256 bias = load_bias(t, 0, h);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                if (i > 0 && t->bias_row != 0)
                    bias = load_bias(t, i, h);
                acc[i][h] = _mm256_fmadd_ps(bias, _mm256_set1_ps(t->bias_scale), acc[i][h]);
            }
        }
    if (t->activation == ACT_RELU)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int h = 0; h < HALVES; h++)
                acc[i][h] = _mm256_max_ps(_mm256_setzero_ps(), acc[i][h]);
}

/* Other activations go over results that are stored and still in L1: within the micro-kernels they
 * would have to make room among its accumulators.
 */
static __attribute__((noinline)) void activate_tile(const struct matmul_tile *t, int rows)
{
    if (t->columns >= MATMUL_PANEL) {
        activate_stored_avx2(t->activation, t->dst, rows, t->y_row, MATMUL_PANEL, t->alpha,
                             t->beta);
        return;
    }
    for (int i = 0; i < rows; i++)
        for (int h = 0; h < HALVES; h++) {
            float *dst = t->dst + i * t->y_row;
            const __m256 y = load_half(t, dst, h);
            store_half(t, dst, h, vf_activate(t->activation, y, t->alpha, t->beta));
        }
}

static inline bool activates_later(const struct matmul_tile *t)
{
    return t->last && t->activation != ACT_NONE && t->activation != ACT_RELU;
}

/* One function a number of rows: the loops over them unroll into registers. Where only half a panel
 * has columns, the other half is not computed. What the sums begin from is added last: a residual
 * that is large beside the products would round each of them.
 */
static inline __attribute__((always_inline)) void micro(const struct matmul_tile *t, int rows,
                                                        int halves)
{
    __m256 acc[MAX_ROWS][HALVES];
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++)
            acc[i][h] = _mm256_setzero_ps();

    /* The addresses may go a little beyond the operand, which is no matter to a prefetch. */
    const uintptr_t next_step = t->next_b != NULL ? (uintptr_t)t->next_bytes : 0;
    uintptr_t next = (uintptr_t)(t->next_b != NULL ? t->next_b : (const void *)t->b);

    /* A base for three rows, so that bases and stride stay in registers. */
    const int64_t a_row = t->a_row;
    const float *a[] = {t->a, t->a + 3 * a_row}, *p = t->b;
    for (int64_t k = 0; k < t->k; k++, a[0]++, a[1]++, p += MATMUL_PANEL) {
        _mm_prefetch((const char *)next, _MM_HINT_T1);
        next += next_step;
        __m256 b[HALVES];
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            b[h] = _mm256_loadu_ps(p + h * LANES);
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++) {
            const __m256 x = _mm256_broadcast_ss(a[i / 3] + i % 3 * a_row);
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
                acc[i][h] = _mm256_fmadd_ps(x, b[h], acc[i][h]);
        }
    }

    if (start != NULL)
#pragma GCC unroll 6
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
            for (int h = 0; h < halves; h++)
                acc[i][h] = _mm256_add_ps(acc[i][h], load_half(t, start + i * t->y_row, h));
    if (t->last)
        finish(t, acc, rows);
#pragma GCC unroll 6
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int h = 0; h < halves; h++)
            store_half(t, t->dst + i * t->y_row, h, acc[i][h]);
    if (activates_later(t))
        activate_tile(t, rows);
}

/* One row: bound by reading b, so that steps of k go to sums of their own. */
static void micro_1(const struct matmul_tile *t)
{
    __m256 acc[ROW_SUMS][HALVES];
    const float *start = t->first ? t->residual : t->dst;
#pragma GCC unroll 4
    for (int s = 0; s < ROW_SUMS; s++)
#pragma GCC unroll 2
        for (int h = 0; h < HALVES; h++)
            acc[s][h] = _mm256_setzero_ps();
    const float *a = t->a, *p = t->b;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k);) {
        int64_t k = piece.begin;
        for (; k + ROW_SUMS <= piece.end; k += ROW_SUMS, p += ROW_SUMS * MATMUL_PANEL) {
#pragma GCC unroll 4
            for (int s = 0; s < ROW_SUMS; s++) {
                const __m256 x = _mm256_broadcast_ss(a + k + s);
#pragma GCC unroll 2
                for (int h = 0; h < HALVES; h++)
                    acc[s][h] = _mm256_fmadd_ps(
                        x, _mm256_loadu_ps(p + s * MATMUL_PANEL + h * LANES), acc[s][h]);
            }
        }
        for (; k < piece.end; k++, p += MATMUL_PANEL)
#pragma GCC unroll 2
            for (int h = 0; h < HALVES; h++)
                acc[0][h] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + k),
                                            _mm256_loadu_ps(p + h * LANES), acc[0][h]);
    }
#pragma GCC unroll 2
    for (int h = 0; h < HALVES; h++) {
        acc[0][h] =
            _mm256_add_ps(_mm256_add_ps(acc[0][h], acc[1][h]), _mm256_add_ps(acc[2][h], acc[3][h]));
        if (start != NULL)
            acc[0][h] = _mm256_add_ps(acc[0][h], load_half(t, start, h));
    }
    if (t->last)
        finish(t, acc, 1);
#pragma GCC unroll 2
    for (int h = 0; h < HALVES; h++)
        store_half(t, t->dst, h, acc[0][h]);
    if (activates_later(t))
        activate_tile(t, 1);
}

static void transpose(const float *src, int64_t src_row, float *dst, int64_t dst_row, int64_t rows,
                      int64_t columns)
{
    for (int64_t r = 0; r < rows; r += LANES)
        for (int64_t c = 0; c < columns; c += LANES) {
            const float *from = src + r * src_row + c;
            float *to = dst + c * dst_row + r;
            const int64_t high = min_i64(LANES, rows - r), wide = min_i64(LANES, columns - c);
            if (high == LANES && wide == LANES)
                transpose_tile8(from, src_row, LANES, LANES, to, dst_row, LANES, LANES);
            else
                transpose_tile8(from, src_row, high, wide, to, dst_row, wide, high);
        }
}

#define DEFINE(rows)                                                                               \
    static void micro_##rows(const struct matmul_tile *tile)                                       \
    {                                                                                              \
        if (tile->columns <= LANES)                                                                \
            micro(tile, rows, 1);                                                                  \
        else                                                                                       \
            micro(tile, rows, HALVES);                                                             \
    }

DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)

static const matmul_micro micros[] = {micro_1, micro_2, micro_3, micro_4, micro_5, micro_6};
const struct matmul_isa matmul_isa_avx2 = {
    .max_blocks = MAX_BLOCKS,
    .max_rows = MAX_ROWS,
    .micro = micros,
    .transpose = transpose,
    .widen = widen_avx2,
    .vnni = 1,
    .round_bf16 = round_bf16_avx2,
    .dots = matmul_dots_avx2,
};

void matmul_f32_avx2(const struct kernel_args *args)
{
    matmul_drive(args, &matmul_isa_avx2);
}
