/* qwinograd2d on vectors that each CPU has, as far as the compiler makes them; one tile by one
 * panel.
 */
#define VECTOR_BYTES 16
#include "quant/qgemm_finish.h"
#include "quant/qwinograd2d_body.h"

ALWAYS_INLINE vu16 load(const uint8_t *pixel, bool is_signed)
{
    vu16 x;
    for (int i = 0; i < CHANNELS; i++)
        x[i] = is_signed ? (uint16_t)(int8_t)pixel[i] : pixel[i];
    return x;
}

ALWAYS_INLINE vu16 widen(vu32 fours, int pair, bool is_signed)
{
    const vu32 x = fours >> 16 * pair;
    const vu16 high = (vu16)((x << 8 & 0xff00) | (x << 16 & 0xff000000));
    return is_signed ? (vu16)((vi16)high >> 8) : high >> 8;
}

ALWAYS_INLINE void finish(const struct qgemm_tile *tile, vi32 sums[][PARTS], int columns,
                          uint8_t *dst)
{
    struct qgemm_tile at = *tile;
    at.dst = dst;
    at.addend = tile->addend == NULL ? NULL : tile->addend + (dst - tile->dst);
    for (int i = 0; i < columns; i++) {
        int32_t row[QGEMM_PANEL];
        memcpy(row, sums[i], sizeof row);
        qgemm_finish(&at, row, i, 0, 1);
    }
}

static void filters(const struct qwino_filters *f, int16_t *out, int64_t stride)
{
    transform_filters(f, widen, out, stride);
}

static void input(const struct qwino_input *tile, int16_t *out, int64_t stride)
{
    transform_input(tile, load, out, stride);
}

static void results(const struct qwino_results *tile)
{
    transform_results(tile, finish);
}

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
