/* The recurrent family: its checker, its cut into directions and rows, and where these lie. */
#include "recurrent/recurrent.h"

#include <math.h>

const char *const recurrent_kinds[] = {"lstm", "gru", "rnn", NULL};

/* True if y, y_h and y_c name each destination once. */
static bool results_ok(const struct recurrent_params *p, int n_dst)
{
    const int64_t outputs[] = {p->y, p->y_h, p->y_c};
    unsigned seen = 0;
    for (int i = 0; i < 3; i++) {
        if (outputs[i] < 0 || outputs[i] > n_dst)
            return false;
        if (outputs[i] != 0 && (seen & 1u << outputs[i]) != 0)
            return false;
        seen |= 1u << outputs[i];
    }
    return (seen | 1u) == (1u << (n_dst + 1)) - 1;
}

static bool is_flag(int64_t value)
{
    return value == 0 || value == 1;
}

static const char *check(const struct task_view *task)
{
    const struct recurrent_params *p = task->params;
    if (task->n_src != REC_OPERANDS || task->n_dst < 1 || task->n_dst > 3)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(0, p->steps, p->batch, p->hidden) || p->directions < 1 || p->directions > 2)
        return "a size is out of range";
    if (!is_flag(p->reverse) || !is_flag(p->layout) || !is_flag(p->r_packed) ||
        !is_flag(p->linear_before_reset) || !is_flag(p->input_forget))
        return "a flag is neither 0 nor 1";
    if (!(p->clip >= 0))
        return "clip is negative";
    if (!results_ok(p, task->n_dst) || (p->y_c != 0 && p->kind != RECURRENT_LSTM))
        return "results are not named once each";

    const int64_t rows = atc_mul(p->directions, p->batch), states = atc_mul(rows, p->hidden);
    const int64_t gates = atc_mul(p->directions, recurrent_gates(p));
    const int64_t side = p->r_packed == 1 ? recurrent_width(p) : p->hidden;
    const int64_t entries = atc_mul(p->directions, p->hidden);
    const struct {
        int index;
        enum atc_dtype dtype;
        int64_t elements;
    } operands[] = {
        {REC_X, DTYPE_F32, atc_mul(atc_mul(states, recurrent_gates(p)), p->steps)},
        {REC_R, DTYPE_F32, atc_mul(atc_mul(gates, side), side)},
        {REC_RB, DTYPE_F32, entries},
        {REC_P, DTYPE_F32, atc_mul(entries, 3)},
        {REC_LENS, DTYPE_I32, p->batch},
        {REC_H, DTYPE_F32, states},
        {REC_C, DTYPE_F32, states},
    };
    for (int i = 0; i < REC_OPERANDS; i++) {
        const struct atc_slot *slot = task->src + operands[i].index;
        const bool needed = operands[i].index <= REC_R;
        if ((needed || slot->region != REGION_NONE) &&
            !atc_holds(task, slot, operands[i].dtype, operands[i].elements, 4))
            return "an operand is too small or of a wrong type";
    }
    const int64_t results[][2] = {
        {p->y, atc_mul(states, p->steps)}, {p->y_h, states}, {p->y_c, states}};
    for (int i = 0; i < 3; i++)
        if (results[i][0] != 0 &&
            !atc_holds(task, task->dst + results[i][0] - 1, DTYPE_F32, results[i][1], 4))
            return "a result is too small or of a wrong type";
    return NULL;
}

/* Of the state and its weights; those of the input are a matmul. */
static int64_t products(const void *params)
{
    const struct recurrent_params *p = params;
    const int64_t rows = atc_mul(atc_mul(p->directions, p->batch), p->steps);
    return atc_mul(rows, atc_mul(atc_mul(p->hidden, recurrent_gates(p)), p->hidden));
}

/* The scratch holds, for each row of an item, h, the next h, c or z, and r·h. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct recurrent_params *p = params;
    const int64_t row =
        atc_add(atc_mul(atc_mul(p->hidden, recurrent_gates(p)), atc_add(p->hidden, 8)), 8);
    return (struct kernel_cost){
        .items = p->directions * ceil_div(p->batch, REC_ROWS),
        .work = atc_mul(atc_mul(atc_mul(p->directions, p->batch), atc_add(p->steps, 1)), row),
        .scratch = atc_mul(recurrent_width(p), (int64_t)(4 * REC_ROWS * sizeof(float)))};
}

struct recurrent_item recurrent_item_at(const struct kernel_args *args, int64_t item)
{
    const struct recurrent_params *p = args->params;
    const int64_t chunks = ceil_div(p->batch, REC_ROWS), gates = recurrent_gates(p);
    const int64_t d = item / chunks, row = item % chunks * REC_ROWS;
    const float *rb = args->src[REC_RB], *peepholes = args->src[REC_P];
    const int64_t kinds[] = {p->act0, p->act1, p->act2, p->act3, p->act4, p->act5};
    const double alphas[] = {p->alpha0, p->alpha1, p->alpha2, p->alpha3, p->alpha4, p->alpha5};
    const double betas[] = {p->beta0, p->beta1, p->beta2, p->beta3, p->beta4, p->beta5};
    struct recurrent_item it = {
        .direction = d,
        .row = row,
        .rows = min_i64(REC_ROWS, p->batch - row),
        .reverse = d == 1 || p->reverse == 1,
        .x_step = (p->layout == 1 ? 1 : p->batch) * p->directions * gates * p->hidden,
        .y_step = (p->layout == 1 ? 1 : p->batch) * p->directions * p->hidden,
        .r = (const float *)args->src[REC_R] + d * gates * recurrent_gate_floats(p),
        .rb = rb != NULL ? rb + d * p->hidden : NULL,
        .p = peepholes != NULL ? peepholes + d * 3 * p->hidden : NULL,
    };
    for (int i = 0; i < REC_ACTS; i++) {
        const int64_t at = d * REC_ACTS + i;
        it.act[i] =
            (struct recurrent_act){(enum activation)kinds[at], (float)alphas[at], (float)betas[at]};
    }
    return it;
}

static float *result_at(const struct kernel_args *args, int64_t number, int64_t offset)
{
    return number == 0 ? NULL : (float *)args->dst[number - 1] + offset;
}

struct recurrent_row recurrent_row_at(const struct kernel_args *args,
                                      const struct recurrent_item *item, int64_t row)
{
    const struct recurrent_params *p = args->params;
    const int64_t d = item->direction, n = p->hidden;
    const bool by_row = p->layout == 1;
    const int64_t state = (by_row ? row * p->directions + d : d * p->batch + row) * n;
    const int64_t x = (row * (by_row ? p->steps : 1) * p->directions + d) * recurrent_gates(p) * n;
    const int64_t y = by_row ? (row * p->steps * p->directions + d) * n : state;
    const float *h = args->src[REC_H], *c = args->src[REC_C];
    const int32_t *lens = args->src[REC_LENS];
    int64_t steps = p->steps;
    if (lens != NULL) {
        if (lens[row] < 0 || lens[row] > p->steps)
            atc_note_fault(args->fault, FAULT_INDEX_OUTSIDE, lens[row], p->steps + 1);
        else
            steps = lens[row];
    }
    const bool begins = lens == NULL || steps > 0;
    return (struct recurrent_row){
        .steps = steps,
        .x = (const float *)args->src[REC_X] + x,
        .h = h != NULL && begins ? h + state : NULL,
        .c = c != NULL && begins ? c + state : NULL,
        .y = result_at(args, p->y, y),
        .y_h = result_at(args, p->y_h, state),
        .y_c = result_at(args, p->y_c, state),
    };
}

DEFINE_FAMILY(recurrent, RECURRENT_FIELDS, .check = check, .cost = cost, .products = products);
