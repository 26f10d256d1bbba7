"""Pooling: MaxPool, AveragePool and LpPool; two spatial dims in NCHW or NC1HWC0, others plain.

The global pools are reductions over all spatial dims: `ops/reduce/reduce.py` lowers them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, Node, Reject, TensorDesc
from atcpy.ir.shape import Shape, StaticShape
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.spatial import MAX_SPATIAL, Window, leading, output_size, window_of
from atcpy.ops.core.strided import item_bytes, rejects_value, supports_movement

KERNEL_DTYPES = {
    "MaxPool": frozenset({DType.FLOAT32, DType.FLOAT64, DType.INT8, DType.UINT8}),
    "AveragePool": frozenset({DType.FLOAT32, DType.FLOAT64}),
    "LpPool": frozenset({DType.FLOAT32, DType.FLOAT64}),
}
KINDS = {"MaxPool": "max", "AveragePool": "avg", "LpPool": "lp"}


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
    """Known shapes of up to three spatial dims."""
    x = node.operand(0).desc
    if x.dtype not in KERNEL_DTYPES[node.op_type]:
        yield Reject("dtype", node.name, x.dtype.long)
    if not x.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.static_shape) > MAX_SPATIAL + 2:
        yield Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    elif 0 in x.static_shape[2:]:
        yield Reject("empty", node.name)


def plain_reason(node: Node) -> Reject | None:
    """Why a pool does not run in two dims, in blocks or not, or None if it does."""
    x = node.operand(0).desc
    if len(x.static_shape) != 4 or 0 in x.static_shape:
        return Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    if has_indices(node):
        return Reject("indices-used", node.name)
    return Reject("norm", node.name) if node.op_type == "LpPool" else None


def has_indices(node: Node) -> bool:
    """True if somebody reads where the largest elements lie."""
    return len(node.outputs) > 1 and node.outputs[1].use_count > 0


def layout_pool(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """In NC1HWC0 where the input is: no element meets another channel."""
    if at_hand[0] != NC1HWC0:
        return Reject("no-blocked-input", node.name)
    reason = plain_reason(node)
    if reason is not None:
        return reason
    return Layout((NC1HWC0,), (NC1HWC0, *[None] * (len(node.outputs) - 1)))


def lower_pool(node: Node) -> Iterable[KernelCall]:
    """One launch of `pool2d`; what it does not take, by `poolnd`."""
    if plain_reason(node) is not None:
        yield from lower_plain(node)
        return
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


def lower_plain(node: Node) -> Iterable[KernelCall]:
    """One launch of `poolnd`."""
    x = node.operand(0)
    n, c, *spatial = x.desc.static_shape
    window = pool_window(node, x.desc.static_shape)
    params: dict[str, ParamValue] = {
        "planes": n * c, "in": leading(spatial, 1), "out": leading(node.output.desc.static_shape[2:], 1),
        "kernel": leading(window.kernel, 1), "stride": leading(window.strides, 1),
        "dilation": leading(window.dilations, 1), "pad_begin": leading(window.pads_begin, 0),
        "pad_end": leading(window.pads_end, 0), "kind": KINDS[node.op_type], "p": node.int_attr("p", 2),
        "include_pad": int(node.int_attr("count_include_pad", 0) != 0),
        "column_major": int(node.int_attr("storage_order", 0) != 0),
    }  # fmt: skip
    yield KernelCall("poolnd", (x,), tuple(node.outputs if has_indices(node) else node.outputs[:1]), params)


# --- MaxUnpool ---------------------------------------------------------------------------------


def infer_unpool(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The dims that operand 2 asks for, else those that were pooled."""
    x = node.operand(0).desc
    if x.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    pool_window(node, x.shape)
    if node.input(2) is not None:
        stated = known(node.input(2))
        if stated is not None and len(stated) != len(x.shape):
            raise ModelInvalid("EZ8888", where=node, what=f"output_shape has {len(stated)} of {len(x.shape)} dims")
        return [TensorDesc.plain(x.dtype, stated or tuple(unnamed_dim(node, axis) for axis in range(len(x.shape))))]
    if not x.is_static:
        return [
            TensorDesc.plain(x.dtype, (*x.shape[:2], *(unnamed_dim(node, axis) for axis in range(2, len(x.shape)))))
        ]
    return [TensorDesc.plain(x.dtype, (*x.shape[:2], *unpooled_sizes(node, x.static_shape)))]


def unpooled_sizes(node: Node, x: StaticShape) -> StaticShape:
    """The spatial dims that a pool with these attributes computed `x` from; indices count in them."""
    kernel = node.ints_attr("kernel_shape")
    window = pool_window(node, x)
    return tuple(
        (size - 1) * window.strides[axis] + kernel[axis] - window.pads_begin[axis] - window.pads_end[axis]
        for axis, size in enumerate(x[2:])
    )


def supports_unpool(node: Node) -> Iterable[Reject]:
    """Known shapes of up to three spatial dims, the result's not below what the pool began with."""
    yield from supports_movement(node)
    yield from rejects_value(node, node.operand(1).desc)
    x, y = node.operand(0).desc, node.output.desc
    if not x.is_static or not y.is_static:
        return
    if not 3 <= len(x.static_shape) <= MAX_SPATIAL + 2:
        yield Reject("rank", node.name, f"{len(x.static_shape) - 2} spatial dims")
    elif min(unpooled_sizes(node, x.static_shape)) < 1:
        yield Reject("empty", node.name)
    elif any(
        size > there for size, there in zip(unpooled_sizes(node, x.static_shape), y.static_shape[2:], strict=True)
    ):
        yield Reject("size", node.name, "the result is smaller than what was pooled")


def lower_unpool(node: Node) -> Iterable[KernelCall]:
    """One launch of `unpool`."""
    x, indices, y = node.operand(0), node.operand(1), node.output
    if 0 in y.desc.static_shape:
        return
    params: dict[str, ParamValue] = {
        "planes": math.prod(x.desc.static_shape[:2]), "n": x.desc.elements, "item": item_bytes(x.desc.dtype),
        "in": leading(unpooled_sizes(node, x.desc.static_shape), 1), "out": leading(y.desc.static_shape[2:], 1),
    }  # fmt: skip
    yield KernelCall("unpool", (x, indices), (y,), params)


register_operator(
    OpDef(name="MaxUnpool", infer=infer_unpool, engines={Engine.AICPU: supports_unpool}, lower=lower_unpool)
)
for _name, _ge_type in (("MaxPool", "MaxPoolV3"), ("AveragePool", "AvgPool"), ("LpPool", "LpPool")):
    register_operator(
        OpDef(
            name=_name,
            ge_type=_ge_type,
            infer=infer_pool,
            engines={Engine.VECTOR: supports_pool},
            layout=layout_pool,
            lower=lower_pool,
            traits=Trait.WINDOW,
            data=(0,),
        )
    )
