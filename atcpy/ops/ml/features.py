"""Ops that prepare features: scaling, filling in, choosing and joining columns."""

from __future__ import annotations

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ir.shape import element_count, is_static
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.ml.record import floats, ints, ml


@ml("Scaler", "X")
def scaler(e: Expansion) -> Value:
    """(X − offset) · scale, in float64 where X is, then float32."""
    x = e.operand("X")
    dtype = DType.FLOAT64 if x.desc.dtype is DType.FLOAT64 else DType.FLOAT32
    x = e.cast(x, dtype)
    offset, scale = floats(e, "offset", dtype), floats(e, "scale", dtype)
    if offset.any():
        x = e.op("Sub", x, e.const(offset, label="offset"))
    if len(scale) and (scale != 1).any():
        x = e.op("Mul", x, e.const(scale, label="scale"))
    return e.cast(x, DType.FLOAT32)


@ml("Normalizer", "X")
def normalizer(e: Expansion) -> Value:
    """Each row over its norm; a row whose norm is zero stays."""
    x = e.cast(e.operand("X"), DType.FLOAT32)
    axis = e.const([-1], label="axis")
    match e.node.str_attr("norm", "MAX"):
        case "MAX":
            norm = e.op("ReduceMax", x, axis)
        case "L1":
            norm = e.op("ReduceL1", x, axis)
        case "L2":
            norm = e.op("ReduceL2", x, axis)
        case other:
            raise e.invalid(f"norm = {other}")
    is_zero = e.op("Equal", norm, e.like(0.0, norm))
    return e.op("Div", x, e.op("Where", is_zero, e.like(1.0, norm), norm))


@ml("Binarizer", "X")
def binarizer(e: Expansion) -> Value:
    """1 where X is above the threshold, else 0."""
    x = e.operand("X")
    threshold = np.float32(e.node.float_attr("threshold", 0.0))
    return e.cast_like(e.op("Greater", x, e.like(float(threshold), x)), x)


@ml("Imputer", "X")
def imputer(e: Expansion) -> Value:
    """X, with one value replaced: by the same number everywhere, or by one of each column."""
    x = e.operand("X")
    dtype = e.dtype_of(x)
    if dtype is None:
        raise e.unsupported(f'the type of "{x.name}" is not known')
    kind, replaced = ("imputed_value_floats", e.node.float_attr("replaced_value_float", 0.0))
    if dtype.is_int:
        kind, replaced = ("imputed_value_int64s", float(e.node.int_attr("replaced_value_int64", 0)))
    imputed = np.asarray(e.node.attrs.get(kind, ()), dtype.numpy)
    if not imputed.size:
        raise e.invalid(f"{kind} is missing")
    if np.isnan(replaced):
        is_missing = e.op("IsNaN", x)
    elif dtype.is_int:
        is_missing = e.op("Equal", x, e.const(e.node.int_attr("replaced_value_int64", 0), dtype, label="replaced"))
    else:
        is_missing = e.op("Equal", x, e.const(replaced, dtype, label="replaced"))
    return e.op("Where", is_missing, e.const(imputed, label="imputed"), x)


@ml("ArrayFeatureExtractor", "X Y")
def array_feature_extractor(e: Expansion) -> Value:
    """The columns of X with the indices Y; a list is one row."""
    x, y = e.operand("X"), e.operand("Y")
    if e.rank_of(x) == 1:
        x = e.reshape(x, (1, -1))
    if y.desc.shape is None or len(y.desc.shape) != 1:
        y = e.reshape(y, (-1,))
    return e.op("Gather", x, y, axis=-1)


@ml("FeatureVectorizer", "X+")
def feature_vectorizer(e: Expansion) -> Value:
    """The rows of all inputs behind each other, each as long as `inputdimensions` says."""
    parts = e.every("X")
    sizes = ints(e, "inputdimensions")
    if len(sizes) != len(parts):
        raise e.invalid(f"inputdimensions has {len(sizes)} sizes for {len(parts)} inputs")
    return e.op("Concat", *(_of_width(e, part, int(size)) for part, size in zip(parts, sizes, strict=True)), axis=1)


def _of_width(e: Expansion, part: Value, size: int) -> Value:
    """Return a part as a matrix of `size` columns: further ones are left out, missing ones are zeros."""
    x = e.cast(part, DType.FLOAT32)
    shape = e.shape_of(part)
    if len(shape) == 1:
        x, width = e.reshape(x, (1, -1)), shape[0]
    elif len(shape) == 2:
        width = shape[1]
    else:
        x, inner = e.op("Flatten", x, axis=1), shape[1:]
        width = element_count(inner) if is_static(inner) else -1
    if width == size:
        return x
    if not isinstance(width, int) or width < 0:
        raise e.unsupported(f'the number of columns of "{part.name}" is not known', "give its shape: --input_shape")
    if width > size:
        return e.slice(x, 0, size, 1)
    return e.op("Pad", x, e.const([0, 0, 0, size - width], label="pads"))
