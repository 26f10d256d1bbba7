/* qwinograd2d where NEON has dot products of bytes: always by the definition. */
#include "quant/qwinograd2d.h"

void qgemm_any_neondot(const struct kernel_args *args);

void qwinograd2d_any_neondot(const struct kernel_args *args)
{
    static const struct qwino_isa isa = {.definition = qgemm_any_neondot};
    qwinograd2d_drive(args, &isa);
}
