"""DeformConv: the product of its weights and the columns that `deform_columns` takes from the image.

y[n, g] = W[g] · columns[n, g] + bias, with columns [n, g, channels · kernel, positions]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Rewriter, TensorDesc, Value
from atcpy.ir.shape import Dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, register_operator
from atcpy.ops.core.spatial import output_size, window_of
from atcpy.ops.core.strided import rejects_value

_DTYPES = frozenset({DType.FLOAT32, DType.FLOAT64})


def shapes_of_deform_conv(node: Node) -> Mapping[int, str]:
    """An offset of two numbers, and a mask, for each tap at each position of the result."""
    x, weights = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or len(x.shape) != 4 or not weights.is_static or len(weights.static_shape) != 4:
        return {}
    kernel = weights.static_shape[2:]
    for name in ("group", "offset_group"):
        if node.int_attr(name, 1) < 1:
            raise ModelInvalid("E13014", where=node, what=f"{name} = {node.int_attr(name, 1)} must be positive")
    if node.ints_attr("kernel_shape", kernel) != kernel:
        what = f"kernel_shape = {list(node.ints_attr('kernel_shape'))}, the weights have {list(kernel)}"
        raise ModelInvalid("E13014", where=node, what=what)
    window, taps = window_of(node, kernel, x.shape[2:]), node.int_attr("offset_group", 1) * prod(kernel)
    sides = (output_size(node, size, window, axis) for axis, size in enumerate(x.shape[2:]))
    positions = " ".join(str(side) if isinstance(side, int) else f"side{axis}" for axis, side in enumerate(sides))
    return {
        0: f"n {node.int_attr('group', 1)}channels h w",
        1: "results channels kh kw",
        2: f"n {2 * taps} {positions}",
        3: "results",
        4: f"n {taps} {positions}",
    }


def expand_deform_conv(node: Node, rw: Rewriter) -> Sequence[Value | None] | Reject | None:
    """Images whose weights have a known shape."""
    x, weights, offset = (node.operand(index) for index in range(3))
    bias, mask = node.input(3), node.input(4)
    shape = weights.desc.shape
    if shape is None or x.desc.shape is None or not all(isinstance(dim, int) for dim in (*shape, x.desc.shape[1])):
        return Reject("shape-unknown", node.name)
    results, *rest = weights.desc.static_shape
    group = node.int_attr("group", 1)
    if len(rest) != 3:
        return Reject("rank", node.name, f"{len(rest) - 1} spatial dims")
    channels, offset_group = x.desc.shape[1], node.int_attr("offset_group", 1)
    assert isinstance(channels, int)
    offsets = offset_group * prod(rest[1:]) * 2
    if channels != rest[0] * group or results % group or channels % offset_group or offset.desc.shape is None:
        return Reject("size", node.name, "the groups do not fit")
    if offset.desc.shape[1] != offsets:
        return Reject("size", node.name, f"{offset.desc.shape[1]} offsets, not {offsets}")
    attrs = {name: value for name, value in node.attrs.items() if name in {"strides", "dilations", "pads"}}
    columns = rw.op(
        "DeformColumns", x, offset, mask, kernel_shape=tuple(rest[1:]), group=group, offset_group=offset_group, **attrs
    )
    flat = rw.reshape(columns, (0, 0, 0, -1))
    product = rw.op("MatMul", rw.reshape(weights, (group, results // group, prod(rest))), flat)
    sizes = [rw.dim(x, 0), rw.const([results], label="channels"), rw.dim(offset, 2), rw.dim(offset, 3)]
    y = rw.op("Reshape", product, rw.op("Concat", *sizes, axis=0))
    return [y if bias is None else rw.op("Add", y, rw.unsqueeze(bias, 1, 2))]


def infer_columns(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The channels of a group times the taps, at each position."""
    x, offset = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or offset.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    group, taps = node.int_attr("group", 1), prod(node.ints_attr("kernel_shape"))
    channels: Dim = x.shape[1]
    assert isinstance(channels, int)
    return [TensorDesc.plain(x.dtype, (x.shape[0], group, channels // group * taps, *offset.shape[2:]))]


def supports_columns(node: Node) -> Iterable[Reject]:
    """Floats of known shapes."""
    for value in node.operands:
        yield from rejects_value(node, value.desc)
    x = node.operand(0).desc
    if x.dtype not in _DTYPES:
        yield Reject("dtype", node.name, x.dtype.long)


def lower_columns(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    x, offset = node.operand(0), node.operand(1)
    n, channels, *image = x.desc.static_shape
    if 0 in (*x.desc.static_shape, *node.output.desc.static_shape):
        return
    window = window_of(node, node.ints_attr("kernel_shape"), tuple(image))
    groups = node.int_attr("offset_group", 1)
    params: dict[str, ParamValue] = {
        "n": n, "groups": groups, "channels": channels // groups, "in": image, "out": offset.desc.static_shape[2:],
        "kernel": window.kernel, "stride": window.strides, "dilation": window.dilations, "pad": window.pads_begin,
    }  # fmt: skip
    yield KernelCall("deform_columns", (*node.inputs, None)[:3], (node.output,), params)


register_operator(OpDef(name="DeformConv", operand_shapes=shapes_of_deform_conv, expand=expand_deform_conv))
register_operator(
    OpDef(
        name="DeformColumns",
        infer=infer_columns,
        engines={Engine.AICPU: supports_columns},
        lower=lower_columns,
    )
)
