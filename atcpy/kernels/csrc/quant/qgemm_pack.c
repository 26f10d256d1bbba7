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

/* Four rows of 16 columns, or fewer of either, as a row of a panel; adds to the columns' sums. */
static inline __attribute__((always_inline)) void pack_four(const uint8_t *from, int64_t row_bytes,
                                                            int64_t rows, int64_t columns,
                                                            bool is_signed, uint8_t *restrict to,
                                                            uint32_t *restrict sums)
{
    uint8_t row[QGEMM_K0][QGEMM_PANEL] = {0};
    const int32_t flip = is_signed ? 0x80 : 0; /* to and from unsigned bytes */
    for (int64_t r = 0; r < rows; r++)
        memcpy(row[r], from + r * row_bytes, (size_t)columns);
    for (int j = 0; j < QGEMM_PANEL; j++)
        for (int64_t r = 0; r < rows; r++)
            sums[j] += (uint32_t)((row[r][j] ^ flip) - flip);
    for (int64_t r = 0; r < rows && !is_signed; r++)
        for (int j = 0; j < QGEMM_PANEL; j++)
            row[r][j] ^= 0x80;
    for (int j = 0; j < QGEMM_PANEL; j++) {
        const uint32_t four = (uint32_t)row[0][j] | (uint32_t)row[1][j] << 8 |
                              (uint32_t)row[2][j] << 16 | (uint32_t)row[3][j] << 24;
        memcpy(to + j * QGEMM_K0, &four, sizeof four);
    }
}

void qgemm_pack_panel(const struct kernel_args *args, const uint8_t *w, int64_t panel, uint8_t *to)
{
    const struct qgemm_params *p = args->params;
    const int64_t column = panel * QGEMM_PANEL, k1 = qgemm_k1(p), m = p->m;
    const int64_t columns = min_i64(QGEMM_PANEL, m - column);
    const bool is_signed = p->w_signed == 1;
    uint32_t sums[QGEMM_PANEL] = {0};
    const uint8_t *from = w + column;
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, k1);)
        for (int64_t k = piece.begin; k < piece.end; k++, from += QGEMM_K0 * m) {
            const int64_t rows = min_i64(QGEMM_K0, p->cg - k * QGEMM_K0);
            if (rows == QGEMM_K0 && columns == QGEMM_PANEL && is_signed)
                pack_four(from, m, QGEMM_K0, QGEMM_PANEL, true, to + k * QGEMM_BLOCK, sums);
            else if (rows == QGEMM_K0 && columns == QGEMM_PANEL)
                pack_four(from, m, QGEMM_K0, QGEMM_PANEL, false, to + k * QGEMM_BLOCK, sums);
            else
                pack_four(from, m, rows, columns, is_signed, to + k * QGEMM_BLOCK, sums);
        }
    memcpy(to + k1 * QGEMM_BLOCK, sums, sizeof sums);
}
