"""Opset 3: the default direction of GRU is spelt `forward`."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("GRU", 3)
def spell_forward(up: Upgrade) -> None:
    """foward → forward."""
    if up.attrs.get("direction") == "foward":
        up.attrs["direction"] = "forward"
