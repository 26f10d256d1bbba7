"""Pow: one launch of `pow`, which takes an exponent of any type; to one constant power, of `unary`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, Reject, TensorDesc
from atcpy.ops.core.broadcast import broadcast_shapes, supports_broadcast
from atcpy.ops.core.opdef import KernelCall, Known, Neutral, OpDef, Trait, register_operator
from atcpy.ops.elementwise.binary import broadcast_params, layout_divide
from atcpy.ops.elementwise.elementwise import FLOATS, INTS, unary_call

_BASES = FLOATS | {DType.INT32, DType.INT64}
_EXPONENTS = FLOATS | INTS


def infer_pow(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The base gives the type; the exponent may be of another one."""
    shapes = [value.desc.shape for value in node.operands]
    return [TensorDesc.plain(node.operand(0).desc.dtype, broadcast_shapes(node, shapes))]


def supports_pow(node: Node) -> Iterable[Reject]:
    """Floats and the integers that ONNX takes as bases."""
    for value, dtypes in zip(node.operands, (_BASES, _EXPONENTS), strict=True):
        if value.desc.dtype not in dtypes:
            yield Reject("dtype", node.name, value.desc.dtype.long)
    yield from supports_broadcast(node, node.operands)


def constant_exponent(node: Node) -> float | None:
    """The exponent, if it is one constant number that float64 holds."""
    exponent = node.operand(1)
    if exponent.tensor is None or exponent.desc.elements != 1:
        return None
    item = exponent.array.reshape(-1)[0].item()
    return float(item) if not isinstance(item, int) or float(item) == item else None


def lower_pow(node: Node) -> Iterable[KernelCall]:
    """A float to a constant power is an op of one operand."""
    base, exponent = node.operands
    constant = constant_exponent(node)
    if constant is not None and base.desc.dtype in FLOATS:
        yield unary_call("Pow", base, node.output, {"alpha": constant})
        return
    types = {"base": base.desc.dtype.short, "exponent": exponent.desc.dtype.short}
    yield KernelCall(
        "pow", (base, exponent), (node.output,), {**types, **broadcast_params(base, exponent, node.output)}
    )


register_operator(
    OpDef(
        name="Pow",
        infer=infer_pow,
        engines={Engine.VECTOR: supports_pow},
        layout=layout_divide,
        lower=lower_pow,
        inplace=(0,),
        traits=Trait.ELEMENTWISE,
        neutral=Neutral(1, (1,)),
    )
)
