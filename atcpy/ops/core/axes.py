"""Axes and constant integer operands: reading them, with the errors that ONNX asks for."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Node, Reject
from atcpy.ir.shape import Dim, StaticShape, Sym
from atcpy.ops.core.opdef import Known, ParamValue, Supports
from atcpy.ops.core.reference import known_constant
from atcpy.ops.core.shape_values import integers


def normal_axis(node: Node, axis: int, rank: int, *, name: str = "axis", inclusive: bool = False) -> int:
    """An axis counted from the front. Raises ModelInvalid if it lies outside [−rank, rank), or
    outside [−rank, rank] if `inclusive`.
    """
    if not -rank <= axis < rank + inclusive:
        raise ModelInvalid("E13014", where=node, what=f"{name} = {axis} is outside a tensor of rank {rank}")
    return int(axis + rank if axis < 0 else axis)  # a number: sets of axes know nothing of symbols


def around_axis(shape: StaticShape, axis: int) -> dict[str, ParamValue]:
    """The sizes of a kernel that runs along one axis: of what is before it, of the axis, of what is behind it."""
    return {"outer": math.prod(shape[:axis]), "n": shape[axis], "inner": math.prod(shape[axis + 1 :])}


def supports_along_axis(dtypes: Collection[DType]) -> Supports:
    """The reasons against a kernel that takes these types, and at least one element along its axis."""

    def supports(node: Node) -> Iterable[Reject]:
        x = node.operand(0).desc
        if x.dtype not in dtypes:
            yield Reject("dtype", node.name, x.dtype.long)
        if not x.is_static:
            yield Reject("shape-unknown", node.name)
        elif 0 in x.static_shape:
            yield Reject("empty", node.name)

    return supports


def normal_axes(node: Node, axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Axes counted from the front, each at most once."""
    normal = tuple(normal_axis(node, axis, rank, name="axes") for axis in axes)
    if len(set(normal)) != len(normal):
        raise ModelInvalid("E13014", where=node, what=f"axes = {list(axes)} names an axis twice")
    return normal


def known_integers(node: Node, index: int, known: Known) -> tuple[int, ...] | None:
    """The elements of an integer operand if all are numbers; None also if it is left out."""
    return integers(known(node.input(index)))


def constant_integers(node: Node, index: int) -> tuple[int, ...]:
    """The elements of an integer operand that an engine required to be constant."""
    values = integers(known_constant(node.input(index)))
    assert values is not None, f"{node.name}: input {index} is not a small constant"
    return values


def rejects_operand(node: Node, index: int, name: str) -> Iterable[Reject]:
    """A reason if an operand that the lowering reads is there but not constant."""
    value = node.input(index)
    if value is not None and known_constant(value) is None:
        yield Reject(f"{name}-not-constant", node.name)


def unnamed_dim(node: Node, axis: int) -> Dim:
    """A size that only running the node tells."""
    return Sym(f"{node.name}.{axis}")
