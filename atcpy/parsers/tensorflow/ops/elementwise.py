"""Ops that work element by element."""

from __future__ import annotations

import math

from atcpy.ir import DType, TensorDesc, Value
from atcpy.ir.arithmetic import Expr
from atcpy.ir.shape import Shape
from atcpy.parsers.tensorflow.gelu import GELU
from atcpy.parsers.tensorflow.op import COMPLEX_PARTS, OpBuilder, formula, maps, maps_all

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


def _square(x: Expr) -> Expr:
    return x * x


maps_all(
    {
        "Identity StopGradient PreventGradient Snapshot CheckNumerics PlaceholderWithDefault Print RefIdentity "
        "GuaranteeConst Copy CopyHost DeepCopy DebugIdentity DebugIdentityV2": ("Its input", lambda b: b.input(0)),
        "IdentityN": ("Its inputs", lambda b: [*b.inputs]),
        "Maximum": ("Max, Min", formula(Expr.max)),
        "Minimum": ("Max, Min", formula(Expr.min)),
        "Square": ("x · x", formula(_square)),
        "SquaredDifference": ("(x − y)²", formula(lambda x, y: _square(x - y))),
        "Rsqrt": ("1 / √x", formula(lambda x: x.apply("Sqrt").apply("Reciprocal"))),
        "Relu6": ("Clip to 0…6", formula(lambda x: x.clip(0, 6))),
        "LeakyRelu": ("LeakyRelu", lambda b: b.op("LeakyRelu", b.input(0), alpha=b.float_attr("alpha"))),
        GELU: ("Gelu, which a graph says as ½ · x · Erfc(−x · √½)", lambda b: b.op("Gelu", b.input(0))),
        "IsFinite": ("|x| < ∞", formula(lambda x: x.like(math.inf) > abs(x))),
        "ApproximateEqual": (
            "|x − y| < tolerance",
            lambda b: (abs(b.expr(0) - b.expr(1)) < b.float_attr("tolerance")).value,
        ),
        "ZerosLike": ("The number 0 or 1 in the shape of x", lambda b: b.filled_like(b.input(0), 0)),
        "OnesLike": ("The number 0 or 1 in the shape of x", lambda b: b.filled_like(b.input(0), 1)),
        # products and quotients
        "Div TruncateDiv": ("Div; integers truncate toward 0", formula(Expr.__truediv__)),
        "Mod TruncateMod": (
            "Mod; the remainder has the sign of the dividend",
            lambda b: b.op("Mod", b.input(0), b.input(1), fmod=1),
        ),
        "DivNoNan": ("Div; 0 where the divisor is 0", formula(lambda x, y: (x / y).masked_fill(y.equals(0), 0))),
        "MulNoNan": ("Mul; 0 where y is 0", formula(lambda x, y: (x * y).masked_fill(y.equals(0), 0))),
        "Xdivy": ("Div; 0 where x is 0", formula(lambda x, y: (x / y).masked_fill(x.equals(0), 0))),
        "Xlogy": ("x · Log(y); 0 where x is 0", formula(lambda x, y: (x * y.apply("Log")).masked_fill(x.equals(0), 0))),
    }
)


@maps("Pow")
def power(b: OpBuilder) -> Value:
    """Pow; of integers of 8 and 16 bits by those of 32"""
    return b.cast(b.op("Pow", b.widen(b.input(0)), b.widen(b.input(1))), b.dtype(0))


@maps("Relu")
def relu(b: OpBuilder) -> Value:
    """Relu; unsigned integers are what they are"""
    x = b.input(0)
    return x if x.desc.dtype.name.startswith("UINT") else b.op("Relu", x)


def activated(b: OpBuilder, x: Value, step: bytes) -> Value:
    """x behind an activation that a fused op names."""
    match step:
        case b"Relu" | b"Elu" | b"Tanh" | b"Sigmoid":
            return b.op(step.decode(), x)
        case b"Relu6":
            return Expr(b, x).clip(0, 6).value
        case b"LeakyRelu":
            return b.op("LeakyRelu", x, alpha=b.float_attr("leakyrelu_alpha"))
        case b"GeluExact" | b"GeluApproximate":
            return b.op("Gelu", x, approximate="none" if step == b"GeluExact" else "tanh")
        case _:
            raise b.unsupported(f"fused_ops {b.attr('fused_ops')}")


@maps("Cast")
def cast(b: OpBuilder) -> Value:
    """Cast; to bool it is a comparison with 0"""
    x, dtype = b.input(0), b.dtype_attr("DstT")
    if dtype not in COMPLEX_PARTS:
        return b.cast(x, dtype)
    part = b.cast(x, COMPLEX_PARTS[dtype])
    return b.complex_of(part, b.filled_like(part, 0))


@maps("ClipByValue")
def clip(b: OpBuilder) -> Value:
    """Clip; Min and Max where the bounds are no scalars, or may cross"""
    x, low, high = (b.input(index) for index in range(3))
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


@maps("AddN", "AccumulateNV2")
def add_n(b: OpBuilder) -> Value:
    """Sum"""
    return b.op("Sum", *b.inputs) if b.dtype(0).is_float else b.sum(*b.inputs)


@maps("BiasAdd", "BiasAddV1")
def bias_add(b: OpBuilder) -> Value:
    """Add along the channels"""
    x, bias = b.input(0), b.input(1)
    if b.node.op == "BiasAdd" and b.text_attr("data_format").startswith("NC"):
        bias = b.reshape(bias, [-1, *[1] * (b.rank(0) - 2)])
        return b.op("Add", x, bias)
    last, rank = x.producer, len(x.desc.shape or ())
    if last.op_type != "Transpose" or rank < 3 or last.ints_attr("perm") != (0, *range(2, rank), 1):
        return b.op("Add", x, bias)
    # In front of the Transpose behind a convolution, so that the bias becomes the convolution's.
    added = b.op("Add", last.operand(0), b.reshape(bias, [-1, *[1] * (rank - 2)]))
    return b.transpose(added, last.ints_attr("perm"))


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


@maps("Inv", "Reciprocal")
def reciprocal(b: OpBuilder) -> Value:
    """Reciprocal"""
    x = b.input(0)
    return b.op("Reciprocal", x) if x.desc.dtype.is_float else b.op("Div", b.like(1, x), x)


@maps("FloorDiv")
def floor_div(b: OpBuilder) -> Value:
    """Floor of Div; integers are divided toward −∞"""
    x, y = b.input(0), b.input(1)
    dtype = x.desc.dtype
    quotient = b.op("Div", x, y)
    if dtype.is_float:
        return b.op("Floor", quotient)
    if dtype.name.startswith("UINT"):
        return quotient
    rest = b.op("Mod", x, y, fmod=1)
    return b.op("Sub", quotient, b.cast(_is_off(b, rest, y), dtype))


@maps("FloorMod")
def floor_mod(b: OpBuilder) -> Value:
    """Mod; the remainder has the sign of the divisor"""
    x, y = b.input(0), b.input(1)
    if not x.desc.dtype.is_float:
        return b.op("Mod", x, y, fmod=0)
    rest = b.op("Mod", x, y, fmod=1)
    return b.op("Where", _is_off(b, rest, y), b.op("Add", rest, y), rest)


def _is_off(b: OpBuilder, rest: Value, divisor: Value) -> Value:
    """Where a truncated division is not the one toward −∞: a remainder, of another sign than the divisor."""
    zero = b.like(0, rest)
    signs = (b.op("Less", value, zero) for value in (rest, divisor))
    return b.op("And", b.op("Not", b.op("Equal", rest, zero)), b.op("Xor", *signs))
