/* The aipp family: its checker, its cut into rows, and the parameters that come with a run. */
#include "signal/aipp.h"

#include <math.h>
#include <string.h>

#include "core/half.h"

const char *const aipp_format_names[] = {"YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8",
                                         NULL};

/* The parameters of dynamic AIPP as Ascend lays them out, little endian: one header, then one
 * record for each picture. docs/aipp.md lists them. Bytes between fields are reserved.
 */
struct aipp_header {
    uint8_t input_format;
    uint8_t csc_switch, rbuv_swap_switch, ax_swap_switch;
    uint8_t batch_num;
    uint8_t reserved1[3];
    int32_t src_image_size_w, src_image_size_h;
    int16_t matrix[9];
    uint8_t reserved2[6];
    uint8_t output_bias[3], input_bias[3];
    uint8_t reserved3[18];
};

struct aipp_record {
    uint8_t crop_switch, scf_switch, padding_switch, rotate_switch;
    uint8_t reserved1[4];
    int32_t crop_start_pos_w, crop_start_pos_h, crop_size_w, crop_size_h;
    int32_t scf_input_size_w, scf_input_size_h, scf_output_size_w, scf_output_size_h;
    int32_t padding_size_top, padding_size_bottom, padding_size_left, padding_size_right;
    int16_t mean[4];
    uint16_t min[4], var_reci[4]; /* float16 */
    uint8_t reserved2[16];
};

static_assert(sizeof(struct aipp_header) == 64, "the header is 64 bytes");
static_assert(sizeof(struct aipp_record) == 96, "the record of a picture is 96 bytes");

enum { MAX_SIDE = 4096, MAX_PADDING = 32 };
enum { MAX_OFFSET = 1 << 26 }; /* with three products of 16 and 8 bits it stays below 2^27 */

int64_t aipp_picture_bytes(enum aipp_format format, int64_t height, int64_t width)
{
    const int64_t pixels = atc_mul(height, width);
    switch (format) {
    case AIPP_YUV420SP:
        return atc_add(pixels, pixels / 2);
    case AIPP_XRGB8888:
        return atc_mul(pixels, 4);
    case AIPP_RGB888:
        return atc_mul(pixels, 3);
    default:
        return pixels;
    }
}

static bool switches_ok(const struct aipp_params *p)
{
    return (p->planar | p->swap_rb | p->swap_ax | p->convert | 1) == 1;
}

/* Why the arguments cannot be the settings of a static AIPP. */
static const char *check_settings(const struct aipp_params *p)
{
    const enum aipp_format format = (enum aipp_format)p->format;
    const int64_t bytes = aipp_picture_bytes(format, p->src_height, p->src_width);
    if (!ATC_SIZES_OK(1, p->src_height, p->src_width, p->crop_height, p->crop_width) ||
        !ATC_SIZES_OK(0, p->crop_top, p->crop_left, p->pad_top, p->pad_left))
        return "a size is out of range";
    if (format == AIPP_YUV420SP &&
        ((p->src_height | p->src_width | p->crop_left | p->crop_top) & 1))
        return "U and V are of 2×2 pixels";
    if (atc_mul(p->pictures, bytes) > p->bytes)
        return "the pictures are larger than stated";
    if (p->crop_top + p->crop_height > p->src_height || p->crop_left + p->crop_width > p->src_width)
        return "the crop leaves the picture";
    if (p->pad_top + p->crop_height > p->height || p->pad_left + p->crop_width > p->width)
        return "the crop leaves the result";
    if (format == AIPP_YUV400 && (p->convert != 0 || p->channels != 1))
        return "gray has one channel";
    for (int i = 0; i < 9; i++)
        if (p->matrix[i] < INT16_MIN || p->matrix[i] > INT16_MAX)
            return "the matrix is out of range";
    for (int i = 0; i < AIPP_CHANNELS; i++)
        if (p->offset[i] < -MAX_OFFSET || p->offset[i] > MAX_OFFSET)
            return "an offset is out of range";
    return NULL;
}

static const char *check(const struct task_view *task)
{
    const struct aipp_params *p = task->params;
    if (task->n_src < 1 || task->n_src > AIPP_OPERANDS || task->n_dst != 1)
        return "wrong number of operands";
    if (!ATC_SIZES_OK(1, p->pictures, p->height, p->width, p->bytes) || !switches_ok(p) ||
        (p->channels != 1 && p->channels != AIPP_CHANNELS))
        return "a size or a switch is out of range";
    const enum atc_dtype dtype = (enum atc_dtype)task->dst[0].dtype;
    if (dtype != DTYPE_F32 && dtype != DTYPE_U8)
        return "results are of an unknown type";
    if (!(p->padding >= -0x1p127 && p->padding <= 0x1p127) ||
        (dtype == DTYPE_U8 && !(p->padding >= 0 && p->padding <= UINT8_MAX)))
        return "the padding is no number of the result";
    const bool is_dynamic =
        task->n_src > AIPP_PARAMETERS && task->src[AIPP_PARAMETERS].region != REGION_NONE;
    const char *reason = is_dynamic ? NULL : check_settings(p);
    if (reason != NULL)
        return reason;
    const int64_t block =
        atc_add(sizeof(struct aipp_header), atc_mul(p->pictures, sizeof(struct aipp_record)));
    const int64_t elements =
        atc_mul(atc_mul(p->pictures, p->channels), atc_mul(p->height, p->width));
    if ((is_dynamic && !atc_holds(task, task->src + AIPP_PARAMETERS, DTYPE_U8, block, 1)) ||
        !atc_holds(task, task->src + AIPP_PICTURE, DTYPE_U8, p->bytes, 1) ||
        !atc_holds(task, task->dst, dtype, elements, atc_item_bytes((int)dtype)))
        return "an operand is too small or of a wrong type";
    return NULL;
}

bool aipp_makes_floats(const struct task_view *task)
{
    return task->dst[0].dtype == DTYPE_F32;
}

/* An item is a row of a result. */
static struct kernel_cost cost(const void *params, const struct atc_cpu *cpu)
{
    (void)cpu;
    const struct aipp_params *p = params;
    const int64_t rows = atc_mul(p->pictures, p->height);
    return (struct kernel_cost){.items = rows,
                                .work = atc_mul(rows, atc_mul(p->width, p->channels))};
}

DEFINE_FAMILY(aipp, AIPP_FIELDS, .check = check, .cost = cost);

/* --- the parameters of a run ---------------------------------------------------------------- */

/* A field of the parameters, by where it begins, and the first that is out of range. */
struct field_check {
    int64_t at, value;
    bool failed;
};

static void require(struct field_check *c, size_t at, int64_t value, bool fits)
{
    if (!c->failed && !fits)
        *c = (struct field_check){(int64_t)at, value, true};
}

static void require_range(struct field_check *c, size_t at, int64_t value, int64_t low,
                          int64_t high)
{
    require(c, at, value, value >= low && value <= high);
}

#define IN_HEADER(field) offsetof(struct aipp_header, field)

static void check_header(struct field_check *c, const struct aipp_header *h,
                         const struct aipp_params *p)
{
    require_range(c, IN_HEADER(input_format), h->input_format, 1, AIPP_FORMATS);
    require_range(c, IN_HEADER(csc_switch), h->csc_switch, 0, 1);
    require_range(c, IN_HEADER(rbuv_swap_switch), h->rbuv_swap_switch, 0, 1);
    require_range(c, IN_HEADER(ax_swap_switch), h->ax_swap_switch, 0, 1);
    require(c, IN_HEADER(batch_num), h->batch_num, h->batch_num == p->pictures);
    require_range(c, IN_HEADER(src_image_size_w), h->src_image_size_w, 2, MAX_SIDE);
    require_range(c, IN_HEADER(src_image_size_h), h->src_image_size_h, 1, MAX_SIDE);
    if (c->failed)
        return;
    const enum aipp_format format = (enum aipp_format)(h->input_format - 1);
    const bool is_gray = format == AIPP_YUV400;
    const bool is_yuv = format == AIPP_YUV420SP;
    require(c, IN_HEADER(input_format), h->input_format, !is_gray || p->channels == 1);
    require(c, IN_HEADER(csc_switch), h->csc_switch,
            is_gray ? h->csc_switch == 0 : p->channels != 1 || h->csc_switch == 1);
    require(c, IN_HEADER(src_image_size_w), h->src_image_size_w,
            !is_yuv || h->src_image_size_w % 2 == 0);
    require(c, IN_HEADER(src_image_size_h), h->src_image_size_h,
            (!is_yuv || h->src_image_size_h % 2 == 0) &&
                p->pictures *
                        aipp_picture_bytes(format, h->src_image_size_h, h->src_image_size_w) <=
                    p->bytes);
}

#define IN_RECORD(field) (base + offsetof(struct aipp_record, field))

/* After check_header found nothing. */
static void check_record(struct field_check *c, size_t base, const struct aipp_record *r,
                         const struct aipp_header *h, const struct aipp_params *p)
{
    const bool is_yuv = h->input_format - 1 == AIPP_YUV420SP;
    int64_t crop_w = h->src_image_size_w, crop_h = h->src_image_size_h;
    require_range(c, IN_RECORD(crop_switch), r->crop_switch, 0, 1);
    require(c, IN_RECORD(scf_switch), r->scf_switch, r->scf_switch == 0);
    require_range(c, IN_RECORD(padding_switch), r->padding_switch, 0, 1);
    require(c, IN_RECORD(rotate_switch), r->rotate_switch, r->rotate_switch == 0);
    if (r->crop_switch == 1) {
        const int64_t step = is_yuv ? 2 : 1;
        const int64_t left = r->crop_start_pos_w, top = r->crop_start_pos_h;
        require(c, IN_RECORD(crop_start_pos_w), left, left >= 0 && left % step == 0);
        require(c, IN_RECORD(crop_start_pos_h), top, top >= 0 && top % step == 0);
        require_range(c, IN_RECORD(crop_size_w), r->crop_size_w, 1, crop_w - left);
        require_range(c, IN_RECORD(crop_size_h), r->crop_size_h, 1, crop_h - top);
        crop_w = r->crop_size_w;
        crop_h = r->crop_size_h;
    }
    int64_t top = 0, bottom = 0, left = 0, right = 0;
    if (r->padding_switch == 1) {
        top = r->padding_size_top;
        bottom = r->padding_size_bottom;
        left = r->padding_size_left;
        right = r->padding_size_right;
        require_range(c, IN_RECORD(padding_size_top), top, 0, MAX_PADDING);
        require_range(c, IN_RECORD(padding_size_bottom), bottom, 0, MAX_PADDING);
        require_range(c, IN_RECORD(padding_size_left), left, 0, MAX_PADDING);
        require_range(c, IN_RECORD(padding_size_right), right, 0, MAX_PADDING);
    }
    require(c, IN_RECORD(crop_size_w), crop_w, left + crop_w + right == p->width);
    require(c, IN_RECORD(crop_size_h), crop_h, top + crop_h + bottom == p->height);
    for (size_t i = 0; i < 4; i++) {
        const float low = f32_of_f16(r->min[i]), factor = f32_of_f16(r->var_reci[i]);
        require_range(c, IN_RECORD(mean) + 2 * i, r->mean[i], 0, UINT8_MAX);
        require(c, IN_RECORD(min) + 2 * i, r->min[i], low >= 0 && low <= UINT8_MAX);
        require(c, IN_RECORD(var_reci) + 2 * i, r->var_reci[i], isfinite(factor));
    }
}

static void use_header(struct aipp_settings *s, const struct aipp_header *h)
{
    s->format = (enum aipp_format)(h->input_format - 1);
    s->swap_rb = h->rbuv_swap_switch != 0;
    s->swap_ax = h->ax_swap_switch != 0;
    s->convert = h->csc_switch != 0;
    s->src_height = h->src_image_size_h;
    s->src_width = h->src_image_size_w;
    const bool to_rgb = s->format == AIPP_YUV420SP;
    for (int row = 0; row < AIPP_CHANNELS; row++) {
        int32_t offset = to_rgb ? 0 : h->output_bias[row] * 256;
        for (int i = 0; i < AIPP_CHANNELS; i++) {
            s->matrix[row][i] = h->matrix[3 * row + i];
            offset -= to_rgb ? s->matrix[row][i] * h->input_bias[i] : 0;
        }
        s->offset[row] = offset;
    }
}

static void use_record(struct aipp_settings *s, const struct aipp_record *r)
{
    s->crop_height = s->src_height;
    s->crop_width = s->src_width;
    if (r->crop_switch != 0) {
        s->crop_top = r->crop_start_pos_h;
        s->crop_left = r->crop_start_pos_w;
        s->crop_height = r->crop_size_h;
        s->crop_width = r->crop_size_w;
    }
    if (r->padding_switch != 0) {
        s->pad_top = r->padding_size_top;
        s->pad_left = r->padding_size_left;
    }
    for (int i = 0; i < AIPP_CHANNELS; i++) {
        s->mean[i] = (float)((double)r->mean[i] + (double)f32_of_f16(r->min[i]));
        s->factor[i] = f32_of_f16(r->var_reci[i]);
    }
}

static void use_arguments(struct aipp_settings *s, const struct aipp_params *p)
{
    const double mean[] = {p->mean_0, p->mean_1, p->mean_2};
    const double factor[] = {p->factor_0, p->factor_1, p->factor_2};
    s->format = (enum aipp_format)p->format;
    s->swap_rb = p->swap_rb != 0;
    s->swap_ax = p->swap_ax != 0;
    s->convert = p->convert != 0;
    s->src_height = p->src_height;
    s->src_width = p->src_width;
    s->crop_top = p->crop_top;
    s->crop_left = p->crop_left;
    s->crop_height = p->crop_height;
    s->crop_width = p->crop_width;
    s->pad_top = p->pad_top;
    s->pad_left = p->pad_left;
    for (int row = 0; row < AIPP_CHANNELS; row++) {
        for (int i = 0; i < AIPP_CHANNELS; i++)
            s->matrix[row][i] = (int32_t)p->matrix[3 * row + i];
        s->offset[row] = (int32_t)p->offset[row];
        s->mean[row] = (float)mean[row];
        s->factor[row] = (float)factor[row];
    }
}

bool aipp_read_settings(const struct kernel_args *args, int64_t picture,
                        struct aipp_settings *settings)
{
    const struct aipp_params *p = args->params;
    const uint8_t *block = args->src[AIPP_PARAMETERS];
    *settings = (struct aipp_settings){.padding = (float)p->padding};
    if (block == NULL) {
        use_arguments(settings, p);
        return true;
    }
    /* Copied before they are checked: a caller may write to an input while a run reads it. */
    struct aipp_header header;
    struct aipp_record record;
    const size_t base = sizeof header + (size_t)picture * sizeof record;
    memcpy(&header, block, sizeof header);
    memcpy(&record, block + base, sizeof record);
    struct field_check found = {0};
    check_header(&found, &header, p);
    if (!found.failed)
        check_record(&found, base, &record, &header, p);
    if (found.failed) {
        atc_note_fault(args->fault, FAULT_PARAMETER, found.value, found.at);
        return false;
    }
    use_header(settings, &header);
    use_record(settings, &record);
    return true;
}
