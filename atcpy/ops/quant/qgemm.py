"""Products of 8-bit integers: ConvInteger, QLinearConv, MatMulInteger, QLinearMatMul, and ONNX Runtime's QGemm.

FusedQLinearConv adds bytes to the result of a QLinearConv:

    FusedQLinearConv(<QLinearConv's inputs>, r) {product_scale, addend_scale, sum_offset, sum_zero}
        = saturate(round(fma(QLinearConv(…) - y_zero, product_scale, fma(r, addend_scale, sum_offset))) + sum_zero)

Each is one launch of `qgemm`, which takes the operands of the standard as they are: zero points and
scales may be computed at run time. The layout of a constant right operand is the kernel's, with the
sums that zero points need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import NC1HWC0, DType, Engine, Format, FormatKind, Node, Reject, TensorDesc, Value
from atcpy.ir.shape import StaticShape
from atcpy.ops.conv.conv import MAX_PLAIN_CHANNELS, conv_window, convolved, is_depthwise, is_never_taken
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.matmul.matmul import infer_matmul

C0 = NC1HWC0.c0
RESIDUAL = 9  # input of FusedQLinearConv
MAX_COPIED_PIXELS = 1 << 22  # for a line of results
BYTES = frozenset({DType.UINT8, DType.INT8})
MATRIX = Format(FormatKind.N1K1N0K0_T, 1)


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of a product by what they mean; None where one is left out, or the op has it not."""

    x: Value
    w: Value
    x_zero: Value | None = None
    w_zero: Value | None = None
    bias: Value | None = None
    x_scale: Value | None = None
    w_scale: Value | None = None
    y_scale: Value | None = None
    y_zero: Value | None = None


def operands_of(node: Node) -> Operands:
    """The operands, in whichever order the op has them."""
    if node.op_type in {"ConvInteger", "MatMulInteger"}:
        return Operands(node.operand(0), node.operand(1), node.input(2), node.input(3))
    if node.op_type == "MatMulIntegerToFloat":
        x_scale, w_scale, x_zero, w_zero, bias = (node.input(index) for index in range(2, 7))
        return Operands(node.operand(0), node.operand(1), x_zero, w_zero, bias, x_scale, w_scale)
    x_scale, x_zero, w_scale, w_zero = (node.input(index) for index in (1, 2, 4, 5))
    bias, y_scale, y_zero = (node.input(index) for index in ((6, 7, 8) if node.op_type == "QGemm" else (8, 6, 7)))
    return Operands(node.operand(0), node.operand(3), x_zero, w_zero, bias, x_scale, w_scale, y_scale, y_zero)


def infer_qgemm(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[M, K] by [K, N], transposed where it says so; the type is the zero point's, float32 without one."""
    x, w, y_zero = node.operand(0).desc, node.operand(3).desc, node.input(8)
    dtype = DType.FLOAT32 if y_zero is None else y_zero.desc.dtype
    if x.shape is None or w.shape is None:
        return [TensorDesc.plain(dtype, None)]
    a = x.shape[::-1] if node.int_attr("transA", 0) else x.shape
    b = w.shape[::-1] if node.int_attr("transB", 0) else w.shape
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise ModelInvalid("EZ8888", where=node, what=f"{x} and {w} cannot be multiplied")
    return [TensorDesc.plain(dtype, (a[0], b[1]))]


def infer_integer_conv(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the convolution: of sums in int32, or in the type of the result's zero point."""
    of = operands_of(node)
    dtype = DType.INT32 if of.y_zero is None else of.y_zero.desc.dtype
    return [TensorDesc.plain(dtype, convolved(node, of.x.desc, of.w.desc, of.bias))]


def infer_fused_conv(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The sum is like what is added."""
    residual = node.operand(RESIDUAL).desc
    return [TensorDesc.plain(residual.dtype, residual.shape)]


def infer_scaled_sums(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of a product of matrices, in float32."""
    return [TensorDesc.plain(DType.FLOAT32, desc.shape) for desc in infer_matmul(node, known)]


# --- engines -----------------------------------------------------------------------------------


def supports_product(node: Node, columns: int) -> Iterable[Reject]:
    """8 bits on both sides, one zero point and scale for the left one, one or one a column for the right one."""
    of = operands_of(node)
    for value in (of.x, of.w):
        if value.desc.dtype not in BYTES:
            yield Reject("dtype", node.name, value.desc.dtype.long)
    for scale in (of.x_scale, of.w_scale, of.y_scale):
        if scale is not None and scale.desc.dtype is not DType.FLOAT32:
            yield Reject("scale-dtype", node.name, scale.desc.dtype.long)
    for single in (of.x_zero, of.x_scale, of.y_zero, of.y_scale):
        if single is not None and single.desc.elements != 1:
            yield Reject("not-per-tensor", single.name, f"{single.desc.elements} elements")
    for each in (of.w_zero, of.w_scale):
        if each is not None and each.desc.elements not in {1, columns}:
            yield Reject("not-per-channel", each.name, f"{each.desc.elements} elements")


def supports_shapes(node: Node) -> Iterable[Reject]:
    """Every size is known, and nothing is empty."""
    if not all(value.desc.is_static for value in (*node.operands, node.output)):
        yield Reject("shape-unknown", node.name)
    elif any(value.desc.elements == 0 for value in node.operands):
        yield Reject("empty", node.name)


def supports_integer_conv(node: Node) -> Iterable[Reject]:
    """One or two spatial dims and constant weights."""
    unsized = list(supports_shapes(node))
    yield from unsized
    of = operands_of(node)
    if of.w.tensor is None:
        yield Reject("weights-not-constant", node.name)
    if unsized:
        return
    if len(of.x.desc.static_shape) not in {3, 4}:
        yield Reject("rank", node.name, f"{len(of.x.desc.static_shape) - 2} spatial dims")
    yield from supports_product(node, of.w.desc.static_shape[0])


def supports_integer_matmul(node: Node) -> Iterable[Reject]:
    """One right operand for all matrices, or one each."""
    unsized = list(supports_shapes(node))
    yield from unsized
    if unsized:
        return
    of = operands_of(node)
    yield from supports_product(node, columns_of(of.w))
    if not _is_shared(of.w) and of.w.desc.static_shape[:-2] != of.x.desc.static_shape[:-2]:
        yield Reject("broadcast", node.name)


def supports_scaled_sums(node: Node) -> Iterable[Reject]:
    """The bias is one float32 a column."""
    bias = operands_of(node).bias
    if bias is not None and (bias.desc.dtype is not DType.FLOAT32 or bias.desc.elements != columns_of(node.operand(1))):
        yield Reject("not-per-channel", bias.name)
    yield from supports_integer_matmul(node)


def supports_qgemm(node: Node) -> Iterable[Reject]:
    """The bias is one number a column, in steps of the sums; the result is quantised."""
    of = operands_of(node)
    if node.int_attr("transA", 0) or node.int_attr("transB", 0) or node.float_attr("alpha", 1.0) != 1.0:
        yield Reject("scaled-or-transposed", node.name)
    if of.y_scale is None or (of.y_zero is None):
        yield Reject("result-not-quantized", node.name)
    if of.bias is not None and (of.bias.desc.dtype is not DType.INT32 or of.bias.desc.elements != columns_of(of.w)):
        yield Reject("not-per-channel", of.bias.name)
    yield from supports_integer_matmul(node)


def columns_of(w: Value) -> int:
    """The columns of a right operand."""
    shape = w.desc.static_shape
    return shape[-1] if len(shape) > 1 else 1


def _is_shared(w: Value) -> bool:
    return prod(w.desc.static_shape[:-2]) == 1


# --- layout ------------------------------------------------------------------------------------


def layout_integer_conv(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Activations in NC1HWC0; few input channels stay in NCHW. Groups must fill whole blocks."""
    of = operands_of(node)
    channels, group = of.x.desc.static_shape[1], node.int_attr("group", 1)
    outputs = of.w.desc.static_shape[0]
    plain_weights = Format(FormatKind.N1K1N0K0, 1, group)
    if len(of.x.desc.static_shape) != 4:
        return _with_weights(node, plain_weights, None, None, Reject("rank", node.name))
    if is_depthwise(node, of.w):
        return _with_weights(node, Format(FormatKind.C1HWC0, C0), NC1HWC0, NC1HWC0)
    if group > 1 and ((channels // group) % C0 or (outputs // group) % C0):
        return _with_weights(node, plain_weights, None, None, Reject("channel-axis", node.name, f"{group} groups"))
    if channels <= MAX_PLAIN_CHANNELS and group == 1 and at_hand[0].is_plain:
        return _with_weights(node, _weights_of_few_channels(node), None, NC1HWC0)
    return _with_weights(node, Format(FormatKind.N1K1N0K0, C0, group), NC1HWC0, NC1HWC0)


def _weights_of_few_channels(node: Node) -> Format:
    """The kernel copies NCHW to four channels a pixel, unless a line of results takes too much of the picture."""
    w, window = operands_of(node).w, conv_window(node, operands_of(node).w)
    kernel, results = w.desc.static_shape[2:], node.output.desc.static_shape[2:]
    (kh, kw), (_, ow), (_, sw), (dh, dw) = kernel, results, window.strides, window.dilations
    pixels = ((kh - 1) * dh + 1) * ((ow - 1) * sw + (kw - 1) * dw + 1)
    return Format(FormatKind.N1K1N0K0, MAX_PLAIN_CHANNELS if pixels <= MAX_COPIED_PIXELS else 1)


def layout_integer_matmul(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """A constant right operand as the kernel reads it; all else is row-major."""
    w = operands_of(node).w
    if w.tensor is None:
        return Reject("weights-not-constant", node.name)
    if len(w.desc.static_shape) != 2:
        return Reject("weights-not-a-matrix", node.name)
    return _with_weights(node, MATRIX, None, None)


def _with_weights(
    node: Node, weights: Format, x: Format | None, y: Format | None, plain_because: Reject | None = None
) -> Layout:
    """The layout of a product with formats for its weights, its left operand and its result."""
    w = operands_of(node).w
    inputs = [x, *(weights if value is w else None for value in node.inputs[1:])]
    inputs[RESIDUAL:] = [y] * len(inputs[RESIDUAL:])
    return Layout(tuple(inputs), (y,), plain_because)


# --- lowering ----------------------------------------------------------------------------------


def _launch(family: str, node: Node, params: dict[str, ParamValue]) -> KernelCall:
    of = operands_of(node)
    src = (of.x, of.x_zero, of.w, of.w_zero, of.bias, of.x_scale, of.w_scale, of.y_scale, of.y_zero)
    counts = {
        name: 1 if value is None else value.desc.elements
        for name, value in (("w_zeros", of.w_zero), ("w_scales", of.w_scale))
    }
    types: dict[str, ParamValue] = {
        "x_signed": int(of.x.desc.dtype is DType.INT8), "w_signed": int(of.w.desc.dtype is DType.INT8),
        "result": node.output.desc.dtype.short,
    }  # fmt: skip
    return KernelCall(family, src, (node.output,), {**params, **counts, **types})


def _in_two_spatial_dims(shape: StaticShape) -> StaticShape:
    return shape if len(shape) == 4 else (*shape[:2], 1, shape[2])


def lower_integer_conv(node: Node) -> Iterable[KernelCall]:
    """One launch of `qgemm`, or of `qdepthwise`."""
    of = operands_of(node)
    (n, c, h, w), (m, cg, kh, kw), (_, _, oh, ow) = (
        _in_two_spatial_dims(value.desc.static_shape) for value in (of.x, of.w, node.output)
    )
    group, window = node.int_attr("group", 1), conv_window(node, of.w)
    one = len(window.strides) == 1  # spatial dim: the first of two has size 1
    (sh, sw), (dh, dw), (pt, pl) = (
        (default, *values) if one else values
        for values, default in ((window.strides, 1), (window.dilations, 1), (window.pads_begin, 0))
    )
    src_c0 = of.x.desc.format.c0 or 1
    params: dict[str, ParamValue] = {
        "n": n, "c": c, "h": h, "w": w, "oh": oh, "ow": ow, "kh": kh, "kw": kw,
        # A stride that one result never takes, or a dilation that one tap never takes, may be of any size.
        "sh": 1 if is_never_taken(sh, oh) else sh, "sw": 1 if is_never_taken(sw, ow) else sw,
        "dh": 1 if is_never_taken(dh, kh) else dh, "dw": 1 if is_never_taken(dw, kw) else dw,
        "pt": pt, "pl": pl,
    }  # fmt: skip
    if src_c0 == C0 and is_depthwise(node, of.w):
        yield _launch("qdepthwise", node, params)
        return
    params |= {"m": m, "group": group, "cg": cg, "mg": m // group}
    params |= {"src_c0": src_c0, "k_c0": of.w.desc.format.c0, "dst_c0": node.output.desc.format.c0 or 1, "w_packed": 1}
    if node.op_type != "FusedQLinearConv":
        yield _launch("qgemm", node, params)
        return
    params |= {name: node.float_attr(name, 1.0) for name in ("product_scale", "addend_scale")}
    params |= {"sum_offset": node.float_attr("sum_offset", 0.0), "sum_zero": node.int_attr("sum_zero", 0)}
    call = _launch("qgemm", node, params)
    yield replace(call, src=(*call.src, node.operand(RESIDUAL)))


def lower_integer_matmul(node: Node) -> Iterable[KernelCall]:
    """One launch of `qgemm`: rows are the pixels of a convolution of one tap."""
    of = operands_of(node)
    x = of.x.desc.static_shape
    k, n, shared = x[-1], columns_of(of.w), _is_shared(of.w)
    batch = 1 if shared else prod(x[:-2])
    params: dict[str, ParamValue] = {
        "n": batch, "c": k, "h": 1, "w": prod(x[:-1]) // batch, "m": n, "oh": 1, "ow": prod(x[:-1]) // batch,
        "kh": 1, "kw": 1, "sh": 1, "sw": 1, "dh": 1, "dw": 1, "group": 1, "cg": k, "mg": n,
        "src_c0": k, "k_c0": k, "dst_c0": n, "w_batched": int(not shared),
    }  # fmt: skip
    yield _launch("qgemm", node, params | {"w_packed": int(of.w.desc.format == MATRIX)})


for _name, weights in (("ConvInteger", 1), ("QLinearConv", 3)):
    register_operator(
        OpDef(
            name=_name,
            infer=infer_integer_conv,
            engines={Engine.AICORE: supports_integer_conv},
            layout=layout_integer_conv,
            lower=lower_integer_conv,
            traits=Trait.WINDOW,
            data=(0,),
            weights=weights,
        )
    )
register_operator(
    OpDef(
        name="FusedQLinearConv",
        ge_type="QLinearConv",
        infer=infer_fused_conv,
        engines={Engine.AICORE: supports_integer_conv},
        layout=layout_integer_conv,
        lower=lower_integer_conv,
        traits=Trait.WINDOW,
        inplace=(RESIDUAL,),
    )
)
for _name in ("MatMulInteger", "QLinearMatMul"):
    register_operator(
        OpDef(
            name=_name,
            engines={Engine.AICORE: supports_integer_matmul},
            layout=layout_integer_matmul,
            lower=lower_integer_matmul,
        )
    )
SCALED_SUMS = OpDef(
    name="MatMulIntegerToFloat",
    domain="com.microsoft",
    ge_type="MatMulIntegerToFloat",
    infer=infer_scaled_sums,
    engines={Engine.AICORE: supports_scaled_sums},
    layout=layout_integer_matmul,
    lower=lower_integer_matmul,
)  # ops/contrib adds how models have this op and the next, and registers them
QGEMM = OpDef(
    name="QGemm",
    domain="com.microsoft",
    ge_type="QGemm",
    infer=infer_qgemm,
    engines={Engine.AICORE: supports_qgemm},
    layout=layout_integer_matmul,
    lower=lower_integer_matmul,
)
