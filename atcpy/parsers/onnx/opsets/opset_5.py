"""Opset 5: the shape of Reshape is an input."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Reshape", 5)
def shape_to_input(up: Upgrade) -> None:
    """shape = […] → input 1."""
    up.attrs.pop("consumed_inputs", None)
    if "shape" not in up.attrs and up.input(1) is None:
        raise up.invalid("has no shape")
    up.attr_to_input("shape", 1)
