/* aipp: pictures of bytes become what a model takes, in one pass over their rows.
 *
 *     picture     the pictures one after another, bytes
 *     parameters  those of each run (dynamic AIPP), or left out: then the arguments have them
 *     y           [pictures, channels, height, width] if `planar`, else [pictures, height, width,
 *                 channels]; float32, or bytes, which take neither mean nor factor
 *
 * Channels change places, then the crop, the conversion between colour spaces, mean and factor; the
 * rest of the result is padding. U and V of YUV420SP are repeated 2×2.
 *
 *     level = clamp((matrix · channels + offset) >> 8, 0, 255)       if `convert`
 *     y = (level - mean) · factor
 */
#ifndef ATC_AIPP_H
#define ATC_AIPP_H

#include "core/kernel.h"

enum { AIPP_PICTURE, AIPP_PARAMETERS, AIPP_OPERANDS };
enum { AIPP_CHANNELS = 3 };

/* One more than this is the number of the format in the parameters of a run. */
enum aipp_format { AIPP_YUV420SP, AIPP_XRGB8888, AIPP_RGB888, AIPP_YUV400, AIPP_FORMATS };

extern const char *const aipp_format_names[];

/* `bytes` is the size of all pictures together, at most where the parameters come with the run. */
#define AIPP_FIELDS(I64, I64S, F64, ENUM)                                                          \
    I64(pictures) I64(channels) I64(height) I64(width) I64(planar) I64(bytes)                      \
    ENUM(format, aipp_format_names) I64(src_height) I64(src_width) I64(swap_rb) I64(swap_ax)       \
    I64(crop_top) I64(crop_left) I64(crop_height) I64(crop_width) I64(pad_top) I64(pad_left)       \
    I64(convert) I64S(matrix, 9) I64S(offset, 3) F64(padding)                                      \
    F64(mean_0) F64(mean_1) F64(mean_2) F64(factor_0) F64(factor_1) F64(factor_2)
DECLARE_PARAMS(aipp, AIPP_FIELDS)

/* The settings of one picture, all of them checked. */
struct aipp_settings {
    enum aipp_format format;
    bool swap_rb, swap_ax, convert;
    int64_t src_height, src_width;
    int64_t crop_top, crop_left, crop_height, crop_width;
    int64_t pad_top, pad_left;
    int32_t matrix[AIPP_CHANNELS][AIPP_CHANNELS];
    int32_t offset[AIPP_CHANNELS];
    float padding, mean[AIPP_CHANNELS], factor[AIPP_CHANNELS];
};

/* Bytes of a picture of that format. */
int64_t aipp_picture_bytes(enum aipp_format format, int64_t height, int64_t width);

/* False, and a fault noted, if the parameters of the run do not fit. */
bool aipp_read_settings(const struct kernel_args *args, int64_t picture,
                        struct aipp_settings *settings);

#endif
