/* Which instructions this CPU has, and how large its caches are. */
#ifndef ATC_CPU_H
#define ATC_CPU_H

#include "core/kernel.h"

const struct atc_cpu *atc_this_cpu(void);
extern const char *const atc_isa_names[ISA_COUNT];
/* The ISA of that name, or -1 where this architecture has none. */
int atc_isa_by_name(const char *name);

#endif
