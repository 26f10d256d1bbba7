"""Clip: to constant bounds in one launch of `unary`, to others by Max and Min."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import Engine, Node, Reject, TensorDesc, Value
from atcpy.ir.tensor import Array
from atcpy.ops.core.broadcast import layout_like_input, supports_broadcast
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, Trait, as_epilogue, register_operator
from atcpy.ops.elementwise.binary import NUMBERS, binary_call
from atcpy.ops.elementwise.elementwise import supports_unary, unary_call


def infer_clip(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The input's type; bounds are single elements of it."""
    x = node.operand(0).desc
    for bound in node.operands[1:]:
        if bound.desc.dtype is not x.dtype:
            what = f"a bound is {bound.desc.dtype.long}, the input {x.dtype.long}"
            raise ModelInvalid("EZ8888", where=node, what=what)
    return [x.as_plain()]


def supports_clip(node: Node) -> Iterable[Reject]:
    """Any bounds of one element."""
    yield from supports_unary(node, NUMBERS)
    yield from supports_broadcast(node, node.operands[1:])
    for bound in node.operands[1:]:
        if bound.desc.is_static and bound.desc.elements != 1:
            yield Reject("bound-not-scalar", node.name, str(bound.desc))


def lower_clip(node: Node) -> Iterable[KernelCall]:
    """min(max(x, low), high): where the bounds cross, the upper one wins."""
    x, y = node.operand(0), node.output
    low, high = node.input(1), node.input(2)
    if all(bound is None or bound.tensor is not None for bound in (low, high)):
        yield unary_call("Clip", x, y, _bounds(x, low, high))
        return
    for op, bound in (("Max", low), ("Min", high)):
        if bound is not None:
            yield binary_call(op, x, bound, y)
            x = y


def _bounds(x: Value, low: Value | None, high: Value | None) -> dict[str, ParamValue]:
    dtype = x.desc.dtype
    if dtype.is_float:
        return {"alpha": _number(low, -np.inf), "beta": _number(high, np.inf)}
    lowest, span = -(2 ** (dtype.bits - 1)) if dtype.name.startswith("INT") else 0, 2**dtype.bits
    bounds = int(_number(low, lowest)), int(_number(high, lowest + span - 1))
    # The record has 64 signed bits; the kernel takes the type's own bits of them.
    return dict(zip(("low", "high"), ((value + 2**63) % 2**64 - 2**63 for value in bounds), strict=True))


def _number(bound: Value | None, otherwise: float) -> float:
    item: float = otherwise if bound is None else bound.array.reshape(-1)[0].item()
    return item


def clip_activation(node: Node) -> tuple[str, float, float]:
    """The bounds are alpha and beta."""
    return "Clip", _number(node.input(1), -np.inf), _number(node.input(2), np.inf)


def evaluate_clip(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """min(max(x, low), high) in numpy."""
    x, low, high = (*arrays, None, None)[:3]
    result = np.asarray(x)
    if low is not None:
        result = np.maximum(result, low)
    if high is not None:
        result = np.minimum(result, high)
    return [np.asarray(result)]


register_operator(
    OpDef(
        name="Clip",
        ge_type="ClipByValue",
        infer=infer_clip,
        evaluate=evaluate_clip,
        engines={Engine.VECTOR: supports_clip, Engine.AICORE: as_epilogue(supports_clip)},
        layout=layout_like_input,
        lower=lower_clip,
        inplace=(0,),
        traits=Trait.ELEMENTWISE,
        data=(0,),
        activation=clip_activation,
    )
)
