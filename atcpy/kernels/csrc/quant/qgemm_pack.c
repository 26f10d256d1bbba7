/* Copies for qgemm: windows of x side by side, pictures with a border, panels of weights. */
#include "quant/qgemm.h"

/* Taps [begin, end) of a window from `start` lie inside [0, size). */
struct taps {
    int64_t begin, end;
};

static struct taps taps_inside(int64_t start, int64_t dilation, int64_t k, int64_t size)
{
    struct taps taps = {0, k};
    if (start < 0)
        taps.begin = min_i64(k, ceil_div(-start, dilation));
    if (start + (k - 1) * dilation >= size)
        taps.end = start >= size ? 0 : ceil_div(size - start, dilation);
    if (taps.end < taps.begin)
        taps.end = taps.begin;
    return taps;
}

/* A window's part in one block of channels: [kh, kw, C0]. */
struct window {
    const uint8_t *plane; /* of the block: [h, w, C0] */
    int64_t y, x;         /* of the first tap */
    struct taps rows, columns;
};

static void pack_window_16(const struct qgemm_source *s, const struct window *w, uint8_t *to)
{
    const struct qgemm_params *p = s->p;
    const bool all = w->columns.begin == 0 && w->columns.end == p->kw;
    for (int64_t i = 0; i < p->kh; i++, to += p->kw * 16) {
        const bool inside = i >= w->rows.begin && i < w->rows.end;
        if (!inside || !all)
            memset(to, s->outside, (size_t)p->kw * 16);
        if (!inside || w->columns.begin == w->columns.end)
            continue;
        const uint8_t *from =
            w->plane + ((w->y + i * p->dh) * p->w + w->x + w->columns.begin * p->dw) * 16;
        for (int64_t j = w->columns.begin; j < w->columns.end; j++, from += p->dw * 16)
            memcpy(to + j * 16, from, 16);
    }
}

static void pack_window_1(const struct qgemm_source *s, const struct window *w, uint8_t *to)
{
    const struct qgemm_params *p = s->p;
    const bool all = w->columns.begin == 0 && w->columns.end == p->kw;
    for (int64_t i = 0; i < p->kh; i++, to += p->kw) {
        const bool inside = i >= w->rows.begin && i < w->rows.end;
        if (!inside || !all)
            memset(to, s->outside, (size_t)p->kw);
        if (!inside || w->columns.begin == w->columns.end)
            continue;
        const uint8_t *from =
            w->plane + (w->y + i * p->dh) * p->w + w->x + w->columns.begin * p->dw;
        for (int64_t j = w->columns.begin; j < w->columns.end; j++, from += p->dw)
            to[j] = *from;
    }
}

void qgemm_pack_rows(const struct qgemm_source *s, int64_t n, int64_t g, int64_t first,
                     int64_t rows, uint8_t *to, int64_t row_bytes)
{
    const struct qgemm_params *p = s->p;
    const int64_t c0 = p->src_c0, k = qgemm_k(p), taps = p->kh * p->kw;
    const int64_t c1_all = ceil_div(p->c, c0), c1 = ceil_div(p->cg, c0);
    const int64_t plane = p->h * p->w * c0;
    const uint8_t *x = s->x + (n * c1_all + g * p->cg / c0) * plane;
    struct atc_meter meter = {.args = s->args};
    for (int64_t r = 0; r < rows && !atc_spend(&meter, k / 8); r++, to += row_bytes) {
        const int64_t oy = (first + r) / p->ow, ox = (first + r) % p->ow;
        struct window w = {.y = oy * p->sh - p->pt, .x = ox * p->sw - p->pl};
        memset(to + k, 0, (size_t)(row_bytes - k));
        if (c0 != 1 && c0 != 16) { /* rows of a matrix */
            atc_copy(s->args, to, x + (w.y * p->w + w.x) * c0, c0);
            continue;
        }
        w.rows = taps_inside(w.y, p->dh, p->kh, p->h);
        w.columns = taps_inside(w.x, p->dw, p->kw, p->w);
        for (int64_t b = 0; b < c1 && !atc_spend(&meter, taps); b++) {
            w.plane = x + b * plane;
            if (c0 == 16)
                pack_window_16(s, &w, to + b * taps * 16);
            else
                pack_window_1(s, &w, to + b * taps);
        }
    }
}

/* A row of pixels of one block of channels, in C0 bytes each, of a picture's row. */
static void copy_pixels(const struct qgemm_source *s, const uint8_t *plane, int64_t y, int64_t x,
                        int64_t columns, uint8_t *restrict to)
{
    const struct qgemm_params *p = s->p;
    const int64_t c0 = p->k_c0, begin = min_i64(x < 0 ? -x : 0, columns);
    int64_t end = min_i64(columns, p->w - x);
    if (y < 0 || y >= p->h || end < begin)
        end = begin;
    memset(to, s->outside, (size_t)(begin * c0));
    memset(to + end * c0, s->outside, (size_t)((columns - end) * c0));
    if (begin == end)
        return;
    const uint8_t *from = plane + (y * p->w + x + begin) * p->src_c0;
    to += begin * c0;
    if (c0 == p->src_c0) {
        memcpy(to, from, (size_t)((end - begin) * c0));
        return;
    }
    /* Up to four planes, which are the channels of a pixel. Those that are not there have weights
     * of 0, so that any byte will do. */
    const int64_t last = p->c - 1, picture = p->h * p->w;
    const uint8_t *second = from + min_i64(1, last) * picture;
    const uint8_t *third = from + min_i64(2, last) * picture;
    const uint8_t *fourth = from + min_i64(3, last) * picture;
    for (int64_t i = 0; i < end - begin; i++) {
        const uint32_t pixel = (uint32_t)from[i] | (uint32_t)second[i] << 8 |
                               (uint32_t)third[i] << 16 | (uint32_t)fourth[i] << 24;
        memcpy(to + i * 4, &pixel, sizeof pixel);
    }
}

void qgemm_copy_picture(const struct qgemm_source *s, int64_t n, int64_t g,
                        const struct qgemm_picture *part, uint8_t *to)
{
    const struct qgemm_params *p = s->p;
    const int64_t plane = p->h * p->w * p->src_c0, row = part->columns * p->k_c0;
    const uint8_t *x = s->x + (n * ceil_div(p->c, p->src_c0) + g * p->cg / p->src_c0) * plane;
    struct atc_meter meter = {.args = s->args};
    for (int64_t b = 0; b < ceil_div(p->cg, p->k_c0); b++)
        for (int64_t r = 0; r < part->rows && !atc_spend(&meter, row / 8); r++)
            copy_pixels(s, x + b * plane, part->y + r, part->x, part->columns,
                        to + b * part->plane + r * row);
}

void qgemm_ones(const struct kernel_args *args, uint8_t *to)
{
    const struct qgemm_params *p = args->params;
    const int64_t c0 = p->k_c0, taps = p->kh * p->kw, k = qgemm_k(p), k1 = qgemm_k1(p);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k1);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            for (int64_t step = i * QGEMM_K0; step < (i + 1) * QGEMM_K0; step++) {
                const bool real = step < k && step / (taps * c0) * c0 + step % c0 < p->cg;
                for (int j = 0; j < QGEMM_PANEL; j++)
                    to[i * QGEMM_BLOCK + j * QGEMM_K0 + step % QGEMM_K0] = real;
            }
}

void qgemm_sign_panel(const struct kernel_args *args, const uint8_t *panel, const uint8_t *ones,
                      uint8_t *restrict to)
{
    const int64_t bytes = qgemm_k1(args->params) * QGEMM_BLOCK;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, bytes);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            to[i] = (uint8_t)(panel[i] ^ ones[i] << 7);
    memcpy(to + bytes, panel + bytes, QGEMM_BLOCK);
}

/* 16 bytes, as the vectors that every compiler target has. */
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words8 __attribute__((vector_size(16)));

/* Sums of bytes in 16 bits: those of two rows of each column side by side. */
enum { SUMMED_STEPS = 128 }; /* of up to 2 · 255 */
struct column_sums {
    words8 pairs[4];
    int64_t steps;
    uint32_t total[QGEMM_PANEL];
};

static void flush_sums(struct column_sums *sums)
{
    for (int j = 0; j < QGEMM_PANEL; j++)
        sums->total[j] +=
            (uint32_t)sums->pairs[j / 4][j % 4 * 2] + sums->pairs[j / 4][j % 4 * 2 + 1];
    memset(sums->pairs, 0, sizeof sums->pairs);
    sums->steps = 0;
}

static inline bytes16 load16(const uint8_t *from)
{
    bytes16 v;
    memcpy(&v, from, sizeof v);
    return v;
}

/* The part of a panel of ones that four steps of any column take, as masks. */
static inline bytes16 mask_of(const uint8_t *ones)
{
    uint32_t four[4];
    for (int i = 0; i < 4; i++)
        memcpy(four + i, ones + i * QGEMM_BLOCK, sizeof *four);
    bytes16 v;
    memcpy(&v, four, sizeof v);
    return -v;
}

uint32_t qgemm_sum_row(const struct kernel_args *args, const uint8_t *x, const int64_t *steps,
                       int64_t k1, const uint8_t *ones, uint8_t flip)
{
    uint32_t sum = 0;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k1);)
        for (int64_t k = piece.begin; k < piece.end;) {
            if (k + 4 > piece.end || !qgemm_side_by_side(steps + k)) {
                for (int i = 0; i < QGEMM_K0; i++)
                    sum += (uint32_t)(x[steps[k] + i] ^ flip) * ones[k * QGEMM_BLOCK + i];
                k++;
                continue;
            }
            const int64_t end = min_i64(piece.end, k + 4 * SUMMED_STEPS);
            words8 pairs = {0};
            for (; k + 4 <= end && qgemm_side_by_side(steps + k); k += 4) {
                const words8 v =
                    (words8)((load16(x + steps[k]) ^ flip) & mask_of(ones + k * QGEMM_BLOCK));
                pairs += (v & 0xff) + (v >> 8);
            }
            for (int i = 0; i < 8; i++)
                sum += pairs[i];
        }
    return sum;
}

#define LOW_BYTES  0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_BYTES 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LOW_WORDS  0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_WORDS 4, 12, 5, 13, 6, 14, 7, 15

/* Four rows of 16 columns as a row of a panel. Unsigned bytes are summed up: signed ones once
 * `flip` changed their top bits, which all that is written then has changed by `flip_back`.
 */
static inline void pack_four(const uint8_t *rows[QGEMM_K0], uint8_t flip, uint8_t *to,
                             struct column_sums *sums)
{
    const bytes16 a = load16(rows[0]) ^ flip, b = load16(rows[1]) ^ flip;
    const bytes16 c = load16(rows[2]) ^ flip, d = load16(rows[3]) ^ flip;
    const words8 ab[2] = {(words8)__builtin_shufflevector(a, b, LOW_BYTES),
                          (words8)__builtin_shufflevector(a, b, HIGH_BYTES)};
    const words8 cd[2] = {(words8)__builtin_shufflevector(c, d, LOW_BYTES),
                          (words8)__builtin_shufflevector(c, d, HIGH_BYTES)};
    for (size_t half = 0; half < 2; half++) {
        const words8 quads[2] = {__builtin_shufflevector(ab[half], cd[half], LOW_WORDS),
                                 __builtin_shufflevector(ab[half], cd[half], HIGH_WORDS)};
        for (size_t i = 0; i < 2; i++) {
            sums->pairs[2 * half + i] += (quads[i] & 0xff) + (quads[i] >> 8);
            const bytes16 packed = (bytes16)quads[i] ^ 0x80;
            memcpy(to + (2 * half + i) * sizeof packed, &packed, sizeof packed);
        }
    }
    if (++sums->steps == SUMMED_STEPS)
        flush_sums(sums);
}

void qgemm_pack_panel(const struct kernel_args *args, const uint8_t *w, int64_t panel, uint8_t *to)
{
    const struct qgemm_params *p = args->params;
    const int64_t column = panel * QGEMM_PANEL, k1 = qgemm_k1(p), m = p->m;
    const int64_t columns = min_i64(QGEMM_PANEL, m - column);
    const uint8_t flip = p->w_signed == 1 ? 0x80 : 0;
    /* What is not there counts as 0 once it is signed. */
    uint8_t edge[QGEMM_K0][QGEMM_PANEL];
    struct column_sums sums = {0};
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k1);)
        for (int64_t k = piece.begin; k < piece.end; k++) {
            const int64_t there = min_i64(QGEMM_K0, p->cg - k * QGEMM_K0);
            const uint8_t *from = w + k * QGEMM_K0 * m + column, *rows[QGEMM_K0];
            for (int r = 0; r < QGEMM_K0; r++)
                rows[r] = from + min_i64(r, there - 1) * m;
            if (columns < QGEMM_PANEL || there < QGEMM_K0) {
                memset(edge, flip ^ 0x80, sizeof edge);
                for (int r = 0; r < QGEMM_K0; r++) {
                    if (r < there)
                        memcpy(edge[r], rows[r], (size_t)columns);
                    rows[r] = edge[r];
                }
            }
            pack_four(rows, flip, to + k * QGEMM_BLOCK, &sums);
        }
    flush_sums(&sums);
    /* Of unsigned bytes, 128 for each that is not there. */
    const uint32_t all = (uint32_t)(k1 * QGEMM_K0) * 128, missing = all - (uint32_t)p->cg * 128;
    for (int j = 0; j < QGEMM_PANEL; j++)
        sums.total[j] -= p->w_signed == 1 ? all : missing;
    memcpy(to + k1 * QGEMM_BLOCK, sums.total, sizeof sums.total);
}
