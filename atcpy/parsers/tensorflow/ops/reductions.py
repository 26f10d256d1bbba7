"""Reductions, and the places of extremes."""

from __future__ import annotations

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps

_REDUCE = {"Sum": "ReduceSum", "Max": "ReduceMax", "Min": "ReduceMin", "Prod": "ReduceProd"}
# The standard reduces no integers of 8 and 16 bits, or not by each op.
_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})


def _reduce(op: Op) -> Value:
    """The reduction of the standard; no axes are no reduction"""
    x = op.input(0)
    wide = op.cast(x, DType.INT32) if x.desc.dtype in _NARROW else x
    return op.cast(_along_axes(op, _REDUCE[op.node.op], wide), x.desc.dtype)


maps(*_REDUCE)(_reduce)


@maps("All", "Any")
def truth(op: Op) -> Value:
    """ReduceMin, ReduceMax of truth values"""
    return _along_axes(op, "ReduceMin" if op.node.op == "All" else "ReduceMax", op.input(0))


@maps("Mean")
def mean(op: Op) -> Value:
    """ReduceMean; of integers the sum by the count, truncated"""
    x = op.input(0)
    if x.desc.dtype.is_float:
        return _along_axes(op, "ReduceMean", x)
    wide = op.cast(x, DType.INT64) if x.desc.dtype.bits < 64 else x
    total = _along_axes(op, "ReduceSum", wide)
    if total is wide:
        return x
    one = op.add("Expand", op.like(1, wide), op.add("Shape", wide))
    return op.cast(op.add("Div", total, _along_axes(op, "ReduceSum", one)), x.desc.dtype)


@maps("EuclideanNorm")
def euclidean_norm(op: Op) -> Value:
    """ReduceL2"""
    x = op.input(0)
    wide = x if x.desc.dtype.is_float else op.cast(x, DType.FLOAT64)
    result = _along_axes(op, "ReduceL2", wide)
    return op.cast(op.add("Abs", wide) if result is wide else result, x.desc.dtype)


def _along_axes(op: Op, op_type: str, x: Value) -> Value:
    """`x` reduced along the axes that input 1 says."""
    keepdims = op.bool_attr("keep_dims")
    if op.is_constant(1):
        axes = _axes(op)
        if len(set(axes)) < len(axes):
            raise ModelInvalid("E13014", f"the axes {axes}: some twice", where=op.where)
        return op.add(op_type, x, op.const(axes), keepdims=int(keepdims)) if axes else x
    if _are_all_axes(op):
        return op.add(op_type, x, keepdims=int(keepdims))
    if not keepdims:
        raise op.refuse(f'the axes, "{op.input(1).name}", are computed when the model runs, and the dims vanish')
    axes_input = op.cast(op.reshape(op.input(1), [-1]), DType.INT64)
    return op.add(op_type, x, axes_input, keepdims=1, noop_with_empty_axes=1)


def _are_all_axes(op: Op) -> bool:
    """Are the axes 0, 1, … below the number of dims of input 0, which is not known?"""
    made = op.input(1).producer
    if made.op_type != "Range" or [op.known(made.operand(place)) for place in (0, 2)] != [(0,), (1,)]:
        return False
    value = made.operand(1)
    for op_type in ("Size", "Shape"):
        while value.producer.op_type == "Cast":
            value = value.producer.operand(0)
        if value.producer.op_type != op_type:
            return False
        value = value.producer.operand(0)
    return value is op.input(0)


def _axes(op: Op) -> tuple[int, ...]:
    """The axes that input 1 says, from the front if the rank is known."""
    shape = op.input(0).desc.shape
    return op.ints(1) if shape is None else op.axes(1, len(shape))


@maps("L2Loss")
def l2_loss(op: Op) -> Value:
    """ReduceSumSquare / 2"""
    x = op.input(0)
    return op.add("Mul", op.add("ReduceSumSquare", x, keepdims=0), op.like(0.5, x))


@maps("ArgMax", "ArgMin")
def place_of_extreme(op: Op) -> Value:
    """ArgMax, ArgMin; the first of equals"""
    x = op.input(0)
    if x.desc.dtype is DType.BOOL:
        x = op.cast(x, DType.UINT8)
    axes = _axes(op)
    if len(axes) != 1:
        raise ModelInvalid("E13014", f"the axes {axes}: it takes one", where=op.where)
    return op.cast(op.add(op.node.op, x, axis=axes[0], keepdims=0), op.dtype_attr("output_type"))
