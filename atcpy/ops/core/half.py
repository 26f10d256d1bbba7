"""The 16-bit floats. Kernels compute in float32; weights stay in 16 bits until a kernel widens them."""

from __future__ import annotations

from collections.abc import Iterable

from atcpy.ir import DType, Node, Reject

HALF_DTYPES = frozenset({DType.FLOAT16, DType.BFLOAT16})


def supports_weights(node: Node, index: int, half: Iterable[int]) -> Iterable[Reject]:
    """A reason if constant weights are of another type than the activations, and not at one of the
    inputs `half` where 16 bits will do.
    """
    x, w = node.operand(0).desc.dtype, node.operand(index).desc.dtype
    narrow = x is DType.FLOAT32 and w in HALF_DTYPES and index in half
    if w is not x and not narrow:
        yield Reject("mixed-types", node.name, f"weights are {w.long}, activations {x.long}")
