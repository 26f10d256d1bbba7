"""Complex numbers and Fourier transforms. A complex value is its real part, and `imaginary` has the other for it."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import MAPPINGS, OpBuilder, maps, maps_complex
from atcpy.parsers.tensorflow.ops.special import arc_tangent

_PARTS = {DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64}


@maps("Complex")
def joined(b: OpBuilder) -> Value:
    """The two parts; a complex number is both of them, and none can be an input or an output"""
    return b.complex_of(b.input(0), b.input(1))


def _parts(b: OpBuilder, place: int = 0) -> tuple[Value, Value]:
    value = b.input(place)
    return value, b.bodies.imaginary[value]


@maps("Real")
def real(b: OpBuilder) -> Value:
    """The real part"""
    return b.input(0)


@maps_complex("Real")
def _real_of_complex(b: OpBuilder) -> Value:
    return b.op("Identity", b.input(0))


@maps("Imag", "Angle")
def no_imaginary(b: OpBuilder) -> Value:
    """The imaginary part; the angle of both"""
    raise b.unsupported("numbers that are not complex")


@maps_complex("Imag")
def _imaginary(b: OpBuilder) -> Value:
    return _parts(b)[1]


@maps_complex("Angle")
def _angle(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return arc_tangent(Expr(b, y), Expr(b, x)).value


@maps("ComplexAbs")
def no_absolute(b: OpBuilder) -> Value:
    """Sqrt of the sum of squares"""
    raise b.unsupported("numbers that are not complex")


@maps_complex("ComplexAbs")
def _absolute(b: OpBuilder) -> Value:
    return b.op("Sqrt", _square_of_length(b, *_parts(b)))


def _square_of_length(b: OpBuilder, x: Value, y: Value) -> Value:
    return b.op("Add", b.op("Mul", x, x), b.op("Mul", y, y))


@maps("Conj")
def conjugate(b: OpBuilder) -> Value:
    """The imaginary part negated"""
    return b.input(0)


@maps_complex("Conj")
def _conjugate_of_complex(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return b.complex_of(x, b.op("Neg", y))


# --- the other ops ------------------------------------------------------------------------------------------


@maps_complex("Shape", "ShapeN", "Size", "Rank")
def _of_the_real_part(b: OpBuilder) -> Value | Sequence[Value | None]:
    return MAPPINGS[b.node.op].function(b)


@maps_complex(
    "Add", "AddN", "AddV2", "BroadcastTo", "Concat", "ConcatV2", "Cumsum", "EnsureShape", "ExpandDims", "Fill",
    "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN", "MatrixBandPart", "MatrixDiagPartV3", "MatrixDiagV3",
    "Mean", "MirrorPad", "Neg", "Pack", "Pad", "PadV2", "Reshape", "ReverseV2", "Roll", "ScatterNd", "Select",
    "SelectV2", "Slice", "Snapshot", "Split", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Sub", "Sum",
    "TensorScatterAdd", "TensorScatterUpdate", "Tile", "Transpose", "Unpack", "UnsortedSegmentSum", "ZerosLike",
)  # fmt: skip
def _part_by_part(b: OpBuilder) -> Value | list[Value | None]:
    reals = MAPPINGS[b.node.op].function(b)
    others = MAPPINGS[b.node.op].function(_of_the_imaginary_parts(b))
    if isinstance(reals, Value):
        assert isinstance(others, Value)
        return b.complex_of(reals, others)
    assert not isinstance(others, Value)
    pairs = zip(reals, others, strict=True)
    return [None if x is None or y is None else b.complex_of(x, y) for x, y in pairs]


def _of_the_imaginary_parts(b: OpBuilder) -> OpBuilder:
    return b.changed(inputs=[b.bodies.imaginary.get(value, value) for value in b.inputs])


@maps_complex("ConjugateTranspose")
def _conjugate_transpose(b: OpBuilder) -> Value:
    x, y = (MAPPINGS["Transpose"].function(part) for part in (b, _of_the_imaginary_parts(b)))
    assert isinstance(x, Value)
    assert isinstance(y, Value)
    return b.complex_of(x, b.op("Neg", y))


@maps_complex("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "Square")
def _product(b: OpBuilder) -> Value:
    """(a + bi) · (c + di), whatever is added up."""
    if b.node.op == "Einsum" and len(b.inputs) == 1:
        made = _part_by_part(b)
        assert isinstance(made, Value)
        return made
    function = MAPPINGS["Mul" if b.node.op == "Square" else b.node.op].function
    places = (0, 0) if b.node.op == "Square" else (0, 1)
    (ar, ai), (br, bi) = (_conjugated(b, place) for place in places)

    def multiplied(x: Value, y: Value) -> Value:
        made = function(b.changed(inputs=[x, y])) if b.node.op != "Square" else b.op("Mul", x, y)
        assert isinstance(made, Value)
        return made

    first = b.op("Sub", multiplied(ar, br), multiplied(ai, bi))
    return b.complex_of(first, b.op("Add", multiplied(ar, bi), multiplied(ai, br)))


def _conjugated(b: OpBuilder, place: int) -> tuple[Value, Value]:
    """The parts of a factor; some products take the conjugate."""
    x, y = _parts(b, place)
    is_conjugate = b.node.op.startswith("Batch") and b.bool_attr(("adj_x", "adj_y")[place])
    return x, b.op("Neg", y) if is_conjugate else y


@maps_complex("RealDiv", "Div")
def _quotient(b: OpBuilder) -> Value:
    """(a + bi)(c − di) / (c² + d²)."""
    (ar, ai), (br, bi) = _parts(b, 0), _parts(b, 1)
    length = _square_of_length(b, br, bi)
    x = b.op("Add", b.op("Mul", ar, br), b.op("Mul", ai, bi))
    y = b.op("Sub", b.op("Mul", ai, br), b.op("Mul", ar, bi))
    return b.complex_of(b.op("Div", x, length), b.op("Div", y, length))


@maps_complex("Exp")
def _exponential(b: OpBuilder) -> Value:
    """eˣ (cos y + i sin y)."""
    x, y = _parts(b)
    size = b.op("Exp", x)
    return b.complex_of(b.op("Mul", size, b.op("Cos", y)), b.op("Mul", size, b.op("Sin", y)))


@maps_complex("Cast")
def _cast(b: OpBuilder) -> Value:
    """To another width; to a type that is not complex, the real part."""
    dtype, (x, y) = b.dtype_attr("DstT"), _parts(b)
    if dtype not in _PARTS:
        return b.cast(x, dtype) if x.desc.dtype is not dtype else b.op("Identity", x)
    return b.complex_of(b.cast(x, _PARTS[dtype]), b.cast(y, _PARTS[dtype]))


# --- Fourier transforms ---------------------------------------------------------------------------------------


def _transforms(name: str) -> list[str]:
    return [f"{name}{dims}" for dims in ("", "2D", "3D", "ND")]


@maps(*_transforms("RFFT"))
def real_transform(b: OpBuilder) -> Value:
    """DFT, of one side"""
    axes = _axes(b)
    lengths = b.ints(1) if len(b.inputs) > 1 else ()
    if len(lengths) != len(axes):
        raise b.invalid(f"{len(lengths)} lengths for {len(axes)} dims")
    x = b.unsqueeze(b.input(0), -1)
    x = b.op("DFT", x, b.const(lengths[-1]), b.const(axes[-1]), onesided=1)
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        x = b.op("DFT", x, b.const(length), b.const(axis))
    return _split(b, x)


@maps(*_transforms("FFT"), *_transforms("IFFT"), *_transforms("IRFFT"))
def no_transform(b: OpBuilder) -> Value:
    """DFT; inverse, and to real numbers (IRFFT)"""
    raise b.unsupported("numbers that are not complex")


@maps_complex(*_transforms("FFT"), *_transforms("IFFT"))
def _transform(b: OpBuilder) -> Value:
    x = _together(b)
    lengths: Sequence[int | None] = b.ints(1) if b.node.op.endswith("ND") else [None] * b.rank(0)
    for axis, length in zip(_axes(b), lengths, strict=False):
        size = None if length is None else b.const(length)
        x = b.op("DFT", x, size, b.const(axis), inverse=int(b.node.op.startswith("I")))
    return _split(b, x)


@maps_complex(*_transforms("IRFFT"))
def _inverse_real_transform(b: OpBuilder) -> Value:
    x, axes, lengths = _together(b), _axes(b), b.ints(1)
    if len(lengths) != len(axes):
        raise b.invalid(f"{len(lengths)} lengths for {len(axes)} dims")
    for axis, length in zip(axes[:-1], lengths[:-1], strict=True):
        x = b.op("DFT", x, b.const(length), b.const(axis), inverse=1)
    # DFT takes what TensorFlow does: as many bins as the length asks for.
    x = b.op("DFT", x, b.const(lengths[-1]), b.const(axes[-1]), inverse=1, onesided=1)
    return b.squeeze(x, -1)


def _axes(b: OpBuilder) -> tuple[int, ...]:
    """The dims that are transformed, from the front."""
    rank = b.rank(0)
    if b.node.op.endswith("ND"):
        return b.axes(2, rank)
    count = int(b.node.op[-2]) if b.node.op.endswith("D") else 1
    if rank < count:
        raise b.invalid(f"{count} dims of {rank} to transform")
    return tuple(range(rank - count, rank))


def _together(b: OpBuilder) -> Value:
    """The two parts along a last dim, as DFT wants them."""
    return b.op("Concat", *[b.unsqueeze(part, -1) for part in _parts(b)], axis=-1)


def _split(b: OpBuilder, value: Value) -> Value:
    x, y = (b.op("Gather", value, b.const(place), axis=-1) for place in range(2))
    return b.complex_of(x, y)
