"""Opset 16: RoiAlign shifts its boxes by half a pixel unless it is told not to."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("RoiAlign", 16)
def no_shift(up: Upgrade) -> None:
    """coordinate_transformation_mode = output_half_pixel."""
    up.attrs["coordinate_transformation_mode"] = "output_half_pixel"
