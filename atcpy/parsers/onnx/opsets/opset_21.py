"""Opset 21: GroupNormalization scales each channel, not each group."""

from atcpy.ir import Value
from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("GroupNormalization", 21)
def scale_each_channel(up: Upgrade) -> None:
    """Scale and bias of a group are repeated for each of its channels: [G] → [G, 1] → [G, C/G] → [C]."""
    x, groups = up.node.operand(0), up.node.int_attr("num_groups", 1)
    channels = up.op("Gather", up.op("Shape", x), up.const([1], label="axis"))
    per_group = up.op("Div", channels, up.const([groups], label="groups"))
    target = up.op("Concat", up.const([groups], label="groups"), per_group, axis=0)

    def repeated(value: Value) -> Value:
        return up.reshape(up.op("Expand", up.unsqueeze(value, 1), target), (-1,))

    # Stage one was done in the type of the input.
    dtype = up.dtype(0)
    if dtype is not None:
        up.attrs["stash_type"] = dtype.onnx
    up.set_inputs(x, repeated(up.node.operand(1)), repeated(up.node.operand(2)))
