"""Opset 12: Dropout takes its ratio as an input, and its mask means something outside of training too."""

from atcpy.ir import DType
from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Dropout", 12)
def ratio_to_input(up: Upgrade) -> None:
    """ratio → input 1. Without a training mode it only says what was."""
    up.drop_outputs(1, "below opset 12 the mask is made in training only")
    ratio = up.node.float_attr("ratio", 0.5)
    up.attrs.pop("ratio", None)
    up.set_inputs(up.input(0), up.const(ratio, DType.FLOAT32, label="ratio"))
