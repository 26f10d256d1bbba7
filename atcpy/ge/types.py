"""Element types and formats by GE's names, and the descs of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import UsageError
from atcpy.ir.dtype import DType
from atcpy.ir.format import FormatKind
from atcpy.sizes import ANY_SIZE

DT_FLOAT, DT_FLOAT16, DT_DOUBLE, DT_BF16 = DType.FLOAT32, DType.FLOAT16, DType.FLOAT64, DType.BFLOAT16
DT_INT8, DT_INT16, DT_INT32, DT_INT64 = DType.INT8, DType.INT16, DType.INT32, DType.INT64
DT_UINT8, DT_UINT16, DT_UINT32, DT_UINT64 = DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64
DT_BOOL, DT_STRING, DT_INT4 = DType.BOOL, DType.STRING, DType.INT4
DT_COMPLEX64, DT_COMPLEX128 = DType.COMPLEX64, DType.COMPLEX128

FORMAT_ND, FORMAT_NCHW, FORMAT_NHWC = FormatKind.ND, FormatKind.NCHW, FormatKind.NHWC
FORMAT_NCDHW, FORMAT_NDHWC = FormatKind.NCDHW, FormatKind.NDHWC
_OF_INPUTS = (FORMAT_ND, FORMAT_NCHW, FORMAT_NCDHW)  # ops have ONNX's semantics: channels come second


@dataclass(frozen=True, slots=True)
class TensorDesc:
    """Shape, format and element type of an input. A size of -1 is open; a text is an open size that has a name."""

    shape: Sequence[int | str]
    format: FormatKind = FORMAT_ND
    dtype: DType = DT_FLOAT

    def __post_init__(self) -> None:
        if self.format not in _OF_INPUTS:
            hint = "ge.FORMAT_ND, FORMAT_NCHW or FORMAT_NCDHW: the compiler chooses the formats of all that follows"
            raise UsageError("E10001", f"TensorDesc: {self.format} is no format of an input", hint=hint)
        if not isinstance(self.dtype, DType) or self.dtype is DType.UNDEFINED:
            raise UsageError("E10003", f"TensorDesc: {self.dtype!r} is no element type", hint="such as ge.DT_FLOAT")
        for dim in self.shape:
            if isinstance(dim, str):
                continue
            if isinstance(dim, bool) or not hasattr(dim, "__index__"):  # numpy integers are sizes, too
                raise UsageError("E10003", f"TensorDesc: {dim!r} is no size", hint="a number, -1 or a name")
            if dim < ANY_SIZE:
                raise UsageError("E10011", f"TensorDesc: a size is {dim}", hint="-1 is an open size")
