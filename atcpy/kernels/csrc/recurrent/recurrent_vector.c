/* recurrent on float32 vectors. */
#include "core/pieces.h"
#include "recurrent/recurrent.h"
#include "simd/activation_vector.h"

#include <assert.h>
#include <string.h>

enum {
    GATES = 4,
    COLUMNS = VF >= 8 ? REC_PANEL : REC_PANEL / 2, /* of a panel, at once */
    VECTORS = COLUMNS / VF,
    MAX_SUMS = VF_REGISTERS * 3 / 4, /* that stay in registers */
    ASKED_COLUMNS = 64 * REC_PANEL,  /* computed between two asks whether the run is to end */
};

/* The sums of some columns of a panel. */
struct sums {
    vf of[VECTORS][REC_ROWS][GATES];
};

/* Rows while they run. Buffers have `width` floats a row; rows follow each other. */
struct rows {
    const struct recurrent_params *p;
    const struct recurrent_item *it;
    const struct recurrent_row *row;
    float *h, *next, *c, *reset;
    const float *x[REC_ROWS]; /* of this step */
    int64_t width, r_panel, r_gate;
    struct atc_meter *meter;
    bool usual;    /* Sigmoid, Tanh, Tanh without a clip */
    bool backward; /* the last columns first */
};

/* Adds h[row] · r[gate][j …] of one k, which lie at r[gate] + `at`. Not packed, `lanes` columns are
 * left.
 */
static inline __attribute__((always_inline)) void
add_products(const struct rows *s, const float *h, const float *const r[GATES], int64_t at,
             int64_t lanes, int gates, int rows, bool packed, struct sums *sums)
{
#pragma GCC unroll 4
    for (int g = 0; g < gates; g++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++) {
            const float *from = r[g] + at + v * VF;
            const vf w = packed || lanes >= (v + 1) * VF ? vf_load(from)
                                                         : vf_load_n(from, lanes - v * VF, 0);
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
                sums->of[v][i][g] = vf_fma(vf_set1(h[i * s->width]), w, sums->of[v][i][g]);
        }
}

/* sums[v][row][to + gate] = Σ_k h[row][k] · r[first + gate][k][j …] for `gates` gates and COLUMNS
 * columns from j on. One sum would wait for each product, so that few are cut into `parts`. Gates
 * have pointers of their own: with a stride there would be more addresses than registers.
 */
static inline __attribute__((always_inline)) void
sums_in_registers(const struct rows *s, const float *h, int64_t j, int first, int gates, int rows,
                  int parts, bool packed, struct sums *sums, int to)
{
    const int64_t n = s->p->hidden, step = packed ? REC_PANEL : n;
    const float *r[GATES];
#pragma GCC unroll 4
    for (int g = 0; g < gates; g++)
        r[g] = s->it->r + (first + g) * s->r_gate + j / REC_PANEL * s->r_panel + j % REC_PANEL;
    struct sums acc[8];
#pragma GCC unroll 8
    for (int a = 0; a < parts; a++)
#pragma GCC unroll 4
        for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
                for (int g = 0; g < gates; g++)
                    acc[a].of[v][i][g] = vf_set1(0.0f);
    int64_t k = 0;
    for (; k + parts <= n; k += parts) {
#pragma GCC unroll 8
        for (int a = 0; a < parts; a++)
            add_products(s, h + k + a, r, a * step, n - j, gates, rows, packed, acc + a);
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++)
            r[g] += parts * step;
    }
    for (; k < n; k++) {
        add_products(s, h + k, r, 0, n - j, gates, rows, packed, acc);
#pragma GCC unroll 4
        for (int g = 0; g < gates; g++)
            r[g] += step;
    }
#pragma GCC unroll 4
    for (int v = 0; v < VECTORS; v++)
#pragma GCC unroll 4
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int g = 0; g < gates; g++) {
                vf total = acc[0].of[v][i][g];
#pragma GCC unroll 8
                for (int a = 1; a < parts; a++)
                    total = total + acc[a].of[v][i][g];
                sums->of[v][i][to + g] = total;
            }
}

/* The sums of `gates` gates from `first` on, as many at once as stay in registers: a panel of r is
 * read once, while it is in L1.
 */
static inline __attribute__((always_inline)) void gate_sums(const struct rows *s, const float *h,
                                                            int64_t j, int first, int gates,
                                                            int rows, bool packed,
                                                            struct sums *sums)
{
    const int of_gate = rows * VECTORS;
    const int at_once = gates * of_gate <= MAX_SUMS ? gates : 2 * of_gate <= MAX_SUMS ? 2 : 1;
    const int n = at_once * of_gate, parts = n >= 8 ? 1 : n >= 4 ? 2 : n >= 2 ? 4 : 8;
#pragma GCC unroll 4
    for (int g = 0; g < gates; g += at_once)
        sums_in_registers(s, h, j, first + g, gates - g < at_once ? gates - g : at_once, rows,
                          parts, packed, sums, g);
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

static inline void lstm_columns(const struct rows *s, int64_t j, int i, const vf sum[GATES])
{
    const int64_t n = s->p->hidden, lanes = n - j;
    const float *p = s->it->p, *x = s->x[i];
    float *state = s->c + i * s->width + j;
    vf c = vf_load(state), in = sum[0] + entries(x, j, lanes);
    vf forget = sum[2] + entries(x + 2 * n, j, lanes);
    if (p != NULL) {
        in = vf_fma(entries(p, j, lanes), c, in);
        forget = vf_fma(entries(p + 2 * n, j, lanes), c, forget);
    }
    in = activate_gate(s, 0, in);
    if (s->p->input_forget)
        forget = vf_set1(1.0f) - in;
    else
        forget = activate_gate(s, 0, forget);
    const vf g = activate_gate(s, 1, sum[3] + entries(x + 3 * n, j, lanes));
    c = vf_fma(forget, c, in * g);
    vf out = sum[1] + entries(x + n, j, lanes);
    if (p != NULL)
        out = vf_fma(entries(p + n, j, lanes), c, out);
    vf_store(state, c);
    vf_store(s->next + i * s->width + j, activate_gate(s, 0, out) * activate_state(s, c));
}

/* h = (1 − z)·g + z·h */
static inline void gru_blend(const struct rows *s, int i, int64_t j, vf z, vf g)
{
    const vf h = vf_load(s->h + i * s->width + j);
    vf_store(s->next + i * s->width + j, vf_fma(vf_set1(1.0f) - z, g, z * h));
}

/* All three gates at once: the reset gate comes behind the product. */
static inline void gru_late_columns(const struct rows *s, int64_t j, int i, const vf sum[GATES])
{
    const int64_t n = s->p->hidden, lanes = n - j;
    const float *x = s->x[i];
    const vf rb = s->it->rb != NULL ? entries(s->it->rb, j, lanes) : vf_set1(0.0f);
    const vf z = activate_gate(s, 0, sum[0] + entries(x, j, lanes));
    const vf r = activate_gate(s, 0, sum[1] + entries(x + n, j, lanes));
    const vf g = activate_gate(s, 1, vf_fma(r, sum[2] + rb, entries(x + 2 * n, j, lanes)));
    gru_blend(s, i, j, z, g);
}

static inline void gru_gates_columns(const struct rows *s, int64_t j, int i, const vf sum[GATES])
{
    const int64_t n = s->p->hidden, lanes = n - j, at = i * s->width + j;
    const vf r = activate_gate(s, 0, sum[1] + entries(s->x[i] + n, j, lanes));
    vf_store(s->c + at, activate_gate(s, 0, sum[0] + entries(s->x[i], j, lanes)));
    vf_store(s->reset + at, r * vf_load(s->h + at));
}

static inline void gru_columns(const struct rows *s, int64_t j, int i, const vf sum[GATES])
{
    const int64_t n = s->p->hidden, lanes = n - j;
    const vf g = activate_gate(s, 1, sum[0] + entries(s->x[i] + 2 * n, j, lanes));
    gru_blend(s, i, j, vf_load(s->c + i * s->width + j), g);
}

static inline void rnn_columns(const struct rows *s, int64_t j, int i, const vf sum[GATES])
{
    vf_store(s->next + i * s->width + j,
             activate_gate(s, 0, sum[0] + entries(s->x[i], j, s->p->hidden - j)));
}

typedef void (*columns_fn)(const struct rows *s, int64_t j, int i, const vf sum[GATES]);

/* Sums up some gates, some columns at a time, and does with each vector of columns what `columns`
 * does. */
static inline __attribute__((always_inline)) void all_columns(const struct rows *s, const float *h,
                                                              int first, int gates, int rows,
                                                              columns_fn columns)
{
    const int64_t n = s->p->hidden, last = (n - 1) / COLUMNS * COLUMNS;
    struct sums sums;
    for (int64_t begin = 0; begin < n; begin += ASKED_COLUMNS) {
        const int64_t end = min_i64(begin + ASKED_COLUMNS, n);
        if (n > ASKED_COLUMNS && atc_spend(s->meter, (end - begin) * n * gates / REC_PANEL))
            return;
        for (int64_t at = begin; at < end; at += COLUMNS) {
            const int64_t j = s->backward ? last - at : at;
            if (s->p->r_packed == 1)
                gate_sums(s, h, j, first, gates, rows, true, &sums);
            else
                gate_sums(s, h, j, first, gates, rows, false, &sums);
            for (int v = 0; v < VECTORS && j + v * VF < n; v++)
                for (int i = 0; i < rows; i++)
                    columns(s, j + v * VF, i, sums.of[v][i]);
        }
    }
}

static inline __attribute__((always_inline)) void run_step(const struct rows *s, int rows)
{
    if (s->p->kind == RECURRENT_LSTM) {
        all_columns(s, s->h, 0, 4, rows, lstm_columns);
    } else if (s->p->kind == RECURRENT_RNN) {
        all_columns(s, s->h, 0, 1, rows, rnn_columns);
    } else if (s->p->linear_before_reset == 1) {
        all_columns(s, s->h, 0, 3, rows, gru_late_columns);
    } else {
        all_columns(s, s->h, 0, 2, rows, gru_gates_columns);
        all_columns(s, s->reset, 2, 1, rows, gru_columns);
    }
}

static void set(float *to, const float *from, int64_t n)
{
    if (from != NULL)
        memcpy(to, from, (size_t)n * sizeof *to);
    else
        memset(to, 0, (size_t)n * sizeof *to);
}

/* `rows` rows with the same number of steps. */
static inline __attribute__((always_inline)) void run_rows(struct rows s, int rows)
{
    const struct recurrent_params *p = s.p;
    const int64_t n = p->hidden, steps = s.row[0].steps;
    for (int i = 0; i < rows; i++) {
        set(s.h + i * s.width, s.row[i].h, n);
        set(s.c + i * s.width, s.row[i].c, n);
    }
    for (int64_t step = 0; step < steps && !atc_spend(s.meter, 1 + n * n / REC_PANEL); step++) {
        const int64_t t = s.it->reverse ? steps - 1 - step : step;
        /* Weights that do not fit into a cache are read to and fro: those that were read last,
         * which are still there, come first.
         */
        s.backward = step % 2 != 0;
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
        for (int64_t t = steps; t < p->steps && s.row[i].y != NULL && !atc_spend(s.meter, 1 + n);
             t++)
            set(s.row[i].y + t * s.it->y_step, NULL, n);
        if (s.row[i].y_h != NULL)
            set(s.row[i].y_h, s.h + i * s.width, n);
        if (s.row[i].y_c != NULL)
            set(s.row[i].y_c, s.c + i * s.width, n);
    }
}

#define DEFINE(n)                                                                                  \
    static void run_##n(const struct rows *s)                                                      \
    {                                                                                              \
        run_rows(*s, n);                                                                           \
    }

DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
static_assert(REC_ROWS == 4, "a function for each number of rows");
static void (*const run[REC_ROWS])(const struct rows *) = {run_1, run_2, run_3, run_4};

static void recurrent_items(const struct kernel_args *args)
{
    const struct recurrent_params *p = args->params;
    const int64_t width = recurrent_width(p);
    float *buffers = args->scratch;
    struct atc_meter meter = {.args = args};
    for (int64_t item = args->begin; item < args->end; item++) {
        const struct recurrent_item it = recurrent_item_at(args, item);
        struct rows s = {.p = p, .it = &it, .h = buffers, .width = width, .meter = &meter};
        s.next = s.h + REC_ROWS * width;
        s.c = s.next + REC_ROWS * width;
        s.reset = s.c + REC_ROWS * width;
        /* What lies beyond the last column of c and h is computed with, and never used. */
        memset(buffers, 0, (size_t)(4 * REC_ROWS * width) * sizeof *buffers);
        s.r_panel = p->r_packed == 1 ? REC_PANEL * width : REC_PANEL;
        s.r_gate = recurrent_gate_floats(p);
        s.usual = it.act[0].kind == ACT_SIGMOID && it.act[1].kind == ACT_TANH && p->clip == 0 &&
                  (p->kind != RECURRENT_LSTM || it.act[2].kind == ACT_TANH);
        /* Rows of the same number of steps share what is read of r. */
        const int64_t rows = args->src[REC_LENS] == NULL ? it.rows : 1;
        for (int64_t first = 0; first < it.rows; first += rows) {
            struct recurrent_row row[REC_ROWS];
            for (int64_t i = 0; i < rows; i++)
                row[i] = recurrent_row_at(args, &it, it.row + first + i);
            s.row = row;
            run[rows - 1](&s);
        }
    }
}

void FOR_ISA(recurrent_f32)(const struct kernel_args *args)
{
    recurrent_items(args);
}
