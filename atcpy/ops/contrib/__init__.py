"""ONNX Runtime's own ops of the domain com.microsoft; importing a module registers its records."""

from atcpy.ops.contrib import (
    activations,
)

FAMILIES = (activations,)
