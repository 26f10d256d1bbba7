"""Conv, and FusedConv: a Conv with its bias, activation and residual in one kernel.

FusedConv(x, w, b?, residual?, scale?) {activation, alpha, beta} = activation(Conv(x, w · scale, b) + residual)

The scale is a factor of each output channel's weights, where these are of 16 bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Format, FormatKind, Node, Reject, TensorDesc, Value
from atcpy.ir.dtype import DType
from atcpy.ir.format import NC1HWC0, merged_groups
from atcpy.ir.shape import Dim, Shape
from atcpy.ops.conv.conv_direct import lower_direct, supports_direct
from atcpy.ops.core.axes import unnamed_dim
from atcpy.ops.core.half import supports_weights
from atcpy.ops.core.opdef import KernelCall, Known, Layout, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.spatial import Window, output_size, window_of

C0 = NC1HWC0.c0
# Up to so many input channels, a first convolution reads NCHW as it is: blocks of 16 would be
# mostly padding, and the TransData would cost more than the convolution's first row.
MAX_PLAIN_CHANNELS = 4


def conv_window(node: Node, weights: Value) -> Window:
    """The window of a convolution; the kernel's size comes from the weights."""
    x = node.operand(0).desc.shape
    assert x is not None
    return window_of(node, tuple(weights.desc.static_shape[2:]), x[2:])


def infer_conv(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, S…] with weights [M, C/group, K…] gives [N, M, S'…]."""
    x, w = node.operand(0).desc, node.operand(1).desc
    if x.shape is None or w.shape is None:
        return [TensorDesc.plain(x.dtype, None)]
    if not w.is_static:  # computed, as the filters of a convolution that is the gradient of another are
        return [of_unknown_window(node, x, w.shape[0])]
    _check_conv(node, x.shape, w.static_shape)
    window = window_of(node, tuple(w.static_shape[2:]), x.shape[2:])
    spatial: tuple[Dim, ...] = tuple(output_size(node, size, window, axis) for axis, size in enumerate(x.shape[2:]))
    return [TensorDesc.plain(x.dtype, (x.shape[0], w.static_shape[0], *spatial))]


def of_unknown_window(node: Node, x: TensorDesc, channels: Dim) -> TensorDesc:
    """The result where the size of the window is computed."""
    assert x.shape is not None
    return TensorDesc.plain(
        x.dtype, (x.shape[0], channels, *(unnamed_dim(node, axis) for axis in range(2, len(x.shape))))
    )


def _check_conv(node: Node, x: Shape, w: tuple[int, ...]) -> None:
    group = node.int_attr("group", 1)
    if len(x) != len(w) or len(w) < 3:
        raise ModelInvalid("EZ8888", where=node, what=f"input of rank {len(x)} with weights of rank {len(w)}")
    if group < 1 or w[0] % group:
        raise ModelInvalid("E13014", where=node, what=f"group = {group} does not divide {w[0]} output channels")
    if isinstance(x[1], int) and x[1] != w[1] * group:
        raise ModelInvalid("EZ8888", where=node, what=f"input has {x[1]} channels, weights want {w[1]} × group {group}")
    if 0 in w[2:]:
        raise ModelInvalid("EZ8888", where=node, what=f"weights {list(w)} have no taps")
    check_bias(node, w[0])
    stated = node.ints_attr("kernel_shape", w[2:])
    if tuple(stated) != w[2:]:
        raise ModelInvalid("E13014", where=node, what=f"kernel_shape {list(stated)} but weights are {list(w[2:])}")


def check_bias(node: Node, channels: int) -> None:
    """Raises ModelInvalid (EZ8888) unless input 2, if there, has one element an output channel."""
    bias = node.input(2)
    if bias is not None and bias.desc.is_static and bias.desc.static_shape != (channels,):
        text = f"bias {list(bias.desc.static_shape)} for {channels} output channels"
        raise ModelInvalid("EZ8888", where=node, what=text)


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
    weights = Format(FormatKind.N1C1HWC0N0, 1 if plain_input else C0, group)
    if is_depthwise(node, node.operand(1)):
        weights = Format(FormatKind.C1HWC0, C0)
    inputs: list[Format | None] = [None if plain_input else NC1HWC0, weights, None, NC1HWC0, None]
    return Layout(tuple(inputs[: node.input_count]), (NC1HWC0,))


def lower_conv(node: Node) -> Iterable[KernelCall]:
    """One launch of `conv2d` or `depthwise2d` on AIcoreEngine, of the direct kernel on VectorEngine."""
    if node.engine is not Engine.AICORE:
        yield from lower_direct(node, conv_window(node, node.operand(1)), transposed=False)
        return
    x, y = node.operand(0), node.output
    n, c, h, w = x.desc.static_shape
    m, _, kh, kw = node.operand(1).desc.static_shape
    _, _, oh, ow = y.desc.static_shape
    window = conv_window(node, node.operand(1))
    (sh, sw), (dh, dw), (pt, pl) = window.strides, window.dilations, window.pads_begin
    # A stride that one result never takes, or a dilation that one tap never takes, may be of any size.
    sh, sw = sh if oh > 1 else 1, sw if ow > 1 else 1
    dh, dw = dh if kh > 1 else 1, dw if kw > 1 else 1
    src = (*node.inputs, None, None, None)[:5]
    params: dict[str, ParamValue] = {
        "n": n, "c": c, "h": h, "w": w, "m": m, "oh": oh, "ow": ow, "kh": kh, "kw": kw,
        "sh": sh, "sw": sw, "dh": dh, "dw": dw, "pt": pt, "pl": pl,
        "weights": node.operand(1).desc.dtype.short, "activation": node.str_attr("activation", ""),
        "alpha": node.float_attr("alpha", 0.0), "beta": node.float_attr("beta", 0.0),
    }  # fmt: skip
    if is_depthwise(node, node.operand(1)):
        yield KernelCall("depthwise2d", src, (y,), params)
        return
    src_c0, group = x.desc.format.c0 or 1, node.int_attr("group", 1)
    # Groups that share a block matrix (see N1C1HWC0N0) are one group to the kernel.
    merged = merged_groups(group, c // group, m // group, C0)
    params |= {"group": -(-group // merged), "cg": c // group * merged, "mg": m // group * merged, "src_c0": src_c0}
    yield KernelCall("conv2d", src, (y,), params)


def count_multiplications(node: Node) -> int:
    """Each element of the result is a sum over a window of one group's channels."""
    return node.output.desc.elements * prod(node.operand(1).desc.static_shape[1:])


def type_in_ge(node: Node) -> str:
    """GE has an op for depthwise weights and one for volumes."""
    if len(node.operand(1).desc.shape or ()) == 5:
        return "Conv3D"
    return "DepthwiseConv2D" if is_depthwise(node, node.operand(1)) else "Conv2D"


register_operator(
    OpDef(
        name="Conv",
        ge_type=type_in_ge,
        infer=infer_conv,
        engines={Engine.AICORE: supports_blocked, Engine.VECTOR: supports_direct},
        layout=layout_conv,
        lower=lower_conv,
        half_weights=(1,),
        data=(0,),
        weights=1,
        multiplications=count_multiplications,
        fused="FusedConv",
        traits=Trait.WINDOW | Trait.CONVOLUTION,
    )
)
register_operator(
    OpDef(
        name="FusedConv",
        ge_type=type_in_ge,
        infer=infer_conv,
        engines={Engine.AICORE: supports_blocked},
        layout=layout_conv,
        lower=lower_conv,
        half_weights=(1,),
        inplace=(3,),
        fused="FusedConv",
    )
)
