"""ONNX Runtime's own ops, written in ops of the standard; importing a module registers its functions."""

from atcpy.parsers.onnx.microsoft import (
    activations,
    attention,
    convolution,
    embedding,
    grouped_attention,
    matmul,
    movement,
    normalization,
    quantized,
    quantized_matmul,
)

FAMILIES = (
    activations, attention, convolution, embedding, grouped_attention, matmul, movement, normalization, quantized,
    quantized_matmul,
)  # fmt: skip
