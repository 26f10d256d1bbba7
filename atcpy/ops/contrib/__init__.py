"""ONNX Runtime's own ops, most of the domain com.microsoft; importing a module registers its records."""

from atcpy.ops.contrib import (
    activations,
    attention,
    blocks,
    collectives,
    convolution,
    embedding,
    experimental,
    grouped_attention,
    inverse,
    matmul,
    movement,
    normalization,
    quantized,
    quantized_matmul,
    recurrent,
    training,
)

FAMILIES = (
    activations, attention, blocks, collectives, convolution, embedding, experimental,
    grouped_attention, inverse, matmul, movement, normalization, quantized, quantized_matmul, recurrent,
    *training.FAMILIES,
)  # fmt: skip
