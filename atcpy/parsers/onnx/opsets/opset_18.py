"""Opset 18: the axes of reductions are an input; Split says how many parts."""

from atcpy.parsers.onnx.upgrade import Upgrade, adapts


@adapts("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", 18)
def axes_to_input(up: Upgrade) -> None:
    """axes → input 1. None at all: every axis."""
    if up.attrs.get("axes") == ():
        del up.attrs["axes"]
    up.attr_to_input("axes", 1)


@adapts("Split", 18)
def count_parts(up: Upgrade) -> None:
    """num_outputs = the number of outputs, where no sizes are given."""
    if up.input(1) is None:
        up.attrs["num_outputs"] = len(up.node.outputs)
