"""ONNX Runtime's own ops of the domain com.microsoft; importing a module registers its records."""

from atcpy.ops.contrib import (
    activations,
    attention,
    blocks,
    collectives,
    convolution,
    embedding,
    grouped_attention,
    matmul,
    movement,
    normalization,
    quantized,
    quantized_matmul,
    recurrent,
)

FAMILIES = (
    activations, attention, blocks, collectives, convolution, embedding, grouped_attention, matmul, movement,
    normalization, quantized, quantized_matmul, recurrent,
)  # fmt: skip
