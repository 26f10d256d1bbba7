/* qgemm on AVX-VNNI: up to 6 rows of a panel in 12 accumulators. vpdpbusd adds four products of
 * unsigned bytes of x by signed ones of weights to a sum of 32 bits, exactly whatever they are: no
 * panel needs a schedule. The panel takes two registers, a row of x one, and what makes its bytes
 * unsigned the last. Three rows of two panels would leave none for that.
 */
#include "quant/qgemm_tiles_avx2.h"
#include "simd/count_up.h"

/* sums + a · b, four products of bytes each. One statement: gcc 12 else keeps sums in memory. */
static inline __m256i add_products(__m256i sums, __m256i a, __m256i b)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(a), "x"(b));
    return sums;
}

/* Bytes of x that are unsigned already are multiplied as they are broadcast. */
static inline __attribute__((always_inline)) void add(qgemm_sums_avx2 acc, int rows,
                                                      const struct qgemm_tile *t, bool is_flipped,
                                                      const uint8_t *const x[])
{
    const __m256i flip = _mm256_set1_epi32((int32_t)t->x_flip);
    const uint8_t *w = t->w;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
#pragma GCC unroll 1
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK) {
            const int64_t step = t->steps[k];
            const __m256i low = qgemm_load_avx2(w), high = qgemm_load_avx2(w + QGEMM_HALF);
#pragma GCC unroll 6
            for (int i = 0; i < rows; i++) {
                __m256i four = qgemm_broadcast_avx2(x[i] + step);
                if (is_flipped)
                    four = _mm256_xor_si256(four, flip);
                acc[0][i][0] = add_products(acc[0][i][0], four, low);
                acc[0][i][1] = add_products(acc[0][i][1], four, high);
            }
        }
}

static inline __attribute__((always_inline)) void
add_unsigned(qgemm_sums_avx2 acc, int blocks, int rows, const struct qgemm_tile *t,
             const struct qgemm_kinds *kinds, const uint8_t *const x[], int64_t tile)
{
    (void)blocks;
    (void)kinds;
    (void)tile;
    add(acc, rows, t, false, x);
}

static inline __attribute__((always_inline)) void add_signed(qgemm_sums_avx2 acc, int blocks,
                                                             int rows, const struct qgemm_tile *t,
                                                             const struct qgemm_kinds *kinds,
                                                             const uint8_t *const x[], int64_t tile)
{
    (void)blocks;
    (void)kinds;
    (void)tile;
    add(acc, rows, t, true, x);
}

#define DEFINE(blocks, rows)                                                                       \
    QGEMM_DEFINE_TILES(any, add_unsigned, QGEMM_ANY_RESULTS, blocks, rows)                         \
    QGEMM_DEFINE_TILES(bytes, add_unsigned, QGEMM_WHOLE_UINT8, blocks, rows)                       \
    QGEMM_DEFINE_TILES(added_bytes, add_unsigned, QGEMM_WHOLE_UINT8_AND_ADDEND, blocks, rows)      \
    QGEMM_DEFINE_TILES(signed, add_signed, QGEMM_ANY_RESULTS, blocks, rows)                        \
    static void unsigned_##blocks##_##rows(const struct qgemm_tile *t)                             \
    {                                                                                              \
        static const qgemm_micro by_results[] = {                                                  \
            any_##blocks##_##rows, bytes_##blocks##_##rows, added_bytes_##blocks##_##rows};        \
        by_results[qgemm_results_of(t, blocks)](t);                                                \
    }
#define NAME(sign, blocks, rows) sign##_##blocks##_##rows,

COUNT_TO_6(DEFINE, 1)

void qgemm_any_avxvnni(const struct kernel_args *args)
{
    static const qgemm_micro table[][QGEMM_ROWS_AVX2] = {
        {COUNT_TO_6(NAME, unsigned, 1)},
        {COUNT_TO_6(NAME, signed, 1)},
    };
    const struct qgemm_params *p = args->params;
    qgemm_drive(args, &(struct qgemm_isa){.max_blocks = 1,
                                          .max_rows = QGEMM_ROWS_AVX2,
                                          .byte_rows = QGEMM_ROWS_AVX2,
                                          .row_step = 1,
                                          .micro = table[p->x_signed == 1],
                                          .takes_lines = true});
}
