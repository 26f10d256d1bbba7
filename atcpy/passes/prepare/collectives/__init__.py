"""Aggregation of collectives."""

from atcpy.passes.prepare.collectives import (
    fuse_allreduces,
    gradient_segments,
)
