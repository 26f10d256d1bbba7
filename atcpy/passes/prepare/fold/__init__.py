"""Inference of types and shapes, constant folding, and expansion of ops that no engine runs."""

from atcpy.passes.prepare.fold import (
    constants,
    control_flow,
    expand,
)
