"""Tensors that are one number in all places."""

from __future__ import annotations

from typing import Final

import numpy as np

from atcpy.ir import Tensor, Value
from atcpy.ir.tensor import Array

# Ops whose result is made of the elements of their first operand.
_REPEATING: Final = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Unsqueeze"})


def elements(value: Value) -> Array | None:
    """The elements of a value, some of them if they are all equal; None if they are not known."""
    while value.producer.op_type in _REPEATING and value.index == 0:
        value = value.producer.operand(0)
    if value.producer.op_type == "ConstantOfShape":
        fill = value.producer.attrs.get("value")
        return fill.array if isinstance(fill, Tensor) else np.zeros(1, np.float32)
    return None if value.tensor is None else value.array


def is_zero(value: Value) -> bool:
    """Is it +0 in all places?"""
    held = elements(value)
    return held is not None and not held.any() and not np.signbit(held).any()
