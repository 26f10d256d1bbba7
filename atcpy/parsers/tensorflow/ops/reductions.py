"""Reductions, and the indices of extremes."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_REDUCE = {"Sum": "ReduceSum", "Max": "ReduceMax", "Min": "ReduceMin", "Prod": "ReduceProd"}


def _reduce(b: OpBuilder) -> Value:
    """The reduction of the standard; no axes are no reduction"""
    x = b.input(0)
    return b.cast(_along_axes(b, _REDUCE[b.node.op], b.widen(x)), x.desc.dtype)


maps(*_REDUCE)(_reduce)


@maps("All", "Any")
def truth(b: OpBuilder) -> Value:
    """ReduceMin, ReduceMax of truth values"""
    return _along_axes(b, "ReduceMin" if b.node.op == "All" else "ReduceMax", b.input(0))


@maps("Mean")
def mean(b: OpBuilder) -> Value:
    """ReduceMean; of integers the sum by the count, truncated"""
    x = b.input(0)
    if x.desc.dtype.is_float:
        return _along_axes(b, "ReduceMean", x)
    wide = b.cast(x, DType.INT64) if x.desc.dtype.bits < 64 else x
    total = _along_axes(b, "ReduceSum", wide)
    if total is wide:
        return x
    count = _along_axes(b, "ReduceSum", b.filled_like(wide, 1))
    return b.cast(b.op("Div", total, count), x.desc.dtype)


@maps("EuclideanNorm")
def euclidean_norm(b: OpBuilder) -> Value:
    """ReduceL2"""
    x = b.input(0)
    wide = x if x.desc.dtype.is_float else b.cast(x, DType.FLOAT64)
    result = _along_axes(b, "ReduceL2", wide)
    return b.cast(b.op("Abs", wide) if result is wide else result, x.desc.dtype)


def _along_axes(b: OpBuilder, op_type: str, x: Value) -> Value:
    """`x` reduced along the axes that input 1 says."""
    keepdims = b.bool_attr("keep_dims")
    if b.is_constant(1):
        axes = _axes(b)
        if len(set(axes)) < len(axes):
            raise b.invalid(f"the axes {axes}: some twice")
        return b.op(op_type, x, b.const(axes), keepdims=int(keepdims)) if axes else x
    if _are_all_axes(b):
        return b.op(op_type, x, keepdims=int(keepdims))
    if not keepdims:
        raise b.unsupported(f'the axes, "{b.input(1).name}", are computed when the model runs, and the dims vanish')
    axes_input = b.cast(b.reshape(b.input(1), [-1]), DType.INT64)
    return b.op(op_type, x, axes_input, keepdims=1, noop_with_empty_axes=1)


def _are_all_axes(b: OpBuilder) -> bool:
    """Are the axes 0, 1, … below the number of dims of input 0, which is not known?"""
    span = b.input(1).producer
    if span.op_type != "Range" or [b.known(span.operand(index)) for index in (0, 2)] != [(0,), (1,)]:
        return False
    value = span.operand(1)
    for op_type in ("Size", "Shape"):
        while value.producer.op_type == "Cast":
            value = value.producer.operand(0)
        if value.producer.op_type != op_type:
            return False
        value = value.producer.operand(0)
    return value is b.input(0)


def _axes(b: OpBuilder) -> tuple[int, ...]:
    """The axes that input 1 says, from the front if the rank is known."""
    shape = b.input(0).desc.shape
    return b.ints(1) if shape is None else b.axes(1, len(shape))


maps("L2Loss", note="ReduceSumSquare / 2")(lambda b: b.scale(b.op("ReduceSumSquare", b.input(0), keepdims=0), 0.5))


@maps("ArgMax", "ArgMin")
def index_of_extreme(b: OpBuilder) -> Value:
    """ArgMax, ArgMin; the first of equals"""
    x = b.input(0)
    if x.desc.dtype is DType.BOOL:
        x = b.cast(x, DType.UINT8)
    axes = _axes(b)
    if len(axes) != 1:
        raise b.invalid(f"the axes {axes}: it takes one")
    return b.cast(b.op(b.node.op, x, axis=axes[0], keepdims=0), b.dtype_attr("output_type"))
