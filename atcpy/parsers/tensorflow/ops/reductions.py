"""Reductions."""

from __future__ import annotations

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import Op, maps

_REDUCE = {
    "Mean": "ReduceMean",
    "Sum": "ReduceSum",
    "Max": "ReduceMax",
    "Min": "ReduceMin",
    "Prod": "ReduceProd",
    "EuclideanNorm": "ReduceL2",
}


def _reduce(op: Op) -> Value:
    """The reduction of the standard; no axes are no reduction"""
    x = op.input(0)
    axes = op.axes(1, op.rank(0))
    if not axes:
        return x
    return op.add(_REDUCE[op.node.op], x, op.const(axes), keepdims=int(op.bool_attr("keep_dims")))


maps(*_REDUCE)(_reduce)
