"""Quantisation, and products and elementwise ops on quantised bytes."""

from atcpy.ops.quant import qelementwise, qgemm, quantize
