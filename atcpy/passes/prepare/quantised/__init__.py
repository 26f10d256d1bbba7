"""Integer computation between DequantizeLinear and QuantizeLinear."""

from atcpy.passes.prepare.quantised import (
    integer_moves,
    qlinear_binary,
    qlinear_conv,
    qlinear_matmul,
    requantize,
    saturating_clip,
)
