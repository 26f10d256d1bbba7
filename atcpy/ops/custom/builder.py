"""Writing an operator in ops of the standard: `ops.Relu(ops.Add(x, y))`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from atcpy import ir
from atcpy.ir import Value
from atcpy.ops.core.reference import find_schema
from atcpy.ops.custom.types import AttrValue, TensorType


class Builder:
    """Creates the nodes that replace one of the operator. Each op of the standard is a method: its inputs are values,
    arrays (constants), numbers (constants of the first value's element type) or None; keywords are attributes;
    `outputs=2` asks for several results. `attrs` are the attributes of the operator's node.
    """

    def __init__(self, builder: ir.Builder, attrs: Mapping[str, AttrValue]) -> None:
        self.attrs = dict(attrs)
        self._builder = builder

    def type(self, value: Value) -> TensorType | None:
        """The type of an input, None as long as it is not known."""
        return TensorType.of(value.desc)

    def __getattr__(self, op_type: str) -> Callable[..., Any]:
        if op_type.startswith("_") or find_schema(op_type, "") is None:
            raise AttributeError(f"the ONNX standard has no op {op_type}")

        def insert(*inputs: Any, outputs: int = 1, **attrs: Any) -> Value | list[Value]:
            results = self._builder.ops(op_type, *self._operands(inputs), outputs=outputs, **_frozen(attrs))
            return results[0] if outputs == 1 else results

        return insert

    def _operands(self, inputs: tuple[Any, ...]) -> list[Value | None]:
        first = next((item for item in inputs if isinstance(item, Value)), None)
        return [item if item is None or isinstance(item, Value) else self._const(item, first) for item in inputs]

    def _const(self, item: Any, like: Value | None) -> Value:
        if isinstance(item, np.ndarray | np.generic):
            return self._builder.const(item)
        if isinstance(item, bool | int | float) and like is not None:
            return self._builder.const(item, dtype=like.desc.dtype)
        raise TypeError(f"{item!r} is neither a value nor an array, nor a number beside a value")


def _frozen(attrs: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}
