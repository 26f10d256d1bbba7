"""GE's numbers of element types and formats: two numberings of types, and formats with C0 and groups packed in.

`ge.proto` descs and `ge::DataType` (MODEL_INOUT_INFO, attributes) number types differently. A type without a number in
ge.proto, or with one that Netron refuses (32 and above), is carried by uint8; the desc names it in `onnx_type`.
"""

from functools import lru_cache

from atcpy.ir import DType, Format, FormatKind

PROTO_UINT8 = 4
PROTO_VARIANT = 26

PROTO_DTYPE: dict[DType, int] = {
    DType.UNDEFINED: 0,
    DType.FLOAT32: 1,
    DType.FLOAT16: 2,
    DType.INT8: 3,
    DType.UINT8: PROTO_UINT8,
    DType.INT16: 5,
    DType.UINT16: 6,
    DType.INT32: 7,
    DType.INT64: 8,
    DType.UINT32: 9,
    DType.UINT64: 10,
    DType.BOOL: 11,
    DType.FLOAT64: 12,
    DType.STRING: 13,
    DType.COMPLEX64: 16,
    DType.COMPLEX128: 17,
    DType.BFLOAT16: 27,
    DType.INT4: 28,
    DType.INT2: 30,
    DType.UINT2: 31,
}
DTYPE_OF_PROTO = {number: dtype for dtype, number in PROTO_DTYPE.items()}

# ONNX types that GE does not have stand above all of GE's numbers, at this plus ONNX's number.
_OURS = 0x1000
GE_DTYPE: dict[DType, int] = {
    DType.FLOAT32: 0,
    DType.FLOAT16: 1,
    DType.INT8: 2,
    DType.INT32: 3,
    DType.UINT8: 4,
    DType.INT16: 6,
    DType.UINT16: 7,
    DType.UINT32: 8,
    DType.INT64: 9,
    DType.UINT64: 10,
    DType.FLOAT64: 11,
    DType.BOOL: 12,
    DType.STRING: 13,
    DType.COMPLEX64: 16,
    DType.COMPLEX128: 17,
    DType.BFLOAT16: 27,
    DType.UNDEFINED: 28,
    DType.INT4: 29,
    DType.INT2: 31,
    DType.UINT2: 32,
    DType.FLOAT8E5M2: 35,
    DType.FLOAT8E4M3FN: 36,
    DType.FLOAT8E8M0: 37,
    DType.FLOAT4E2M1: 40,
    DType.FLOAT8E4M3FNUZ: _OURS + DType.FLOAT8E4M3FNUZ.onnx,
    DType.FLOAT8E5M2FNUZ: _OURS + DType.FLOAT8E5M2FNUZ.onnx,
    DType.UINT4: _OURS + DType.UINT4.onnx,
}
DTYPE_OF_GE = {number: dtype for dtype, number in GE_DTYPE.items()}

_RESERVED_FORMAT = 40  # GE's own word for "none of these"; the layout's name says which of ours it is
_GE_FORMATS = 255
_GROUPS_SHIFT, _GROUPS_MASK = 8, 0xFFFF
_C0_SHIFT, _C0_MASK = 24, 0xF


def format_to_number(form: Format) -> int:
    """GE's packed number: kind in bits 0–7, groups in 8–23 (0 is 1 group), log2(C0) + 1 in 24–27 (0 is unset)."""
    kind = form.kind.value if form.kind.value <= _GE_FORMATS else _RESERVED_FORMAT
    groups = 0 if form.groups == 1 else form.groups
    c0_code = form.c0.bit_length()
    if groups > _GROUPS_MASK or c0_code > _C0_MASK or form.c0 & (form.c0 - 1):
        raise ValueError(f"{form} does not fit GE's format number")
    return kind | groups << _GROUPS_SHIFT | c0_code << _C0_SHIFT


@lru_cache(256)
def number_to_format(layout: str, number: int) -> Format:
    """The format of this name and packed number; KeyError or ValueError if there is none."""
    c0_code = number >> _C0_SHIFT & _C0_MASK
    form = Format(FormatKind[layout], 1 << c0_code - 1 if c0_code else 0, number >> _GROUPS_SHIFT & _GROUPS_MASK or 1)
    if format_to_number(form) != number:
        raise ValueError(f"{layout} is not numbered {number}")
    return form
