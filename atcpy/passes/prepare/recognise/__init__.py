"""Recognition of ops that exporters write as several nodes."""

from atcpy.passes.prepare.recognise import (
    clip,
    custom_op,
    depth_to_space,
    elu,
    gelu,
    hard_swish,
    l2_norm,
    layer_norm,
    leaky_relu,
    mish,
    reduce_mean,
    softmax,
    space_to_depth,
    swish,
)
