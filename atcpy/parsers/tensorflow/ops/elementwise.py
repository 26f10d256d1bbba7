"""Ops that work element by element."""

from __future__ import annotations

import math

from atcpy.ir import DType, TensorDesc, Value
from atcpy.ir.shape import Shape
from atcpy.parsers.tensorflow.gelu import GELU
from atcpy.parsers.tensorflow.op import Op, maps

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


def _same(op: Op) -> Value:
    """The op of the standard"""
    if any(value.desc.dtype is DType.STRING for value in op.inputs) and op.node.op != "SelectV2":
        raise op.refuse("text")
    return op.add(_SAME[op.node.op], *op.inputs)


maps(*_SAME)(_same)


@maps("Pow")
def power(op: Op) -> Value:
    """Pow; of integers of 8 and 16 bits by those of 32"""
    x, y = op.input(0), op.input(1)
    dtype = x.desc.dtype
    wide = DType.INT32 if dtype.is_int and dtype.bits < 32 else dtype
    return op.cast(op.add("Pow", op.cast(x, wide), op.cast(y, wide)), dtype)


@maps("Relu")
def relu(op: Op) -> Value:
    """Relu; unsigned integers are what they are"""
    x = op.input(0)
    return x if x.desc.dtype.name.startswith("UINT") else op.add("Relu", x)


@maps("Relu6")
def relu6(op: Op) -> Value:
    """Clip to 0…6"""
    x = op.input(0)
    return op.add("Clip", x, op.like(0, x), op.like(6, x))


@maps("LeakyRelu")
def leaky_relu(op: Op) -> Value:
    """LeakyRelu"""
    return op.add("LeakyRelu", op.input(0), alpha=op.float_attr("alpha"))


def activated(op: Op, x: Value, step: bytes) -> Value:
    """x behind an activation that a fused op names."""
    match step:
        case b"Relu" | b"Elu" | b"Tanh" | b"Sigmoid":
            return op.add(step.decode(), x)
        case b"Relu6":
            return op.add("Clip", x, op.like(0, x), op.like(6, x))
        case b"LeakyRelu":
            return op.add("LeakyRelu", x, alpha=op.float_attr("leakyrelu_alpha"))
        case b"GeluExact" | b"GeluApproximate":
            return op.add("Gelu", x, approximate="none" if step == b"GeluExact" else "tanh")
        case _:
            raise op.refuse(f"fused_ops {op.attr('fused_ops')}")


@maps(GELU)
def gelu(op: Op) -> Value:
    """Gelu, which a graph says as ½ · x · Erfc(−x · √½)"""
    return op.add("Gelu", op.input(0))


@maps("Cast")
def cast(op: Op) -> Value:
    """Cast; to bool it is a comparison with 0"""
    x, dtype = op.input(0), op.dtype_attr("DstT")
    if dtype not in (DType.COMPLEX64, DType.COMPLEX128):
        return op.cast(x, dtype)
    part = op.cast(x, DType.FLOAT32 if dtype is DType.COMPLEX64 else DType.FLOAT64)
    return op.complex_of(part, op.add("Expand", op.like(0, part), op.add("Shape", part)))


@maps("Identity", "StopGradient", "PreventGradient", "Snapshot", "CheckNumerics", "PlaceholderWithDefault", "Print")
def hand_through(op: Op) -> Value:
    """Its input"""
    return op.input(0)


@maps("ClipByValue")
def clip(op: Op) -> Value:
    """Clip; Min and Max where the bounds are no scalars, or may cross"""
    x, low, high = (op.input(place) for place in range(3))
    if _are_ordered(low, high):
        return op.add("Clip", x, low, high)
    return op.add("Max", op.add("Min", x, high), low)


def _are_ordered(low: Value, high: Value) -> bool:
    if low.tensor is None or high.tensor is None:
        return False
    return low.array.shape == high.array.shape == () and bool(low.array <= high.array)


@maps("Select")
def select(op: Op) -> Value:
    """Where; a condition of one dim chooses whole rows"""
    condition, rank = op.input(0), op.rank(1)
    if op.rank(0) == 1 and rank > 1:
        condition = op.unsqueeze(condition, *range(1, rank))
    chosen = op.add("Where", condition, op.input(1), op.input(2))
    pairs = list(zip(op.shape(1), op.shape(2), strict=False))
    if rank == op.rank(2) and all(a == b or not (isinstance(a, int) and isinstance(b, int)) for a, b in pairs):
        # Nothing is broadcast here, but that is not what Where promises.
        dims = tuple([b if isinstance(b, int) else a for a, b in pairs])
        chosen.desc = TensorDesc.plain(chosen.desc.dtype, dims)
    return chosen


@maps("IsFinite")
def is_finite(op: Op) -> Value:
    """|x| < ∞"""
    x = op.input(0)
    return op.add("Less", op.add("Abs", x), op.like(math.inf, x))


@maps("ApproximateEqual")
def approximately_equal(op: Op) -> Value:
    """|x − y| < tolerance"""
    gap = op.add("Abs", op.add("Sub", op.input(0), op.input(1)))
    return op.add("Less", gap, op.like(op.float_attr("tolerance"), gap))


@maps("Rsqrt")
def rsqrt(op: Op) -> Value:
    """1 / √x"""
    return op.add("Reciprocal", op.add("Sqrt", op.input(0)))


@maps("Square")
def square(op: Op) -> Value:
    """x · x"""
    return op.add("Mul", op.input(0), op.input(0))


@maps("SquaredDifference")
def squared_difference(op: Op) -> Value:
    """(x − y)²"""
    difference = op.add("Sub", op.input(0), op.input(1))
    return op.add("Mul", difference, difference)


@maps("Maximum", "Minimum")
def extreme(op: Op) -> Value:
    """Max, Min"""
    return op.add("Max" if op.node.op == "Maximum" else "Min", op.input(0), op.input(1))


@maps("AddN", "AccumulateNV2")
def add_n(op: Op) -> Value:
    """Sum"""
    return op.add("Sum", *op.inputs) if op.dtype(0).is_float else _added(op)


def _added(op: Op) -> Value:
    total = op.input(0)
    for value in op.inputs[1:]:
        total = op.add("Add", total, value)
    return total


@maps("BiasAdd", "BiasAddV1")
def bias_add(op: Op) -> Value:
    """Add along the channels"""
    x, bias = op.input(0), op.input(1)
    if op.node.op == "BiasAdd" and op.text_attr("data_format").startswith("NC"):
        bias = op.reshape(bias, [-1, *[1] * (op.rank(0) - 2)])
        return op.add("Add", x, bias)
    made, rank = x.producer, len(x.desc.shape or ())
    if made.op_type != "Transpose" or rank < 3 or made.ints_attr("perm") != (0, *range(2, rank), 1):
        return op.add("Add", x, bias)
    # Before the Transpose of what convolves, so that they become one.
    added = op.add("Add", made.operand(0), op.reshape(bias, [-1, *[1] * (rank - 2)]))
    return op.transpose(added, made.ints_attr("perm"))


@maps("Equal", "NotEqual")
def equal(op: Op) -> Value:
    """Equal, and Not of it; of shapes that do not fit, one answer if that is no error"""
    is_not = op.node.op == "NotEqual"
    shapes = op.input(0).desc.shape, op.input(1).desc.shape
    if not op.bool_attr("incompatible_shape_error") and not _fit(*shapes):
        return op.const(is_not, DType.BOOL)
    result = op.add("Equal", op.input(0), op.input(1))
    return op.add("Not", result) if is_not else result


def _fit(a: Shape | None, b: Shape | None) -> bool:
    """False if two shapes certainly do not broadcast."""
    if a is None or b is None:
        return True
    pairs = zip(reversed(a), reversed(b), strict=False)
    return not any(isinstance(x, int) and isinstance(y, int) and x != y and 1 not in (x, y) for x, y in pairs)


@maps("Round")
def rounded(op: Op) -> Value:
    """Round, ties to even"""
    x = op.input(0)
    return op.add("Round", x) if x.desc.dtype.is_float else x


@maps("ZerosLike", "OnesLike")
def filled_like(op: Op) -> Value:
    """The number 0 or 1 in the shape of x"""
    x = op.input(0)
    return op.add("Expand", op.like(op.node.op == "OnesLike", x), op.add("Shape", x))
