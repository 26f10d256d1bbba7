"""ONNX Runtime's own ops, written in ops of the standard; importing a module registers its functions."""

from atcpy.parsers.onnx.microsoft import (
    activations,
    attention,
    blocks,
    collectives,
    convolution,
    embedding,
    grouped_attention,
    inverse,
    matmul,
    movement,
    normalization,
    quantized,
    quantized_matmul,
    recurrent,
)

FAMILIES = (
    activations, attention, blocks, collectives, convolution, embedding, grouped_attention, inverse, matmul, movement,
    normalization, quantized, quantized_matmul, recurrent,
)  # fmt: skip
