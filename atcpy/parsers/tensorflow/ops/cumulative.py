"""Sums, products and log-sum-exps of all that comes before."""

from __future__ import annotations

import math

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.ir.builder import INT64_MAX
from atcpy.parsers.tensorflow.op import OpBuilder, maps


@maps("Cumsum", "Cumprod")
def cumulate(b: OpBuilder) -> Value:
    """CumSum, CumProd"""
    x = b.input(0)
    attrs = {name: int(b.bool_attr(name)) for name in ("exclusive", "reverse")}
    is_known = b.is_constant(1) and x.desc.shape is not None
    axis = b.const(b.axes(1, b.rank(0))[0]) if is_known else b.input(1)
    return b.cast(b.op("CumSum" if b.node.op == "Cumsum" else "CumProd", b.widen(x), axis, **attrs), x.desc.dtype)


@maps("CumulativeLogsumexp")
def cumulative_log_sum_exp(b: OpBuilder) -> Value:
    """Log of the sum of Exp of all before: log₂(n) steps, each over twice as many"""
    x = b.input(0)
    shape, (axis,) = b.shape(0), b.axes(1, b.rank(0))
    size, is_reverse = shape[axis], b.bool_attr("reverse")
    if not isinstance(size, int):
        raise b.unsupported("a dim of unknown size to accumulate along", "give the shapes of the inputs: --input_shape")
    if b.bool_attr("exclusive"):
        x = _moved(b, x, axis, min(size, 1), is_reverse=is_reverse)
    step = 1
    while step < size:
        x = _log_add(Expr(b, x), Expr(b, _moved(b, x, axis, step, is_reverse=is_reverse))).value
        step *= 2
    return x


def _moved(b: OpBuilder, x: Value, axis: int, step: int, *, is_reverse: bool) -> Value:
    """x moved along a dim, −∞ where nothing comes from."""
    pads = [0, step] if is_reverse else [step, 0]
    bounds = (step, INT64_MAX) if is_reverse else (0, -step)
    return b.op("Pad", b.slice(x, *bounds, axis), b.const(pads), b.like(-math.inf, x), b.const([axis]))


def _log_add(left: Expr, right: Expr) -> Expr:
    """log(exp(left) + exp(right)); two equal ones may be infinite."""
    high = left.max(right)
    gap = (left.min(right) - high).masked_fill(left.equals(right), 0)
    return high + (gap.exp() + 1).apply("Log")
