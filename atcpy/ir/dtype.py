"""Element types: every one of the ONNX standard, with its numpy type and its name in dumps."""

from enum import Enum
from math import isfinite

import ml_dtypes
import numpy as np


class DType(Enum):
    """An ONNX element type; the value is (number in TensorProto.DataType, dump name, bits)."""

    UNDEFINED = (0, "?", 0)
    FLOAT32 = (1, "f32", 32)
    UINT8 = (2, "u8", 8)
    INT8 = (3, "i8", 8)
    UINT16 = (4, "u16", 16)
    INT16 = (5, "i16", 16)
    INT32 = (6, "i32", 32)
    INT64 = (7, "i64", 64)
    STRING = (8, "str", 0)
    BOOL = (9, "bool", 8)
    FLOAT16 = (10, "f16", 16)
    FLOAT64 = (11, "f64", 64)
    UINT32 = (12, "u32", 32)
    UINT64 = (13, "u64", 64)
    COMPLEX64 = (14, "c64", 64)
    COMPLEX128 = (15, "c128", 128)
    BFLOAT16 = (16, "bf16", 16)
    FLOAT8E4M3FN = (17, "f8e4m3fn", 8)
    FLOAT8E4M3FNUZ = (18, "f8e4m3fnuz", 8)
    FLOAT8E5M2 = (19, "f8e5m2", 8)
    FLOAT8E5M2FNUZ = (20, "f8e5m2fnuz", 8)
    UINT4 = (21, "u4", 4)
    INT4 = (22, "i4", 4)
    FLOAT4E2M1 = (23, "f4e2m1", 4)
    FLOAT8E8M0 = (24, "f8e8m0", 8)
    UINT2 = (25, "u2", 2)
    INT2 = (26, "i2", 2)
    FLOAT6E2M3 = (27, "f6e2m3", 6)
    FLOAT6E3M2 = (28, "f6e3m2", 6)

    __hash__ = object.__hash__  # an Enum hashes its name, in Python

    def __init__(self, onnx: int, short: str, bits: int) -> None:
        # Plain attributes: an Enum's properties are slow, and every pass asks for sizes.
        self.onnx = onnx  # the number of this type in ONNX's TensorProto.DataType
        self.short = short  # the name in dumps, such as `f32`
        self.bits = bits  # of one element in memory; 0 for strings
        self.is_float = short.startswith(("f", "bf"))  # every real floating type
        self.is_int = short.startswith(("i", "u"))  # signed and unsigned integers, not bool

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy type that holds it; sub-byte types take one byte an element there."""
        return _NUMPY[self]

    @property
    def long(self) -> str:
        """The name that users read, such as `float32`."""
        return self.name.lower()

    def nbytes(self, elements: int) -> int:
        """Bytes that `elements` of this type take in memory."""
        return (elements * self.bits + 7) // 8

    def can_hold(self, number: float) -> bool:
        """Whether an element may be this number, but for rounding: an integer type holds the whole numbers of its
        range, a float type all that are not above its largest one. Infinities and NaN count as numbers of any float.
        """
        if self.is_int:
            low = 0 if self.short.startswith("u") else -(2 ** (self.bits - 1))
            return float(number).is_integer() and low <= number < low + 2**self.bits
        if self.is_float:
            return not isfinite(number) or abs(number) <= float(ml_dtypes.finfo(self.numpy).max)  # type: ignore[no-untyped-call]
        return self is not DType.STRING

    @staticmethod
    def from_onnx(number: int) -> "DType":
        """The type with this TensorProto.DataType number; KeyError if there is none."""
        return _BY_ONNX[number]

    @staticmethod
    def from_numpy(dtype: np.dtype[np.generic]) -> "DType":
        """The type of a numpy array's elements; KeyError if ONNX has none."""
        if dtype.kind in "OUST":
            return DType.STRING
        return _BY_NUMPY[dtype.newbyteorder("=")]


_NUMPY: dict[DType, np.dtype[np.generic]] = {
    DType.UNDEFINED: np.dtype(np.void),
    DType.FLOAT32: np.dtype(np.float32),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT8: np.dtype(np.int8),
    DType.UINT16: np.dtype(np.uint16),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.STRING: np.dtype(np.object_),
    DType.BOOL: np.dtype(np.bool_),
    DType.FLOAT16: np.dtype(np.float16),
    DType.FLOAT64: np.dtype(np.float64),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT64: np.dtype(np.uint64),
    DType.COMPLEX64: np.dtype(np.complex64),
    DType.COMPLEX128: np.dtype(np.complex128),
    DType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    DType.FLOAT8E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    DType.FLOAT8E4M3FNUZ: np.dtype(ml_dtypes.float8_e4m3fnuz),
    DType.FLOAT8E5M2: np.dtype(ml_dtypes.float8_e5m2),
    DType.FLOAT8E5M2FNUZ: np.dtype(ml_dtypes.float8_e5m2fnuz),
    DType.UINT4: np.dtype(ml_dtypes.uint4),
    DType.INT4: np.dtype(ml_dtypes.int4),
    DType.FLOAT4E2M1: np.dtype(ml_dtypes.float4_e2m1fn),
    DType.FLOAT8E8M0: np.dtype(ml_dtypes.float8_e8m0fnu),
    DType.UINT2: np.dtype(ml_dtypes.uint2),
    DType.INT2: np.dtype(ml_dtypes.int2),
    DType.FLOAT6E2M3: np.dtype(ml_dtypes.float6_e2m3fn),
    DType.FLOAT6E3M2: np.dtype(ml_dtypes.float6_e3m2fn),
}
_BY_ONNX = {dtype.onnx: dtype for dtype in DType}
_BY_NUMPY = {numpy: dtype for dtype, numpy in _NUMPY.items() if dtype is not DType.UNDEFINED}
