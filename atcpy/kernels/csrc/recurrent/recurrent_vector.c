/* recurrent on float32 vectors. */
#include "recurrent/recurrent.h"
#include "simd/activation_vector.h"

#include <string.h>

enum {
    GATES = 4,
    REC_TILE = VF / 4, /* rows that share what is read of r: AVX-512 has twice the registers */
};

/* Rows while they run. Buffers have `width` floats a row; rows follow each other. */
struct rows {
    const struct recurrent_params *p;
    const struct recurrent_item *it;
    const struct recurrent_row *row;
    float *h, *next, *c, *reset;
    const float *x[REC_ROWS]; /* of this step */
    int64_t width, r_panel, r_step, r_gate;
    bool usual; /* Sigmoid, Tanh, Tanh without a clip */
};

/* sum[row][gate] = Σ_k h[row][k] · r[gate][k][j …], for `gates` gates from `first` on. One sum
 * would wait for each product, so that few of them are cut into parts.
 */
static inline __attribute__((always_inline)) void gate_sums(const struct rows *s, const float *h,
                                                            int64_t j, int first, int gates,
                                                            int rows, bool tail,
                                                            vf sum[REC_TILE][GATES])
{
    const int parts = gates * rows >= 8 ? 1 : gates * rows >= 4 ? 2 : gates * rows >= 2 ? 4 : 8;
    const int64_t n = s->p->hidden, lanes = n - j;
    const float *r = s->it->r + first * s->r_gate + j / REC_PANEL * s->r_panel + j % REC_PANEL;
    vf acc[8][REC_TILE][GATES];
#pragma GCC unroll 8
    for (int a = 0; a < parts; a++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int g = 0; g < gates; g++)
                acc[a][i][g] = vf_set1(0.0f);
    int64_t k = 0;
    for (; k + parts <= n; k += parts, r += parts * s->r_step)
#pragma GCC unroll 8
        for (int a = 0; a < parts; a++)
#pragma GCC unroll 4
            for (int g = 0; g < gates; g++) {
                const float *at = r + a * s->r_step + g * s->r_gate;
                const vf w = tail ? vf_load_n(at, lanes, 0) : vf_load(at);
#pragma GCC unroll 4
                for (int i = 0; i < rows; i++)
                    acc[a][i][g] = vf_fma(vf_set1(h[i * s->width + k + a]), w, acc[a][i][g]);
            }
    for (; k < n; k++, r += s->r_step)
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++) {
            const float *at = r + g * s->r_gate;
            const vf w = tail ? vf_load_n(at, lanes, 0) : vf_load(at);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                acc[0][i][g] = vf_fma(vf_set1(h[i * s->width + k]), w, acc[0][i][g]);
        }
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++) {
            vf total = acc[0][i][g];
#pragma GCC unroll 8
            for (int a = 1; a < parts; a++)
                total = total + acc[a][i][g];
            sum[i][g] = total;
        }
}

static vf activate_any(const struct recurrent_act *act, vf x)
{
    return vf_activate(act->kind, x, act->alpha, act->beta);
}

static inline vf activate_gate(const struct rows *s, int act, vf x)
{
    if (s->usual)
        return act == 0 ? vf_sigmoid(x) : vf_tanh(x);
    const float clip = (float)s->p->clip;
    if (clip > 0)
        x = vf_at_most(vf_set1(clip), vf_at_least(vf_set1(-clip), x));
    return activate_any(s->it->act + act, x);
}

static inline vf activate_state(const struct rows *s, vf x)
{
    return s->usual ? vf_tanh(x) : activate_any(s->it->act + 2, x);
}

/* Entries j … of a row of `hidden` floats. */
static inline vf entries(const float *row, int64_t j, int64_t lanes)
{
    return lanes >= VF ? vf_load(row + j) : vf_load_n(row + j, lanes, 0);
}

static inline __attribute__((always_inline)) void lstm_cell(const struct rows *s, int64_t j,
                                                            int rows, bool tail)
{
    const int64_t n = s->p->hidden, lanes = n - j;
    const float *p = s->it->p;
    vf sum[REC_TILE][GATES];
    gate_sums(s, s->h, j, 0, 4, rows, tail && s->p->r_packed == 0, sum);
    for (int i = 0; i < rows; i++) {
        const float *x = s->x[i];
        float *state = s->c + i * s->width + j;
        vf c = vf_load(state), in = sum[i][0] + entries(x, j, lanes);
        vf forget = sum[i][2] + entries(x + 2 * n, j, lanes);
        if (p != NULL) {
            in = vf_fma(entries(p, j, lanes), c, in);
            forget = vf_fma(entries(p + 2 * n, j, lanes), c, forget);
        }
        in = activate_gate(s, 0, in);
        if (s->p->input_forget)
            forget = vf_set1(1.0f) - in;
        else
            forget = activate_gate(s, 0, forget);
        const vf g = activate_gate(s, 1, sum[i][3] + entries(x + 3 * n, j, lanes));
        c = vf_fma(forget, c, in * g);
        vf out = sum[i][1] + entries(x + n, j, lanes);
        if (p != NULL)
            out = vf_fma(entries(p + n, j, lanes), c, out);
        vf_store(state, c);
        vf_store(s->next + i * s->width + j, activate_gate(s, 0, out) * activate_state(s, c));
    }
}

/* h = (1 − z)·g + z·h */
static inline void gru_blend(const struct rows *s, int i, int64_t j, vf z, vf g)
{
    const vf h = vf_load(s->h + i * s->width + j);
    vf_store(s->next + i * s->width + j, vf_fma(vf_set1(1.0f) - z, g, z * h));
}

/* All three gates at once: the reset gate comes behind the product. */
static inline __attribute__((always_inline)) void gru_late_cell(const struct rows *s, int64_t j,
                                                                int rows, bool tail)
{
    const int64_t n = s->p->hidden, lanes = n - j;
    vf sum[REC_TILE][GATES];
    gate_sums(s, s->h, j, 0, 3, rows, tail && s->p->r_packed == 0, sum);
    const vf rb = s->it->rb != NULL ? entries(s->it->rb, j, lanes) : vf_set1(0.0f);
    for (int i = 0; i < rows; i++) {
        const float *x = s->x[i];
        const vf z = activate_gate(s, 0, sum[i][0] + entries(x, j, lanes));
        const vf r = activate_gate(s, 0, sum[i][1] + entries(x + n, j, lanes));
        const vf g = activate_gate(s, 1, vf_fma(r, sum[i][2] + rb, entries(x + 2 * n, j, lanes)));
        gru_blend(s, i, j, z, g);
    }
}

static inline __attribute__((always_inline)) void gru_gates_cell(const struct rows *s, int64_t j,
                                                                 int rows, bool tail)
{
    const int64_t n = s->p->hidden, lanes = n - j;
    vf sum[REC_TILE][GATES];
    gate_sums(s, s->h, j, 0, 2, rows, tail && s->p->r_packed == 0, sum);
    for (int i = 0; i < rows; i++) {
        const int64_t at = i * s->width + j;
        const vf r = activate_gate(s, 0, sum[i][1] + entries(s->x[i] + n, j, lanes));
        vf_store(s->c + at, activate_gate(s, 0, sum[i][0] + entries(s->x[i], j, lanes)));
        vf_store(s->reset + at, r * vf_load(s->h + at));
    }
}

static inline __attribute__((always_inline)) void gru_cell(const struct rows *s, int64_t j,
                                                           int rows, bool tail)
{
    const int64_t n = s->p->hidden, lanes = n - j;
    vf sum[REC_TILE][GATES];
    gate_sums(s, s->reset, j, 2, 1, rows, tail && s->p->r_packed == 0, sum);
    for (int i = 0; i < rows; i++) {
        const vf g = activate_gate(s, 1, sum[i][0] + entries(s->x[i] + 2 * n, j, lanes));
        gru_blend(s, i, j, vf_load(s->c + i * s->width + j), g);
    }
}

static inline __attribute__((always_inline)) void rnn_cell(const struct rows *s, int64_t j,
                                                           int rows, bool tail)
{
    vf sum[REC_TILE][GATES];
    gate_sums(s, s->h, j, 0, 1, rows, tail && s->p->r_packed == 0, sum);
    for (int i = 0; i < rows; i++)
        vf_store(s->next + i * s->width + j,
                 activate_gate(s, 0, sum[i][0] + entries(s->x[i], j, s->p->hidden - j)));
}

/* Runs a cell over all columns; the last may be fewer than a vector. */
#define ALL_COLUMNS(cell, s, rows)                                                                 \
    do {                                                                                           \
        const int64_t n = (s)->p->hidden;                                                          \
        int64_t j = 0;                                                                             \
        for (; j + VF <= n; j += VF)                                                               \
            cell(s, j, rows, false);                                                               \
        if (j < n)                                                                                 \
            cell(s, j, rows, true);                                                                \
    } while (0)

static inline __attribute__((always_inline)) void run_step(const struct rows *s, int rows)
{
    if (s->p->kind == RECURRENT_LSTM) {
        ALL_COLUMNS(lstm_cell, s, rows);
    } else if (s->p->kind == RECURRENT_RNN) {
        ALL_COLUMNS(rnn_cell, s, rows);
    } else if (s->p->linear_before_reset == 1) {
        ALL_COLUMNS(gru_late_cell, s, rows);
    } else {
        ALL_COLUMNS(gru_gates_cell, s, rows);
        ALL_COLUMNS(gru_cell, s, rows);
    }
}

static void set(float *to, const float *from, int64_t n)
{
    if (from != NULL)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

/* `rows` rows with the same number of steps, REC_TILE or one. */
static inline __attribute__((always_inline)) void run_rows(struct rows s, int rows)
{
    const struct recurrent_params *p = s.p;
    const int64_t n = p->hidden, steps = s.row[0].steps;
    for (int i = 0; i < rows; i++) {
        set(s.h + i * s.width, s.row[i].h, n);
        set(s.c + i * s.width, s.row[i].c, n);
    }
    for (int64_t step = 0; step < steps; step++) {
        const int64_t t = s.it->reverse ? steps - 1 - step : step;
        for (int i = 0; i < rows; i++)
            s.x[i] = s.row[i].x + t * s.it->x_step;
        run_step(&s, rows);
        float *const spent = s.h;
        s.h = s.next;
        s.next = spent;
        for (int i = 0; i < rows; i++)
            if (s.row[i].y != NULL)
                set(s.row[i].y + t * s.it->y_step, s.h + i * s.width, n);
    }
    for (int i = 0; i < rows; i++) {
        for (int64_t t = steps; t < p->steps && s.row[i].y != NULL; t++)
            set(s.row[i].y + t * s.it->y_step, NULL, n);
        if (s.row[i].y_h != NULL)
            set(s.row[i].y_h, s.h + i * s.width, n);
        if (s.row[i].y_c != NULL)
            set(s.row[i].y_c, s.c + i * s.width, n);
    }
}

static void run_one(const struct rows *s)
{
    run_rows(*s, 1);
}

static void run_tile(const struct rows *s)
{
    run_rows(*s, REC_TILE);
}

static void recurrent_items(const struct kernel_args *args)
{
    const struct recurrent_params *p = args->params;
    const int64_t width = recurrent_width(p);
    float *buffers = args->scratch;
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct recurrent_item it = recurrent_item_at(args, item);
        struct rows s = {.p = p, .it = &it, .h = buffers, .width = width};
        s.next = s.h + REC_ROWS * width;
        s.c = s.next + REC_ROWS * width;
        s.reset = s.c + REC_ROWS * width;
        /* What lies beyond the last column of c and h is computed with, and never used. */
        memset(buffers, 0, (size_t)(4 * REC_ROWS * width) * sizeof *buffers);
        s.r_panel = p->r_packed == 1 ? REC_PANEL * width : REC_PANEL;
        s.r_step = p->r_packed == 1 ? REC_PANEL : p->hidden;
        s.r_gate = recurrent_gate_floats(p);
        s.usual = it.act[0].kind == ACT_SIGMOID && it.act[1].kind == ACT_TANH && p->clip == 0 &&
                  (p->kind != RECURRENT_LSTM || it.act[2].kind == ACT_TANH);
        for (int64_t first = it.row; first < it.row + it.rows;) {
            struct recurrent_row row[REC_TILE];
            const int64_t left = it.row + it.rows - first;
            const bool tile = left >= REC_TILE && args->src[REC_LENS] == NULL;
            const int64_t rows = tile ? REC_TILE : 1;
            for (int64_t i = 0; i < rows; i++)
                row[i] = recurrent_row_at(args, &it, first + i);
            s.row = row;
            if (tile)
                run_tile(&s);
            else
                run_one(&s);
            first += rows;
        }
    }
}

void FOR_ISA(recurrent_f32)(const struct kernel_args *args)
{
    recurrent_items(args);
}
