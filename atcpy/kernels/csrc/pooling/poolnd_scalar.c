/* poolnd of integers, plainly. */
#include "pooling/poolnd_loops.h"

DEFINE_MAX(int8_t, i8, INT8_MIN)
DEFINE_MAX(uint8_t, u8, 0)

void poolnd_i8_scalar(const struct kernel_args *args)
{
    poolnd_max_i8(args);
}

void poolnd_u8_scalar(const struct kernel_args *args)
{
    poolnd_max_u8(args);
}
