/* attention on vectors, by the micro-kernels of matmul. */
#include "attention/attention.h"
#include "simd/half_vector.h"
#include "simd/math_vector.h"
#include "simd/softmax_row_vector.h"

/* One item at work: what it reads, and its parts of the scratch. */
struct attend {
    const struct kernel_args *args;
    const struct attention_params *p;
    const struct matmul_isa *isa, *products;
    struct attention_item it;
    const float *q, *added;
    const uint8_t *kept;
    float *y;
    float *scaled, *scores, *keys, *values;
    float *tokens;                 /* what each key has added to its scores; NULL: nothing */
    float *wide;                   /* for rows of float16, and for those that are rounded */
    bool rounds;                   /* factors to bfloat16 */
    int64_t vnni;                  /* factors of a sum that lie in the room of a float */
    bool direct;                   /* keys and values of the block are read where they lie */
    float largest[ATTENTION_ROWS]; /* score so far, of each row */
    double total[ATTENTION_ROWS];  /* of the exponentials so far */
};

static inline void scale_row(float *row, int64_t n, float by)
{
    const vf factor = vf_set1(by);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(row + i, vf_mul(vf_load(row + i), factor));
    if (i < n)
        vf_store_n(row + i, vf_mul(vf_load_n(row + i, n - i, 0), factor), n - i);
}

/* Floats in which n factors of a sum lie. */
static int64_t floats_of(const struct attend *a, int64_t n)
{
    return ceil_div(n, a->vnni);
}

/* The queries, scaled and side by side. */
static void take_queries(const struct attend *a)
{
    const int64_t n = a->p->head;
    for (int64_t r = 0; r < a->it.rows; r++) {
        float *to = a->scaled + r * floats_of(a, n), *row = a->rounds ? a->wide : to;
        memcpy(row, a->q + r * a->it.q_row, (size_t)n * sizeof *to);
        scale_row(row, n, (float)a->p->scale);
        if (a->rounds)
            a->products->round_bf16(row, to, n);
    }
}

/* Keys from `first` as columns: panels of 16, zero beyond the last one. */
static void pack_keys(const struct attend *a, int64_t first, int64_t keys)
{
    const int64_t head = a->p->head, steps = floats_of(a, head);
    const struct attention_rows from = attention_keys_from(a->args, &a->it, first);
    for (int64_t j = 0; j < keys; j += MATMUL_PANEL) {
        const int64_t columns = min_i64(MATMUL_PANEL, keys - j);
        float *to = a->keys + j * steps;
        if (columns < MATMUL_PANEL)
            memset(to, 0, (size_t)(steps * MATMUL_PANEL) * sizeof *to);
        const float *rows = from.half ? a->wide : (const float *)from.at + j * from.row;
        if (from.half) /* rows of the past lie side by side */
            f32s_of_f16((const uint16_t *)from.at + j * head, a->wide, columns * head);
        if (a->rounds)
            for (int64_t c = 0; c < columns; c++)
                a->products->round_bf16(rows + c * from.row, a->wide + c * steps, head);
        a->isa->transpose(a->rounds ? a->wide : rows, a->rounds ? steps : from.row, to,
                          MATMUL_PANEL, columns, steps);
    }
}

/* The first `columns` floats of a row of a panel, zero beyond them. */
static inline void copy_to_panel(const float *from, int64_t columns, float *to)
{
    for (int64_t c = 0; c < MATMUL_PANEL; c += VF) {
        const int64_t left = columns - c;
        vf_store(to + c, left >= VF ? vf_load(from + c)
                         : left > 0 ? vf_load_n(from + c, left, 0)
                                    : vf_set1(0));
    }
}

/* pack_values for rows of float16, which lie side by side. */
static void pack_half_values(const struct attend *a, const uint16_t *from, int64_t keys)
{
    const int64_t width = a->p->v_head;
    for (int64_t j = 0; j < keys; j++) {
        f32s_of_f16(from + j * width, a->wide, width);
        for (int64_t c = 0; c < width; c += MATMUL_PANEL)
            copy_to_panel(a->wide + c, min_i64(MATMUL_PANEL, width - c),
                          a->values + c * keys + j * MATMUL_PANEL);
    }
}

/* Two rows of pairs of columns as panels of pairs of rows, which lie `panel` apart. */
static void pair_rows(const float *first, const float *second, int64_t width, float *to,
                      int64_t panel)
{
    typedef uint32_t half_panel __attribute__((vector_size(MATMUL_PANEL / 2 * sizeof(uint32_t))));
    for (int64_t c = 0; c < width; c += MATMUL_PANEL, to += panel) {
        half_panel low, high;
        memcpy(&low, first + c / 2, sizeof low);
        memcpy(&high, second + c / 2, sizeof high);
        const half_panel even = (low & 0xffff) | high << 16, odd = low >> 16 | (high & 0xffff0000);
        const half_panel begin = __builtin_shufflevector(even, odd, 0, 8, 1, 9, 2, 10, 3, 11),
                         end = __builtin_shufflevector(even, odd, 4, 12, 5, 13, 6, 14, 7, 15);
        memcpy(to, &begin, sizeof begin);
        memcpy(to + MATMUL_PANEL / 2, &end, sizeof end);
    }
}

/* pack_values for rows that are rounded. */
static void pack_rounded_values(const struct attend *a, const struct attention_rows *rows,
                                int64_t keys)
{
    const int64_t width = a->p->v_head, steps = floats_of(a, keys);
    const int64_t row_floats = ceil_div(width, MATMUL_PANEL) * MATMUL_PANEL;
    memset(a->wide, 0, (size_t)(2 * row_floats) * sizeof *a->wide);
    for (int64_t j = 0; j < keys; j += a->vnni) {
        for (int64_t r = 0; r < a->vnni; r++) {
            float *to = a->wide + r * row_floats;
            if (j + r == keys)
                memset(to, 0, (size_t)row_floats * sizeof *to);
            else if (rows->half)
                f32s_of_f16((const uint16_t *)rows->at + (j + r) * rows->row, to, width);
            else
                memcpy(to, (const float *)rows->at + (j + r) * rows->row,
                       (size_t)width * sizeof *to);
            a->products->round_bf16(to, to, row_floats);
        }
        float *to = a->values + j / a->vnni * MATMUL_PANEL;
        if (a->vnni == 2)
            pair_rows(a->wide, a->wide + row_floats, width, to, steps * MATMUL_PANEL);
        else
            for (int64_t c = 0; c < width; c += MATMUL_PANEL)
                memcpy(to + c * steps, a->wide + c, MATMUL_PANEL * sizeof *to);
    }
}

/* Values of the keys from `first`: panels of 16 columns, zero beyond the last one. */
static void pack_values(const struct attend *a, int64_t first, int64_t keys)
{
    const int64_t width = a->p->v_head;
    const struct attention_rows rows = attention_values_from(a->args, &a->it, first);
    if (a->rounds) {
        pack_rounded_values(a, &rows, keys);
        return;
    }
    if (rows.half) {
        pack_half_values(a, rows.at, keys);
        return;
    }
    const float *from = rows.at;
    for (int64_t j = 0; j < keys; j++, from += rows.row)
        for (int64_t c = 0; c < width; c += MATMUL_PANEL)
            copy_to_panel(from + c, min_i64(MATMUL_PANEL, width - c),
                          a->values + c * keys + j * MATMUL_PANEL);
}

/* `rows` rows of `tile.a` by `n` columns of panels of b. */
static void multiply(const struct attend *a, struct matmul_tile tile, int64_t rows, int64_t n)
{
    const int64_t step = a->products->max_blocks * MATMUL_PANEL;
    for (int64_t j = 0; j < n; j += step) {
        tile.columns = min_i64(step, n - j);
        matmul_run_rows(a->products, tile, rows);
        tile.b += step / MATMUL_PANEL * tile.b_panel;
        tile.dst += step;
    }
}

/* The sums of `vectors` vectors of columns over n rows of values, times the rows' weights; added to
 * y where `adds`.
 */
static inline __attribute__((always_inline)) void sum_columns(const float *weights, int64_t n,
                                                              const float *values, int64_t row,
                                                              bool adds, int vectors, float *y)
{
    vf sums[8];
#pragma GCC unroll 8
    for (int c = 0; c < vectors; c++)
        sums[c] = adds ? vf_load(y + c * VF) : vf_set1(0);
    for (int64_t j = 0; j < n; j++, values += row) {
        const vf weight = vf_set1(weights[j]);
#pragma GCC unroll 8
        for (int c = 0; c < vectors; c++)
            sums[c] = vf_fma(weight, vf_load(values + c * VF), sums[c]);
    }
#pragma GCC unroll 8
    for (int c = 0; c < vectors; c++)
        vf_store(y + c * VF, sums[c]);
}

static void sum_values(const float *weights, int64_t n, const float *values, int64_t row,
                       int64_t width, bool adds, float *y)
{
    int64_t c = 0;
    for (; c + 8 * VF <= width; c += 8 * VF)
        sum_columns(weights, n, values + c, row, adds, 8, y + c);
    for (; c + 4 * VF <= width; c += 4 * VF)
        sum_columns(weights, n, values + c, row, adds, 4, y + c);
    for (; c + VF <= width; c += VF)
        sum_columns(weights, n, values + c, row, adds, 1, y + c);
    if (c == width)
        return;
    const int64_t lanes = width - c;
    vf sum = adds ? vf_load_n(y + c, lanes, 0) : vf_set1(0);
    for (int64_t j = 0; j < n; j++)
        sum = vf_fma(vf_set1(weights[j]), vf_load_n(values + j * row + c, lanes, 0), sum);
    vf_store_n(y + c, sum, lanes);
}

/* s + x, or s + (x + y) */
static inline void add_row(float *s, int64_t n, const float *x, const float *y)
{
    int64_t i = 0;
    for (; i + VF <= n; i += VF) {
        const vf sum = y == NULL ? vf_load(x + i) : vf_add(vf_load(x + i), vf_load(y + i));
        vf_store(s + i, vf_add(vf_load(s + i), sum));
    }
    if (i < n) {
        vf sum = vf_load_n(x + i, n - i, 0);
        if (y != NULL)
            sum = vf_add(sum, vf_load_n(y + i, n - i, 0));
        vf_store_n(s + i, vf_add(vf_load_n(s + i, n - i, 0), sum), n - i);
    }
}

/* cap · tanh(s / cap) */
static inline void cap_row(float *s, int64_t n, float cap)
{
    const vf bound = vf_set1(cap);
    int64_t i = 0;
    for (; i + VF <= n; i += VF)
        vf_store(s + i, bound * vf_tanh(vf_load(s + i) / bound));
    if (i < n)
        vf_store_n(s + i, bound * vf_tanh(vf_load_n(s + i, n - i, 0) / bound), n - i);
}

static inline void mask_row(const struct attend *a, int64_t row, int64_t first, int64_t n, float *s)
{
    const int64_t at = a->it.mask + row * a->it.mask_row + first;
    if (a->tokens != NULL)
        add_row(s, n, a->tokens + first, a->added == NULL ? NULL : a->added + at);
    else if (a->added != NULL)
        add_row(s, n, a->added + at, NULL);
    if (a->kept != NULL)
        for (int64_t i = 0; i < n; i++)
            s[i] = a->kept[at + i] ? s[i] : -INFINITY;
}

/* Keys from `first` on that a row sees of a block of them. */
static inline int64_t seen_keys(const struct attend *a, int64_t row, int64_t first, int64_t keys)
{
    const int64_t seen = attention_keys(a->p, &a->it, row) - first;
    return seen < 0 ? 0 : min_i64(seen, keys);
}

/* Caps and masks the scores of some rows, and finds the largest of each row so far. `shift` is what
 * its exponentials are relative to, `by` what is left of those before.
 */
static void find_largest(struct attend *a, int64_t row, int64_t rows, int64_t first, int64_t keys,
                         float *shift, float *by)
{
    for (int64_t r = 0; r < rows; r++) {
        float *s = a->scores + r * ATTENTION_SCORE_ROW;
        const int64_t n = seen_keys(a, row + r, first, keys);
        if (a->p->softcap > 0)
            cap_row(s, n, (float)a->p->softcap);
        mask_row(a, row + r, first, n, s);
        const float before = first == 0 ? -INFINITY : a->largest[row + r],
                    here = largest_of_row(a->args, s, n);
        const float largest = here > before ? here : before;
        shift[r] = largest == -INFINITY ? 0 : largest; /* no key so far: all stays 0 */
        by[r] = before - shift[r];
        a->largest[row + r] = largest;
    }
    for (int64_t r = 0; r < rows; r += VF) {
        const int64_t n = min_i64(VF, rows - r);
        vf_store_n(by + r, vf_exp_of_negative(vf_load_n(by + r, n, 0)), n);
    }
}

/* Scores of some rows and of the keys from `first` become exponentials; what was summed up before
 * is scaled to the largest score so far. Rows go through each part together: no row waits for what
 * another one adds up over its lanes.
 */
static void weigh_rows(struct attend *a, int64_t row, int64_t rows, int64_t first, int64_t keys)
{
    float shift[ATTENTION_STRIP], by[ATTENTION_STRIP];
    find_largest(a, row, rows, first, keys, shift, by);
    for (int64_t r = 0; r < rows; r++) {
        float *s = a->scores + r * ATTENTION_SCORE_ROW;
        const int64_t n = seen_keys(a, row + r, first, keys);
        const double sum = exp_row(a->args, s, n, shift[r], s, false);
        for (int64_t i = n; i < keys; i++)
            s[i] = 0;
        if (a->rounds)
            a->products->round_bf16(s, s, keys);
        a->total[row + r] = first == 0 ? sum : a->total[row + r] * (double)by[r] + sum;
        if (first > 0 && by[r] != 1)
            scale_row(a->y + (row + r) * a->it.y_row, a->p->v_head, by[r]);
    }
}

/* Scores of some rows and of `seen` keys from `first`: packed ones, or where they lie. */
static void score_rows(const struct attend *a, int64_t row, int64_t rows, int64_t first,
                       int64_t seen)
{
    const int64_t head = a->p->head, steps = floats_of(a, head);
    if (!a->direct) {
        const struct matmul_tile tile = {.args = a->args,
                                         .a = a->scaled + row * steps,
                                         .a_row = steps,
                                         .b = a->keys,
                                         .b_step = MATMUL_PANEL,
                                         .b_panel = steps * MATMUL_PANEL,
                                         .k = steps,
                                         .dst = a->scores,
                                         .y_row = ATTENTION_SCORE_ROW,
                                         .first = true};
        multiply(a, tile, rows, seen);
        return;
    }
    const struct attention_rows keys = attention_keys_from(a->args, &a->it, first);
    for (int64_t r = 0; r < rows; r++)
        a->isa->dots(a->args, a->scaled + (row + r) * head, keys.at, keys.row, head, seen,
                     a->scores + r * ATTENTION_SCORE_ROW);
}

/* Sums of `seen` values from `first`, times what became of the scores of some rows. */
static void sum_rows(const struct attend *a, int64_t row, int64_t rows, int64_t first, int64_t keys,
                     int64_t seen)
{
    float *y = a->y + row * a->it.y_row;
    if (!a->direct) {
        const struct matmul_tile tile = {.args = a->args,
                                         .a = a->scores,
                                         .a_row = ATTENTION_SCORE_ROW,
                                         .b = a->values,
                                         .b_step = MATMUL_PANEL,
                                         .b_panel = floats_of(a, keys) * MATMUL_PANEL,
                                         .k = floats_of(a, seen),
                                         .dst = y,
                                         .y_row = a->it.y_row,
                                         .first = first == 0};
        multiply(a, tile, rows, a->p->v_head);
        return;
    }
    const struct attention_rows values = attention_values_from(a->args, &a->it, first);
    for (int64_t r = 0; r < rows; r++)
        sum_values(a->scores + r * ATTENTION_SCORE_ROW, seen, values.at, values.row, a->p->v_head,
                   first > 0, y + r * a->it.y_row);
}

/* Some rows meet those of a block of keys that they see. */
static void attend_rows(struct attend *a, int64_t row, int64_t rows, int64_t first, int64_t keys)
{
    const int64_t seen = min_i64(keys, attention_keys(a->p, &a->it, row + rows - 1) - first);
    if (seen <= 0)
        return;
    score_rows(a, row, rows, first, seen);
    weigh_rows(a, row, rows, first, seen);
    sum_rows(a, row, rows, first, keys, seen);
}

static void attend_block(struct attend *a, int64_t first, int64_t keys)
{
    a->direct =
        a->it.rows <= ATTENTION_FEW_ROWS && !attention_keys_from(a->args, &a->it, first).half;
    if (!a->direct) {
        pack_keys(a, first, keys);
        pack_values(a, first, keys);
    }
    const int64_t strips = ceil_div(a->it.rows, ATTENTION_STRIP);
    for (int64_t i = 0; i < strips; i++) {
        const int64_t row = a->it.rows * i / strips;
        attend_rows(a, row, a->it.rows * (i + 1) / strips - row, first, keys);
    }
}

static void attend_item(struct attend *a)
{
    const struct attention_params *p = a->p;
    struct atc_meter meter = {.args = a->args};
    struct atc_piece piece = {0};
    take_queries(a);
    while (a->tokens != NULL && atc_next_piece(a->args, &piece, p->kv_len))
        for (int64_t j = piece.begin; j < piece.end; j++)
            a->tokens[j] = attention_token(a->args, &a->it, j);
    const int64_t end = attention_keys(p, &a->it, a->it.rows - 1);
    for (int64_t first = 0, next; first < end; first = next) {
        next = attention_block_end(p, first, end);
        /* Keys and values are packed, however few the rows are. */
        if (atc_spend(&meter, (a->it.rows + (p->head + p->v_head) / 16) * (next - first)))
            return;
        attend_block(a, first, next - first);
    }
    for (int64_t r = 0; r < a->it.rows; r++)
        scale_row(a->y + r * a->it.y_row, p->v_head,
                  a->total[r] == 0 ? 0 : (float)(1 / a->total[r]));
}

void FOR_ISA(attention_run)(const struct kernel_args *args, const struct matmul_isa *products)
{
    const struct attention_params *p = args->params;
    const struct attention_scratch parts = attention_scratch(p);
    struct attend a = {.args = args,
                       .p = p,
                       .isa = &FOR_ISA(matmul_isa),
                       .added = args->src[ATTENTION_ADDED],
                       .kept = args->src[ATTENTION_KEPT],
                       .scaled = args->scratch};
    a.scores = a.scaled + parts.q;
    a.keys = a.scores + parts.scores;
    a.values = a.keys + parts.k;
    a.tokens = parts.tokens > 0 ? a.values + parts.v : NULL;
    a.wide = a.values + parts.v + parts.tokens;
    for (int64_t item = args->begin; item < args->end; item++) {
        a.it = attention_item_at(p, item);
        a.rounds = attention_rounds(p, &a.it);
        a.vnni = a.rounds ? products->vnni : 1;
        a.products = a.rounds ? products : a.isa;
        a.q = (const float *)args->src[ATTENTION_Q] + a.it.q;
        a.y = (float *)args->dst[0] + a.it.y;
        attend_item(&a);
        attention_keep(args, &a.it);
    }
}

void FOR_ISA(attention_f32)(const struct kernel_args *args)
{
    FOR_ISA(attention_run)(args, &FOR_ISA(matmul_isa));
}
