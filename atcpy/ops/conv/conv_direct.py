"""Convolutions on plain tensors: what the blocked kernels of Conv and ConvTranspose do not take.

Float64, weights or biases that are computed, empty tensors; one, two or three spatial dims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from atcpy.ir import DType, Node, Reject
from atcpy.ops.core.opdef import KernelCall, ParamValue
from atcpy.ops.core.spatial import MAX_SPATIAL, Window, leading

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})


def supports_direct(node: Node) -> Iterable[Reject]:
    """Known shapes of up to three spatial dims."""
    x = node.operand(0).desc
    if x.dtype not in DTYPES or any(value.desc.dtype is not x.dtype for value in node.operands):
        yield Reject("dtype", node.name, x.dtype.long)
    if not all(value.desc.is_static for value in (*node.operands, node.output)):
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) > MAX_SPATIAL + 2:
        yield Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    elif 0 in x.static_shape[2:]:
        yield Reject("empty", node.name)


def lower_direct(node: Node, window: Window, *, transposed: bool) -> Iterable[KernelCall]:
    """One launch of `convnd`."""
    if 0 in node.output.desc.static_shape:
        return
    n, c, *spatial = node.operand(0).desc.static_shape
    _, m, *result = node.output.desc.static_shape
    group = node.int_attr("group", 1)
    if spatial == result and window.is_pointwise:
        spatial = result = [math.prod(spatial)]  # one long row
        window = Window((1,), (1,), (1,), (0,), (0,))
    params: dict[str, ParamValue] = {
        "n": n, "group": group, "cg": c // group, "mg": m // group, "in": leading(spatial, 1),
        "out": leading(result, 1), "kernel": leading(window.kernel, 1), "stride": leading(window.strides, 1),
        "dilation": leading(window.dilations, 1), "pad": leading(window.pads_begin, 0), "transposed": int(transposed),
    }  # fmt: skip
    yield KernelCall("convnd", (*node.inputs, None)[:3], (node.output,), params)
