/* The transdata family: its checker, and the cutting into pieces of a block of channels. */
#include "move/transdata.h"

enum { PIECE_PIXELS = 256, MAX_C0 = 1024 };

static int64_t blocks(const struct transdata_params *p)
{
    return (p->c + p->c0 - 1) / p->c0;
}

static const char *check(const struct task_view *task)
{
    const struct transdata_params *p = task->params;
    if (task->n_src != 1 || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->n, p->c, p->hw) || p->c0 < 1 || p->c0 > MAX_C0)
        return "a size is out of range";
    if (p->to_blocked != 0 && p->to_blocked != 1)
        return "to_blocked is neither 0 nor 1";
    if (p->item != 1 && p->item != 2 && p->item != 4 && p->item != 8)
        return "items are of an unknown size";
    const int64_t pixels = atc_mul(p->n, p->hw);
    if (p->n == 0 || p->c == 0 || p->hw == 0)
        return NULL;
    const int64_t plain = atc_mul(pixels, p->c), blocked = atc_mul(pixels, blocks(p) * p->c0);
    if (!atc_holds(task, task->src, DTYPE_ANY, p->to_blocked ? plain : blocked, p->item) ||
        !atc_holds(task, task->dst, DTYPE_ANY, p->to_blocked ? blocked : plain, p->item))
        return "an operand is too small";
    return NULL;
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct transdata_params *p = params;
    if (p->n == 0 || p->c == 0 || p->hw == 0)
        return (struct kernel_cost){0};
    return (struct kernel_cost){.items = p->n * blocks(p) * ceil_div(p->hw, PIECE_PIXELS),
                                .work = atc_mul(atc_mul(p->n, p->c), p->hw) / 2};
}

DEFINE_FAMILY(transdata, TRANSDATA_FIELDS, .check = check, .cost = cost);

bool transdata_is_b32_by_16(const struct task_view *task)
{
    const struct transdata_params *p = task->params;
    return p->item == 4 && p->c0 == 16;
}

bool transdata_is_b8_by_16(const struct task_view *task)
{
    const struct transdata_params *p = task->params;
    return p->item == 1 && p->c0 == 16;
}

void transdata_drive(const struct kernel_args *args, transdata_pack pack, transdata_unpack unpack)
{
    const struct transdata_params *p = args->params;
    const int64_t c1_all = blocks(p), pieces = (p->hw + PIECE_PIXELS - 1) / PIECE_PIXELS;
    for (int64_t item = args->begin; item < args->end; item++) {
        const int64_t at = item % pieces * PIECE_PIXELS, outer = item / pieces;
        const int64_t c1 = outer % c1_all, n = outer / c1_all;
        struct transdata_piece piece = {
            .channels = p->c - c1 * p->c0, .c0 = p->c0, .pixels = p->hw - at, .hw = p->hw};
        if (piece.channels > p->c0)
            piece.channels = p->c0;
        if (piece.pixels > PIECE_PIXELS)
            piece.pixels = PIECE_PIXELS;
        const int64_t plain = ((n * p->c + c1 * p->c0) * p->hw + at) * p->item;
        const int64_t blocked = (outer * p->hw + at) * p->c0 * p->item;
        const uint8_t *src = args->src[0];
        uint8_t *dst = args->dst[0];
        if (p->to_blocked)
            pack(dst + blocked, src + plain, &piece);
        else
            unpack(dst + plain, src + blocked, &piece);
    }
}
