/* Which instructions this CPU has, and how large its caches are. */
#ifndef ATC_CPU_H
#define ATC_CPU_H

#include "core/kernel.h"

const struct atc_cpu *atc_this_cpu(void);
extern const char *const atc_isa_names[ISA_COUNT];
/* The ISA of that name, or -1 where this architecture has none. */
int atc_isa_by_name(const char *name);
/* Whether a CPU that is used as `isa` runs rows for `row`. */
bool atc_isa_runs(enum atc_isa isa, enum atc_isa row);
/* Whether this CPU can be used as `isa`; no better one than ATCPY_ISA lowers it to. */
bool atc_has_isa(enum atc_isa isa);

#endif
