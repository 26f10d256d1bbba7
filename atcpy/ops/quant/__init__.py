"""Quantisation, and products and elementwise ops on quantised bytes."""

from atcpy.ops.quant import int4_matmul, qelementwise, qgemm, quantize
