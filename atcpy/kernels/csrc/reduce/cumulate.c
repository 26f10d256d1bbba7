/* cumulate: running sums or products along the middle dim.
 *
 *     x, y  [outer, n, inner], numbers of one type, `dtype`
 *
 * y[a] = x[0] ∘ … ∘ x[a]; exclusive, without x[a] itself; reverse, from the end. Integers wrap
 * around, and 16-bit floats are rounded after each step, as numpy does.
 *
 * Row by row, each from the one before. Where a row is one element, several results that do not
 * wait for each other run side by side; sums of integers take a cycle each, so that long ones run
 * one after the other, through memory in its order.
 */
#include "core/half.h"
#include "core/pieces.h"

#define CUMULATE_FIELDS(I64, I64S, F64, ENUM)                                                      \
    ENUM(kind, cumulate_names)                                                                     \
    I64(outer) I64(n) I64(inner) I64(exclusive) I64(reverse) I64(dtype)
DECLARE_PARAMS(cumulate, CUMULATE_FIELDS)

/* In the order of `cumulate_names`. */
enum { CUMULATE_SUM, CUMULATE_PROD };
enum { CUMULATE_CHUNK = 1024 }; /* columns of an item */

enum { CUMULATE_SIDE = 8 };  /* rows of one element that run side by side */
enum { CUMULATE_LONG = 64 }; /* elements of a row that is worth a loop of its own */

static const char *const cumulate_names[] = {"sum", "prod", NULL};

static const char *check(const struct task_view *task)
{
    const struct cumulate_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->outer, p->n, p->inner))
        return "a size is out of range";
    if ((p->exclusive != 0 && p->exclusive != 1) || (p->reverse != 0 && p->reverse != 1))
        return "exclusive or reverse is neither 0 nor 1";
    const int dtype = task->src->dtype;
    if (p->dtype != dtype || task->dst->dtype != dtype || !atc_is_number(dtype) ||
        dtype == DTYPE_BOOL)
        return "elements are not numbers of one type";
    const int64_t elements = atc_mul(atc_mul(p->outer, p->inner), p->n);
    if (!atc_holds(task, task->src, DTYPE_ANY, elements, atc_item_bytes(dtype)) ||
        !atc_holds(task, task->dst, DTYPE_ANY, elements, atc_item_bytes(dtype)))
        return "an operand is too small";
    return NULL;
}

/* An item is some columns. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct cumulate_params *p = params;
    const int64_t chunks = ceil_div(p->inner, CUMULATE_CHUNK);
    return (struct kernel_cost){.items = p->n == 0 ? 0 : p->outer * chunks,
                                .work = atc_mul(atc_mul(p->outer, p->inner),
                                                atc_mul(p->n, 8))}; /* each waits for the last */
}

DEFINE_FAMILY(cumulate, CUMULATE_FIELDS, .check = check, .cost = cost);

/* Rows of n columns; `before` is the last row of the result, NULL for the first. */
#define DEFINE_TYPE(name, type, one, sum, product, sums_wait)                                      \
    static void step_##name(int64_t kind, const type *restrict before, const type *restrict x,     \
                            type *restrict y, int64_t n)                                           \
    {                                                                                              \
        if (kind == CUMULATE_SUM)                                                                  \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = before[i], b = x[i];                                                \
                y[i] = (type)(sum);                                                                \
            }                                                                                      \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                      \
                const type a = before[i], b = x[i];                                                \
                y[i] = (type)(product);                                                            \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void cumulate_##name(const struct kernel_args *args, const type *x, type *y,            \
                                int64_t columns)                                                   \
    {                                                                                              \
        const struct cumulate_params *p = args->params;                                            \
        struct atc_meter meter = {.args = args};                                                   \
        const int64_t row = p->reverse ? -p->inner : p->inner;                                     \
        const int64_t first = p->reverse ? (p->n - 1) * p->inner : 0;                              \
        const type start = p->kind == CUMULATE_SUM ? (type)0 : (type)(one);                        \
        x += first;                                                                                \
        y += first;                                                                                \
        if (!p->exclusive)                                                                         \
            memcpy(y, x, (size_t)columns * sizeof *y);                                             \
        else                                                                                       \
            for (int64_t i = 0; i < columns; i++)                                                  \
                y[i] = start;                                                                      \
        for (int64_t a = 1; a < p->n && !atc_spend(&meter, columns); a++)                          \
            step_##name(p->kind, y + (a - 1) * row, x + (p->exclusive ? a - 1 : a) * row,          \
                        y + a * row, columns);                                                     \
    }

/* `results` ≤ CUMULATE_SIDE neighbouring results of single elements. */
#define DEFINE_ELEMENTS(name, type, one, sum, product, sums_wait)                                  \
    static inline __attribute__((always_inline)) void side_##name(                                 \
        const struct kernel_args *args, const type *restrict x, type *restrict y, int results,     \
        bool adds)                                                                                 \
    {                                                                                              \
        const struct cumulate_params *p = args->params;                                            \
        const int64_t n = p->n, step = p->reverse ? -1 : 1, exclusive = p->exclusive;              \
        type acc[CUMULATE_SIDE];                                                                   \
        if (p->reverse)                                                                            \
            x += n - 1, y += n - 1;                                                                \
        for (int i = 0; i < results; i++)                                                          \
            acc[i] = exclusive ? (adds ? (type)0 : (type)(one)) : x[i * n];                        \
        for (int i = 0; i < results; i++)                                                          \
            y[i * n] = acc[i];                                                                     \
        if (!exclusive)                                                                            \
            x += step;                                                                             \
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n - 1);)                   \
            for (int64_t k = piece.begin; k < piece.end; k++, x += step) {                         \
                y += step;                                                                         \
                _Pragma("GCC unroll 8") for (int i = 0; i < results; i++)                          \
                {                                                                                  \
                    const type a = acc[i], b = x[i * n];                                           \
                    acc[i] = adds ? (type)(sum) : (type)(product);                                 \
                    y[i * n] = acc[i];                                                             \
                }                                                                                  \
            }                                                                                      \
    }                                                                                              \
                                                                                                   \
    static void elements_##name(const struct kernel_args *args, const type *x, type *y,            \
                                int64_t results)                                                   \
    {                                                                                              \
        const struct cumulate_params *p = args->params;                                            \
        const bool adds = p->kind == CUMULATE_SUM;                                                 \
        const bool waits = !adds || (sums_wait) || p->n < CUMULATE_LONG;                           \
        for (; waits && results >= CUMULATE_SIDE; results -= CUMULATE_SIDE) {                      \
            if (adds)                                                                              \
                side_##name(args, x, y, CUMULATE_SIDE, true);                                      \
            else                                                                                   \
                side_##name(args, x, y, CUMULATE_SIDE, false);                                     \
            x += CUMULATE_SIDE * p->n;                                                             \
            y += CUMULATE_SIDE * p->n;                                                             \
        }                                                                                          \
        for (; results > 0; results--, x += p->n, y += p->n) {                                     \
            if (adds)                                                                              \
                side_##name(args, x, y, 1, true);                                                  \
            else                                                                                   \
                side_##name(args, x, y, 1, false);                                                 \
        }                                                                                          \
    }

#define DEFINE_BOTH(...) DEFINE_TYPE(__VA_ARGS__) DEFINE_ELEMENTS(__VA_ARGS__)

#define DEFINE_INT(name, type)                                                                     \
    DEFINE_BOTH(name, type, 1, (uint64_t)a + (uint64_t)b, (uint64_t)a *(uint64_t)b, false)

DEFINE_BOTH(f32, float, 1, a + b, a *b, true)
DEFINE_BOTH(f64, double, 1, a + b, a *b, true)
DEFINE_BOTH(f16, uint16_t, 0x3c00, f16_of_f32(f32_of_f16(a) + f32_of_f16(b)),
            f16_of_f32(f32_of_f16(a) * f32_of_f16(b)), true)
DEFINE_BOTH(bf16, uint16_t, 0x3f80, bf16_of_f32(f32_of_bf16(a) + f32_of_bf16(b)),
            bf16_of_f32(f32_of_bf16(a) * f32_of_bf16(b)), true)
DEFINE_INT(u8, uint8_t)
DEFINE_INT(u16, uint16_t)
DEFINE_INT(u32, uint32_t)
DEFINE_INT(u64, uint64_t)

/* Signed and unsigned integers that wrap around are the same bits. `columns` neighbouring ones, or
 * as many results where a row is one element.
 */
static void cumulate_lanes(const struct kernel_args *args, int64_t first, int64_t columns)
{
    const void *x = args->src[0];
    void *y = args->dst[0];
    const bool single = ((const struct cumulate_params *)args->params)->inner == 1;
#define LANES(name, type)                                                                          \
    (single ? elements_##name : cumulate_##name)(args, (const type *)x + first, (type *)y + first, \
                                                 columns)
    switch (((const struct cumulate_params *)args->params)->dtype) {
    case DTYPE_F32:
        LANES(f32, float);
        break;
    case DTYPE_F64:
        LANES(f64, double);
        break;
    case DTYPE_F16:
        LANES(f16, uint16_t);
        break;
    case DTYPE_BF16:
        LANES(bf16, uint16_t);
        break;
    case DTYPE_I8:
    case DTYPE_U8:
        LANES(u8, uint8_t);
        break;
    case DTYPE_I16:
    case DTYPE_U16:
        LANES(u16, uint16_t);
        break;
    case DTYPE_I32:
    case DTYPE_U32:
        LANES(u32, uint32_t);
        break;
    default:
        LANES(u64, uint64_t);
    }
}

void cumulate_any_scalar(const struct kernel_args *args)
{
    const struct cumulate_params *p = args->params;
    const int64_t chunks = ceil_div(p->inner, CUMULATE_CHUNK);
    if (p->inner == 1 && args->begin < args->end) { /* an item is one result: all at once */
        cumulate_lanes(args, args->begin * p->n, args->end - args->begin);
        return;
    }
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t column = item % chunks * CUMULATE_CHUNK;
        const int64_t first = item / chunks * p->n * p->inner + column;
        cumulate_lanes(args, first, min_i64(CUMULATE_CHUNK, p->inner - column));
    }
}
