"""Conv, and FusedConv: a Conv with its bias, activation and residual in one kernel.

FusedConv(x, w, b?, residual?, scale?) {activation, alpha, beta} = activation(Conv(x, w · scale, b) + residual)

The scale is a factor of each output channel's weights, where these are of 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Format, FormatKind, Node, Reject, TensorDesc, Value
from atcpy.ir.dtype import DType
from atcpy.ir.format import NC1HWC0, merged_groups
from atcpy.ir.shape import Dim, Shape, StaticShape
from atcpy.ir.symbolic import is_symbolic, same
from atcpy.ops.conv.conv_direct import lower_direct, supports_direct
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.half import MULTIPLIES_BF16, lies_in_pairs, supports_weights, weight_type
from atcpy.ops.core.opdef import (
    Bf16Operands,
    GeTypes,
    KernelCall,
    Known,
    Layout,
    OpDef,
    ParamValue,
    Trait,
    register_operator,
)
from atcpy.ops.core.spatial import Window, output_size, window_of

C0 = NC1HWC0.c0
# Up to so many input channels, a first convolution reads NCHW as it is: blocks of 16 would be
# mostly padding, and the TransData would cost more than the convolution's first row.
MAX_PLAIN_CHANNELS = 4
# Products of a result that is stored as bfloat16: csrc/conv/conv2d.h.
MAX_BF16_SUM = 2**16


def conv_window(node: Node, weights: Value) -> Window:
    """The window of a convolution; the kernel's size comes from the weights."""
    x = node.operand(0).desc.shape
    assert x is not None
    return window_of(node, tuple(weights.desc.static_shape[2:]), x[2:])


def infer_conv(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape of the convolution, in the type of the input."""
    x = node.operand(0).desc
    return [TensorDesc.plain(x.dtype, convolved(node, x, node.operand(1).desc, node.input(2)))]


def convolved(node: Node, x: TensorDesc, w: TensorDesc, bias: Value | None) -> Shape | None:
    """[N, C, S…] with weights [M, C/group, K…] gives [N, M, S'…]."""
    if x.shape is None or w.shape is None:
        return None
    if not w.is_static:  # computed, as the filters of a convolution that is the gradient of another are
        return of_unknown_window(node, x, w.shape[0]).shape
    check_weights(node, x.shape, w.static_shape, bias, transposed=False)
    window = window_of(node, tuple(w.static_shape[2:]), x.shape[2:])
    spatial: tuple[Dim, ...] = tuple(output_size(node, size, window, axis) for axis, size in enumerate(x.shape[2:]))
    return (x.shape[0], w.static_shape[0], *spatial)


def of_unknown_window(node: Node, x: TensorDesc, channels: Dim) -> TensorDesc:
    """The result where the size of the window is computed."""
    assert x.shape is not None
    return TensorDesc.plain(
        x.dtype, (x.shape[0], channels, *(unnamed_dim(node, axis) for axis in range(2, len(x.shape))))
    )


def check_weights(node: Node, x: Shape, w: StaticShape, bias: Value | None, *, transposed: bool) -> None:
    """Raises ModelInvalid unless weights [M, C/group, K…], or [C, M/group, K…] if transposed, fit the input, the bias
    and the attributes.
    """
    group, side = node.int_attr("group", 1), "input" if transposed else "output"
    if len(x) != len(w) or len(w) < 3:
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(x)} with weights of rank {len(w)}")
    if group < 1 or w[0] % group:
        raise ModelInvalid("E13014", where=node, what=f"group = {group} does not divide {w[0]} {side} channels")
    c, m = (w[0], w[1] * group) if transposed else (w[1] * group, w[0])
    if isinstance(x[1], int) and x[1] != c:
        raise ModelInvalid("EZ8888", where=node, what=f"input has {x[1]} channels, weights {list(w)} want {c}")
    if 0 in w[2:]:
        raise ModelInvalid("EZ8888", where=node, what=f"weights {list(w)} have no taps")
    if bias is not None and bias.desc.is_static and bias.desc.static_shape != (m,):
        raise ModelInvalid("EZ8888", where=node, what=f"bias {list(bias.desc.static_shape)} for {m} output channels")
    stated = node.ints_attr("kernel_shape", w[2:])
    if tuple(stated) != w[2:]:
        raise ModelInvalid("E13014", where=node, what=f"kernel_shape {list(stated)} but weights are {list(w[2:])}")


def supports_blocked(node: Node) -> Iterable[Reject]:
    """The blocked kernels take float32 in two spatial dims with constant weights, which may be of 16 bits.

    Engine placement asks this once: a convolution on AIcoreEngine runs in blocks of channels, one on
    VectorEngine on plain tensors, and layout and lowering read the node's engine.
    """
    x, w = node.operand(0), node.operand(1)
    if x.desc.dtype is not DType.FLOAT32:
        yield Reject("dtype", node.name, x.desc.dtype.long)
    if not x.desc.is_static:
        yield Reject("shape-unknown", node.name)
    elif len(x.desc.static_shape) != 4:
        yield Reject("rank", node.name, f"{len(x.desc.static_shape) - 2} spatial dims")
    elif 0 in x.desc.static_shape:
        yield Reject("empty", node.name)
    if w.tensor is None:
        yield Reject("weights-not-constant", node.name)
    bias = node.input(2)
    if bias is not None and bias.tensor is None:
        yield Reject("bias-not-constant", node.name)
    yield from supports_weights(node, 1, half=(1,))


def is_depthwise(node: Node, weights: Value) -> bool:
    """One filter a channel: a kernel and a weight format of its own."""
    if not weights.desc.is_static:
        return False
    w = weights.desc.static_shape
    return w[1] == 1 and node.int_attr("group", 1) == w[0] > 1


def layout_conv(node: Node, at_hand: tuple[Format, ...]) -> Layout | Reject:
    """Activations in NC1HWC0, weights in blocks of as many channels; few input channels stay in NCHW."""
    if node.engine is not Engine.AICORE:
        return Reject("direct-kernel", node.name)
    c = node.operand(0).desc.static_shape[1]
    group = node.int_attr("group", 1)
    plain_input = c <= MAX_PLAIN_CHANNELS and group == 1 and at_hand[0].is_plain
    # A scale of the weights would be rounded with them.
    in_pairs = node.int_attr(MULTIPLIES_BF16, 0) and node.input(4) is None
    in_pairs = in_pairs and (not plain_input or pairs_columns(node))
    blocks = FormatKind.N1C1HWC0N0_VNNI2 if in_pairs else FormatKind.N1C1HWC0N0
    weights = Format(blocks, 1 if plain_input else C0, group)
    if is_depthwise(node, node.operand(1)):
        weights = Format(FormatKind.C1HWC0, C0)
    inputs: list[Format | None] = [None if plain_input else NC1HWC0, weights, None, NC1HWC0, None]
    return Layout(tuple(inputs[: node.input_count]), (NC1HWC0,))


def pairs_columns(node: Node) -> bool:
    """Whether a convolution that reads NCHW multiplies pairs of neighbouring columns: at an even stride, the windows of
    all results begin with the first of a pair.
    """
    window = conv_window(node, node.operand(1))
    width = node.output.desc.static_shape[3]
    return window.strides[1] % 2 == 0 and window.dilations[1] == 1 < window.kernel[1] and not same(width, 1)


def lower_conv(node: Node) -> Iterable[KernelCall]:
    """One launch of `conv2d` or `depthwise2d` on AIcoreEngine, of the direct kernel on VectorEngine."""
    if node.engine is not Engine.AICORE:
        yield from lower_direct(node, conv_window(node, node.operand(1)), transposed=False)
        return
    x, y = node.operand(0), node.output
    src = (*node.inputs, None, None, None)[:5]
    params = window_params(node, conv_window(node, node.operand(1)))
    # A stride that one result never takes, or a dilation that one tap never takes, may be of any size.
    params |= {
        step: 1
        for step, count in (("sh", "oh"), ("sw", "ow"), ("dh", "kh"), ("dw", "kw"))
        if is_never_taken(params[step], params[count])
    }
    if is_depthwise(node, node.operand(1)):
        yield KernelCall("depthwise2d", src, (y,), params | activation_types(node))
        return
    params |= group_params(node) | {"src_c0": x.desc.format.c0 or 1}
    yield KernelCall("conv2d", src, (y,), params | activation_types(node))


def activation_types(node: Node) -> dict[str, ParamValue]:
    """The types of input, residual and result."""
    values = {"x_type": node.operand(0), "residual_type": node.input(3), "y_type": node.output}
    return {name: value.desc.dtype.short for name, value in values.items() if value is not None}


def bf16_operands(node: Node) -> Bf16Operands:
    """The blocked kernels read and write bfloat16. `conv2d` multiplies channels in pairs, of which the second is one
    of the input, and sums such a result in registers. Residuals stay float32, though the kernels would take them: along
    a chain of blocks they add up what each rounds.
    """
    if node.engine is not Engine.AICORE:
        return Bf16Operands()
    if is_depthwise(node, node.operand(1)):
        return Bf16Operands(frozenset({0}), output=True)
    weights = node.operand(1).desc
    in_pairs = lies_in_pairs(weights) and weights.format.c0 == C0 and node.operand(0).desc.static_shape[1] % 2 == 0
    products = prod(node.operand(1).desc.static_shape[1:]) * merged_groups_of(node)
    return Bf16Operands(frozenset({0} if in_pairs else ()), output=products <= MAX_BF16_SUM)


def window_params(node: Node, window: Window) -> dict[str, ParamValue]:
    """What the blocked kernels of convolutions of either way read, but for the groups. They compute several results of
    a row at a time: a single column is given to them as a row, which lies in memory in the same way.
    """
    n, c, h, w = node.operand(0).desc.static_shape
    _, m, oh, ow = node.output.desc.static_shape
    (kh, kw), (sh, sw), (dh, dw), (pt, pl) = window.kernel, window.strides, window.dilations, window.pads_begin
    if same(w, 1) and same(ow, 1) and kw == 1 and same(pl, 0):
        h, w, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl = w, h, ow, oh, kw, kh, sw, sh, dw, dh, pl, pt
    return {
        "n": n, "c": c, "h": h, "w": w, "m": m, "oh": oh, "ow": ow, "kh": kh, "kw": kw,
        "sh": sh, "sw": sw, "dh": dh, "dw": dw, "pt": pt, "pl": pl,
        "weights": weight_type(node.operand(1).desc), "activation": node.str_attr("activation", ""),
        "alpha": node.float_attr("alpha", 0.0), "beta": node.float_attr("beta", 0.0),
    }  # fmt: skip


def group_params(node: Node) -> dict[str, ParamValue]:
    """The groups as the kernel sees them: those that share a block matrix (see N1C1HWC0N0) are one."""
    group, merged = node.int_attr("group", 1), merged_groups_of(node)
    c, m = (value.desc.static_shape[1] // group for value in (node.operand(0), node.output))
    return {"group": -(-group // merged), "cg": c * merged, "mg": m * merged}


def merged_groups_of(node: Node) -> int:
    """How many groups of a convolution share a block matrix."""
    group = node.int_attr("group", 1)
    c, m = (value.desc.static_shape[1] // group for value in (node.operand(0), node.output))
    return merged_groups(group, c, m, C0)


_ANY_STRIDE = 2**15  # the kernels take a stride below, however many results there are


def is_never_taken(step: ParamValue, count: ParamValue) -> bool:
    """Whether a stride is over one result, or a dilation over one tap. A count that is open is taken for more, but
    where the step is so large that the kernel would refuse it.
    """
    if is_symbolic(count) and isinstance(step, int) and step < _ANY_STRIDE:
        return False
    return count == 1


def count_multiplications(node: Node) -> int:
    """Each element of the result is a sum over a window of one group's channels."""
    return node.output.desc.elements * prod(node.operand(1).desc.static_shape[1:])


def type_in_ge(node: Node) -> str:
    """GE has an op for depthwise weights and one for volumes."""
    if len(node.operand(1).desc.shape or ()) == 5:
        return "Conv3D"
    return "DepthwiseConv2D" if is_depthwise(node, node.operand(1)) else "Conv2D"


def plain_convolution(fused: OpDef, name: str, multiplications: Callable[[Node], int]) -> OpDef:
    """The record of a convolution that the model has, beside that of its fused form."""
    return replace(
        fused,
        name=name,
        engines={**fused.engines, Engine.VECTOR: supports_direct},
        inplace=(),
        data=(0,),
        weights=1,
        multiplications=multiplications,
        traits=Trait.WINDOW | Trait.CONVOLUTION,
    )


_FUSED = OpDef(
    name="FusedConv",
    ge_type=GeTypes(("Conv2D", "Conv3D", "DepthwiseConv2D"), type_in_ge),
    infer=infer_conv,
    engines={Engine.AICORE: supports_blocked},
    layout=layout_conv,
    lower=lower_conv,
    half_weights=(1,),
    bf16=bf16_operands,
    inplace=(3,),
    fused="FusedConv",
)
register_operator(_FUSED)
register_operator(plain_convolution(_FUSED, "Conv", count_multiplications))
