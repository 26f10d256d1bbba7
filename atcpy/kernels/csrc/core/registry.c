/* The table of kernels, made from kernels.inc. */
#include "core/kernel.h"

#include <pthread.h>
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

/* The first row of each family, in a hash table with open addressing: each task of each plan is
 * looked up when a package is loaded.
 */
enum {
#define FAMILY(name) COUNT_##name,
#define FITS(name)
#define KERNEL(symbol, family, dtype, isa, fits)
#include "core/kernels.inc"
#undef FAMILY
#undef KERNEL
#undef FITS
    N_FAMILIES,
    INDEX_SLOTS = 256,
};
_Static_assert(2 * N_FAMILIES <= INDEX_SLOTS, "the index of families is too full");

static const struct kernel_row *family_index[INDEX_SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The slot of the family of that name, or the free one where it would be. */
static const struct kernel_row **slot_of(const char *name)
{
    uint32_t hash = 2166136261; /* FNV-1a */
    for (const char *at = name; *at != 0; at++)
        hash = (hash ^ (uint8_t)*at) * 16777619;
    while (family_index[hash % INDEX_SLOTS] != NULL &&
           strcmp(family_index[hash % INDEX_SLOTS]->family->name, name) != 0)
        hash++;
    return family_index + hash % INDEX_SLOTS;
}

static void make_index(void)
{
    for (int i = 0; i < kernel_table_rows; i++)
        if (i == 0 || kernel_table[i].family != kernel_table[i - 1].family)
            *slot_of(kernel_table[i].family->name) = kernel_table + i;
}

const struct kernel_row *atc_find_rows(const char *name)
{
    pthread_once(&once, make_index);
    return *slot_of(name);
}
