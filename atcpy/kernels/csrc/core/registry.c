/* The table of kernels, made from kernels.inc. */
#include "core/kernel.h"

#include <string.h>

#define FAMILY(name)                             extern const struct kernel_family family_##name;
#define KERNEL(symbol, family, dtype, isa, fits) void symbol(const struct kernel_args *args);
#define FITS(name)                               bool name(const struct task_view *task);
#include "core/kernels.inc"
#undef FAMILY
#undef KERNEL
#undef FITS

const struct kernel_row kernel_table[] = {
#define FAMILY(name)
#define FITS(name)
#define KERNEL(symbol, family, dtype, isa, fits)                                                   \
    {#symbol, symbol, &family_##family, DTYPE_##dtype, ISA_##isa, fits},
#include "core/kernels.inc"
#undef FAMILY
#undef KERNEL
#undef FITS
};
const int kernel_table_rows = (int)(sizeof kernel_table / sizeof kernel_table[0]);

const struct kernel_row *atc_find_rows(const char *name)
{
    const struct kernel_family *last = NULL;
    for (int i = 0; i < kernel_table_rows; i++) {
        const struct kernel_family *family = kernel_table[i].family;
        if (family != last && strcmp(family->name, name) == 0)
            return kernel_table + i;
        last = family;
    }
    return NULL;
}
