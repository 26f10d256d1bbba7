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
#define DEFINE_ROW(name, OP, a_step, b_step)                                                       \
    static void name##_##a_step##_##b_step(const struct qbinary_row *row)                          \
    {                                                                                              \
        const struct qbinary_row r = *row;                                                         \
        const uint8_t *restrict a = r.a, *restrict b = r.b;                                        \
        uint8_t *restrict y = r.y;                                                                 \
        for (int64_t i = 0; i < r.n; i++)                                                          \
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
        row.n = plane.cols;
        for (int64_t r = 0; r < plane.rows; r++) {
            row.a = (const uint8_t *)args->src[QBINARY_A] + plane.src[0] + r * plane.row_stride[0];
            row.b = (const uint8_t *)args->src[QBINARY_B] + plane.src[1] + r * plane.row_stride[1];
            row.y = (uint8_t *)args->dst[0] + plane.dst + r * plane.cols;
            function(&row);
        }
    }
}

void FOR_ISA(qbinary_any)(const struct kernel_args *args)
{
    qbinary_items(args);
}
