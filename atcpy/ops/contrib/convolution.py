"""Conv with an activation, and ops that work on channels last: transposed there and back."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.ops.contrib.activations import activated
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib

_WINDOW = "auto_pad:s dilations:I kernel_shape:I pads:I strides:I"
_CONV = f"{_WINDOW} group:i"
_OWN = ("activation", "activation_params", "channels_last")


def window_attrs(e: Expansion) -> dict[str, object]:
    """The attributes that the standard's op has, too."""
    return {name: value for name, value in e.node.attrs.items() if name not in _OWN}


def channels_first(e: Expansion, x: Value) -> Value:
    """[N, S…, C] → [N, C, S…]"""
    rank = e.rank_of(x)
    return e.transpose(x, (0, rank - 1, *range(1, rank - 1)))


def channels_last(e: Expansion, x: Value, rank: int) -> Value:
    """[N, C, S…] → [N, S…, C]"""
    return e.transpose(x, (0, *range(2, rank), 1))


def _activation_params(e: Expansion) -> tuple[float, ...]:
    params = e.node.attrs.get("activation_params", ())
    assert isinstance(params, tuple)
    return params


@contrib("FusedConv", "X W B? Z?", f"{_CONV} activation:s activation_params:F")
def fused_conv(e: Expansion) -> Value:
    """activation(Conv(X, W, B) + Z)"""
    y = e.op("Conv", e.operand("X"), e.operand("W"), e.input("B"), **window_attrs(e))
    return activated(e, e.sum(y, e.input("Z")), e.node.str_attr("activation", ""), _activation_params(e))


@contrib("NhwcFusedConv", "X W B? Z?", f"{_CONV} activation:s activation_params:F")
def nhwc_fused_conv(e: Expansion) -> Value:
    """The same on [N, S…, C]; the weights lie as in Conv."""
    x = e.operand("X")
    y = e.op("Conv", channels_first(e, x), e.operand("W"), e.input("B"), **window_attrs(e))
    y = e.sum(channels_last(e, y, e.rank_of(x)), e.input("Z"))
    return activated(e, y, e.node.str_attr("activation", ""), _activation_params(e))


@contrib("NhwcConv", "X W B?", _CONV)
def nhwc_conv(e: Expansion) -> Value:
    """Conv on [N, S…, C]; the weights lie as in Conv."""
    x = e.operand("X")
    y = e.op("Conv", channels_first(e, x), e.operand("W"), e.input("B"), **window_attrs(e))
    return channels_last(e, y, e.rank_of(x))


@contrib("NhwcMaxPool", "x", "auto_pad:s ceil_mode:i dilations:I kernel_shape:I! pads:I strides:I")
def nhwc_max_pool(e: Expansion) -> Value:
    """MaxPool on [N, S…, C]."""
    x = e.operand("x")
    y = e.op("MaxPool", channels_first(e, x), **window_attrs(e))
    return channels_last(e, y, e.rank_of(x))


@contrib("ConvTransposeWithDynamicPads", "X W Pads? B?", f"{_WINDOW.replace(' pads:I', '')} group:i output_padding:I")
def conv_transpose_with_dynamic_pads(e: Expansion) -> Value:
    """ConvTranspose whose pads are an input; they must be constant here."""
    pads, attrs = e.input("Pads"), window_attrs(e)
    if pads is not None:
        if pads.tensor is None:
            raise e.unsupported("Pads are computed at run time", "export the model with fixed sizes")
        attrs["pads"] = tuple(int(pad) for pad in pads.array.reshape(-1))
    return e.op("ConvTranspose", e.operand("X"), e.operand("W"), e.input("B"), **attrs)
