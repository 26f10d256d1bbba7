"""Element types: every one of the ONNX standard, with its numpy type and its name in dumps."""

from enum import Enum
from functools import cache, cached_property
from math import isfinite

import numpy as np


class DType(Enum):
    """An ONNX element type; the value is (number in TensorProto.DataType, dump name, bits, numpy type or the name that
    `ml_dtypes` has for it).
    """

    UNDEFINED = (0, "?", 0, np.void)
    FLOAT32 = (1, "f32", 32, np.float32)
    UINT8 = (2, "u8", 8, np.uint8)
    INT8 = (3, "i8", 8, np.int8)
    UINT16 = (4, "u16", 16, np.uint16)
    INT16 = (5, "i16", 16, np.int16)
    INT32 = (6, "i32", 32, np.int32)
    INT64 = (7, "i64", 64, np.int64)
    STRING = (8, "str", 0, np.object_)
    BOOL = (9, "bool", 8, np.bool_)
    FLOAT16 = (10, "f16", 16, np.float16)
    FLOAT64 = (11, "f64", 64, np.float64)
    UINT32 = (12, "u32", 32, np.uint32)
    UINT64 = (13, "u64", 64, np.uint64)
    COMPLEX64 = (14, "c64", 64, np.complex64)
    COMPLEX128 = (15, "c128", 128, np.complex128)
    BFLOAT16 = (16, "bf16", 16, "bfloat16")
    FLOAT8E4M3FN = (17, "f8e4m3fn", 8, "float8_e4m3fn")
    FLOAT8E4M3FNUZ = (18, "f8e4m3fnuz", 8, "float8_e4m3fnuz")
    FLOAT8E5M2 = (19, "f8e5m2", 8, "float8_e5m2")
    FLOAT8E5M2FNUZ = (20, "f8e5m2fnuz", 8, "float8_e5m2fnuz")
    UINT4 = (21, "u4", 4, "uint4")
    INT4 = (22, "i4", 4, "int4")
    FLOAT4E2M1 = (23, "f4e2m1", 4, "float4_e2m1fn")
    FLOAT8E8M0 = (24, "f8e8m0", 8, "float8_e8m0fnu")
    UINT2 = (25, "u2", 2, "uint2")
    INT2 = (26, "i2", 2, "int2")
    FLOAT6E2M3 = (27, "f6e2m3", 6, "float6_e2m3fn")
    FLOAT6E3M2 = (28, "f6e3m2", 6, "float6_e3m2fn")

    __hash__ = object.__hash__  # an Enum hashes its name, in Python

    def __init__(self, onnx: int, short: str, bits: int, _: type[np.generic] | str) -> None:
        # Plain attributes: an Enum's properties are slow, and every pass asks for sizes.
        self.onnx = onnx  # the number of this type in ONNX's TensorProto.DataType
        self.short = short  # the name in dumps, such as `f32`
        self.bits = bits  # of one element in memory; 0 for strings
        self.is_float = short.startswith(("f", "bf"))  # every real floating type
        self.is_int = short.startswith(("i", "u"))  # signed and unsigned integers, not bool

    @cached_property
    def numpy(self) -> np.dtype[np.generic]:
        """The numpy type; an element of less than a byte takes one byte in it."""
        kind: type[np.generic] | str = self.value[-1]
        if isinstance(kind, str):
            import ml_dtypes  # few models need it

            kind = getattr(ml_dtypes, kind)
        return np.dtype(kind)

    @property
    def long(self) -> str:
        """The name that users read, such as `float32`."""
        return self.name.lower()

    def nbytes(self, elements: int) -> int:
        """Bytes that `elements` of this type take in memory."""
        return (elements * self.bits + 7) // 8

    def integer_range(self) -> tuple[int, int]:
        """The least and the largest number of an integer type, or of truth values."""
        if self is DType.BOOL:
            return 0, 1
        low = 0 if self.short.startswith("u") else -(2 ** (self.bits - 1))
        return low, low + 2**self.bits - 1

    def can_hold(self, number: float) -> bool:
        """Whether an element may be this number, but for rounding: an integer type holds the whole numbers of its
        range, a float type all that are not above its largest one. Infinities and NaN count as numbers of any float.
        """
        if self.is_int:
            low, high = self.integer_range()
            return float(number).is_integer() and low <= number <= high
        if self.is_float:
            import ml_dtypes

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
        return _by_numpy()[dtype.newbyteorder("=")]


_BY_ONNX = {dtype.onnx: dtype for dtype in DType}


@cache
def _by_numpy() -> dict[np.dtype[np.generic], DType]:
    return {dtype.numpy: dtype for dtype in DType if dtype is not DType.UNDEFINED}
