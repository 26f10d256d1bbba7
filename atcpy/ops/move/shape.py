"""Shape arithmetic: Shape, Size, ConstantOfShape, Range."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Engine, Node, Reject, Tensor, TensorDesc, Value
from atcpy.ir.shape import Dim, Sym
from atcpy.ir.symbolic import is_symbolic
from atcpy.ir.tensor import Array
from atcpy.ops.core.axes import known_integers, unnamed_dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, Trait, register_operator
from atcpy.ops.core.operand_shapes import check_single
from atcpy.ops.core.reference import MAX_DATA_ELEMENTS, evaluate_by_onnx, has_few_elements
from atcpy.ops.core.shape_values import UNNAMED, integers, product
from atcpy.ops.core.strided import fill_calls, item_bytes, rejects_value, row_major

# --- Shape, Size -------------------------------------------------------------------------------


def infer_shape(node: Node, known: Known) -> Sequence[TensorDesc]:
    """As many elements as the slice [start, end) of the dims has."""
    x = node.operand(0).desc
    length = unnamed_dim(node, 0) if x.shape is None else len(_slice_of(node, x.shape))
    return [TensorDesc.plain(DType.INT64, (length,))]


def propagate_shape(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The dims, named ones by name."""
    x = node.operand(0).desc
    return None if x.shape is None else _slice_of(node, x.shape)


def _slice_of(node: Node, shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    # Python clamps as ONNX does.
    return shape[node.int_attr("start", 0) : node.int_attr("end", len(shape))]


def evaluate_shape(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Shape on numpy."""
    assert arrays[0] is not None
    return [np.array(_slice_of(node, arrays[0].shape), np.int64)]


def infer_size(node: Node, known: Known) -> Sequence[TensorDesc]:
    """A scalar."""
    return [TensorDesc.plain(DType.INT64, ())]


def propagate_size(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The number of elements."""
    shape = node.operand(0).desc.shape
    return None if shape is None else (product(shape),)


def evaluate_size(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Size on numpy."""
    assert arrays[0] is not None
    return [np.array(arrays[0].size, np.int64)]


# --- ConstantOfShape ---------------------------------------------------------------------------


def fill_value(node: Node) -> Array:
    """The element that fills the result; float32 zero by default."""
    tensor = node.attrs.get("value")
    if tensor is None:
        return np.zeros((), np.float32)
    assert isinstance(tensor, Tensor)
    if tensor.array.size != 1:
        raise ModelInvalid("E13014", where=node, what=f"value has {tensor.array.size} elements, needs 1")
    return tensor.array.reshape(())


def infer_constant_of_shape(node: Node, known: Known) -> Sequence[TensorDesc]:
    """The shape that the input holds."""
    tensor = node.attrs.get("value")
    dtype = tensor.dtype if isinstance(tensor, Tensor) else DType.FLOAT32
    fill_value(node)
    dims = known(node.operand(0))
    if dims is None:
        length = (node.operand(0).desc.shape or (None,))[0]
        if not isinstance(length, int):
            return [TensorDesc.plain(dtype, None)]
        return [TensorDesc.plain(dtype, tuple(unnamed_dim(node, axis) for axis in range(length)))]
    if any(isinstance(dim, int) and dim < 0 for dim in dims):
        raise ModelInvalid("EZ8888", where=node, what=f"the shape {list(dims)} has a negative size")
    return [TensorDesc.plain(dtype, dims)]


def propagate_constant_of_shape(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The value, as often as the shape says."""
    y = node.output.desc
    if not y.dtype.is_int or not has_few_elements(y):
        return None
    return (int(fill_value(node)),) * y.elements


def evaluate_constant_of_shape(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """ConstantOfShape on numpy."""
    assert arrays[0] is not None
    value = fill_value(node)
    return [np.full([int(dim) for dim in arrays[0].reshape(-1)], value, value.dtype)]


def supports_constant_of_shape(node: Node) -> Iterable[Reject]:
    """Known shapes; elements whose bits a record holds."""
    yield from rejects_value(node, node.output.desc)
    if node.output.desc.dtype.bits > 64:
        yield Reject("dtype", node.name, node.output.desc.dtype.long)


def lower_constant_of_shape(node: Node) -> Iterable[KernelCall]:
    """One fill, for results too large to be folded."""
    y = node.output
    bits = fill_value(node).tobytes().ljust(8, b"\0")
    assert item_bytes(y.desc.dtype) <= len(bits)
    shape = y.desc.static_shape
    yield from fill_calls(y, shape, row_major(shape), value=int.from_bytes(bits, "little", signed=True))


# --- Range -------------------------------------------------------------------------------------


_EXACT: Final = {DType.FLOAT32: 2**24, DType.FLOAT64: 2**53}  # up to where all integers are numbers of a type


def infer_range(node: Node, known: Known) -> Sequence[TensorDesc]:
    """⌈(limit − start) / delta⌉ elements, or none."""
    dtype = node.operand(0).desc.dtype
    for name, value in zip(("start", "limit", "delta"), node.operands, strict=True):
        check_single(node, name, value)
    start, limit, delta = (_bound(value, known) for value in node.operands)
    if start is None or limit is None or delta is None:
        length = _size_counted(node, known)
        return [TensorDesc.plain(dtype, (unnamed_dim(node, 0) if length is None else length,))]
    return [TensorDesc.plain(dtype, (_range_length(node, start, limit, delta),))]


def _bound(value: Value, known: Known) -> int | np.floating | None:
    """A number that a Range starts from, ends at or counts in; None if it is not known. Whole numbers that a float type
    holds exactly are integers, those that a Cast makes of known ones too.
    """
    dtype = value.desc.dtype
    if dtype.is_int:
        numbers = integers(known(value))
        return numbers[0] if numbers else None
    if value.tensor is not None and dtype.is_float:
        number: np.floating = value.array.reshape(-1)[0]
        return int(number) if dtype in _EXACT and abs(number) <= _EXACT[dtype] and number == int(number) else number
    cast = value.producer
    if cast.op_type != "Cast" or dtype not in _EXACT or not cast.operand(0).desc.dtype.is_int:
        return None
    numbers = integers(known(cast.operand(0)))
    exact = numbers and -_EXACT[dtype] <= numbers[0] <= _EXACT[dtype]
    return numbers[0] if numbers and exact else None


def _size_counted(node: Node, known: Known) -> Sym | None:
    """The size up to which a Range counts from 0 in ones; None if it is none, or could be below 0."""
    start, limit, delta = (known(value) for value in node.operands)
    if (start, delta) != ((0,), (1,)) or limit is None or len(limit) != 1 or limit[0] == UNNAMED:
        return None
    (size,) = limit
    is_difference = isinstance(size, Sym) and size.name.startswith("(") and "-" in size.name
    return size if isinstance(size, Sym) and not is_difference else None


def _range_length(node: Node, start: int | np.floating, limit: int | np.floating, delta: int | np.floating) -> int:
    if delta == 0:
        raise ModelInvalid("EZ8888", where=node, what="delta is 0")
    if not all(isinstance(bound, int) or math.isfinite(bound) for bound in (start, limit, delta)):
        raise ModelInvalid("EZ8888", where=node, what=f"it counts from {start} to {limit} in steps of {delta}")
    if isinstance(start, int) and isinstance(limit, int) and isinstance(delta, int):
        return max(0, -((start - limit) // delta))
    # The difference in the type itself, the quotient in float64: as ONNX Runtime counts.
    return max(0, math.ceil(float(limit - start) / float(delta)))


def propagate_range(node: Node, known: Known) -> tuple[Dim, ...] | None:
    """The numbers, if they are few."""
    bounds = [known_integers(node, index, known) for index in range(3)]
    if not all(bounds):
        return None
    start, limit, delta = (bound[0] for bound in bounds if bound)
    length = _range_length(node, start, limit, delta)
    if is_symbolic(length):
        return None
    return tuple(start + index * delta for index in range(length)) if length <= MAX_DATA_ELEMENTS else None


def evaluate_range(node: Node, arrays: Sequence[Array | None]) -> Sequence[Array]:
    """Range on numpy for integers; the standard's own arithmetic for floats."""
    start, limit, delta = (array.reshape(()) for array in arrays if array is not None)
    if start.dtype.kind not in "iu":
        _range_length(node, *map(np.float64, (start, limit, delta)))
        return evaluate_by_onnx(node, arrays)
    length = _range_length(node, int(start), int(limit), int(delta))
    return [(start + np.arange(length, dtype=start.dtype) * delta).astype(start.dtype)]


COUNTED: Final = frozenset({DType.INT16, DType.INT32, DType.INT64, DType.FLOAT32, DType.FLOAT64})


def supports_range(node: Node) -> Iterable[Reject]:
    """A length that follows from sizes and integers that are known; numbers fold."""
    dtype = node.output.desc.dtype
    yield from rejects_value(node, node.output.desc)
    if dtype not in COUNTED:
        yield Reject("dtype", node.name, dtype.long)


def lower_range(node: Node) -> Iterable[KernelCall]:
    """One launch."""
    y = node.output
    (length,) = y.desc.static_shape
    params: dict[str, ParamValue] = {"n": length, "dtype": y.desc.dtype.onnx}
    yield KernelCall("range", (node.operand(0), node.operand(2)), (y,), params)


for _name, _infer, _propagate, _evaluate in (
    ("Shape", infer_shape, propagate_shape, evaluate_shape),
    ("Size", infer_size, propagate_size, evaluate_size),
):
    register_operator(OpDef(name=_name, infer=_infer, propagate=_propagate, evaluate=_evaluate, traits=Trait.EAGER))
register_operator(
    OpDef(
        name="Range",
        infer=infer_range,
        propagate=propagate_range,
        evaluate=evaluate_range,
        engines={Engine.VECTOR: supports_range},
        lower=lower_range,
        traits=Trait.EAGER,
    )
)
register_operator(
    OpDef(
        name="ConstantOfShape",
        operand_shapes=lambda node: {0: "rank"},
        ge_type="Fill",
        infer=infer_constant_of_shape,
        propagate=propagate_constant_of_shape,
        evaluate=evaluate_constant_of_shape,
        engines={Engine.VECTOR: supports_constant_of_shape},
        lower=lower_constant_of_shape,
        traits=Trait.EAGER,
    )
)
