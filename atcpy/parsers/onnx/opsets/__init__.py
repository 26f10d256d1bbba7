"""Every step of canonicalisation; importing a module registers its functions."""

from atcpy.parsers.onnx import gradient, microsoft, normalize, optimizers
from atcpy.parsers.onnx.opsets import (
    ml_opset_2,
    opset_2,
    opset_3,
    opset_4,
    opset_5,
    opset_6,
    opset_7,
    opset_9,
    opset_10,
    opset_11,
    opset_12,
    opset_13,
    opset_14,
    opset_16,
    opset_18,
    opset_20,
    opset_21,
)

STEPS = (
    opset_2, opset_3, opset_4, opset_5, opset_6, opset_7, opset_9, opset_10, opset_11, opset_12, opset_13, opset_14,
    opset_16, opset_18, opset_20, opset_21, ml_opset_2, normalize, gradient,
    optimizers, microsoft,
)  # fmt: skip
