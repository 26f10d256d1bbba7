/* A straight-line integer program: the sizes of a symbolic plan from the values of its symbols.
 *
 * Slots hold the values: symbols, constants, then one result for each instruction, in order. An
 * instruction reads slots before its own only, so that there are neither jumps nor cycles.
 */
#ifndef ATC_PROGRAM_H
#define ATC_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#include "core/plan.h"

/* Numbers as in the package; _kernels.PROGRAM_OPS tells them to Python. */
#define ATC_PROGRAM_OPS(OP)                                                                        \
    OP(ADD)                                                                                        \
    OP(SUB)                                                                                        \
    OP(MUL)                                                                                        \
    OP(FDIV) /* floor; the divisors of FDIV, CDIV and MOD must be positive */                      \
    OP(CDIV) /* ceiling */                                                                         \
    OP(MOD)  /* what FDIV leaves, never negative */                                                \
    OP(MIN)                                                                                        \
    OP(MAX)                                                                                        \
    OP(ALIGN64) /* a rounded up to a multiple of 64 */                                             \
    OP(EQ)                                                                                         \
    OP(NE)                                                                                         \
    OP(LT)                                                                                         \
    OP(LE)                                                                                         \
    OP(AND) /* of truth values, as are OR and NOT */                                               \
    OP(OR)                                                                                         \
    OP(NOT)                                                                                        \
    OP(SELECT)    /* a ? b : c */                                                                  \
    OP(SCALE_F32) /* floor of a · the float whose bits are the low 32 of b, in float */

enum atc_program_op {
#define OP(name) PROGRAM_##name,
    ATC_PROGRAM_OPS(OP)
#undef OP
        PROGRAM_OPS
};

extern const char *const atc_program_op_names[PROGRAM_OPS];

struct atc_instr {
    uint32_t op;
    uint32_t a, b, c; /* slots; 0 where the op has no such operand */
};

/* True if each of `n` instructions, the first of which writes slot `first`, is an op that reads
 * earlier slots only.
 */
bool atc_program_check(const struct atc_instr *instrs, int64_t n, int64_t first,
                       struct atc_refusal *refusal);

/* Fills the slots from `first` on. Returns the number of instructions that succeeded: all `n`, or
 * those before the first with a divisor below 1 or a result of 2^47 or more either way.
 */
int64_t atc_program_run(const struct atc_instr *instrs, int64_t n, int64_t first, int64_t *slots);

/* Says why instruction `number` failed. */
bool atc_program_refuse(const struct atc_instr *instrs, int64_t number, const int64_t *slots,
                        struct atc_refusal *refusal);

#endif
