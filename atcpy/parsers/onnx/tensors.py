"""Constants of the model: TensorProto → ir.Tensor, checked now and read on first use."""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper

from atcpy.errors import ModelInvalid, ResourceLimit, Where
from atcpy.ir import DType, Tensor
from atcpy.ir.shape import StaticShape, fits_limits, format_shape
from atcpy.parsers.onnx.external import ExternalData

MAX_ELEMENTS = 2**47
MAX_DENSE_BYTES = 2**30  # what a sparse constant may take when it is written out
_EXTERNAL = onnx.TensorProto.EXTERNAL

# The field that holds the elements where raw_data does not, and how many elements share one entry of it.
_FIELDS: dict[DType, tuple[str, int]] = {
    DType.FLOAT32: ("float_data", 1),
    DType.COMPLEX64: ("float_data", 1),
    DType.FLOAT64: ("double_data", 1),
    DType.COMPLEX128: ("double_data", 1),
    DType.INT64: ("int64_data", 1),
    DType.UINT32: ("uint64_data", 1),
    DType.UINT64: ("uint64_data", 1),
    DType.STRING: ("string_data", 1),
    DType.UINT4: ("int32_data", 2),
    DType.INT4: ("int32_data", 2),
    DType.FLOAT4E2M1: ("int32_data", 2),
    DType.UINT2: ("int32_data", 4),
    DType.INT2: ("int32_data", 4),
}
_LISTS = sorted({"int32_data", *(field for field, _ in _FIELDS.values())})
_COMPLEX = (DType.COMPLEX64, DType.COMPLEX128)
_NUMPY_READS = {8, 16, 32, 64, 128}


def read_tensor(
    proto: onnx.TensorProto, external: ExternalData, where: Where, *, inline: memoryview | None = None
) -> Tensor:
    """The constant that `proto` holds, whose bytes are `inline` where the reader kept them in the file."""
    dtype, shape = _type_and_shape(proto, where)
    count = math.prod(shape)
    nbytes = dtype.nbytes(count)
    is_external = proto.data_location == _EXTERNAL
    if is_external and (inline is not None or proto.raw_data):
        raise _two_fields(proto, "external data", "raw_data", where)
    if inline is not None:
        _check_fields(proto, "raw_data", where)
        _expect(len(inline) == nbytes, proto, dtype, shape, f"{len(inline)} bytes", f"{nbytes} bytes", where)
        return Tensor(dtype, shape, lambda: _from_raw(inline, dtype, shape))
    if is_external:
        if dtype is DType.STRING:
            raise ModelInvalid("E13014", f'constant "{proto.name}": strings cannot be external data', where=where)
        _check_fields(proto, "external data", where)
        data = external.locate(proto, nbytes, where)
        return Tensor(dtype, shape, lambda: _from_raw(data(), dtype, shape))
    if proto.HasField("raw_data"):
        if dtype is DType.STRING:
            raise ModelInvalid("E13014", f'constant "{proto.name}": strings cannot be raw data', where=where)
        _check_fields(proto, "raw_data", where)
        raw = proto.raw_data
        if len(raw) != nbytes:
            _expect(False, proto, dtype, shape, f"{len(raw)} bytes", f"{nbytes} bytes", where)
        if nbytes > 4096:
            # Each look at the field copies it; the closure holds the message, and copies when it is asked.
            return Tensor(dtype, shape, lambda: _from_raw(proto.raw_data, dtype, shape))
        return Tensor(dtype, shape, lambda: _from_raw(raw, dtype, shape))
    field, per_entry = _FIELDS.get(dtype, ("int32_data", 1))
    _check_fields(proto, field, where)
    entries = len(getattr(proto, field))
    expected = -(-count // per_entry) * (2 if dtype in _COMPLEX else 1)
    _expect(entries == expected, proto, dtype, shape, f"{entries} entries in {field}", f"{expected}", where)
    if dtype is DType.STRING:
        return Tensor(dtype, shape, lambda: _from_strings(proto.string_data, shape))
    return Tensor(dtype, shape, lambda: numpy_helper.to_array(proto))


def read_sparse(proto: onnx.SparseTensorProto, external: ExternalData, where: Where) -> Tensor:
    """The constant that a sparse tensor stands for, written out when it is read."""
    values = read_tensor(proto.values, external, where)
    name = proto.values.name
    shape = _checked_shape(proto.dims, name, where)
    if len(values.shape) != 1 or (values.shape[0] and not proto.HasField("indices")):
        raise ModelInvalid("E13014", f'sparse constant "{name}" needs a list of values and their indices', where=where)
    count, size = values.shape[0], math.prod(shape)
    if values.dtype.nbytes(size) > MAX_DENSE_BYTES:
        raise ResourceLimit(
            "R0001",
            f'sparse constant "{name}" {format_shape(shape)} takes {values.dtype.nbytes(size)} bytes when it is '
            f"written out, the limit is {MAX_DENSE_BYTES}",
            where=where,
        )
    if not count:
        return Tensor(values.dtype, shape, lambda: np.zeros(shape, values.dtype.numpy))
    indices = read_tensor(proto.indices, external, where)
    if indices.dtype is not DType.INT64 or indices.shape not in ((count,), (count, len(shape))):
        raise ModelInvalid("E13014", f'sparse constant "{name}": its indices are {indices}', where=where)
    flat = _flat_indices(indices, shape)
    if flat.size and (flat.min() < 0 or flat.max() >= size or bool((np.diff(flat) <= 0).any())):
        what = f'sparse constant "{name}": its indices are not sorted, not unique or outside {format_shape(shape)}'
        raise ModelInvalid("E13014", what, where=where)

    def dense() -> npt.NDArray[Any]:
        array = np.zeros(size, values.dtype.numpy)
        array[flat] = values.array
        return array.reshape(shape)

    return Tensor(values.dtype, shape, dense)


def _flat_indices(indices: Tensor, shape: StaticShape) -> npt.NDArray[np.int64]:
    array = indices.array
    if array.ndim == 1:
        return array
    if ((array < 0) | (array >= np.asarray(shape, np.int64))).any():
        return np.array([-1], np.int64)
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    flat: npt.NDArray[np.int64] = array @ np.asarray(strides, np.int64)
    return flat


def _type_and_shape(proto: onnx.TensorProto, where: Where) -> tuple[DType, StaticShape]:
    try:
        dtype = DType.from_onnx(proto.data_type)
    except KeyError:
        dtype = DType.UNDEFINED
    if dtype is DType.UNDEFINED:
        what = f'constant "{proto.name}" has the element type {proto.data_type}, which ONNX does not have'
        raise ModelInvalid("E13014", what, where=where)
    if proto.HasField("segment"):
        raise ModelInvalid("E13014", f'constant "{proto.name}" is cut into segments', where=where)
    return dtype, _checked_shape(proto.dims, proto.name, where)


def _checked_shape(dims: Any, name: str, where: Where) -> StaticShape:
    shape = tuple(dims)
    if not _fits(shape):
        raise ModelInvalid("E13014", f'constant "{name}" has the shape {list(shape)}', where=where)
    return shape


@lru_cache(4096)
def _fits(shape: StaticShape) -> bool:
    return fits_limits(shape) and math.prod(shape) <= MAX_ELEMENTS


def _check_fields(proto: onnx.TensorProto, own: str, where: Where) -> None:
    """Raise ModelInvalid if a constant has elements elsewhere than in its own field: which ones count, nobody says."""
    for field in _LISTS:
        if field != own and len(getattr(proto, field)):
            raise _two_fields(proto, own, field, where)


def _two_fields(proto: onnx.TensorProto, own: str, field: str, where: Where) -> ModelInvalid:
    return ModelInvalid("E13014", f'constant "{proto.name}" has elements in {own} and in {field}', where=where)


def _expect(
    holds: bool, proto: onnx.TensorProto, dtype: DType, shape: StaticShape, has: str, needs: str, where: Where
) -> None:
    if not holds:
        what = f'constant "{proto.name}" has {has}, {dtype.long}{format_shape(shape)} needs {needs}'
        raise ModelInvalid("E13014", what, where=where)


def _from_raw(raw: bytes | memoryview, dtype: DType, shape: StaticShape) -> npt.NDArray[Any]:
    if dtype.bits in _NUMPY_READS:
        return np.frombuffer(raw, dtype.numpy).reshape(shape)
    packed = np.frombuffer(raw, np.uint8)
    if dtype.bits == 6:
        bits = np.unpackbits(packed, bitorder="little")[: 6 * math.prod(shape)].reshape(-1, 6)
        return np.packbits(bits, axis=1, bitorder="little").view(dtype.numpy).reshape(shape)
    # Low bits first; ml_dtypes sign-extends int4 and int2 from the low bits of a byte.
    shifts = np.arange(0, 8, dtype.bits).astype(np.uint8)
    elements: npt.NDArray[Any] = (packed[:, None] >> shifts) & np.uint8(2**dtype.bits - 1)
    return elements.reshape(-1)[: math.prod(shape)].view(dtype.numpy).reshape(shape)


def _from_strings(items: Any, shape: StaticShape) -> npt.NDArray[Any]:
    array = np.empty(len(items), np.object_)
    array[:] = [item.decode("utf-8", "surrogateescape") for item in items]
    return array.reshape(shape)
