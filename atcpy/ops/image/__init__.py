"""Resize, grids, regions, boxes, and pictures as inputs."""

from atcpy.ops.image import aipp, grid_sample, nms, resize, roi
