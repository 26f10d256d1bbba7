"""Sums, products and log-sum-exps of all that comes before."""

from __future__ import annotations

import math

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps

_END = 2**63 - 1
_NARROW = frozenset({DType.INT8, DType.INT16, DType.UINT8, DType.UINT16})  # the standard accumulates no such integers


@maps("Cumsum", "Cumprod")
def cumulate(op: Op) -> Value:
    """CumSum, CumProd"""
    x = op.input(0)
    wide = op.cast(x, DType.INT32) if x.desc.dtype in _NARROW else x
    attrs = {name: int(op.bool_attr(name)) for name in ("exclusive", "reverse")}
    is_known = op.is_constant(1) and x.desc.shape is not None
    axis = op.const(op.axes(1, op.rank(0))[0]) if is_known else op.input(1)
    return op.cast(op.add("CumSum" if op.node.op == "Cumsum" else "CumProd", wide, axis, **attrs), x.desc.dtype)


@maps("CumulativeLogsumexp")
def cumulative_log_sum_exp(op: Op) -> Value:
    """Log of the sum of Exp of all before: log₂(n) steps, each over twice as many"""
    x = op.input(0)
    shape, (axis,) = op.shape(0), op.axes(1, op.rank(0))
    size, is_reverse = shape[axis], op.bool_attr("reverse")
    if not isinstance(size, int):
        raise op.refuse("a dim of unknown size to accumulate along", "give the shapes of the inputs: --input_shape")
    if op.bool_attr("exclusive"):
        x = _moved(op, x, axis, min(size, 1), is_reverse=is_reverse)
    step = 1
    while step < size:
        x = _log_add(op, x, _moved(op, x, axis, step, is_reverse=is_reverse))
        step *= 2
    return x


def _moved(op: Op, x: Value, axis: int, step: int, *, is_reverse: bool) -> Value:
    """x moved along a dim, −∞ where nothing comes from."""
    pads = [0, step] if is_reverse else [step, 0]
    bounds = (step, _END) if is_reverse else (0, -step)
    kept = op.add("Slice", x, op.const([bounds[0]]), op.const([bounds[1]]), op.const([axis]))
    return op.add("Pad", kept, op.const(pads), op.like(-math.inf, x), op.const([axis]))


def _log_add(op: Op, a: Value, b: Value) -> Value:
    """log(exp(a) + exp(b)); two equal ones may be infinite."""
    high = op.add("Max", a, b)
    gap = op.add("Sub", op.add("Min", a, b), high)
    gap = op.add("Where", op.add("Equal", a, b), op.like(0, a), gap)
    return op.add("Add", high, op.add("Log", op.add("Add", op.add("Exp", gap), op.like(1, a))))
