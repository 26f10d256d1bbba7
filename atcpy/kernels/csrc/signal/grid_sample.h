/* grid_sample: images at positions that a grid says, between −1 and 1 in each dim.
 *
 *     x     [n, c, in…]      in two dims the first of three is 1
 *     grid  [n, out…, dims]  the last dim of the image first
 *     y     [n, c, out…]
 */
#ifndef ATC_GRID_SAMPLE_H
#define ATC_GRID_SAMPLE_H

#include "core/pieces.h"

enum { GRID_DIMS = 3, GRID_TAPS = 4 };
enum grid_mode { GRID_NEAREST, GRID_LINEAR, GRID_CUBIC };
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };
extern const char *const grid_mode_names[], *const grid_padding_names[];

#define GRID_SAMPLE_FIELDS(I64, I64S, F64, ENUM)                                                   \
    I64(n)                                                                                         \
    I64(c) I64S(in, GRID_DIMS) I64S(out, GRID_DIMS) I64(dims) ENUM(mode, grid_mode_names)          \
        ENUM(padding, grid_padding_names) I64(align_corners)
DECLARE_PARAMS(grid_sample, GRID_SAMPLE_FIELDS)

enum { GRID_X, GRID_GRID, GRID_OPERANDS };

#endif
