"""Reductions, cumulative sums and TopK."""

from atcpy.ops.reduce import cumulate, reduce, topk
