"""Opset 14: BatchNormalization says whether it trains, and no longer returns what it saved for that."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("BatchNormalization", 14)
def training_by_attribute(up: Upgrade) -> None:
    """More than one output meant training."""
    if len(up.node.outputs) > 1:
        up.attrs["training_mode"] = 1
        up.drop_outputs(3, "saved_mean and saved_var serve training only")
