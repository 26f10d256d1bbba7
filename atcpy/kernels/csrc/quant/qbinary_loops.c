/* qbinary, by loops that the compiler makes vectors of. */
#include "quant/qbinary.h"

#include <string.h>

/* Bytes are read as unsigned: `flip` changes the top bit of signed ones, and of their zero point.
 */
struct steps {
    float scale;
    int32_t zero;
    uint8_t flip;
};

static struct steps steps_at(const struct kernel_args *args, int scale, int64_t is_signed)
{
    const uint8_t *zero = args->src[scale + 1];
    struct steps s = {.scale = *(const float *)args->src[scale], .flip = is_signed ? 0x80 : 0};
    s.zero = (zero == NULL ? 0 : *zero) ^ s.flip;
    return s;
}

struct qbinary_row {
    const uint8_t *a, *b;
    uint8_t *y;
    int64_t n;
    struct steps of_a, of_b, of_y;
};

static inline float dequantized(uint8_t byte, const struct steps *s)
{
    return (float)((byte ^ s->flip) - s->zero) * s->scale;
}

static inline uint8_t quantized(float x, const struct steps *s)
{
    const float min = (float)-s->zero, max = (float)(255 - s->zero);
    float v = x / s->scale;
    v = v > min ? v : min; /* NaN too */
    v = v < max ? v : max;
    const float at_units = v + 0x1.8p23f; /* rounds to even; the lowest bits are the integer */
    int32_t bits;
    memcpy(&bits, &at_units, sizeof bits);
    return (uint8_t)(bits + s->zero) ^ s->flip;
}

#define ADD(a, b) ((a) + (b))
#define MUL(a, b) ((a) * (b))

#if defined __AVX2__ && !defined __AVX512F__
#include <immintrin.h>
/* The same on vectors: to widen and to narrow bytes, gcc takes twice the instructions. Widened,
 * bytes remain in their half of a vector, where narrowing finds them.
 */
enum { LANES = 8, BYTES = 32 };

/* `step` is 1, or 0 for one byte in all lanes. */
static inline void dequantized_32(__m256 to[4], const uint8_t *at, int64_t step,
                                  const struct steps *s)
{
    __m256i bytes = _mm256_set1_epi8((char)*at);
    if (step == 1)
        bytes = _mm256_loadu_si256((const __m256i *)(const void *)at);
    bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8((char)s->flip));
    const __m256i low = _mm256_unpacklo_epi8(bytes, _mm256_setzero_si256());
    const __m256i high = _mm256_unpackhi_epi8(bytes, _mm256_setzero_si256());
    /* In the lowest bits of the float 2^23, an integer is added to it. */
    const __m256i units = _mm256_set1_epi16(0x4b00);
    const __m256i at_units[] = {
        _mm256_unpacklo_epi16(low, units), _mm256_unpackhi_epi16(low, units),
        _mm256_unpacklo_epi16(high, units), _mm256_unpackhi_epi16(high, units)};
    const __m256 zero = _mm256_set1_ps(0x1p23f + (float)s->zero);
    for (int k = 0; k < BYTES / LANES; k++)
        to[k] = (_mm256_castsi256_ps(at_units[k]) - zero) * _mm256_set1_ps(s->scale);
}

/* Rounded, before the zero point; NaN and what is far below zero are the least of all integers. */
static inline __m256i quantized_8(__m256 x, const struct steps *s)
{
    const __m256 most = _mm256_set1_ps(INT16_MAX);
    return _mm256_cvtps_epi32(_mm256_min_ps(most, x / _mm256_set1_ps(s->scale)));
}

static inline void store_32(uint8_t *to, const __m256i q[4], const struct steps *s)
{
    const __m256i zero = _mm256_set1_epi16((int16_t)s->zero);
    const __m256i low = _mm256_adds_epi16(_mm256_packs_epi32(q[0], q[1]), zero);
    const __m256i high = _mm256_adds_epi16(_mm256_packs_epi32(q[2], q[3]), zero);
    const __m256i flip = _mm256_set1_epi8((char)s->flip);
    _mm256_storeu_si256((__m256i *)(void *)to,
                        _mm256_xor_si256(_mm256_packus_epi16(low, high), flip));
}

/* As many of the n as whole vectors have. */
#define VECTORS(r, i, OP, a_step, b_step)                                                          \
    for (; i + BYTES <= (r).n; i += BYTES) {                                                       \
        __m256 of_a[BYTES / LANES], of_b[BYTES / LANES]; \
        __m256i q[BYTES / LANES]; \
        dequantized_32(of_a, a + i * (a_step), a_step, &(r).of_a); \
        dequantized_32(of_b, b + i * (b_step), b_step, &(r).of_b); \
        for (int k = 0; k < BYTES / LANES; k++) \
            q[k] = quantized_8(OP(of_a[k], of_b[k]), &(r).of_y); \
        store_32(y + i, q, &(r).of_y);                                                             \
    }
#else
#define VECTORS(r, i, OP, a_step, b_step)
#endif

#define DEFINE_ROW(name, OP, a_step, b_step)                                                       \
    static void name##_##a_step##_##b_step(const struct qbinary_row *row)                          \
    {                                                                                              \
        const struct qbinary_row r = *row;                                                         \
        const uint8_t *restrict a = r.a, *restrict b = r.b;                                        \
        uint8_t *restrict y = r.y;                                                                 \
        int64_t i = 0;                                                                             \
        VECTORS(r, i, OP, a_step, b_step)                                                          \
        for (; i < r.n; i++)                                                                       \
            y[i] = quantized(OP(dequantized(a[i * a_step], &r.of_a),                               \
                                dequantized(b[i * b_step], &r.of_b)),                              \
                             &r.of_y);                                                             \
    }
#define DEFINE_OP(name, OP)                                                                        \
    DEFINE_ROW(name, OP, 0, 0)                                                                     \
    DEFINE_ROW(name, OP, 0, 1)                                                                     \
    DEFINE_ROW(name, OP, 1, 0)                                                                     \
    DEFINE_ROW(name, OP, 1, 1)
DEFINE_OP(add, ADD)
DEFINE_OP(mul, MUL)

typedef void (*qbinary_fn)(const struct qbinary_row *row);
static const qbinary_fn functions[][2][2] = {
    {{add_0_0, add_0_1}, {add_1_0, add_1_1}},
    {{mul_0_0, mul_0_1}, {mul_1_0, mul_1_1}},
};

enum { SIDE_BY_SIDE = 1024 }; /* elements */

/* Whether operand k has the same short row for all rows of the other one, which lie behind each
 * other: as scales of channels have, for all pixels.
 */
static bool repeats(const struct plane *plane, int k)
{
    const int other = 1 - k;
    return plane->rows > 1 && plane->cols <= SIDE_BY_SIDE / 2 && plane->row_stride[k] == 0 &&
           plane->row_stride[other] == plane->cols && plane->col_stride[k] == 1 &&
           plane->col_stride[other] == 1;
}

/* Rows of a plane as a few long ones: with the row of operand k, which repeats, side by side with
 * itself.
 */
static void run_repeated(qbinary_fn function, const struct plane *plane, int k,
                         struct qbinary_row *row)
{
    uint8_t same[SIDE_BY_SIDE];
    const uint8_t *operands[] = {row->a, row->b};
    const int64_t cols = plane->cols, rows = min_i64(plane->rows, SIDE_BY_SIDE / cols);
    for (int64_t r = 0; r < rows; r++)
        memcpy(same + r * cols, operands[k], (size_t)cols);
    operands[k] = same;
    for (int64_t r = 0; r < plane->rows; r += rows) {
        row->n = min_i64(rows, plane->rows - r) * cols;
        row->a = operands[0];
        row->b = operands[1];
        function(row);
        operands[1 - k] += row->n;
        row->y += row->n;
    }
}

static void qbinary_items(const struct kernel_args *args)
{
    const struct qbinary_params *p = args->params;
    const struct broadcast b = qbinary_walk(p);
    struct qbinary_row row = {
        .of_a = steps_at(args, QBINARY_A_SCALE, p->a_signed),
        .of_b = steps_at(args, QBINARY_B_SCALE, p->b_signed),
        .of_y = steps_at(args, QBINARY_Y_SCALE, p->y_signed),
    };
    struct broadcast_walk walk = broadcast_begin(&b, args);
    struct plane plane;
    while (broadcast_next(&walk, &plane)) {
        const qbinary_fn function = functions[p->op][plane.col_stride[0]][plane.col_stride[1]];
        row.a = (const uint8_t *)args->src[QBINARY_A] + plane.src[0];
        row.b = (const uint8_t *)args->src[QBINARY_B] + plane.src[1];
        row.y = (uint8_t *)args->dst[0] + plane.dst;
        row.n = plane.cols;
        if (repeats(&plane, 0)) {
            run_repeated(function, &plane, 0, &row);
        } else if (repeats(&plane, 1)) {
            run_repeated(function, &plane, 1, &row);
        } else {
            for (int64_t r = 0; r < plane.rows; r++) {
                function(&row);
                row.a += plane.row_stride[0];
                row.b += plane.row_stride[1];
                row.y += plane.cols;
            }
        }
    }
}

void FOR_ISA(qbinary_any)(const struct kernel_args *args)
{
    qbinary_items(args);
}
