/* Packing for qgemm: windows of x side by side, and panels of weights that are computed. */
#include "quant/qgemm.h"

/* `n` bytes, top bits changed by `flip`. */
static void copy_flipped(const struct kernel_args *args, uint8_t *restrict to,
                         const uint8_t *restrict from, int64_t n, uint8_t flip)
{
    if (flip == 0) {
        atc_copy(args, to, from, n);
        return;
    }
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, n);)
        for (int64_t i = piece.begin; i < piece.end; i++)
            to[i] = from[i] ^ flip;
}

/* How the 16 channels of a pixel in NC1HWC0 are copied: `keep` has the channels that there are. */
struct copy16 {
    uint64_t flip, keep[2], outside[2];
};

static struct copy16 copy16_of(const struct qgemm_source *s, int64_t channels)
{
    struct copy16 copy = {.flip = UINT64_C(0x0101010101010101) * s->flip};
    uint8_t bytes[16] = {0};
    memset(bytes, 0xff, (size_t)channels);
    memcpy(copy.keep, bytes, sizeof bytes);
    memset(bytes, s->outside, (size_t)channels);
    memcpy(copy.outside, bytes, sizeof bytes);
    return copy;
}

static inline void copy_block(const struct copy16 *copy, uint8_t *to, const uint8_t *from)
{
    /* Word by word: an array would be written in halves and read as a whole, which stalls. */
    uint64_t low, high;
    memcpy(&low, from, sizeof low);
    memcpy(&high, from + sizeof low, sizeof high);
    low = (low ^ copy->flip) & copy->keep[0];
    high = (high ^ copy->flip) & copy->keep[1];
    memcpy(to, &low, sizeof low);
    memcpy(to + sizeof low, &high, sizeof high);
}

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

static void pack_window_16(const struct qgemm_params *p, const struct copy16 *copy,
                           const struct window *w, uint8_t *to)
{
    for (int64_t i = 0; i < p->kh; i++) {
        const bool inside = i >= w->rows.begin && i < w->rows.end;
        const int64_t begin = inside ? w->columns.begin : p->kw;
        const int64_t end = inside ? w->columns.end : p->kw;
        int64_t j = 0;
        for (; j < begin; j++, to += 16)
            memcpy(to, copy->outside, 16);
        if (j < end) {
            const uint8_t *from = w->plane + ((w->y + i * p->dh) * p->w + w->x + j * p->dw) * 16;
            for (; j < end; j++, to += 16, from += p->dw * 16)
                copy_block(copy, to, from);
        }
        for (; j < p->kw; j++, to += 16)
            memcpy(to, copy->outside, 16);
    }
}

/* One tap that is never outside: a pixel's blocks of channels. */
static void pack_pixel_16(const struct qgemm_params *p, const struct copy16 *full,
                          const struct copy16 *last, const uint8_t *from, uint8_t *to)
{
    const int64_t plane = p->h * p->w * 16, c1 = ceil_div(p->cg, 16);
    for (int64_t b = 0; b + 1 < c1; b++, from += plane, to += 16)
        copy_block(full, to, from);
    copy_block(last, to, from);
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
            to[j] = *from ^ s->flip;
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
    const struct copy16 full = copy16_of(s, 16), last = copy16_of(s, (p->cg - 1) % 16 + 1);
    const bool pixels = taps == 1 && p->pt == 0 && p->pl == 0 && (p->oh - 1) * p->sh < p->h &&
                        (p->ow - 1) * p->sw < p->w;
    struct atc_meter meter = {.args = s->args};
    for (int64_t r = 0; r < rows && !atc_spend(&meter, k / 8); r++, to += row_bytes) {
        const int64_t oy = (first + r) / p->ow, ox = (first + r) % p->ow;
        struct window w = {.y = oy * p->sh - p->pt, .x = ox * p->sw - p->pl};
        memset(to + k, 0, (size_t)(row_bytes - k));
        if (c0 != 1 && c0 != 16) { /* rows of a matrix */
            copy_flipped(s->args, to, x + (w.y * p->w + w.x) * c0, c0, s->flip);
            continue;
        }
        if (c0 == 16 && pixels) {
            pack_pixel_16(p, &full, &last, x + (w.y * p->w + w.x) * 16, to);
            continue;
        }
        w.rows = taps_inside(w.y, p->dh, p->kh, p->h);
        w.columns = taps_inside(w.x, p->dw, p->kw, p->w);
        for (int64_t b = 0; b < c1 && !atc_spend(&meter, taps); b++) {
            w.plane = x + b * plane;
            if (c0 == 16)
                pack_window_16(p, b + 1 < c1 ? &full : &last, &w, to + b * taps * 16);
            else
                pack_window_1(s, &w, to + b * taps);
        }
    }
}

void qgemm_pack_panel(const struct kernel_args *args, const uint8_t *w, int64_t panel, uint8_t *to)
{
    const struct qgemm_params *p = args->params;
    const int64_t column = panel * QGEMM_PANEL, k1 = qgemm_k1(p);
    const int64_t columns = min_i64(QGEMM_PANEL, p->m - column);
    uint32_t sums[QGEMM_PANEL] = {0};
    atc_clear(args, to, k1 * QGEMM_BLOCK);
    for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, p->cg);)
        for (int64_t k = piece.begin; k < piece.end; k++) {
            const uint8_t *from = w + k * p->m + column;
            uint8_t *row = to + k / QGEMM_K0 * QGEMM_BLOCK + k % QGEMM_K0;
            for (int64_t j = 0; j < columns; j++) {
                row[j * QGEMM_K0] = from[j];
                const int32_t value = p->w_signed == 1 ? (int8_t)from[j] : from[j];
                sums[j] += (uint32_t)value;
            }
        }
    memcpy(to + k1 * QGEMM_BLOCK, sums, sizeof sums);
}
