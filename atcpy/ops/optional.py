"""Optional: a value that may be missing. One that is there is the value itself, one that is not is None."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Node
from atcpy.ir.tensor import Array
from atcpy.ops.core.opdef import OpDef, register_operator


def evaluate_optional(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """The value, or None; ONNX's reference wraps it into a list, which is a sequence."""
    return [arrays[0] if arrays else None]  # type: ignore[list-item]  # sequences and None are no arrays


register_operator(OpDef(name="Optional", evaluate=evaluate_optional))
