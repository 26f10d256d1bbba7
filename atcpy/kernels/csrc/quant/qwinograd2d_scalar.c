/* qwinograd2d on vectors that each CPU has, as far as the compiler makes them; one tile by one
 * panel.
 */
#include "quant/qwinograd2d_128.h"

static void micro_1(const struct qwino_product *p)
{
    uint32_t sums[QGEMM_PANEL] = {0};
    const int16_t *in = p->inputs, *u = p->filters;
    for (int64_t left = p->pairs; left > 0; left -= QGEMM_PANEL, in += p->group_stride)
        for (int64_t pair = 0; pair < min_i64(left, QGEMM_PANEL); pair++, u += QWINO_GROUP)
            for (int i = 0; i < QGEMM_PANEL; i++)
                sums[i] += (uint32_t)(in[2 * pair] * u[2 * i] + in[2 * pair + 1] * u[2 * i + 1]);
    memcpy(p->sums, sums, sizeof sums);
}

static void micro_2(const struct qwino_product *p)
{
    struct qwino_product second = *p;
    second.filters += p->filter_block;
    second.sums += p->sum_block;
    micro_1(p);
    micro_1(&second);
}

void qwinograd2d_any_scalar(const struct kernel_args *args)
{
    static const qwino_micro table[] = {micro_1, micro_2};
    static const struct qwino_isa isa = {filters, input, 1, table, results, FOR_ISA(qgemm_any)};
    qwinograd2d_drive(args, &isa);
}
