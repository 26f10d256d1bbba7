"""How far a quantised model's outputs may lie apart: a sum that ends near the half of a step is rounded to either side.

The step of a value is the scale of the DequantizeLinear that makes it, carried through ops that move or add elements.
"""

import onnx
from onnx import numpy_helper

_KEEPS = frozenset(
    {
        "Relu", "Clip", "LeakyRelu", "Reshape", "Transpose", "Flatten", "Squeeze", "Unsqueeze", "Identity", "MaxPool",
        "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Slice", "Split", "Pad", "Resize", "Concat", "Gather",
    }
)  # fmt: skip
_ADDS = frozenset({"Add", "Sub", "Sum"})


def quantization_steps(model: onnx.ModelProto) -> dict[str, float]:
    """The step of each value that has one."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            constants.update((node.output[0], a.t) for a in node.attribute if a.name == "value")
    steps: dict[str, float] = {}
    for node in model.graph.node:  # in topological order, as the standard asks
        known = [steps[name] for name in node.input if name in steps]
        step = 0.0
        if node.op_type == "DequantizeLinear" and node.input[0] not in constants and node.input[1] in constants:
            step = float(abs(numpy_helper.to_array(constants[node.input[1]]).astype("f8")).max(initial=0.0))
        elif node.op_type in _KEEPS and known:
            step = max(known)
        elif node.op_type in _ADDS and known:
            step = sum(known)
        if step:
            steps |= dict.fromkeys(node.output, step)
    return steps
