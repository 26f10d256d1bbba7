"""Det: determinants of square matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable

from atcpy.ir import DType, Engine, Node, Reject
from atcpy.ops.core.opdef import KernelCall, OpDef, register_operator

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})
MAX_SIDE = 128


def supports_det(node: Node) -> Iterable[Reject]:
    """Matrices that fit a core's cache: LAPACK, which the host calls, takes less time for larger ones."""
    x = node.operand(0).desc
    if x.dtype not in DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)
    if not x.is_static or not node.output.desc.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) < 2 or x.static_shape[-1] != x.static_shape[-2]:
        yield Reject("rank", node.name, "no square matrices")
    elif not 1 <= x.static_shape[-1] <= MAX_SIDE:
        yield Reject("size", node.name, f"matrices of {x.static_shape[-1]} rows")


def lower_det(node: Node) -> Iterable[KernelCall]:
    """One launch of `det`."""
    *batch, n, _ = node.operand(0).desc.static_shape
    if count := math.prod(batch):
        yield KernelCall("det", (node.operand(0),), (node.output,), {"count": count, "n": n})


register_operator(OpDef(name="Det", engines={Engine.AICPU: supports_det}, lower=lower_det))
