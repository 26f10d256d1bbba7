"""A node while it is brought to an older opset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy.typing as npt
import onnx

from atcpy.ir import Shape, Tensor, Value

Operand = Value | Tensor | None


class CannotDowngrade(Exception):
    """A node cannot be written at an older opset; says why."""


@dataclass(slots=True)
class OpsetForm:
    """What a step down reads and changes. `version` is that of the op before the step."""

    op_type: str
    attrs: dict[str, object]
    inputs: list[Operand]
    outputs: Sequence[Value]
    version: int = 0

    def input(self, index: int) -> Operand:
        """Return input `index`, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def take_array(self, index: int) -> npt.NDArray[Any] | None:
        """Remove an input that the older op lacks and return its elements; None if it is left out. Raises
        CannotDowngrade if it is no constant.
        """
        array = self.array(index)
        if array is not None:
            self.inputs[index] = None
        return array

    def array(self, index: int) -> npt.NDArray[Any] | None:
        """Return the elements of an input; None if it is left out. Raises CannotDowngrade if it is no constant."""
        operand = self.input(index)
        tensor = operand.tensor if isinstance(operand, Value) else operand
        if tensor is None and operand is not None:
            raise CannotDowngrade(f"input {index} is computed")
        return None if tensor is None else tensor.array

    def shape(self, index: int) -> Shape | None:
        """Return the shape of an input, if it is known."""
        operand = self.input(index)
        if isinstance(operand, Tensor):
            return operand.shape
        return None if operand is None else operand.desc.shape

    def rank(self) -> int:
        """Return the rank of input 0. Raises CannotDowngrade if it is not known."""
        shape = self.shape(0)
        if shape is None:
            raise CannotDowngrade("the rank of its input is not known")
        return len(shape)

    def default(self, name: str) -> object:
        """Return the default of an attribute at `version`, or None if it has none."""
        return default_of(self.op_type, self.version, name)


@cache
def default_of(op_type: str, version: int, name: str) -> object:
    """Return the default of an attribute of a standard op as a node of the IR has it, or None if it has none."""
    attr = onnx.defs.get_schema(op_type, version).attributes.get(name)
    if attr is None or not attr.default_value.type:
        return None
    value = onnx.helper.get_attribute_value(attr.default_value)
    return value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
