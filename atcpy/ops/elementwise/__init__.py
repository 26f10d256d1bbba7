"""Ops on each element, and GraphKernel, which joins them."""

from atcpy.ops.elementwise import binary, cast, classify, clip, elementwise, graph_kernel, pow, where
