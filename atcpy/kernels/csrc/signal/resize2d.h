/* resize2d: [outer, h, w, c0] to [outer, oh, ow, c0], by nearest pixel or linearly.
 *
 * Where a result lies in the source is computed in float32, with ONNX Runtime's formulas, or with
 * those of TensorFlow's kernels. A scale of 0 is the ratio of the sides. Nearest moves pixels of c0
 * elements of `item` bytes; linear is of float32.
 */
#ifndef ATC_RESIZE2D_H
#define ATC_RESIZE2D_H

#include "core/kernel.h"

enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR };
enum resize_coordinates {
    HALF_PIXEL,
    HALF_PIXEL_SYMMETRIC,
    PYTORCH_HALF_PIXEL,
    ALIGN_CORNERS,
    ASYMMETRIC,
    TF_HALF_PIXEL,
    TF_HALF_PIXEL_FOR_NN,
    TF_ALIGN_CORNERS,
    TF_ASYMMETRIC,
};
enum resize_rounding { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, ROUND_FLOOR, ROUND_CEIL };
extern const char *const resize_mode_names[], *const resize_coordinates_names[],
                                                  *const resize_rounding_names[];

#define RESIZE2D_FIELDS(I64, I64S, F64, ENUM)                                                      \
    I64(outer)                                                                                     \
    I64(h) I64(w) I64(oh) I64(ow) I64(c0) I64(item) F64(scale_h) F64(scale_w)                      \
        ENUM(mode, resize_mode_names) ENUM(coordinates, resize_coordinates_names)                  \
            ENUM(rounding, resize_rounding_names)
DECLARE_PARAMS(resize2d, RESIZE2D_FIELDS)

/* The two pixels that a result lies between, and what each counts; nearest takes `low`. */
struct resize_tap {
    int32_t low, high;
    float low_weight, high_weight;
};

/* The taps of a row, field by field. */
struct resize_taps {
    int32_t *low, *high;
    float *low_weight, *high_weight;
};

/* Mixes whole rows: dst = low · low_weight + high · high_weight. */
typedef void (*resize_mix_rows)(float *dst, const float *low, const float *high,
                                const struct resize_tap *tap, int64_t n);
/* Mixes pixels of a row: one of dst for each of n taps. */
typedef void (*resize_mix_pixels)(float *dst, const float *row, const struct resize_taps *taps,
                                  int64_t n, int64_t c0);

/* Pixels of one row, each of some bytes: the one that each of n taps names. */
typedef void (*resize_pick_pixels)(uint8_t *dst, const uint8_t *src, const int32_t *low, int64_t n,
                                   int64_t bytes);
/* Each of n pixels twice; of at most 8 bytes. They go to another row, too, unless `also` is NULL.
 */
typedef void (*resize_double_pixels)(uint8_t *dst, uint8_t *also, const uint8_t *src, int64_t n,
                                     int64_t bytes);

void resize2d_nearest(const struct kernel_args *args, resize_pick_pixels pick,
                      resize_double_pixels twice);
void resize2d_linear(const struct kernel_args *args, resize_mix_rows rows,
                     resize_mix_pixels pixels);
bool resize2d_is_linear(const struct task_view *task);

#endif
