"""The activations that other ops of ONNX Runtime carry along."""

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.parsers.onnx.microsoft.expansion import Expansion

# The attributes of an activation in the order in which ONNX Runtime lists its parameters.
_PARAMS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "HardSwish": (), "Softplus": (), "Softsign": (),
    "LeakyRelu": ("alpha",), "Elu": ("alpha",), "ThresholdedRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip


def activated(e: Expansion, y: Value, name: str, params: Sequence[float]) -> Value:
    """The activation of this name on y; none if the name is empty."""
    if not name:
        return y
    if name == "Clip":
        if len(params) != 2:
            raise e.invalid(f"Clip with {len(params)} bounds")
        return e.op("Clip", y, e.like(params[0], y), e.like(params[1], y))
    if name not in _PARAMS:
        raise e.unsupported(f'activation "{name}"', "export the model without ONNX Runtime's optimization")
    return e.op(name, y, **dict(zip(_PARAMS[name], params, strict=False)))
