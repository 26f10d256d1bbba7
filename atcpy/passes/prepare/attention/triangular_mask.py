"""Analysis of matrices that are computed at run time, and have one number up to the diagonal and one behind it. Causal
masks are such matrices, whatever their size:

Trilu(Expand(1, [n, n]))       Where(Trilu(…) = 0, −∞, 0)       Range(n) ≤ Unsqueeze(Range(n), 1)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from atcpy.ir import DType, Node, Value
from atcpy.ir.shape import Shape
from atcpy.ir.tensor import Array
from atcpy.ops import Trait, coefficients_of, has_trait
from atcpy.ops.core.reference import evaluate_node
from atcpy.ops.core.shape_values import UNNAMED

_MAX_VALUES = 64  # values that are analysed for one mask
_COUNTING = {DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64}  # these represent every index of a dim exactly
_MAX_ELEMENTS = 1 << 22  # elements of a constant that are looked at


@dataclass(frozen=True, slots=True)
class Triangle:
    """The element of all columns up to the row's index, and that of all columns behind it."""

    low: Array
    high: Array

    @property
    def is_uniform(self) -> bool:
        """True if all elements are one number: then it may have any dims."""
        return bool(np.array_equal(self.low, self.high))


@dataclass(frozen=True, slots=True)
class _Ramp:
    """start, start + 1, start + 2 … along an axis, which is negative: counted from the last."""

    axis: int
    start: int


def triangle_of(value: Value) -> Triangle | None:
    """Return what is known of a value whose last two axes are such a matrix; None if it is another."""
    known = _known(value, {})
    return known if isinstance(known, Triangle) else None


def _known(value: Value, found: dict[Value, Triangle | _Ramp | None]) -> Triangle | _Ramp | None:
    if value not in found:
        if len(found) == _MAX_VALUES:
            return None
        found[value] = None
        found[value] = _computed(value, found)
    return found[value]


def _computed(value: Value, found: dict[Value, Triangle | _Ramp | None]) -> Triangle | _Ramp | None:
    node, shape = value.producer, value.desc.shape
    if value.tensor is not None:
        return _of_constant(value)
    if node.domain or shape is None or UNNAMED in shape or value.index:
        return None
    if node.op_type == "ConstantOfShape":
        fill = node.attrs.get("value")
        one = np.float32(0) if fill is None else getattr(fill, "array", np.zeros(0)).reshape(-1)[0]
        return Triangle(np.asarray(one), np.asarray(one))
    if node.op_type == "Range":
        start, step = node.operand(0), node.operand(2)
        counts = start.tensor is not None and step.tensor is not None and step.array == 1
        return _Ramp(-1, int(start.array)) if counts and int(start.array) == start.array else None
    moves = node.op_type == "Trilu" or has_trait(node, Trait.RESHAPE | Trait.BROADCAST)
    if not moves and not has_trait(node, Trait.ELEMENTWISE):
        return None
    above: list[Triangle | _Ramp] = []
    for operand in node.operands[: 1 if moves else None]:
        known = _known(operand, found)
        if known is None:
            return None
        above.append(known)
    if node.op_type == "Trilu":
        return _trilu(node, above[0])
    if moves:
        return _viewed(node.operand(0).desc.shape, shape, above[0])
    return _combined(node, above)


def _of_constant(value: Value) -> Triangle | None:
    array = value.array
    if array.size == 1:
        return Triangle(array.reshape(()), array.reshape(()))
    if array.ndim < 2 or not 0 < array.size <= _MAX_ELEMENTS or array.size != array.shape[-1] * array.shape[-2]:
        return None
    rows, columns = array.shape[-2:]
    matrix = array.reshape(rows, columns)
    low = np.tri(rows, columns, dtype=bool)
    known = Triangle(matrix[0, 0], matrix[0, -1])
    return known if np.array_equal(matrix, np.where(low, known.low, known.high)) else None


def _trilu(node: Node, above: Triangle | _Ramp) -> Triangle | None:
    """Return the result of Trilu, if it keeps or drops exactly the elements behind the diagonal."""
    k, upper = node.input(1), bool(node.int_attr("upper", 1))
    if not isinstance(above, Triangle) or (k is not None and k.tensor is None):
        return None
    if (0 if k is None else int(k.array)) != int(upper):
        return None
    return replace(above, low=np.zeros_like(above.low)) if upper else replace(above, high=np.zeros_like(above.high))


def _viewed(before: Shape | None, after: Shape, known: Triangle | _Ramp) -> Triangle | _Ramp | None:
    """Return the result of a view or Expand."""
    if isinstance(known, Triangle):
        return known if known.is_uniform or (before is not None and before[-2:] == after[-2:]) else None
    if before is None:
        return None
    old = [axis - len(before) for axis, dim in enumerate(before) if dim != 1]
    new = [axis - len(after) for axis, dim in enumerate(after) if dim != 1]
    if old != [known.axis] or len(new) != 1 or before[known.axis] != after[new[0]]:
        return None
    return _Ramp(new[0], known.start)


def _combined(node: Node, above: list[Triangle | _Ramp]) -> Triangle | _Ramp | None:
    """Return the result of an elementwise op."""
    shape = node.output.desc.shape
    if shape is None or None in node.inputs:
        return None
    for value, known in zip(node.operands, above, strict=True):
        have, axes = value.desc.shape or (), (known.axis,) if isinstance(known, _Ramp) else (-2, -1)
        if isinstance(known, Triangle) and known.is_uniform:
            continue
        if any(len(have) < -axis or have[axis] != shape[axis] for axis in axes):
            return None
    triangles = [known for known in above if isinstance(known, Triangle)]
    if len(triangles) == len(above):
        arrays = [np.stack([known.low, known.high]) for known in triangles]
        low, high = evaluate_node(node, arrays)[0]
        return Triangle(np.asarray(low), np.asarray(high))
    if node.op_type == "Cast":
        return above[0] if node.output.desc.dtype in _COUNTING else None
    if len(above) != 2:
        return None
    return _compared(node, *above) or _shifted(node, *above)


def _compared(node: Node, a: Triangle | _Ramp, b: Triangle | _Ramp) -> Triangle | None:
    """Compare rows with columns: a step, which must lie behind the diagonal."""
    if not isinstance(a, _Ramp) or not isinstance(b, _Ramp) or {a.axis, b.axis} != {-2, -1}:
        return None
    if node.output.desc.dtype is not DType.BOOL:
        return None
    ahead = np.array([-1, 0, 1, 2])  # of a column before its row
    steps = evaluate_node(node, [ramp.start + ahead * (ramp.axis == -1) for ramp in (a, b)])[0]
    is_step = steps[0] == steps[1] != steps[2] == steps[3]
    return Triangle(np.asarray(steps[1]), np.asarray(steps[2])) if is_step else None


def _shifted(node: Node, a: Triangle | _Ramp, b: Triangle | _Ramp) -> _Ramp | None:
    """Add a number to a ramp, or take it away."""
    *_, sign = coefficients_of(node) or (0,)
    if sign == 1 and isinstance(a, Triangle):
        a, b = b, a
    if not sign or not isinstance(a, _Ramp) or not isinstance(b, Triangle) or not b.is_uniform:
        return None
    number = float(b.low)
    return _Ramp(a.axis, a.start + sign * int(number)) if number.is_integer() else None
