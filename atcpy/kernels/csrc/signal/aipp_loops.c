/* aipp, by loops that the compiler makes vectors of. A row goes through levels of a few hundred
 * pixels, which stay in the first cache.
 */
#include "signal/aipp.h"

#include <string.h>

#include "core/pieces.h"

enum { SPAN = 512 }; /* even: U and V are of two pixels */

typedef uint8_t levels[AIPP_CHANNELS][SPAN];

static void split_rgb(const uint8_t *restrict src, uint8_t *restrict r, uint8_t *restrict g,
                      uint8_t *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        r[i] = src[3 * i];
        g[i] = src[3 * i + 1];
        b[i] = src[3 * i + 2];
    }
}

static void split_xrgb(const uint8_t *restrict src, int shift, uint8_t *restrict r,
                       uint8_t *restrict g, uint8_t *restrict b, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint32_t pixel;
        memcpy(&pixel, src + 4 * i, sizeof pixel);
        pixel >>= shift;
        r[i] = (uint8_t)pixel;
        g[i] = (uint8_t)(pixel >> 8);
        b[i] = (uint8_t)(pixel >> 16);
    }
}

/* Each U and V twice. */
static void split_uv(const uint8_t *restrict src, uint8_t *restrict u, uint8_t *restrict v,
                     int64_t pairs)
{
    for (int64_t i = 0; i < pairs; i++) {
        u[2 * i] = u[2 * i + 1] = src[2 * i];
        v[2 * i] = v[2 * i + 1] = src[2 * i + 1];
    }
}

/* The channels of n pixels from (y, x) on, in the order that the switches choose. */
static void load(const struct aipp_settings *s, const uint8_t *picture, int64_t y, int64_t x,
                 int64_t n, levels level)
{
    uint8_t *first = level[0], *second = level[1], *third = level[2];
    if (s->swap_rb && s->format == AIPP_YUV420SP) {
        second = level[2];
        third = level[1];
    } else if (s->swap_rb) {
        first = level[2];
        third = level[0];
    }
    const int64_t at = y * s->src_width + x;
    switch (s->format) {
    case AIPP_YUV420SP:
        memcpy(first, picture + at, (size_t)n);
        split_uv(picture + s->src_height * s->src_width + y / 2 * s->src_width + x, second, third,
                 (n + 1) / 2);
        break;
    case AIPP_XRGB8888:
        split_xrgb(picture + 4 * at, s->swap_ax ? 8 : 0, first, second, third, n);
        break;
    case AIPP_RGB888:
        split_rgb(picture + 3 * at, first, second, third, n);
        break;
    default:
        memcpy(level[0], picture + at, (size_t)n);
    }
}

/* One row of the matrix. gcc shifts negative numbers arithmetically, which rounds down. */
static void convert_channel(const int32_t *row, int32_t offset, const uint8_t *restrict a,
                            const uint8_t *restrict b, const uint8_t *restrict c,
                            uint8_t *restrict y, int64_t n)
{
    const int32_t m0 = row[0], m1 = row[1], m2 = row[2];
    for (int64_t i = 0; i < n; i++) {
        const int32_t sum = (m0 * a[i] + m1 * b[i] + m2 * c[i] + offset) >> 8;
        y[i] = (uint8_t)(sum < 0 ? 0 : sum > UINT8_MAX ? UINT8_MAX : sum);
    }
}

static void store_f32(const uint8_t *restrict level, float mean, float factor, float *restrict y,
                      int64_t step, int64_t n)
{
    if (step == 1)
        for (int64_t i = 0; i < n; i++)
            y[i] = ((float)level[i] - mean) * factor;
    else
        for (int64_t i = 0; i < n; i++)
            y[i * step] = ((float)level[i] - mean) * factor;
}

/* Where an element of a channel lies, and how far its neighbour in the row. */
struct destination {
    int64_t at, step;
};

static struct destination find(const struct aipp_params *p, int64_t item, int64_t channel,
                               int64_t x)
{
    const int64_t picture = item / p->height, row = item % p->height;
    if (p->planar)
        return (struct destination){
            ((picture * p->channels + channel) * p->height + row) * p->width + x, 1};
    return (struct destination){(item * p->width + x) * p->channels + channel, p->channels};
}

static void pad(const struct kernel_args *args, bool is_float, float padding, int64_t item,
                int64_t begin, int64_t end)
{
    const struct aipp_params *p = args->params;
    for (int64_t channel = 0; channel < p->channels; channel++) {
        const struct destination to = find(p, item, channel, 0);
        for (struct atc_piece piece = {begin, begin}; atc_next_piece(args, &piece, end);)
            for (int64_t x = piece.begin; x < piece.end; x++)
                if (is_float)
                    ((float *)args->dst[0])[to.at + x * to.step] = padding;
                else
                    ((uint8_t *)args->dst[0])[to.at + x * to.step] = (uint8_t)padding;
    }
}

static void compute_span(const struct kernel_args *args, bool is_float,
                         const struct aipp_settings *s, int64_t item, int64_t y, int64_t x,
                         int64_t n)
{
    const struct aipp_params *p = args->params;
    const uint8_t *picture =
        (const uint8_t *)args->src[AIPP_PICTURE] +
        item / p->height * aipp_picture_bytes(s->format, s->src_height, s->src_width);
    levels level, converted;
    load(s, picture, y, s->crop_left + x, n, level);
    for (int64_t channel = 0; channel < p->channels; channel++) {
        const uint8_t *from = level[channel];
        if (s->convert) {
            convert_channel(s->matrix[channel], s->offset[channel], level[0], level[1], level[2],
                            converted[channel], n);
            from = converted[channel];
        }
        const struct destination to = find(p, item, channel, s->pad_left + x);
        if (is_float)
            store_f32(from, s->mean[channel], s->factor[channel], (float *)args->dst[0] + to.at,
                      to.step, n);
        else
            for (int64_t i = 0; i < n; i++)
                ((uint8_t *)args->dst[0])[to.at + i * to.step] = from[i];
    }
}

static void aipp_rows(const struct kernel_args *args, bool is_float)
{
    const struct aipp_params *p = args->params;
    struct aipp_settings s;
    int64_t known = -1;
    for (int64_t item = args->begin; item < args->end; item++) {
        if (item / p->height != known) {
            known = item / p->height;
            if (!aipp_read_settings(args, known, &s))
                return;
        }
        const int64_t row = item % p->height - s.pad_top;
        if (row < 0 || row >= s.crop_height) {
            pad(args, is_float, s.padding, item, 0, p->width);
            continue;
        }
        pad(args, is_float, s.padding, item, 0, s.pad_left);
        for (struct atc_piece piece = {0}; atc_next_piece(args, &piece, s.crop_width);)
            for (int64_t x = piece.begin; x < piece.end; x += SPAN)
                compute_span(args, is_float, &s, item, s.crop_top + row, x,
                             min_i64(SPAN, piece.end - x));
        pad(args, is_float, s.padding, item, s.pad_left + s.crop_width, p->width);
    }
}

void FOR_ISA(aipp_to_f32)(const struct kernel_args *args)
{
    aipp_rows(args, true);
}

void FOR_ISA(aipp_to_u8)(const struct kernel_args *args)
{
    aipp_rows(args, false);
}
