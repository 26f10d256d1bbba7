"""Passes of the stage prepare, engine-neutral."""

from atcpy.passes.prepare import (
    conv_batchnorm,
    conv_bias,
    custom_op,
    expand,
    fold_constants,
    gelu,
    hard_swish,
    merge_equal,
    one_spatial_dim,
    qlinear_binary,
    qlinear_conv,
    qlinear_matmul,
    quantize_clip,
    quantized_moves,
    remove_dead,
    remove_identity,
    remove_requantize,
    swish,
    transpose_weights,
)
