/* recurrent by its definition: the oracle of the other rows, and the path of any other CPU. */
#include "core/pieces.h"
#include "recurrent/recurrent.h"

/* One row while it runs; h, c and the buffers lie in scratch. */
struct run {
    const struct recurrent_params *p;
    const struct recurrent_item *it;
    float *h, *next, *c, *reset;
    struct atc_meter *meter;
};

/* Σ_k h[k] · r[gate][k][column] */
static float gate_sum(const struct run *run, const float *h, int64_t gate, int64_t column)
{
    const struct recurrent_params *p = run->p;
    const float *r = run->it->r + gate * recurrent_gate_floats(p);
    int64_t step = p->hidden;
    if (p->r_packed == 1) {
        r += column / REC_PANEL * REC_PANEL * recurrent_width(p) + column % REC_PANEL;
        step = REC_PANEL;
    } else {
        r += column;
    }
    double sum = 0;
    if (atc_spend(run->meter, p->hidden))
        return 0;
    for (int64_t k = 0; k < p->hidden; k++)
        sum += (double)h[k] * r[k * step];
    return (float)sum;
}

static float activate(const struct run *run, int act, float x)
{
    const float clip = (float)run->p->clip;
    const struct recurrent_act *a = run->it->act + act;
    return activate_f32(a->kind, clip > 0 ? clip_f32(x, -clip, clip) : x, a->alpha, a->beta);
}

static float activate_state(const struct run *run, float x)
{
    const struct recurrent_act *a = run->it->act + 2;
    return activate_f32(a->kind, x, a->alpha, a->beta);
}

static void lstm_step(const struct run *run, const float *x)
{
    const int64_t n = run->p->hidden;
    const float *p = run->it->p;
    for (int64_t j = 0; j < n; j++) {
        float sums[4], c = run->c[j];
        for (int64_t g = 0; g < 4; g++)
            sums[g] = x[g * n + j] + gate_sum(run, run->h, g, j);
        if (p != NULL) {
            sums[0] += p[j] * c;
            sums[2] += p[2 * n + j] * c;
        }
        const float in = activate(run, 0, sums[0]);
        const float forget = run->p->input_forget ? 1 - in : activate(run, 0, sums[2]);
        c = forget * c + in * activate(run, 1, sums[3]);
        if (p != NULL)
            sums[1] += p[n + j] * c;
        run->c[j] = c;
        run->next[j] = activate(run, 0, sums[1]) * activate_state(run, c);
    }
}

static void gru_step(const struct run *run, const float *x)
{
    const int64_t n = run->p->hidden;
    const bool late = run->p->linear_before_reset == 1;
    float *z = run->c, *r = run->reset;
    for (int64_t j = 0; j < n; j++) {
        z[j] = activate(run, 0, x[j] + gate_sum(run, run->h, 0, j));
        r[j] = activate(run, 0, x[n + j] + gate_sum(run, run->h, 1, j));
        if (!late)
            r[j] *= run->h[j];
    }
    for (int64_t j = 0; j < n; j++) {
        float sum = gate_sum(run, late ? run->h : r, 2, j);
        if (late)
            sum = r[j] * (sum + (run->it->rb != NULL ? run->it->rb[j] : 0));
        const float g = activate(run, 1, x[2 * n + j] + sum);
        run->next[j] = (1 - z[j]) * g + z[j] * run->h[j];
    }
}

static void rnn_step(const struct run *run, const float *x)
{
    for (int64_t j = 0; j < run->p->hidden; j++)
        run->next[j] = activate(run, 0, x[j] + gate_sum(run, run->h, 0, j));
}

static void set(float *to, const float *from, int64_t n)
{
    if (from != NULL)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

static void run_row(struct run run, const struct recurrent_row *row)
{
    const struct recurrent_params *p = run.p;
    const int64_t n = p->hidden;
    set(run.h, row->h, n);
    set(run.c, row->c, n);
    for (int64_t step = 0; step < p->steps && !atc_spend(run.meter, 1 + n); step++) {
        if (step >= row->steps) {
            if (row->y != NULL)
                set(row->y + step * run.it->y_step, NULL, n);
            continue;
        }
        const int64_t t = run.it->reverse ? row->steps - 1 - step : step;
        const float *x = row->x + t * run.it->x_step;
        if (p->kind == RECURRENT_LSTM)
            lstm_step(&run, x);
        else if (p->kind == RECURRENT_GRU)
            gru_step(&run, x);
        else
            rnn_step(&run, x);
        float *const spent = run.h;
        run.h = run.next;
        run.next = spent;
        if (row->y != NULL)
            set(row->y + t * run.it->y_step, run.h, n);
    }
    if (row->y_h != NULL)
        set(row->y_h, run.h, n);
    if (row->y_c != NULL)
        set(row->y_c, run.c, n);
}

void recurrent_f32_scalar(const struct kernel_args *args)
{
    const struct recurrent_params *p = args->params;
    const int64_t width = recurrent_width(p);
    float *buffers = args->scratch;
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct recurrent_item it = recurrent_item_at(args, item);
        for (int64_t row = it.row; row < it.row + it.rows; row++) {
            const struct recurrent_row at = recurrent_row_at(args, &it, row);
            run_row((struct run){p, &it, buffers, buffers + width, buffers + 2 * width,
                                 buffers + 3 * width, &meter},
                    &at);
        }
    }
}
