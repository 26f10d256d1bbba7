/* qgemm on AVX2: up to 3 rows of a panel. Bytes are widened to 16 bits, whose products vpmaddwd
 * adds exactly; vpmaddubsw would saturate.
 */
#include "quant/qgemm_finish_avx2.h"

enum { MAX_ROWS = 3, QUARTERS = 4 };

static inline __m256i four_steps(const uint8_t *x, uint32_t flip)
{
    uint32_t four;
    memcpy(&four, x, sizeof four);
    return _mm256_cvtepu8_epi16(_mm_set1_epi32((int)(four ^ flip)));
}

static inline __attribute__((always_inline)) void micro(const struct qgemm_tile *t, int rows)
{
    /* Of four columns each: the sums of steps 0 and 1, and of steps 2 and 3, side by side. */
    __m256i acc[MAX_ROWS][QUARTERS];
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int q = 0; q < QUARTERS; q++)
            acc[i][q] = _mm256_setzero_si256();
    const uint32_t flip = t->x_flip;
    const uint8_t *w = t->w;
    const int64_t x_row = t->x_row, *steps = t->steps;
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, w += QGEMM_BLOCK) {
            const uint8_t *x = t->x[0] + steps[k];
            __m256i four[MAX_ROWS];
#pragma GCC unroll 3
            for (int i = 0; i < rows; i++)
                four[i] = four_steps(x + i * x_row, flip);
#pragma GCC unroll 4
            for (int q = 0; q < QUARTERS; q++) {
                const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(w + q * 16));
                const __m256i columns = _mm256_cvtepi8_epi16(bytes);
#pragma GCC unroll 3
                for (int i = 0; i < rows; i++)
                    acc[i][q] = _mm256_add_epi32(acc[i][q], _mm256_madd_epi16(four[i], columns));
            }
        }
#pragma GCC unroll 3
    for (int i = 0; i < rows; i++) {
        __m256i half[2];
        for (int h = 0; h < 2; h++)
            half[h] =
                _mm256_permute4x64_epi64(_mm256_hadd_epi32(acc[i][2 * h], acc[i][2 * h + 1]), 0xd8);
        qgemm_finish_avx2(t, half[0], half[1], i, 0, 1);
    }
}

static void micro_1(const struct qgemm_tile *t)
{
    micro(t, 1);
}

static void micro_2(const struct qgemm_tile *t)
{
    micro(t, 2);
}

static void micro_3(const struct qgemm_tile *t)
{
    micro(t, 3);
}

void qgemm_any_avx2(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {micro_1, micro_2, micro_3};
    qgemm_drive(args, &(struct qgemm_isa){1, MAX_ROWS, 1, .micro = table});
}
