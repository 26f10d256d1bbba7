"""Normalizations, Softmax and losses."""

from atcpy.ops.norm import loss, norm, norm_of_sum, softmax
