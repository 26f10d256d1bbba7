/* Every kernel row by name: what graph_kernel's instructions run. */
#ifndef ATC_GRAPH_KERNEL_ROWS_H
#define ATC_GRAPH_KERNEL_ROWS_H

#include "graph_kernel/graph_kernel_program.h"

#define FAMILY(name)
#define FITS(name)                               bool name(const struct task_view *task);
#define KERNEL(symbol, family, dtype, isa, fits) void symbol(const struct kernel_args *args);
#include "core/kernels.inc"
#undef FAMILY
#undef FITS
#undef KERNEL

#endif
