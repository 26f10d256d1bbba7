"""Opset 20: DFT takes its axis as an input, GridSample names its modes for any rank."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts

_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@adapts("DFT", 20)
def axis_to_input(up: Upgrade) -> None:
    """axis, 1 by default → input 2."""
    axis = up.node.int_attr("axis", 1)
    up.attrs.pop("axis", None)
    up.set_inputs(up.input(0), up.input(1), up.const(axis, label="axis"))


@adapts("GridSample", 20)
def modes_for_any_rank(up: Upgrade) -> None:
    """bilinear → linear, bicubic → cubic."""
    mode = up.node.str_attr("mode", "bilinear")
    up.attrs["mode"] = _MODES.get(mode, mode)
