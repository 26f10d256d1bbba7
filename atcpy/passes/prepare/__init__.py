"""Passes of the stage prepare, engine-neutral."""

from atcpy.passes.prepare import (
    conv_batchnorm,
    conv_bias,
    expand,
    fold_constants,
    gelu,
    hard_swish,
    merge_equal,
    one_spatial_dim,
    remove_dead,
    remove_identity,
    swish,
    transpose_weights,
)
