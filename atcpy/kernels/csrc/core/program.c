#include "core/program.h"

#include <math.h>
#include <string.h>

const char *const atc_program_op_names[PROGRAM_OPS] = {
#define OP(name) #name,
    ATC_PROGRAM_OPS(OP)
#undef OP
};

static int operands(uint32_t op)
{
    switch (op) {
    case PROGRAM_ALIGN64:
    case PROGRAM_NOT:
        return 1;
    case PROGRAM_SELECT:
        return 3;
    default:
        return 2;
    }
}

bool atc_program_check(const struct atc_instr *instrs, int64_t n, int64_t first,
                       struct atc_refusal *refusal)
{
    for (int64_t i = 0; i < n; i++) {
        const struct atc_instr *instr = instrs + i;
        if (instr->op >= PROGRAM_OPS)
            return atc_refuse(refusal, -1, "instruction %lld: no such op", (long long)i);
        const uint32_t slots[] = {instr->a, instr->b, instr->c};
        for (int k = 0; k < 3; k++) {
            if (k < operands(instr->op) ? slots[k] >= first + i : slots[k] != 0)
                return atc_refuse(refusal, -1, "instruction %lld: no such operand", (long long)i);
        }
    }
    return true;
}

static bool scale(int64_t value, int64_t bits, int64_t *result)
{
    const uint32_t low = (uint32_t)bits;
    float factor;
    memcpy(&factor, &low, sizeof factor);
    const float scaled = floorf((float)value * factor);
    if (!(fabsf(scaled) < (float)ATC_TOO_BIG)) /* a NaN is refused, too */
        return false;
    *result = (int64_t)scaled;
    return true;
}

static_assert(PROGRAM_OPS == 18, "atc_program_run has a case for each op");

int64_t atc_program_run(const struct atc_instr *instrs, int64_t n, int64_t first, int64_t *slots)
{
    for (int64_t i = 0; i < n; i++) {
        const struct atc_instr *instr = instrs + i;
        const int64_t a = slots[instr->a], b = slots[instr->b];
        int64_t result = 0;
        bool failed = false;
        switch (instr->op) {
        case PROGRAM_ADD:
            failed = __builtin_add_overflow(a, b, &result);
            break;
        case PROGRAM_SUB:
            failed = __builtin_sub_overflow(a, b, &result);
            break;
        case PROGRAM_MUL:
            failed = __builtin_mul_overflow(a, b, &result);
            break;
        case PROGRAM_FDIV:
            failed = b <= 0;
            result = failed ? 0 : a / b - (a % b < 0);
            break;
        case PROGRAM_CDIV:
            failed = b <= 0;
            result = failed ? 0 : a / b + (a % b > 0);
            break;
        case PROGRAM_MOD:
            failed = b <= 0;
            result = failed ? 0 : a % b;
            result += result < 0 ? b : 0;
            break;
        case PROGRAM_MIN:
            result = a < b ? a : b;
            break;
        case PROGRAM_MAX:
            result = a > b ? a : b;
            break;
        case PROGRAM_ALIGN64:
            failed = __builtin_add_overflow(a, 63, &result);
            result &= -64;
            break;
        case PROGRAM_EQ:
            result = a == b;
            break;
        case PROGRAM_NE:
            result = a != b;
            break;
        case PROGRAM_LT:
            result = a < b;
            break;
        case PROGRAM_LE:
            result = a <= b;
            break;
        case PROGRAM_AND:
            result = a != 0 && b != 0;
            break;
        case PROGRAM_OR:
            result = a != 0 || b != 0;
            break;
        case PROGRAM_NOT:
            result = a == 0;
            break;
        case PROGRAM_SELECT:
            result = a != 0 ? b : slots[instr->c];
            break;
        default: /* PROGRAM_SCALE_F32 */
            failed = !scale(a, b, &result);
            break;
        }
        if (failed || result <= -ATC_TOO_BIG || result >= ATC_TOO_BIG)
            return i;
        slots[first + i] = result;
    }
    return n;
}

bool atc_program_refuse(const struct atc_instr *instrs, int64_t number, const int64_t *slots,
                        struct atc_refusal *refusal)
{
    const struct atc_instr *instr = instrs + number;
    const bool divides =
        instr->op == PROGRAM_FDIV || instr->op == PROGRAM_CDIV || instr->op == PROGRAM_MOD;
    return atc_refuse(refusal, -1, "instruction %lld, %s of %lld and %lld: %s", (long long)number,
                      atc_program_op_names[instr->op], (long long)slots[instr->a],
                      (long long)slots[instr->b],
                      divides && slots[instr->b] <= 0 ? "the divisor is not positive"
                                                      : "the result is beyond 2^47");
}
