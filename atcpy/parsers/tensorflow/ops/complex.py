"""Complex numbers and Fourier transforms. A complex value is its real part, and `imaginary` has the other for it."""

from __future__ import annotations

from collections.abc import Sequence

from atcpy.ir import Value
from atcpy.ir.arithmetic import Expr
from atcpy.parsers.tensorflow.op import COMPLEX_PARTS, MAPPINGS, OpBuilder, Results, maps, maps_complex, refused
from atcpy.parsers.tensorflow.ops.special import arc_tangent

_not_complex = refused("numbers that are not complex")


def _parts(b: OpBuilder, index: int = 0) -> tuple[Expr, Expr]:
    value = b.input(index)
    return Expr(b, value), Expr(b, b.bodies.imaginary[value])


def _joined(real: Expr, imaginary: Expr) -> Value:
    b = real.b
    assert isinstance(b, OpBuilder)
    return b.complex_of(real.value, imaginary.value)


maps("Complex", note="The two parts; a complex number is both of them, and none can be an input or an output")(
    lambda b: b.complex_of(b.input(0), b.input(1))
)
maps("Real", note="The real part")(lambda b: b.input(0))
maps("Imag", "Angle", note="The imaginary part; the angle of both")(_not_complex)
maps("ComplexAbs", note="Sqrt of the sum of squares")(_not_complex)
maps("Conj", note="The imaginary part negated")(lambda b: b.input(0))

# --- elementwise ops, products -------------------------------------------------------------------------------


@maps_complex("Real")
def _real(b: OpBuilder) -> Value:
    return b.op("Identity", b.input(0))


@maps_complex("Imag")
def _imaginary(b: OpBuilder) -> Value:
    return _parts(b)[1].value


@maps_complex("Angle")
def _angle(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return arc_tangent(y, x).value


@maps_complex("ComplexAbs")
def _absolute(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return (x * x + y * y).apply("Sqrt").value


@maps_complex("Conj")
def _conjugate(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return _joined(x, -y)


@maps_complex("Exp")
def _exponential(b: OpBuilder) -> Value:
    """eˣ (cos y + i sin y)."""
    x, y = _parts(b)
    size = x.exp()
    return _joined(size * y.apply("Cos"), size * y.sin())


@maps_complex("RealDiv", "Div")
def _quotient(b: OpBuilder) -> Value:
    """(a + bi)(c − di) / (c² + d²)."""
    (ar, ai), (br, bi) = _parts(b, 0), _parts(b, 1)
    square = br * br + bi * bi
    return _joined((ar * br + ai * bi) / square, (ai * br - ar * bi) / square)


@maps_complex("Cast")
def _cast(b: OpBuilder) -> Value:
    """To another width; to a type that is not complex, the real part."""
    dtype, (x, y) = b.dtype_attr("DstT"), _parts(b)
    if dtype in COMPLEX_PARTS:
        return _joined(x.cast(COMPLEX_PARTS[dtype]), y.cast(COMPLEX_PARTS[dtype]))
    return b.cast(x.value, dtype) if x.value.desc.dtype is not dtype else b.op("Identity", x.value)


@maps_complex("Shape", "ShapeN", "Size", "Rank")
def _of_the_real_part(b: OpBuilder) -> Results:
    return MAPPINGS[b.node.op].function(b)


@maps_complex(
    "Add", "AddN", "AddV2", "BroadcastTo", "Concat", "ConcatV2", "Cumsum", "EnsureShape", "ExpandDims", "Fill",
    "Gather", "GatherNd", "GatherV2", "Identity", "IdentityN", "MatrixBandPart", "MatrixDiagPartV3", "MatrixDiagV3",
    "Mean", "MirrorPad", "Neg", "Pack", "Pad", "PadV2", "Reshape", "ReverseV2", "Roll", "ScatterNd", "Select",
    "SelectV2", "Slice", "Snapshot", "Split", "SplitV", "Squeeze", "StopGradient", "StridedSlice", "Sub", "Sum",
    "TensorScatterAdd", "TensorScatterUpdate", "Tile", "Transpose", "Unpack", "UnsortedSegmentSum", "ZerosLike",
)  # fmt: skip
def _part_by_part(b: OpBuilder) -> Results:
    reals = MAPPINGS[b.node.op].function(b)
    others = MAPPINGS[b.node.op].function(b.changed(inputs=_imaginary_inputs(b)))
    if isinstance(reals, Value):
        assert isinstance(others, Value)
        return b.complex_of(reals, others)
    assert not isinstance(others, Value)
    pairs = zip(reals, others, strict=True)
    return [None if x is None or y is None else b.complex_of(x, y) for x, y in pairs]


def _imaginary_inputs(b: OpBuilder) -> list[Value]:
    return [b.bodies.imaginary.get(value, value) for value in b.inputs]


@maps_complex("ConjugateTranspose")
def _conjugate_transpose(b: OpBuilder) -> Value:
    x, y = (_single(b, "Transpose", part) for part in (b.inputs, _imaginary_inputs(b)))
    return b.complex_of(x, b.op("Neg", y))


@maps_complex("Square")
def _square(b: OpBuilder) -> Value:
    x, y = _parts(b)
    return _joined(x * x - y * y, x * y + y * x)


@maps_complex("Mul", "MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum")
def _product(b: OpBuilder) -> Results:
    """(a + bi) · (c + di), whatever is added up."""
    if len(b.inputs) == 1:  # Einsum
        return _part_by_part(b)
    (ar, ai), (br, bi) = (_factor(b, index) for index in range(2))

    def multiply(x: Expr, y: Expr) -> Expr:
        return Expr(b, _single(b, b.node.op, [x.value, y.value]))

    real = multiply(ar, br) - multiply(ai, bi)
    return _joined(real, multiply(ar, bi) + multiply(ai, br))


def _factor(b: OpBuilder, index: int) -> tuple[Expr, Expr]:
    """The parts of a factor, or of its conjugate, which an adjoint matrix is made of."""
    x, y = _parts(b, index)
    is_adjoint = b.node.op.startswith("Batch") and b.bool_attr(("adj_x", "adj_y")[index])
    return x, -y if is_adjoint else y


def _single(b: OpBuilder, op: str, inputs: list[Value]) -> Value:
    """What an op of real numbers with one output makes of these inputs."""
    value = MAPPINGS[op].function(b.changed(inputs=inputs))
    assert isinstance(value, Value)
    return value


# --- Fourier transforms ---------------------------------------------------------------------------------------


def _transforms(*names: str) -> list[str]:
    return [f"{name}{dims}" for name in names for dims in ("", "2D", "3D", "ND")]


@maps(*_transforms("RFFT"))
def real_transform(b: OpBuilder) -> Value:
    """DFT, of one side"""
    *outer, last = _dims(b)
    x = _dft(b, b.unsqueeze(b.input(0), -1), [last], onesided=1)
    return _split(b, _dft(b, x, outer))


maps(*_transforms("FFT", "IFFT", "IRFFT"), note="DFT; inverse, and to real numbers (IRFFT)")(_not_complex)


@maps_complex(*_transforms("FFT", "IFFT"))
def _transform(b: OpBuilder) -> Value:
    return _split(b, _dft(b, _together(b), _dims(b), inverse=int(b.node.op.startswith("I"))))


@maps_complex(*_transforms("IRFFT"))
def _inverse_real_transform(b: OpBuilder) -> Value:
    *outer, last = _dims(b)
    x = _dft(b, _together(b), outer, inverse=1)
    # DFT reads what TensorFlow does: as many bins as the length asks for.
    return b.squeeze(_dft(b, x, [last], inverse=1, onesided=1), -1)


def _dft(b: OpBuilder, x: Value, dims: Sequence[tuple[int, int | None]], **attrs: int) -> Value:
    """Transform axes to these lengths, None being the length that the axis has."""
    for axis, length in dims:
        x = b.op("DFT", x, None if length is None else b.const(length), b.const(axis), **attrs)
    return x


def _dims(b: OpBuilder) -> list[tuple[int, int | None]]:
    """The axes that are transformed, with their lengths."""
    rank, op = b.rank(0), b.node.op
    count = int(op[-2]) if op[-2:] in ("2D", "3D") else 1
    if rank < count:
        raise b.invalid(f"{count} dims of {rank} to transform")
    axes = b.axes(2, rank) if op.endswith("ND") else tuple(range(rank - count, rank))
    lengths = b.ints(1) if op.endswith("ND") or "R" in op else [None] * count
    if len(lengths) != len(axes):
        raise b.invalid(f"{len(lengths)} lengths for {len(axes)} dims")
    return list(zip(axes, lengths, strict=True))


def _together(b: OpBuilder) -> Value:
    """The two parts along a last dim, as DFT reads them."""
    return b.op("Concat", *[part.unsqueeze(-1).value for part in _parts(b)], axis=-1)


def _split(b: OpBuilder, value: Value) -> Value:
    x, y = (b.op("Gather", value, b.const(index), axis=-1) for index in range(2))
    return b.complex_of(x, y)
