"""ONNX Runtime's own ops, written in ops of the standard; importing a module registers its functions."""

from atcpy.parsers.onnx.microsoft import (
    gradients,
    inverse,
    losses,
    movement_gradients,
    training,
    window_gradients,
)

FAMILIES = (gradients, inverse, losses, movement_gradients, training, window_gradients)
