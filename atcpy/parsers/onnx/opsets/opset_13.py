"""Opset 13: axes and sizes become inputs; Softmax works along one axis instead of flattening."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("Squeeze Unsqueeze ReduceSum", 13)
def axes_to_input(up: Upgrade) -> None:
    """axes → input 1. None at all: every axis of size 1, every axis."""
    if up.attrs.get("axes") == ():
        del up.attrs["axes"]
    up.attr_to_input("axes", 1)


@adapts("Split", 13)
def sizes_to_input(up: Upgrade) -> None:
    """split → input 1."""
    up.attr_to_input("split", 1)


@adapts("Softmax LogSoftmax Hardmax", 13)
def softmax_of_the_flattened(up: Upgrade) -> None:
    """Opsets below flatten to (axes before `axis`) × (axes from there on) and work along the second.

    For the last axis that is the same as now; else it is written out.
    """
    axis, rank = up.node.int_attr("axis", 1), up.rank(0)
    if axis == -1 or (rank is not None and axis in (rank - 1, -1)):
        up.attrs["axis"] = -1
        return
    x = up.node.operand(0)
    shape = up.op("Shape", x)
    flat = up.op("Flatten", x, axis=axis)
    result = up.op(up.node.op_type, flat, axis=-1)
    up.become("Reshape", result, shape)
