"""QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear: floats from and to integers of a step and a zero point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod

import numpy as np

from atcpy.ir import DType, Engine, Format, Node, Reject, Rewriter, Value
from atcpy.ir.shape import element_count
from atcpy.ops.core.axes import normal_axis
from atcpy.ops.core.broadcast import layout_like_input
from atcpy.ops.core.opdef import KernelCall, Layout, OpDef, ParamValue, Perm, Permuted, register_operator
from atcpy.ops.core.permute import inverse

QUANTIZED = frozenset({DType.UINT8, DType.INT8, DType.UINT16, DType.INT16})
PACKED = frozenset({DType.UINT4, DType.INT4, DType.UINT2, DType.INT2})
FLOAT8 = frozenset({DType.FLOAT8E4M3FN, DType.FLOAT8E4M3FNUZ, DType.FLOAT8E5M2, DType.FLOAT8E5M2FNUZ})
_FAMILIES = {"QuantizeLinear": "quantize", "DequantizeLinear": "dequantize"}


def supports_quantization(node: Node) -> Iterable[Reject]:
    """float32 from and to integers of 2 to 16 bits, and from int32 and float8."""
    floats, integers = _sides(node)
    known = QUANTIZED | PACKED | (FLOAT8 | {DType.INT32} if node.op_type == "DequantizeLinear" else set())
    if integers.desc.dtype in FLOAT8 - known:
        yield Reject("float8", node.name, integers.desc.dtype.long)
    elif integers.desc.dtype not in known:
        yield Reject("dtype", node.name, integers.desc.dtype.long)
    for value in (floats, node.operand(1)):
        if value.desc.dtype is not DType.FLOAT32:
            yield Reject("dtype", node.name, value.desc.dtype.long)
    if not all(value.desc.is_static for value in node.operands):
        yield Reject("shape-unknown", node.name)


def _sides(node: Node) -> tuple[Value, Value]:
    """What is float32, and what is quantised."""
    x, y = node.operand(0), node.output
    return (x, y) if node.op_type == "QuantizeLinear" else (y, x)


def is_per_tensor(scale: Value) -> bool:
    """One scale for all elements."""
    return scale.desc.is_static and scale.desc.elements == 1


def has_one_step(node: Node) -> bool:
    """True if one scale and one zero point, both constant, serve all elements."""
    return all(value.tensor is not None and value.desc.elements == 1 for value in node.operands[1:])


def shapes_of_quantization(node: Node) -> Mapping[int, str]:
    """With blocks, scales and zero points have the dims of the input, but for the blocks of the axis."""
    shape = node.operand(0).desc.shape
    if shape is None or not node.int_attr("block_size", 0):
        return {}
    axis = normal_axis(node, node.int_attr("axis", 1), len(shape))
    dims = [f"d{index}" for index in range(len(shape))]
    scales = " ".join([*dims[:axis], "blocks", *dims[axis + 1 :]])
    return {0: " ".join(dims), 1: scales, 2: scales}


def permute_quantization(node: Node, perm: Perm) -> Permuted | None:
    """One scale for all elements, or one for each index of an axis."""
    shape = node.operand(1).desc.shape
    if shape is None or len(shape) > 1 or node.int_attr("block_size", 0):
        return None
    axis = node.int_attr("axis", 1) % len(perm)
    return Permuted({"axis": inverse(perm)[axis]}) if shape and shape != (1,) else Permuted()


def layout_quantization(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """As the input lies, where one scale is for all and elements have whole bytes."""
    if _sides(node)[1].desc.dtype in PACKED:
        return Reject("dtype", node.name, _sides(node)[1].desc.dtype.long)
    if not is_per_tensor(node.operand(1)):
        return Reject("channel-axis", node.name)
    return layout_like_input(node, at_hand)


def _walk(node: Node) -> dict[str, ParamValue]:
    """Dims of the elements, and steps from scale to scale."""
    x, scale = node.operand(0), node.operand(1)
    if is_per_tensor(scale):
        return {"outer": 1, "axis": 1, "inner": element_count(x.desc.memory_shape), "block": 1}
    shape, of_scales = x.desc.static_shape, scale.desc.static_shape
    axis = normal_axis(node, node.int_attr("axis", 1), len(shape))
    outer, size, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    block = node.int_attr("block_size", 0)
    if not block and inner == 1:
        return {"outer": outer, "axis": 1, "inner": size, "block": 1, "scale_inner": 1}
    if not block:
        return {"outer": outer, "axis": size, "inner": inner, "block": 1, "scale_axis": 1}
    if inner == 1 and size % block == 0:
        return {"outer": outer * size // block, "axis": 1, "inner": block, "block": 1, "scale_outer": 1}
    return {
        "outer": outer, "axis": size, "inner": inner, "block": block,
        "scale_outer": of_scales[axis] * inner, "scale_axis": inner, "scale_inner": int(inner > 1),
    }  # fmt: skip


def lower_quantization(node: Node) -> Iterable[KernelCall]:
    """One launch of `quantize` or `dequantize`."""
    family = _FAMILIES[node.op_type]
    params = _walk(node) | {"type": _sides(node)[1].desc.dtype.short}
    yield KernelCall(family, (*node.inputs, None)[:3], (node.output,), params)


def expand_to_float8(node: Node, rw: Rewriter) -> Sequence[Value | None] | Reject | None:
    """Cast(x / scale): a zero point of float8 is zero."""
    x, scale, dtype = node.operand(0), node.operand(1), node.output.desc.dtype
    if node.op_type != "QuantizeLinear" or dtype not in FLOAT8 or x.desc.shape is None or scale.desc.shape is None:
        return None
    if scale.desc.shape and not is_per_tensor(scale):
        axis = normal_axis(node, node.int_attr("axis", 1), len(x.desc.shape))
        block, size = node.int_attr("block_size", 0), x.desc.shape[axis]
        if not block:
            scale = rw.unsqueeze(scale, *range(1, len(x.desc.shape) - axis))
        elif isinstance(size, int):
            scale = rw.op("Gather", scale, rw.const(np.arange(size) // block, label="blocks"), axis=axis)
        else:
            return Reject("shape-unknown", node.name)
    scaled = rw.op("Div", x, scale)
    return [rw.op("Cast", scaled, to=dtype.onnx, saturate=node.int_attr("saturate", 1))]


def supports_dynamic(node: Node) -> Iterable[Reject]:
    """float32 of a known shape."""
    if not node.operand(0).desc.is_static:
        yield Reject("shape-unknown", node.name)


def layout_dynamic(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """As the input lies; scale and zero point are scalars."""
    layout = layout_like_input(node, at_hand)
    return layout if isinstance(layout, Reject) else Layout(layout.inputs, (*layout.outputs, None, None))


def lower_dynamic(node: Node) -> Iterable[KernelCall]:
    """One launch that finds scale and zero point, one that quantises with them."""
    x = node.operand(0)
    y, scale, zero = node.outputs
    elements, c0 = element_count(x.desc.memory_shape), x.desc.format.c0
    extent: dict[str, ParamValue] = {"planes": 1, "c1": 1, "pixels": 1, "c0": elements, "c_last": elements}
    if c0:
        n, c1, h, w, _ = x.desc.memory_shape
        channels = x.desc.static_shape[1]
        extent = {"planes": n, "c1": c1, "pixels": h * w, "c0": c0, "c_last": channels - (c1 - 1) * c0}
    yield KernelCall("quant_range", (x,), (scale, zero), extent)
    walk: dict[str, ParamValue] = {"outer": 1, "axis": 1, "inner": elements, "block": 1, "type": y.desc.dtype.short}
    yield KernelCall("quantize", (x, scale, zero), (y,), walk)


for _name in _FAMILIES:
    register_operator(
        OpDef(
            name=_name,
            operand_shapes=shapes_of_quantization,
            engines={Engine.VECTOR: supports_quantization},
            expand=expand_to_float8,
            layout=layout_quantization,
            lower=lower_quantization,
            elementwise_if=has_one_step,
            data=(0,),
            permute=permute_quantization,
        )
    )
register_operator(
    OpDef(
        name="DynamicQuantizeLinear",
        engines={Engine.VECTOR: supports_dynamic},
        layout=layout_dynamic,
        lower=lower_dynamic,
    )
)
