/* Changes of kernel launches that know what a field is. */
#ifndef ATC_FUZZ_MUTATE_H
#define ATC_FUZZ_MUTATE_H

#include "fuzz.h"

enum { MAX_FIELDS = ATC_PARAM_BYTES / 8 };

/* A family and the numbers of its argument struct, one by one. */
struct fuzz_family {
    const struct kernel_family *family;
    const struct kernel_row *rows;
    int n_fields;
    const char *names[MAX_FIELDS]; /* of the fields that they belong to */
    bool is_float[MAX_FIELDS];
    int choices[MAX_FIELDS]; /* of an enum, else 0 */
};

/* Operands lie so far apart that none reaches the next one. */
enum { OPERAND_STEP = 1 << 22, OPERAND_BYTES = 1 << 20 };

struct fuzz_family fuzz_family_of(const struct kernel_row *rows);

/* Gives each operand in memory an address of its own and room for any size; a destination that is a
 * source stays it.
 */
void fuzz_spread_operands(struct atc_task *task);

/* One change; `other` is a launch of the same family. */
void fuzz_change(struct fuzz_launch *launch, const struct fuzz_family *family,
                 const struct fuzz_launch *other);

/* Variants of a launch: of each type, with each choice of each enum or those that it has; with each
 * number out of range or near its edges; without each operand; with one more or less.
 */
int fuzz_variants(const struct fuzz_family *family);
struct fuzz_launch fuzz_variant(const struct fuzz_launch *seed, const struct fuzz_family *family,
                                int number);

#endif
