"""Fewer and cheaper Transposes and Reshapes: the order and grouping of dims."""

from atcpy.passes.prepare.layout import (
    channel_order,
    flip_regions,
    merge_moves,
    one_spatial_dim,
    regions,
    reshape_factors,
    sink_moves,
    transpose_operands,
    transpose_weights,
    view_regions,
)
