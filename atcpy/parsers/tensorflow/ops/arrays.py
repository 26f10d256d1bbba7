"""Ops that move elements, and those that speak about shapes."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import Op, maps


@maps("Reshape")
def reshape(op: Op) -> Value:
    """Reshape; a 0 is a size of 0"""
    return op.add("Reshape", op.input(0), op.cast(op.input(1), DType.INT64), allowzero=1)


@maps("Transpose")
def transpose(op: Op) -> Value:
    """Transpose"""
    return op.transpose(op.input(0), op.axes(1, op.rank(0)))


@maps("Squeeze")
def squeeze(op: Op) -> Value:
    """Squeeze; of no dims given, all of size 1"""
    axes = op.attr("squeeze_dims") or op.attr("axis")
    if isinstance(axes, tuple) and axes:
        return op.squeeze(op.input(0), *axes)
    return op.add("Squeeze", op.input(0))


@maps("ExpandDims")
def expand_dims(op: Op) -> Value:
    """Unsqueeze"""
    return op.unsqueeze(op.input(0), *op.ints(1))


@maps("Shape")
def shape(op: Op) -> Value:
    """Shape"""
    return op.cast(op.add("Shape", op.input(0)), op.dtype_attr("out_type"))


@maps("Pack")
def pack(op: Op) -> Value:
    """Concat of what each is with a new dim"""
    axis = op.int_attr("axis")
    return op.add("Concat", *[op.unsqueeze(value, axis) for value in op.inputs], axis=axis)


@maps("ConcatV2", "Concat")
def concat(op: Op) -> Value:
    """Concat"""
    at = 0 if op.node.op == "Concat" else len(op.inputs) - 1
    values = [value for place, value in enumerate(op.inputs) if place != at]
    return op.add("Concat", *values, axis=op.ints(at)[0]) if len(values) > 1 else values[0]


@maps("Pad", "PadV2")
def pad(op: Op) -> Value:
    """Pad with a constant"""
    x, pads = op.input(0), op.array(1)
    filler = op.input(2) if op.node.op == "PadV2" else None
    return op.add("Pad", x, op.const([*pads[:, 0], *pads[:, 1]]), filler)
