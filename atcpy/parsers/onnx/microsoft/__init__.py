"""ONNX Runtime's own ops, written in ops of the standard; importing a module registers its functions."""

from atcpy.parsers.onnx.microsoft import (
    activations,
    attention,
    blocks,
    collectives,
    convolution,
    embedding,
    gradients,
    grouped_attention,
    inverse,
    losses,
    matmul,
    movement,
    movement_gradients,
    normalization,
    quantized,
    quantized_matmul,
    recurrent,
    training,
    window_gradients,
)

FAMILIES = (
    activations, attention, blocks, collectives, convolution, embedding, gradients, grouped_attention, inverse, losses,
    matmul, movement, movement_gradients, normalization, quantized, quantized_matmul, recurrent, training,
    window_gradients,
)  # fmt: skip
