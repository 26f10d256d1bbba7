"""What the fusions into cube ops share: a residual or a bias, then one activation, before the result is stored.

act(Cube(x, w, b) + r)  →  FusedCube(x, w, b, r) {activation=act}

The scale of weights of 16 bits (FusedConv) stays.
"""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.ir import Engine, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import Op, Pattern, const, op, var
from atcpy.passes.fusion import only_read_by

# Activations by op, with ONNX's defaults of the alpha and beta that they read.
_WITH_ATTRS: dict[str, tuple[float, float]] = {
    "Celu": (1.0, 0.0),
    "Elu": (1.0, 0.0),
    "Gelu": (0.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "HardSwish": (0.0, 0.0),
    "LeakyRelu": (0.01, 0.0),
    "Mish": (0.0, 0.0),
    "Selu": (1.67326319217681884765625, 1.05070102214813232421875),
    "Sigmoid": (0.0, 0.0),
    "Softplus": (0.0, 0.0),
    "Softsign": (0.0, 0.0),
    "Swish": (1.0, 0.0),
    "Tanh": (0.0, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
}


def cube(types: tuple[str, ...], weights: Pattern) -> Op:
    """A cube op, plain or fused already."""
    b, r, scale = var("b", optional=True), var("r", optional=True), const("scale", optional=True)
    return op(types, var("x"), weights, b, r, scale, name="cube")


def added(to: Op) -> Op:
    """The sum of a cube op's result and another value."""
    return op("Add", to, var("other"), commutative=True, name="add")


def relu(of: Op) -> Op:
    """A Relu."""
    return op("Relu", of, name="act")


def clip(of: Op) -> Op:
    """A Clip with constant bounds, such as ReLU6."""
    return op("Clip", of, const("min", optional=True), const("max", optional=True), name="act")


def smooth(of: Op) -> Op:
    """A smooth or leaky activation."""
    return op(tuple(_WITH_ATTRS), of, name="act")


def epilogue_requirements(m: Match, root: Node) -> Iterator[Reject]:
    """Reasons against taking the root into the cube op before it."""
    node = m.node("cube")
    yield from only_read_by(node.output, root)
    if node.attrs.get("activation"):
        yield Reject("already-activated", node.name)
    if node.engine is not Engine.AICORE or root.engine is not Engine.AICORE:
        yield Reject("other-engine", root.name)


def activation_attrs(m: Match) -> dict[str, object]:
    """The activation as attributes of the fused op."""
    act = m.node("act")
    if act.op_type == "Relu":
        return {"activation": "Relu"}
    if act.op_type == "Clip":
        low, high = m.get("min"), m.get("max")
        alpha = float("-inf") if low is None else float(low.array.reshape(()))
        beta = float("inf") if high is None else float(high.array.reshape(()))
        return {"activation": "Clip", "alpha": alpha, "beta": beta}
    alpha, beta = _WITH_ATTRS[act.op_type]
    return {
        "activation": "GeluTanh" if act.str_attr("approximate", "none") == "tanh" else act.op_type,
        "alpha": act.float_attr("alpha", alpha),
        "beta": act.float_attr("gamma" if act.op_type == "Selu" else "beta", beta),
    }


def fused(
    m: Match, rw: Rewriter, op_type: str, bias: Value | None, residual: Value | None, attrs: dict[str, object]
) -> Value:
    """The fused op in the cube op's place."""
    inputs = [m["x"], m["w"], bias, residual, m.get("scale")]
    while inputs[-1] is None and len(inputs) > 3:
        inputs.pop()
    value = rw.op(op_type, *inputs, **attrs)
    value.producer.engine = m.node("cube").engine
    return value
