"""Ops that move elements, and shape arithmetic."""

from atcpy.ops.move import (
    cache,
    center_crop_pad,
    compress,
    concat,
    elements,
    expand,
    gather,
    nonzero,
    onehot,
    pad,
    reshape,
    scatter,
    sequence,
    shape,
    shape_value,
    slice,
    transpose,
    trilu,
)
