"""Ops that the standard tried and dropped; ONNX Runtime still runs them, for exports of Core ML and Windows ML."""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.builder import INT64_MAX
from atcpy.ir.shape import format_shape
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import STANDARD, contrib


@contrib("Affine", "X", "alpha:f beta:f", domain=STANDARD)
def affine(e: Expansion) -> Value:
    """alpha · X + beta"""
    x = e.operand("X")
    return e.op("Add", e.scale(x, e.node.float_attr("alpha", 1.0)), e.like(e.node.float_attr("beta", 0.0), x))


@contrib("Scale", "input", "scale:f", domain=STANDARD)
def scale(e: Expansion) -> Value:
    """scale · input"""
    return e.scale(e.operand("input"), e.node.float_attr("scale", 1.0))


@contrib("ScaledTanh ParametricSoftplus", "input", "alpha:f beta:f", domain=STANDARD)
def scaled_activation(e: Expansion) -> Value:
    """alpha · f(beta · input); the standard named no defaults."""
    for name in ("alpha", "beta"):
        if name not in e.node.attrs:
            raise e.invalid(f"{e.node.op_type}: attribute {name} is missing")
    op_type = "Tanh" if e.node.op_type == "ScaledTanh" else "Softplus"
    inner = e.scale(e.operand("input"), e.node.float_attr("beta", 1.0))
    return e.scale(e.op(op_type, inner), e.node.float_attr("alpha", 1.0))


@contrib("ImageScaler", "input", "scale:f bias:F", domain=STANDARD)
def image_scaler(e: Expansion) -> Value:
    """scale · input + bias of the channel"""
    x = e.operand("input")
    bias = np.array(e.node.attrs.get("bias", ()), np.float64)
    if e.rank_of(x) != 4 or (e.shape_of(x)[1] != len(bias) and isinstance(e.shape_of(x)[1], int)):
        raise e.invalid(f"ImageScaler: {len(bias)} biases for an image of shape {format_shape(e.shape_of(x))}")
    by_channel = e.cast_like(e.const(bias.reshape(-1, 1, 1), DType.FLOAT32), x)
    return e.op("Add", e.scale(x, e.node.float_attr("scale", 1.0)), by_channel)


@contrib("Crop", "input", "border:I! scale:I", domain=STANDARD)
def crop(e: Expansion) -> Value:
    """An image without its border of left, top, right and bottom; with `scale`, that height and width of it, from left
    and top on.
    """
    x, border, size = e.operand("input"), e.node.ints_attr("border"), e.node.ints_attr("scale")
    if e.rank_of(x) != 4 or len(border) != 4 or len(size) not in (0, 2) or min(*border, *size) < 0:
        what = f"border {list(border)} and scale {list(size)} of an image of shape {format_shape(e.shape_of(x))}"
        raise e.invalid(f"Crop: {what}")
    left, top, right, bottom = border
    starts, rests = (top, left), size or (bottom, right)
    for have, start, rest in zip(e.shape_of(x)[2:], starts, rests, strict=True):
        if isinstance(have, int) and start + rest > have:
            raise e.invalid(f"Crop: a side of {have} is shorter than {start} + {rest}")
    if size:
        ends = [start + length for start, length in zip(starts, size, strict=True)]
    else:
        ends = [-rest if rest else INT64_MAX for rest in rests]
    return e.op("Slice", x, e.const(starts, DType.INT64), e.const(ends, DType.INT64), e.const([2, 3], DType.INT64))
