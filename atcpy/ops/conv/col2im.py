"""Col2Im: blocks side by side, summed into the image that they were cut from."""

from __future__ import annotations

import math
from collections.abc import Iterable

from atcpy.ir import DType, Engine, Node, Reject
from atcpy.ops.core.axes import constant_integers, rejects_operand
from atcpy.ops.core.opdef import KernelCall, OpDef, ParamValue, register_operator
from atcpy.ops.core.spatial import MAX_SPATIAL, leading, window_of

DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})
IMAGE, BLOCK = 1, 2


def supports_col2im(node: Node) -> Iterable[Reject]:
    """Floats in up to three dims, whose sizes are constants that fit the columns."""
    x = node.operand(0).desc
    if x.dtype not in DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)
    constant = not any([*rejects_operand(node, IMAGE, "sizes"), *rejects_operand(node, BLOCK, "sizes")])
    if not constant or not x.is_static or not node.output.desc.is_static:
        yield Reject("shape-unknown", node.name)
        return
    image, block = constant_integers(node, IMAGE), constant_integers(node, BLOCK)
    if len(image) > MAX_SPATIAL or len(image) != len(block):
        yield Reject("rank", node.name, f"{len(image)} spatial dims")
    elif 0 in (*image, *block, *x.static_shape[1:]) or min(_columns(node)) < 1:
        yield Reject("empty", node.name)
    elif math.prod(_columns(node)) != x.static_shape[2] or x.static_shape[1] % math.prod(block):
        yield Reject("size", node.name, "the columns are not those of the image")


def _columns(node: Node) -> tuple[int, ...]:
    """Blocks along each dim."""
    image, block = constant_integers(node, IMAGE), constant_integers(node, BLOCK)
    window = window_of(node, block, image)
    return tuple(
        (size + window.pads_begin[axis] + window.pads_end[axis] - window.effective(axis)) // window.strides[axis] + 1
        for axis, size in enumerate(image)
    )


def lower_col2im(node: Node) -> Iterable[KernelCall]:
    """One launch of `col2im`."""
    x = node.operand(0)
    image, block = constant_integers(node, IMAGE), constant_integers(node, BLOCK)
    window = window_of(node, block, image)
    n, channels, _ = x.desc.static_shape
    params: dict[str, ParamValue] = {
        "planes": n * (channels // math.prod(block)), "image": leading(image, 1), "kernel": leading(block, 1),
        "cols": leading(_columns(node), 1), "stride": leading(window.strides, 1),
        "dilation": leading(window.dilations, 1), "pad": leading(window.pads_begin, 0),
    }  # fmt: skip
    yield KernelCall("col2im", (x,), (node.output,), params)


register_operator(OpDef(name="Col2Im", engines={Engine.AICPU: supports_col2im}, lower=lower_col2im))
