/* The int4_matmul family: its checker and how its work is cut. */
#include "quant/int4_matmul.h"

enum { ITEMS_WANTED = 32 };

static int64_t blocks_of(const struct int4_matmul_params *p)
{
    return ceil_div(p->k, p->block);
}

static const char *check(const struct task_view *task)
{
    const struct int4_matmul_params *p = task->params;
    if (task->n_src != INT4_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->m, p->k, p->n, p->block))
        return "a size is out of range";
    if (p->block > INT4_MAX_BLOCK || p->block % INT4_STEP != 0)
        return "a block has too many elements, or no whole steps";
    if (p->digits != 1 && p->digits != 3)
        return "x is neither one digit nor three";
    const int64_t of_panels = atc_mul(ceil_div(p->n, INT4_PANEL) * INT4_PANEL, blocks_of(p));
    if (!atc_holds(task, task->src + INT4_X, DTYPE_F32, atc_mul(p->m, p->k), 4) ||
        !atc_holds(task, task->src + INT4_W, DTYPE_U8, atc_mul(of_panels, p->block / 2), 1) ||
        !atc_holds(task, task->src + INT4_SCALES, DTYPE_F32, of_panels, 4) ||
        !atc_holds_optional(task, INT4_ZEROS, DTYPE_U8, of_panels, 1) ||
        !atc_holds(task, task->dst, DTYPE_F32, atc_mul(p->m, p->n), 4))
        return "an operand is too small or of another type";
    return NULL;
}

/* Weights as floats pay: they are made once, and bytes would be multiplied three times a row. */
bool int4_has_many_rows(const struct task_view *task)
{
    const struct int4_matmul_params *p = task->params;
    return p->m >= INT4_MANY_ROWS && p->digits == 3;
}

static int64_t row_total(const struct int4_blocking *b)
{
    return atc_add(b->row_bytes, atc_mul(b->blocks, (int64_t)sizeof(struct int4_steps)));
}

struct int4_blocking int4_block(const struct int4_matmul_params *p, const struct atc_cpu *cpu)
{
    struct int4_blocking b = {.blocks = blocks_of(p), .panels = ceil_div(p->n, INT4_PANEL)};
    b.row_bytes = atc_mul(atc_mul(b.blocks, p->block), p->digits);
    const int64_t rows = cpu->l2_bytes / 2 / row_total(&b) / INT4_MAX_ROWS * INT4_MAX_ROWS;
    b.chunk_rows = min_i64(p->m, rows < INT4_MAX_ROWS ? INT4_MAX_ROWS : rows);
    b.chunks = ceil_div(p->m, b.chunk_rows);
    const int64_t pairs = ceil_div(b.panels, INT4_MAX_PANELS);
    b.group = ceil_div(pairs, min_i64(pairs, ceil_div(ITEMS_WANTED, b.chunks))) * INT4_MAX_PANELS;
    b.groups = ceil_div(b.panels, b.group);
    return b;
}

static int64_t products(const void *params)
{
    const struct int4_matmul_params *p = params;
    return atc_mul(p->m, atc_mul(p->k, p->n));
}

static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    const struct int4_matmul_params *p = params;
    const struct int4_blocking b = int4_block(p, cpu);
    /* Weights are read once for each chunk, products computed for each digit. */
    const int64_t read = atc_mul(b.chunks, atc_mul(b.panels * INT4_PANEL, b.row_bytes));
    const int64_t in_bytes = atc_mul(b.chunk_rows, row_total(&b));
    const int64_t in_floats = atc_mul(atc_add(INT4_RUN * INT4_STEP, b.chunk_rows),
                                      INT4_MAX_PANELS * INT4_PANEL * (int64_t)sizeof(float));
    return (struct kernel_cost){
        .items = atc_mul(b.chunks, b.groups),
        .work = atc_add(atc_div(products(p), 16), atc_div(read, 64)),
        .scratch = in_floats > in_bytes ? in_floats : in_bytes,
    };
}

DEFINE_FAMILY(int4_matmul, INT4_MATMUL_FIELDS, .check = check, .cost = cost, .products = products);
