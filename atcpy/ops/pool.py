"""Pooling: MaxPool and AveragePool in two spatial dims, in NCHW or NC1HWC0.

The global pools are reductions over all spatial dims: `ops/reduce.py` lowers them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Shape
from atcpy.ops.opdef import KernelCall, Known, Layout, OpDef, ParamValue, register_operator
from atcpy.ops.spatial import Window, output_size, window_of

KERNEL_DTYPES = {
    "MaxPool": frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8}),
    "AveragePool": frozenset({DType.FLOAT32, DType.FLOAT64}),
}
KINDS = {"MaxPool": "max", "AveragePool": "avg"}


def infer_pool(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, S…] gives [N, C, S'…]; MaxPool's second output, the indices, has the same shape."""
    x = node.operand(0).desc
    shape: Shape | None = None
    if x.shape is not None:
        window = pool_window(node, x.shape)
        ceil_mode = node.int_attr("ceil_mode", 0) != 0
        sizes = (output_size(node, size, window, axis, ceil_mode=ceil_mode) for axis, size in enumerate(x.shape[2:]))
        shape = (*x.shape[:2], *sizes)
    return [TensorDesc.plain(dtype, shape) for dtype in (x.dtype, DType.INT64)[: len(node.outputs)]]


def pool_window(node: Node, x: Shape) -> Window:
    """The window of a pooling node over an input of that shape."""
    kernel = node.ints_attr("kernel_shape")
    if len(x) < 3:
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(x)} has no spatial dims")
    if len(kernel) != len(x) - 2 or any(size < 1 for size in kernel):
        what = f"kernel_shape = {list(kernel)} for {len(x) - 2} spatial dims"
        raise ModelInvalid("E13014", where=node, what=what)
    return window_of(node, kernel, x[2:])


def supports_pool(node: Node) -> Iterable[Reject]:
    """The kernels take two spatial dims and make no indices."""
    x = node.operand(0).desc
    if x.dtype not in KERNEL_DTYPES[node.op_type]:
        yield Reject("dtype", node.name, x.dtype.long)
    if not x.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) != 4:
        yield Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    elif 0 in x.static_shape:
        yield Reject("empty", node.name)
    elif min(pool_window(node, x.static_shape).pads_begin + pool_window(node, x.static_shape).pads_end) < 0:
        yield Reject("negative-pads", node.name)
    if len(node.outputs) > 1 and node.outputs[1].use_count:
        yield Reject("indices-used", node.name)


def layout_pool(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In NC1HWC0 where the input is: no element meets another channel."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    return Layout((NC1HWC0,), (NC1HWC0, *[None] * (len(node.outputs) - 1)))


def lower_pool(node: Node) -> Iterable[KernelCall]:
    """One launch of `pool2d`."""
    x, y = node.operand(0), node.output
    n, c, h, w = x.desc.static_shape
    _, _, oh, ow = y.desc.static_shape
    window = pool_window(node, x.desc.static_shape)
    (kh, kw), (sh, sw), (dh, dw) = window.kernel, window.strides, window.dilations
    (pt, pl), (pb, pr) = window.pads_begin, window.pads_end
    c0 = x.desc.format.c0 or 1
    params: dict[str, ParamValue] = {
        "planes": n * -(-c // c0), "h": h, "w": w, "oh": oh, "ow": ow, "kh": kh, "kw": kw, "sh": sh, "sw": sw,
        "dh": dh, "dw": dw, "pt": pt, "pl": pl, "pb": pb, "pr": pr, "c0": c0, "kind": KINDS[node.op_type],
        "include_pad": int(node.int_attr("count_include_pad", 0) != 0),
    }  # fmt: skip
    yield KernelCall("pool2d", (x,), (y,), params)


for _name, _ge_type in (("MaxPool", "MaxPoolV3"), ("AveragePool", "AvgPool")):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=infer_pool,
            engines={Engine.VECTOR: supports_pool},
            layout=layout_pool,
            lower=lower_pool,
        )
    )
