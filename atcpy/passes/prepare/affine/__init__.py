"""Absorption of y = k · x + c, channel by channel, into the op beside it."""

from atcpy.passes.prepare.affine import (
    batchnorm_chain,
    conv_batchnorm,
    gemm_input,
    gemm_output,
    norm_scale_bias,
    product_weights,
)
