"""Opset 4: the axis of Concat is required; it was 1 by default."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Concat", 4)
def name_axis(up: Upgrade) -> None:
    """axis = 1."""
    up.attrs.setdefault("axis", 1)
