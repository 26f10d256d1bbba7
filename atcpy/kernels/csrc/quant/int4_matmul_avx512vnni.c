/* int4_matmul on AVX-512 VNNI: up to 6 rows of two panels, or 3 where a row has three digits. */
#include "quant/int4_matmul_loops.h"
#include "simd/count_up.h"

#include <immintrin.h>

static inline __m512i four(const int8_t *at)
{
    int32_t word;
    memcpy(&word, at, sizeof word);
    return _mm512_set1_epi32(word);
}

/* The number of three digits, from the lowest on. */
static inline __m512 number_of(__m512i low, __m512i middle, __m512i high)
{
    const __m512i both = _mm512_add_epi32(_mm512_slli_epi32(middle, 8), low);
    return _mm512_fmadd_ps(_mm512_cvtepi32_ps(high), _mm512_set1_ps(65536),
                           _mm512_cvtepi32_ps(both));
}

/* What a sum begins with, in a register of its own: where gcc sees that two begin alike, it copies
 * them in each step.
 */
static inline __m512i start(int32_t number)
{
    __m512i sum = _mm512_set1_epi32(number);
    __asm__("" : "+v"(sum));
    return sum;
}

/* Zero points less 8, which the sums begin with. */
static inline __m512 zeros_of(const uint8_t *at)
{
    const __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_cvtepu8_epi32(bytes), _mm512_set1_epi32(8)));
}

/* One function a (digits, panels, rows): the loops over them unroll into registers. */
static inline __attribute__((always_inline)) void micro(const struct int4_tile *t, int digits,
                                                        int panels, int rows)
{
    const __m512i mask = _mm512_set1_epi8(15);
    const int64_t x_row = t->x_row, block_steps = t->block_steps;
    const int64_t w_panel = t->blocks * block_steps * INT4_BYTES;
    const uint8_t *w = t->w;
    const int8_t *x = t->x;
    /* Few sums would wait for each other: those of even k and of odd k are apart then. */
    const int apart = rows == 1 ? 2 : 1;
    __m512 total[INT4_MAX_PANELS][INT4_MAX_ROWS];
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++)
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            total[p][r] = _mm512_setzero_ps();
    for (int64_t b = 0; b < t->blocks; b++) {
        __m512i acc[2][INT4_MAX_PANELS][INT4_MAX_ROWS][3];
#pragma GCC unroll 2
        for (int h = 0; h < apart; h++)
#pragma GCC unroll 2
            for (int p = 0; p < panels; p++)
#pragma GCC unroll 6
                for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
                    for (int d = 0; d < digits; d++)
                        acc[h][p][r][d] = start(h == 0 ? t->steps[r * t->blocks + b].start[d] : 0);
        for (int64_t s = 0; s < block_steps; s++, w += INT4_BYTES, x += INT4_STEP * digits) {
#pragma GCC unroll 2
            for (int h = 0; h < 2; h++) {
                __m512i half[INT4_MAX_PANELS]; /* read anew each time: registers are short */
#pragma GCC unroll 2
                for (int p = 0; p < panels; p++) {
                    const __m512i both = _mm512_loadu_si512(w + p * w_panel);
                    half[p] = _mm512_and_si512(h ? _mm512_srli_epi16(both, 4) : both, mask);
                }
#pragma GCC unroll 6
                for (int r = 0; r < rows; r++)
#pragma GCC unroll 3
                    for (int d = 0; d < digits; d++) {
                        const __m512i x4 = four(x + r * x_row + (h * digits + d) * 4);
#pragma GCC unroll 2
                        for (int p = 0; p < panels; p++)
                            acc[h % apart][p][r][d] =
                                _mm512_dpbusd_epi32(acc[h % apart][p][r][d], half[p], x4);
                    }
            }
        }
#pragma GCC unroll 2
        for (int p = 0; p < panels; p++) {
            const int64_t at = (p * t->blocks + b) * INT4_PANEL;
            const __m512 scale = _mm512_loadu_ps(t->scales + at);
            const __m512 zero = t->zeros == NULL ? _mm512_setzero_ps() : zeros_of(t->zeros + at);
#pragma GCC unroll 6
            for (int r = 0; r < rows; r++) {
                const struct int4_steps *step = t->steps + r * t->blocks + b;
                __m512i digit[3];
#pragma GCC unroll 3
                for (int d = 0; d < digits; d++)
                    digit[d] = apart == 2 ? _mm512_add_epi32(acc[0][p][r][d], acc[1][p][r][d])
                                          : acc[0][p][r][d];
                __m512 sum = digits == 3 ? number_of(digit[0], digit[1], digit[2])
                                         : _mm512_cvtepi32_ps(digit[0]);
                if (t->zeros != NULL)
                    sum = _mm512_fnmadd_ps(zero, _mm512_set1_ps(step->sum), sum);
                const __m512 factor = _mm512_mul_ps(scale, _mm512_set1_ps(step->step));
                total[p][r] = _mm512_fmadd_ps(sum, factor, total[p][r]);
            }
        }
        if (atc_spend(t->meter, block_steps))
            return;
    }
#pragma GCC unroll 2
    for (int p = 0; p < panels; p++) {
        const int64_t columns = p + 1 < panels ? INT4_PANEL : t->last_columns;
        const __mmask16 lanes = (__mmask16)((1u << columns) - 1);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++)
            _mm512_mask_storeu_ps(t->y + r * t->y_row + p * INT4_PANEL, lanes, total[p][r]);
    }
}

#define DEFINE(digits, panels, rows)                                                               \
    static void micro_##digits##_##panels##_##rows(const struct int4_tile *t)                      \
    {                                                                                              \
        micro(t, digits, panels, rows);                                                            \
    }
#define NAME(digits, panels, rows) micro_##digits##_##panels##_##rows,

COUNT_TO_6(DEFINE, 1, 1)
COUNT_TO_6(DEFINE, 1, 2)
COUNT_TO_3(DEFINE, 3, 1)
COUNT_TO_3(DEFINE, 3, 2)

static const int4_micro one[] = {COUNT_TO_6(NAME, 1, 1) COUNT_TO_6(NAME, 1, 2)};
static const int4_micro three[] = {COUNT_TO_3(NAME, 3, 1) COUNT_TO_3(NAME, 3, 2)};

void int4_matmul_f32_avx512vnni(const struct kernel_args *args)
{
    const struct int4_matmul_params *p = args->params;
    const bool precise = p->digits == 3;
    int4_items(args, &(struct int4_isa){INT4_MAX_PANELS, precise ? 3 : INT4_MAX_ROWS,
                                        precise ? three : one});
}
