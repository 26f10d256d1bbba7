"""Ops that work element by element."""

from __future__ import annotations

import math

from atcpy.ir import DType, TensorDesc, Value
from atcpy.ir.shape import Shape
from atcpy.parsers.tensorflow.gelu import GELU
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_SAME = {
    "Abs": "Abs",
    "Acos": "Acos",
    "Acosh": "Acosh",
    "Add": "Add",
    "AddV2": "Add",
    "Asin": "Asin",
    "Asinh": "Asinh",
    "Atan": "Atan",
    "Atanh": "Atanh",
    "BitwiseAnd": "BitwiseAnd",
    "BitwiseOr": "BitwiseOr",
    "BitwiseXor": "BitwiseXor",
    "Ceil": "Ceil",
    "Cos": "Cos",
    "Cosh": "Cosh",
    "Elu": "Elu",
    "Erf": "Erf",
    "Exp": "Exp",
    "Floor": "Floor",
    "Greater": "Greater",
    "GreaterEqual": "GreaterOrEqual",
    "Invert": "BitwiseNot",
    "IsInf": "IsInf",
    "IsNan": "IsNaN",
    "Less": "Less",
    "LessEqual": "LessOrEqual",
    "Log": "Log",
    "LogicalAnd": "And",
    "LogicalNot": "Not",
    "LogicalOr": "Or",
    "Mul": "Mul",
    "Neg": "Neg",
    "RealDiv": "Div",
    "Rint": "Round",
    "SelectV2": "Where",
    "Selu": "Selu",
    "Sigmoid": "Sigmoid",
    "Sign": "Sign",
    "Sin": "Sin",
    "Sinh": "Sinh",
    "Softplus": "Softplus",
    "Softsign": "Softsign",
    "Sqrt": "Sqrt",
    "Sub": "Sub",
    "Tan": "Tan",
    "Tanh": "Tanh",
}


def _same(b: OpBuilder) -> Value:
    """The op of the standard"""
    if any(value.desc.dtype is DType.STRING for value in b.inputs) and b.node.op != "SelectV2":
        raise b.unsupported("text")
    return b.op(_SAME[b.node.op], *b.inputs)


maps(*_SAME)(_same)


@maps("Pow")
def power(b: OpBuilder) -> Value:
    """Pow; of integers of 8 and 16 bits by those of 32"""
    x, y = b.input(0), b.input(1)
    dtype = x.desc.dtype
    wide = DType.INT32 if dtype.is_int and dtype.bits < 32 else dtype
    return b.cast(b.op("Pow", b.cast(x, wide), b.cast(y, wide)), dtype)


@maps("Relu")
def relu(b: OpBuilder) -> Value:
    """Relu; unsigned integers are what they are"""
    x = b.input(0)
    return x if x.desc.dtype.name.startswith("UINT") else b.op("Relu", x)


@maps("Relu6")
def relu6(b: OpBuilder) -> Value:
    """Clip to 0…6"""
    x = b.input(0)
    return b.op("Clip", x, b.like(0, x), b.like(6, x))


@maps("LeakyRelu")
def leaky_relu(b: OpBuilder) -> Value:
    """LeakyRelu"""
    return b.op("LeakyRelu", b.input(0), alpha=b.float_attr("alpha"))


def activated(b: OpBuilder, x: Value, step: bytes) -> Value:
    """x behind an activation that a fused op names."""
    match step:
        case b"Relu" | b"Elu" | b"Tanh" | b"Sigmoid":
            return b.op(step.decode(), x)
        case b"Relu6":
            return b.op("Clip", x, b.like(0, x), b.like(6, x))
        case b"LeakyRelu":
            return b.op("LeakyRelu", x, alpha=b.float_attr("leakyrelu_alpha"))
        case b"GeluExact" | b"GeluApproximate":
            return b.op("Gelu", x, approximate="none" if step == b"GeluExact" else "tanh")
        case _:
            raise b.unsupported(f"fused_ops {b.attr('fused_ops')}")


@maps(GELU)
def gelu(b: OpBuilder) -> Value:
    """Gelu, which a graph says as ½ · x · Erfc(−x · √½)"""
    return b.op("Gelu", b.input(0))


@maps("Cast")
def cast(b: OpBuilder) -> Value:
    """Cast; to bool it is a comparison with 0"""
    x, dtype = b.input(0), b.dtype_attr("DstT")
    if dtype not in (DType.COMPLEX64, DType.COMPLEX128):
        return b.cast(x, dtype)
    part = b.cast(x, DType.FLOAT32 if dtype is DType.COMPLEX64 else DType.FLOAT64)
    return b.complex_of(part, b.op("Expand", b.like(0, part), b.op("Shape", part)))


@maps("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "PlaceholderWithDefault", "Print")
def hand_through(b: OpBuilder) -> Value:
    """Its input"""
    return b.input(0)


@maps("ClipByValue")
def clip(b: OpBuilder) -> Value:
    """Clip; Min and Max where the bounds are no scalars, or may cross"""
    x, low, high = (b.input(place) for place in range(3))
    if _are_ordered(low, high):
        return b.op("Clip", x, low, high)
    return b.op("Max", b.op("Min", x, high), low)


def _are_ordered(low: Value, high: Value) -> bool:
    if low.tensor is None or high.tensor is None:
        return False
    return low.array.shape == high.array.shape == () and bool(low.array <= high.array)


@maps("Select")
def select(b: OpBuilder) -> Value:
    """Where; a condition of one dim chooses whole rows"""
    condition, rank = b.input(0), b.rank(1)
    if b.rank(0) == 1 and rank > 1:
        condition = b.unsqueeze(condition, *range(1, rank))
    chosen = b.op("Where", condition, b.input(1), b.input(2))
    pairs = list(zip(b.shape(1), b.shape(2), strict=False))
    if rank == b.rank(2) and all(
        left == right or not (isinstance(left, int) and isinstance(right, int)) for left, right in pairs
    ):
        # Nothing is broadcast here, but that is not what Where promises.
        dims = tuple([right if isinstance(right, int) else left for left, right in pairs])
        chosen.desc = TensorDesc.plain(chosen.desc.dtype, dims)
    return chosen


@maps("IsFinite")
def is_finite(b: OpBuilder) -> Value:
    """|x| < ∞"""
    x = b.input(0)
    return b.op("Less", b.op("Abs", x), b.like(math.inf, x))


@maps("ApproximateEqual")
def approximately_equal(b: OpBuilder) -> Value:
    """|x − y| < tolerance"""
    gap = b.op("Abs", b.op("Sub", b.input(0), b.input(1)))
    return b.op("Less", gap, b.like(b.float_attr("tolerance"), gap))


@maps("Rsqrt")
def rsqrt(b: OpBuilder) -> Value:
    """1 / √x"""
    return b.op("Reciprocal", b.op("Sqrt", b.input(0)))


@maps("Square")
def square(b: OpBuilder) -> Value:
    """x · x"""
    return b.op("Mul", b.input(0), b.input(0))


@maps("SquaredDifference")
def squared_difference(b: OpBuilder) -> Value:
    """(x − y)²"""
    difference = b.op("Sub", b.input(0), b.input(1))
    return b.op("Mul", difference, difference)


@maps("Maximum", "Minimum")
def extreme(b: OpBuilder) -> Value:
    """Max, Min"""
    return b.op("Max" if b.node.op == "Maximum" else "Min", b.input(0), b.input(1))


@maps("AddN", "AccumulateNV2")
def add_n(b: OpBuilder) -> Value:
    """Sum"""
    return b.op("Sum", *b.inputs) if b.dtype(0).is_float else _added(b)


def _added(b: OpBuilder) -> Value:
    total = b.input(0)
    for value in b.inputs[1:]:
        total = b.op("Add", total, value)
    return total


@maps("BiasAdd", "BiasAddV1")
def bias_add(b: OpBuilder) -> Value:
    """Add along the channels"""
    x, bias = b.input(0), b.input(1)
    if b.node.op == "BiasAdd" and b.text_attr("data_format").startswith("NC"):
        bias = b.reshape(bias, [-1, *[1] * (b.rank(0) - 2)])
        return b.op("Add", x, bias)
    made, rank = x.producer, len(x.desc.shape or ())
    if made.op_type != "Transpose" or rank < 3 or made.ints_attr("perm") != (0, *range(2, rank), 1):
        return b.op("Add", x, bias)
    # Before the Transpose of what convolves, so that they become one.
    added = b.op("Add", made.operand(0), b.reshape(bias, [-1, *[1] * (rank - 2)]))
    return b.transpose(added, made.ints_attr("perm"))


@maps("Equal", "NotEqual")
def equal(b: OpBuilder) -> Value:
    """Equal, and Not of it; of shapes that do not fit, one answer if that is no error"""
    is_not = b.node.op == "NotEqual"
    shapes = b.input(0).desc.shape, b.input(1).desc.shape
    if not b.bool_attr("incompatible_shape_error") and not _fit(*shapes):
        return b.const(is_not, DType.BOOL)
    result = b.op("Equal", b.input(0), b.input(1))
    return b.op("Not", result) if is_not else result


def _fit(a: Shape | None, b: Shape | None) -> bool:
    """False if two shapes certainly do not broadcast."""
    if a is None or b is None:
        return True
    pairs = zip(reversed(a), reversed(b), strict=False)
    return not any(isinstance(x, int) and isinstance(y, int) and x != y and 1 not in (x, y) for x, y in pairs)


@maps("Round")
def rounded(b: OpBuilder) -> Value:
    """Round, ties to even"""
    x = b.input(0)
    return b.op("Round", x) if x.desc.dtype.is_float else x


@maps("ZerosLike", "OnesLike")
def filled_like(b: OpBuilder) -> Value:
    """The number 0 or 1 in the shape of x"""
    x = b.input(0)
    return b.op("Expand", b.like(b.node.op == "OnesLike", x), b.op("Shape", x))
