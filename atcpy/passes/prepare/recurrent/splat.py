"""Tensors whose elements are all equal."""

from __future__ import annotations

import numpy as np

from atcpy.ir import Node, Tensor, Value
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, has_trait


def elements(value: Value) -> Array | None:
    """Return the elements of a value, fewer of them if they are all equal; None if they are not known."""
    while value.index == 0 and _keeps_elements(value.producer):
        value = value.producer.operand(0)
    if value.producer.op_type == "ConstantOfShape":
        fill = value.producer.attrs.get("value")
        return fill.array if isinstance(fill, Tensor) else np.zeros(1, np.float32)
    return None if value.tensor is None else value.array


def _keeps_elements(node: Node) -> bool:
    return node.op_type == "Identity" or has_trait(node, Trait.RESHAPE | Trait.BROADCAST)


def is_zero(value: Value) -> bool:
    """Return whether all elements are +0."""
    found = elements(value)
    return found is not None and not found.any() and not np.signbit(found).any()
