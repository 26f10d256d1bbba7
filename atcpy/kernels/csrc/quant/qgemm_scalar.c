/* qgemm, plainly: the definition of what every ISA computes. */
#include "quant/qgemm_finish.h"

static void micro(const struct qgemm_tile *t)
{
    const uint8_t flip = (uint8_t)t->x_flip;
    int32_t sums[QGEMM_PANEL] = {0};
    for (struct atc_piece piece = {0}; atc_next_piece(t->args, &piece, t->k1);)
        for (int64_t k = piece.begin; k < piece.end; k++)
            for (int j = 0; j < QGEMM_PANEL; j++)
                for (int i = 0; i < QGEMM_K0; i++) {
                    const uint8_t x = t->x[0][t->steps[k] + i] ^ flip;
                    const int8_t w = (int8_t)t->w[k * QGEMM_BLOCK + j * QGEMM_K0 + i];
                    sums[j] = (int32_t)((uint32_t)sums[j] + (uint32_t)(x * w));
                }
    qgemm_finish(t, sums, 0, 0, 1);
}

void qgemm_any_scalar(const struct kernel_args *args)
{
    static const qgemm_micro table[] = {micro};
    qgemm_drive(args, &(struct qgemm_isa){1, 1, 1, .micro = table});
}
