"""Elements of fewer than 8 bits, which share bytes in packages and in the memory of a run."""

import numpy as np

from atcpy.ir.dtype import DType
from atcpy.ir.tensor import Array


def pack_bits(array: Array, dtype: DType) -> Array:
    """Elements of 2 or 4 bits, the first in the lowest bits of a byte, as ONNX packs them."""
    bits = dtype.bits
    per_byte = 8 // bits
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & (1 << bits) - 1
    padded = np.zeros(-(-flat.size // per_byte) * per_byte, np.uint8)
    padded[: flat.size] = flat
    shifts = np.arange(per_byte, dtype=np.uint8) * bits
    packed: Array = np.bitwise_or.reduce(padded.reshape(-1, per_byte) << shifts, axis=1).astype(np.uint8)
    return packed


def unpack_bits(packed: Array, dtype: DType, count: int) -> Array:
    """The inverse of `pack_bits`: one byte an element, to be viewed as numpy's type."""
    shifts = np.arange(8 // dtype.bits, dtype=np.uint8) * dtype.bits
    fields = (packed[:, None] >> shifts & (1 << dtype.bits) - 1).reshape(-1)[:count]
    if dtype in (DType.INT4, DType.INT2):  # ml_dtypes holds a signed element sign-extended in its byte
        sign = 1 << dtype.bits - 1
        fields = (fields ^ sign).astype(np.int8) - np.int8(sign)
    return np.ascontiguousarray(fields.astype(np.int8) if fields.dtype == np.int8 else fields.astype(np.uint8))
