"""Resize, grids, regions and boxes."""

from atcpy.ops.image import grid_sample, nms, resize, roi
