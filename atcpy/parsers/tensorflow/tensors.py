"""Constants of a TensorFlow graph: TensorProto → ir.Tensor."""

from __future__ import annotations

import math
from typing import Any, Final

import ml_dtypes
import numpy as np
import numpy.typing as npt

from atcpy.errors import ModelInvalid, Unsupported, Where
from atcpy.ir import DType, Tensor
from atcpy.ir.shape import StaticShape, fits_limits
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType, TensorProto, TensorShapeProto

REFERENCE: Final = 100  # what a reference to a type has more than the type
MAX_FILLED_BYTES: Final = 2**30  # what one constant that repeats its last element may become

_DTYPES: dict[int, DType] = {
    DataType.DT_FLOAT: DType.FLOAT32,
    DataType.DT_DOUBLE: DType.FLOAT64,
    DataType.DT_INT32: DType.INT32,
    DataType.DT_UINT8: DType.UINT8,
    DataType.DT_INT16: DType.INT16,
    DataType.DT_INT8: DType.INT8,
    DataType.DT_STRING: DType.STRING,
    DataType.DT_COMPLEX64: DType.COMPLEX64,
    DataType.DT_INT64: DType.INT64,
    DataType.DT_BOOL: DType.BOOL,
    DataType.DT_QINT8: DType.INT8,
    DataType.DT_QUINT8: DType.UINT8,
    DataType.DT_QINT32: DType.INT32,
    DataType.DT_BFLOAT16: DType.BFLOAT16,
    DataType.DT_QINT16: DType.INT16,
    DataType.DT_QUINT16: DType.UINT16,
    DataType.DT_UINT16: DType.UINT16,
    DataType.DT_COMPLEX128: DType.COMPLEX128,
    DataType.DT_HALF: DType.FLOAT16,
    DataType.DT_UINT32: DType.UINT32,
    DataType.DT_UINT64: DType.UINT64,
    DataType.DT_FLOAT8_E5M2: DType.FLOAT8E5M2,
    DataType.DT_FLOAT8_E4M3FN: DType.FLOAT8E4M3FN,
    DataType.DT_INT4: DType.INT4,
    DataType.DT_UINT4: DType.UINT4,
}
# The field that holds the elements where tensor_content does not.
_FIELDS: dict[DType, str] = {
    DType.FLOAT32: "float_val",
    DType.FLOAT64: "double_val",
    DType.INT64: "int64_val",
    DType.UINT32: "uint32_val",
    DType.UINT64: "uint64_val",
    DType.BOOL: "bool_val",
    DType.STRING: "string_val",
    DType.COMPLEX64: "scomplex_val",
    DType.COMPLEX128: "dcomplex_val",
    DType.FLOAT16: "half_val",
    DType.BFLOAT16: "half_val",
}
_PATTERNS = {DType.FLOAT16: np.float16, DType.BFLOAT16: ml_dtypes.bfloat16}


def find_dtype(number: int) -> DType | None:
    """The element type with this number in TensorFlow's DataType, references included; None for resources, variants
    and what is not known.
    """
    return _DTYPES.get(number % REFERENCE if number > REFERENCE else number)


def type_name(number: int) -> str:
    """The name of a DataType, such as `resource`."""
    known = DataType.Name(DataType.ValueType(number)) if number in DataType.values() else f"DT_{number}"
    return known.removeprefix("DT_").lower()


def read_shape(proto: TensorShapeProto) -> tuple[int, ...] | None:
    """The sizes, −1 where one is not known; None if the rank is not known."""
    return None if proto.unknown_rank else tuple([dim.size for dim in proto.dim])


def read_tensor(proto: TensorProto, where: Where) -> Tensor:
    """The constant that `proto` holds.

    Raises ModelInvalid if shape and content do not fit, Unsupported for types that hold no elements.
    """
    dtype = find_dtype(proto.dtype)
    if dtype is None:
        raise Unsupported("E10055", f"a constant of type {type_name(proto.dtype)}", where=where)
    shape = read_shape(proto.tensor_shape)
    if shape is None or not fits_limits(shape):
        raise ModelInvalid("E13014", f"the constant has the shape {shape}", where=where)
    count = math.prod(shape)
    if proto.tensor_content and dtype is not DType.STRING:
        return _from_content(proto, dtype, shape, where)
    array = _from_list(proto, dtype)
    if array.size > count or (array.size < count and dtype.nbytes(count) > MAX_FILLED_BYTES):
        what = f"the constant {list(shape)} is given by {array.size} elements"
        raise ModelInvalid("E13014", what, where=where)
    if array.size < count:  # the last one stands for the rest
        last: Any = array[-1] if array.size else _zero(dtype)
        rest = np.empty(count - array.size, array.dtype)
        rest[:] = last
        array = np.concatenate([array, rest])
    return Tensor.of(array.reshape(shape), dtype)


def _from_content(proto: TensorProto, dtype: DType, shape: StaticShape, where: Where) -> Tensor:
    item = dtype.numpy.itemsize
    if len(proto.tensor_content) != math.prod(shape) * item:
        what = f"the constant has {len(proto.tensor_content)} bytes, {dtype.long}{list(shape)} needs "
        raise ModelInvalid("E13014", f"{what}{math.prod(shape) * item}", where=where)
    little = dtype.numpy.newbyteorder("<") if dtype.numpy.kind in "iufc" and item > 1 else dtype.numpy
    return Tensor(dtype, shape, lambda: np.frombuffer(proto.tensor_content, little).reshape(shape))


def _from_list(proto: TensorProto, dtype: DType) -> npt.NDArray[Any]:
    items: Any = getattr(proto, _FIELDS.get(dtype, "int_val"))
    if dtype is DType.STRING:
        array = np.empty(len(items), np.object_)
        array[:] = [item.decode("utf-8", "surrogateescape") for item in items]
        return array
    if dtype in _PATTERNS:
        return np.array(items, np.int32).astype(np.uint16).view(_PATTERNS[dtype])
    if dtype in (DType.COMPLEX64, DType.COMPLEX128):
        parts = np.array(items, np.float32 if dtype is DType.COMPLEX64 else np.float64)
        return parts[: parts.size // 2 * 2].view(dtype.numpy)
    if dtype in (DType.FLOAT8E5M2, DType.FLOAT8E4M3FN):
        return np.frombuffer(proto.float8_val, dtype.numpy)
    return np.array(items, dtype.numpy if dtype.is_float else np.int64).astype(dtype.numpy, copy=False)


def _zero(dtype: DType) -> Any:
    return "" if dtype is DType.STRING else dtype.numpy.type(0)
