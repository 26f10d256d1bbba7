"""Complex numbers and Fourier transforms. A complex value is its real part, and `imaginary` has the other for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.parsers.tensorflow.op import MAPPINGS, Op, maps, maps_complex
from atcpy.parsers.tensorflow.ops.special import arc_tangent

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}


@maps("Complex")
def joined(op: Op) -> Value:
    """The two parts; a complex number is both of them, and none can be an input or an output"""
    return op.complex_of(op.input(0), op.input(1))


def _parts(op: Op, place: int = 0) -> tuple[Value, Value]:
    value = op.input(place)
    return value, op.bodies.imaginary[value]


@maps("Real")
def real(op: Op) -> Value:
    """The real part"""
    return op.input(0)


@maps_complex("Real")
def _real_of_complex(op: Op) -> Value:
    return op.add("Identity", op.input(0))


@maps("Imag", "Angle")
def no_imaginary(op: Op) -> Value:
    """The imaginary part; the angle of both"""
    raise op.refuse("numbers that are not complex")


@maps_complex("Imag")
def _imaginary(op: Op) -> Value:
    return _parts(op)[1]


@maps_complex("Angle")
def _angle(op: Op) -> Value:
    x, y = _parts(op)
    return arc_tangent(op, y, x)


@maps("ComplexAbs")
def no_absolute(op: Op) -> Value:
    """Sqrt of the sum of squares"""
    raise op.refuse("numbers that are not complex")


@maps_complex("ComplexAbs")
def _absolute(op: Op) -> Value:
    return op.add("Sqrt", _square_of_length(op, *_parts(op)))


def _square_of_length(op: Op, x: Value, y: Value) -> Value:
    return op.add("Add", op.add("Mul", x, x), op.add("Mul", y, y))


@maps("Conj")
def conjugate(op: Op) -> Value:
    """The imaginary part negated"""
    return op.input(0)


@maps_complex("Conj")
def _conjugate_of_complex(op: Op) -> Value:
    x, y = _parts(op)
    return op.complex_of(x, op.add("Neg", y))


# --- the other ops ------------------------------------------------------------------------------------------


@maps_complex("Shape", "ShapeN", "Size", "Rank")
def _of_the_real_part(op: Op) -> Value | Sequence[Value | None]:
    return MAPPINGS[op.node.op].function(op)


@maps_complex(
    "Add", "AddN", "AddV2", "BroadcastTo", "Concat", "ConcatV2", "Cumsum", "EnsureShape", "ExpandDims", "Fill",
    "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN", "MatrixBandPart", "MatrixDiagPartV3", "MatrixDiagV3",
    "Mean", "MirrorPad", "Neg", "Pack", "Pad", "PadV2", "Reshape", "ReverseV2", "Roll", "ScatterNd", "Select",
    "SelectV2", "Slice", "Snapshot", "Split", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Sub", "Sum",
    "TensorScatterAdd", "TensorScatterUpdate", "Tile", "Transpose", "Unpack", "UnsortedSegmentSum", "ZerosLike",
)  # fmt: skip
def _part_by_part(op: Op) -> Value | list[Value | None]:
    reals = MAPPINGS[op.node.op].function(op)
    others = MAPPINGS[op.node.op].function(_of_the_imaginary_parts(op))
    if isinstance(reals, Value):
        assert isinstance(others, Value)
        return op.complex_of(reals, others)
    assert not isinstance(others, Value)
    pairs = zip(reals, others, strict=True)
    return [None if x is None or y is None else op.complex_of(x, y) for x, y in pairs]


def _of_the_imaginary_parts(op: Op) -> Op:
    return replace(op, inputs=[op.bodies.imaginary.get(value, value) for value in op.inputs])


@maps_complex("ConjugateTranspose")
def _conjugate_transpose(op: Op) -> Value:
    x, y = (MAPPINGS["Transpose"].function(part) for part in (op, _of_the_imaginary_parts(op)))
    assert isinstance(x, Value)
    assert isinstance(y, Value)
    return op.complex_of(x, op.add("Neg", y))


@maps_complex("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Square")
def _product(op: Op) -> Value:
    """(a + bi) · (c + di), whatever is added up."""
    if op.node.op == "Einsum" and len(op.inputs) == 1:
        made = _part_by_part(op)
        assert isinstance(made, Value)
        return made
    function = MAPPINGS["Mul" if op.node.op == "Square" else op.node.op].function
    places = (0, 0) if op.node.op == "Square" else (0, 1)
    (a, b), (c, d) = (_conjugated(op, place) for place in places)

    def multiplied(x: Value, y: Value) -> Value:
        made = function(replace(op, inputs=[x, y])) if op.node.op != "Square" else op.add("Mul", x, y)
        assert isinstance(made, Value)
        return made

    first = op.add("Sub", multiplied(a, c), multiplied(b, d))
    return op.complex_of(first, op.add("Add", multiplied(a, d), multiplied(b, c)))


def _conjugated(op: Op, place: int) -> tuple[Value, Value]:
    """The parts of a factor; some products take the conjugate."""
    x, y = _parts(op, place)
    is_conjugate = op.node.op.startswith("Batch") and op.bool_attr(("adj_x", "adj_y")[place])
    return x, op.add("Neg", y) if is_conjugate else y


@maps_complex("RealDiv", "Div")
def _quotient(op: Op) -> Value:
    """(a + bi)(c − di) / (c² + d²)."""
    (a, b), (c, d) = _parts(op, 0), _parts(op, 1)
    length = _square_of_length(op, c, d)
    x = op.add("Add", op.add("Mul", a, c), op.add("Mul", b, d))
    y = op.add("Sub", op.add("Mul", b, c), op.add("Mul", a, d))
    return op.complex_of(op.add("Div", x, length), op.add("Div", y, length))


@maps_complex("Exp")
def _exponential(op: Op) -> Value:
    """eˣ (cos y + i sin y)."""
    x, y = _parts(op)
    size = op.add("Exp", x)
    return op.complex_of(op.add("Mul", size, op.add("Cos", y)), op.add("Mul", size, op.add("Sin", y)))


@maps_complex("Cast")
def _cast(op: Op) -> Value:
    """To another width; to a type that is not complex, the real part."""
    dtype, (x, y) = op.dtype_attr("DstT"), _parts(op)
    if dtype not in _PARTS:
        return op.cast(x, dtype) if x.desc.dtype is not dtype else op.add("Identity", x)
    return op.complex_of(op.cast(x, _PARTS[dtype]), op.cast(y, _PARTS[dtype]))


# --- Fourier transforms ---------------------------------------------------------------------------------------


def _transforms(name: str) -> list[str]:
    return [f"{name}{dims}" for dims in ("", "2D", "3D", "ND")]


@maps(*_transforms("RFFT"))
def real_transform(op: Op) -> Value:
    """DFT, of one side"""
    axes = _axes(op)
    lengths = op.ints(1) if len(op.inputs) > 1 else ()
    if len(lengths) != len(axes):
        raise ModelInvalid("E13014", f"{len(lengths)} lengths for {len(axes)} dims", where=op.where)
    x = op.unsqueeze(op.input(0), -1)
    x = op.add("DFT", x, op.const(lengths[-1]), op.const(axes[-1]), onesided=1)
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        x = op.add("DFT", x, op.const(length), op.const(axis))
    return _split(op, x)


@maps(*_transforms("FFT"), *_transforms("IFFT"), *_transforms("IRFFT"))
def no_transform(op: Op) -> Value:
    """DFT; inverse, and to real numbers (IRFFT)"""
    raise op.refuse("numbers that are not complex")


@maps_complex(*_transforms("FFT"), *_transforms("IFFT"))
def _transform(op: Op) -> Value:
    x = _together(op)
    lengths: Sequence[int | None] = op.ints(1) if op.node.op.endswith("ND") else [None] * op.rank(0)
    for axis, length in zip(_axes(op), lengths, strict=False):
        size = None if length is None else op.const(length)
        x = op.add("DFT", x, size, op.const(axis), inverse=int(op.node.op.startswith("I")))
    return _split(op, x)


@maps_complex(*_transforms("IRFFT"))
def _inverse_real_transform(op: Op) -> Value:
    x, axes, lengths = _together(op), _axes(op), op.ints(1)
    if len(lengths) != len(axes):
        raise ModelInvalid("E13014", f"{len(lengths)} lengths for {len(axes)} dims", where=op.where)
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        x = op.add("DFT", x, op.const(length), op.const(axis), inverse=1)
    # DFT takes what TensorFlow does: as many bins as the length asks for.
    x = op.add("DFT", x, op.const(lengths[-1]), op.const(axes[-1]), inverse=1, onesided=1)
    return op.squeeze(x, -1)


def _axes(op: Op) -> tuple[int, ...]:
    """The dims that are transformed, from the front."""
    rank = op.rank(0)
    if op.node.op.endswith("ND"):
        return op.axes(2, rank)
    count = int(op.node.op[-2]) if op.node.op.endswith("D") else 1
    if rank < count:
        raise ModelInvalid("E13014", f"{count} dims of {rank} to transform", where=op.where)
    return tuple(range(rank - count, rank))


def _together(op: Op) -> Value:
    """The two parts along a last dim, as DFT wants them."""
    return op.add("Concat", *[op.unsqueeze(part, -1) for part in _parts(op)], axis=-1)


def _split(op: Op, value: Value) -> Value:
    x, y = (op.add("Gather", value, op.const(place), axis=-1) for place in range(2))
    return op.complex_of(x, y)
