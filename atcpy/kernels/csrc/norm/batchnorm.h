/* batchnorm: (x − mean) · scale / √(var + epsilon) + bias, channel by channel.
 *
 *     x, y                    [n, C1, pixels, c0]: c0 = 16 (NC1HWC0), or c0 = 1 and C1 = c (NCHW)
 *     scale, bias, mean, var  [c]
 *
 * Without mean and var they are those of each channel of each picture: InstanceNormalization.
 * y may be x. Channels beyond c in the last block are not read from the vectors.
 */
#ifndef ATC_BATCHNORM_H
#define ATC_BATCHNORM_H

#include "core/kernel.h"

enum { BATCHNORM_C0 = 16 };
enum { BN_X, BN_SCALE, BN_BIAS, BN_MEAN, BN_VAR, BN_OPERANDS };

#define BATCHNORM_FIELDS(I64, I64S, F64, ENUM) I64(n) I64(c) I64(pixels) I64(c0) F64(epsilon)
DECLARE_PARAMS(batchnorm, BATCHNORM_FIELDS)

#endif
