"""Opset 11: Clip and Pad take their numbers as inputs; Resize says how it maps coordinates; Scatter is renamed."""

import numpy as np

from atcpy.ir import DType, Value
from atcpy.parsers.onnx.upgrade import Upgrade, adapts

_LOWEST = float(np.finfo(np.float32).min)
_HIGHEST = float(np.finfo(np.float32).max)


@adapts("Clip", 11)
def limits_to_inputs(up: Upgrade) -> None:
    """min, max → inputs 1, 2; a limit that limits nothing is left out."""
    low, high = up.node.float_attr("min", _LOWEST), up.node.float_attr("max", _HIGHEST)
    x = up.input(0)
    limits = (
        None if low <= _LOWEST else up.like(low, up.node.operand(0), label="min"),
        None if high >= _HIGHEST else up.like(high, up.node.operand(0), label="max"),
    )
    up.attrs.clear()
    up.set_inputs(x, *limits)


@adapts("Pad", 11)
def pads_to_input(up: Upgrade) -> None:
    """pads, value → inputs 1, 2."""
    pads = up.const(up.node.ints_attr("pads"), label="pads")
    mode, number = up.node.str_attr("mode", "constant"), up.node.float_attr("value", 0.0)
    filler = up.like(number, up.node.operand(0), label="value") if number != 0.0 and mode == "constant" else None
    x = up.input(0)
    up.attrs.clear()
    up.attrs["mode"] = mode
    up.set_inputs(x, pads, filler)


@adapts("Resize", 11)
def resize_from_the_corner(up: Upgrade) -> None:
    """Opset 10 was `asymmetric`; nearest took the pixel before the point when growing, behind it when shrinking.

    Axes are resized independently, so a Resize that does both is two: one grows, one shrinks.
    """
    if up.attrs.get("coordinate_transformation_mode") is not None:
        return  # it was an Upsample
    x, scales = up.node.operand(0), up.node.operand(1)
    attrs: dict[str, object] = {"coordinate_transformation_mode": "asymmetric"}
    if up.node.str_attr("mode", "nearest") != "nearest":
        up.become("Resize", x, None, scales, **attrs, mode="linear")
        return
    grows: dict[str, object] = {**attrs, "mode": "nearest", "nearest_mode": "floor"}
    shrinks: dict[str, object] = {**attrs, "mode": "nearest", "nearest_mode": "ceil"}
    if scales.tensor is not None and (scales.array >= 1).all():
        up.become("Resize", x, None, scales, **grows)
    elif scales.tensor is not None and (scales.array <= 1).all():
        up.become("Resize", x, None, scales, **shrinks)
    else:
        grown = up.op("Resize", x, None, _limited(up, "Max", scales), **grows)
        up.become("Resize", grown, None, _limited(up, "Min", scales), **shrinks)


def _limited(up: Upgrade, op_type: str, scales: Value) -> Value:
    """The scales that are at least (Max) or at most (Min) 1."""
    if scales.tensor is None:
        return up.op(op_type, scales, up.const(1.0, DType.FLOAT32, label="one"))
    limit = np.maximum if op_type == "Max" else np.minimum
    return up.const(limit(scales.array, np.float32(1)), DType.FLOAT32, label="scales")


@adapts("Scatter", 11)
def scatter_is_scatter_elements(up: Upgrade) -> None:
    """Renamed."""
    up.graph.change_op(up.node, "ScatterElements")
