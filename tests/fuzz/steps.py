"""Random steps, one per kind of op: each adds a node to the graph, or nothing if no value has a suitable type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from atcpy.ir import DType
from tests.fuzz.builder import BOOL, EVERY, FLOATS, INTS, NUMBERS, SIGNED, Builder, Value, broadcast
from tests.fuzz.sizes import by_sizes, parts

Step = Callable[[Builder], None]

_PLAIN = [
    "Relu", "Sigmoid", "HardSwish", "Mish", "Softplus", "Softsign", "Tanh", "Erf", "Exp", "Log", "Sqrt", "Reciprocal",
    "Floor", "Ceil", "Round", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
    "Abs", "Neg", "Sign",
]  # fmt: skip
_WITH_FACTORS = {
    "LeakyRelu": ("alpha",), "ThresholdedRelu": ("alpha",), "Elu": ("alpha",), "Celu": ("alpha",),
    "Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"), "Swish": ("alpha",), "Shrink": ("lambd", "bias"),
}  # fmt: skip
_DTYPES = {"Abs": NUMBERS, "Neg": FLOATS + SIGNED, "Sign": NUMBERS, "Relu": FLOATS + SIGNED, "Shrink": (
    DType.FLOAT32, DType.FLOAT64, DType.FLOAT16, *INTS)}  # fmt: skip
_POSITIVE = {"Log", "Sqrt", "Acosh"}
_WITHIN_ONE = {"Asin", "Acos", "Atanh"}


def unary(b: Builder) -> None:
    """A unary op; ops with a restricted domain mostly get operands within it."""
    op = b.pick(_PLAIN)
    x = b.value(_DTYPES.get(op, FLOATS))
    if x is None:
        return
    if op in _POSITIVE and b.chance(0.8):
        x = b.add("Abs", [x], x.dtype, x.shape)
    if op in _WITHIN_ONE and b.chance(0.8):
        x = b.add("Sin", [x], x.dtype, x.shape)
    b.add(op, [x], x.dtype, x.shape)


def activation(b: Builder) -> None:
    """An activation with attributes."""
    op = b.pick([*_WITH_FACTORS, "Gelu"])
    x = b.value(_DTYPES.get(op, FLOATS))
    if x is None:
        return
    if op == "Shrink" and x.dtype.is_int:
        b.add(op, [x], x.dtype, x.shape, bias=float(b.below(3)), lambd=1.5)
        return
    if op == "Gelu":
        b.add(op, [x], x.dtype, x.shape, approximate=b.pick(["none", "tanh"]))
        return
    attrs = {name: float(np.float32(b.pick([0.1, 0.5, 1.0, 1.5]))) for name in _WITH_FACTORS[op] if b.chance(0.7)}
    b.add(op, [x], x.dtype, x.shape, **attrs)


def unary_predicate(b: Builder) -> None:
    """Not, BitwiseNot, IsNaN, IsInf."""
    op, dtypes, result = b.pick(
        [
            ("Not", BOOL, DType.BOOL),
            ("BitwiseNot", INTS, None),
            ("IsNaN", FLOATS, DType.BOOL),
            ("IsInf", FLOATS, DType.BOOL),
        ]
    )
    x = b.value(dtypes)
    if x is not None:
        b.add(op, [x], result or x.dtype, x.shape)


def _of_two(b: Builder, op: str, x: Value, y: Value, result: DType | None = None, **attrs: object) -> None:
    operands = [x, y] if op in {"Div", "Mod", "Pow", "BitShift", "PRelu"} or b.chance(0.6) else [y, x]
    b.add(op, operands, result or operands[0].dtype, broadcast(x.shape, y.shape), **attrs)


def arithmetic(b: Builder) -> None:
    """Add, Sub, Mul, Max, Min."""
    x = b.value(NUMBERS)
    if x is not None:
        _of_two(b, b.pick(["Add", "Sub", "Mul", "Max", "Min"]), x, b.partner(x))


def division(b: Builder) -> None:
    """Div and Mod; integers get constant divisors without zeros."""
    x = b.value(NUMBERS)
    if x is None:
        return
    attrs = {"fmod": 1} if b.chance(0.5) else {}
    op = b.pick(["Div", "Mod"])
    if x.dtype.is_float:
        y = b.partner(x)
    else:
        numbers = b.numbers(x.dtype, tuple(1 if b.chance(0.3) else size for size in x.shape))
        y = b.constant(np.where(numbers == 0, numbers.dtype.type(3), numbers))
    _of_two(b, op, x, y, **(attrs if op == "Mod" else {}))


def power(b: Builder) -> None:
    """Pow with an exponent of any dtype; integer bases get no negative exponents."""
    x = b.value((*FLOATS, DType.INT32, DType.INT64))
    if x is None:
        return
    dtype = b.pick([*FLOATS, *INTS]) if x.dtype.is_float else b.pick(INTS)
    if dtype.is_float and b.chance(0.6):
        x = b.add("Abs", [x], x.dtype, x.shape)
    low = -2 if dtype.is_float or (x.dtype.is_float and dtype in SIGNED) else 0
    shape = () if b.chance(0.4) else tuple(1 if b.chance(0.3) else size for size in x.shape)
    exponents = b.rng.integers(low, 4, shape)
    if dtype.is_float and b.chance(0.5):
        exponents = exponents + 0.5
    _of_two(b, "Pow", x, b.constant(exponents.astype(dtype.numpy)))


def bits(b: Builder) -> None:
    """Bitwise ops on integers."""
    x = b.value(INTS)
    if x is None:
        return
    op = b.pick(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift"])
    _of_two(b, op, x, b.partner(x), **({"direction": b.pick(["LEFT", "RIGHT"])} if op == "BitShift" else {}))


def comparison(b: Builder) -> None:
    """Comparisons and logic."""
    x = b.value(EVERY)
    if x is None:
        return
    orders = ["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]
    op = b.pick(["And", "Or", "Xor", "Equal"] if x.dtype is DType.BOOL else orders)
    _of_two(b, op, x, b.partner(x), DType.BOOL)


def variadic(b: Builder) -> None:
    """Variadic ops of one to four operands."""
    op = b.pick(["Sum", "Mean", "Max", "Min"])
    x = b.value(FLOATS if op in {"Sum", "Mean"} else NUMBERS)
    if x is not None:
        operands = [x, *(b.partner(x, one_way=True) for _ in range(b.below(4)))]
        b.add(op, operands, x.dtype, broadcast(*(value.shape for value in operands)))


def choice(b: Builder) -> None:
    """Where, Clip, PRelu."""
    op = b.pick(["Where", "Clip", "PRelu"])
    x = b.value(EVERY if op == "Where" else NUMBERS if op == "Clip" else (*FLOATS, DType.INT32, DType.UINT64))
    if x is None:
        return
    if op == "Where":
        y, condition = b.partner(x, one_way=True), b.partner(x, DType.BOOL, one_way=True)
        b.add("Where", [condition, *([x, y] if b.chance(0.5) else [y, x])], x.dtype, x.shape)
    elif op == "PRelu":
        b.add(op, [x, b.partner(x, one_way=True)], x.dtype, x.shape)
    else:
        low, high = np.sort(b.numbers(x.dtype, (2,)))
        bounds = [b.constant(np.asarray(item)) if b.chance(0.8) else None for item in (low, high)]
        b.add(op, [x, *bounds], x.dtype, x.shape)


_NARROW = (DType.FLOAT8E4M3FN, DType.FLOAT8E5M2, DType.INT4, DType.UINT4, DType.FLOAT4E2M1)


def cast(b: Builder) -> None:
    """Cast to another dtype, sometimes through a narrow one."""
    x = b.value(EVERY)
    if x is None:
        return
    if b.chance(0.15):
        narrow = b.pick(_NARROW)
        x = b.add("Cast", [x], narrow, x.shape, to=narrow.onnx)
    to = b.pick(EVERY)
    if x.dtype in FLOATS and to.is_int and b.chance(0.9):  # most others are undefined
        low, high = (0, 100) if to.name.startswith("U") else (-100, 100)
        bounds = [b.constant(np.array(bound, x.dtype.numpy)) for bound in (low, high)]
        x = b.add("Clip", [x, *bounds], x.dtype, x.shape)
    if b.chance(0.2):
        b.add("CastLike", [x, b.constant(np.zeros(1, to.numpy))], to, x.shape)
    else:
        b.add("Cast", [x], to, x.shape, to=to.onnx)


_WIDE = (*FLOATS, DType.INT32, DType.INT64, DType.UINT32, DType.UINT64)
_REDUCTIONS = {
    "ReduceSum": _WIDE, "ReduceMean": _WIDE, "ReduceProd": _WIDE, "ReduceL1": _WIDE, "ReduceL2": FLOATS,
    "ReduceSumSquare": _WIDE, "ReduceMax": (*_WIDE, DType.INT8, DType.UINT8, DType.BOOL),
    "ReduceMin": (*_WIDE, DType.INT8, DType.UINT8, DType.BOOL), "ReduceLogSum": FLOATS, "ReduceLogSumExp": FLOATS,
}  # fmt: skip


def _without(shape: Sequence[int], axes: set[int], *, keepdims: bool) -> tuple[int, ...]:
    dims = ((1 if axis in axes else size) for axis, size in enumerate(shape) if keepdims or axis not in axes)
    return tuple(dims)


def reduction(b: Builder) -> None:
    """A reduction along some dims, all of them, or none."""
    op = b.pick(list(_REDUCTIONS))
    x = b.value(_REDUCTIONS[op], lambda shape: 0 not in shape and (op != "ReduceLogSumExp" or bool(shape)))
    if x is None:
        return
    axes = {axis for axis in range(len(x.shape)) if b.chance(0.4)}
    noop = 0 if op == "ReduceLogSumExp" else int(b.chance(0.3))
    keepdims = b.chance(0.5)
    if op == "ReduceLogSum":
        x = b.add("Abs", [x], x.dtype, x.shape)
    listed = [axis - len(x.shape) if b.chance(0.3) else axis for axis in sorted(axes)]
    operands = [x, b.constant(np.array(listed, np.int64))] if listed or b.chance(0.5) else [x]
    reduced = axes or (set() if noop else set(range(len(x.shape))))
    shape = _without(x.shape, reduced, keepdims=keepdims)
    b.add(op, operands, x.dtype, shape, keepdims=int(keepdims), noop_with_empty_axes=noop)


def row_reduction(b: Builder) -> None:
    """A reduction of each row combined with the row, as in a normalization: fused into one kernel."""
    op = b.pick(["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare"])
    x = b.value(FLOATS, lambda shape: len(shape) > 0 and 0 not in shape)
    if x is not None:
        one = b.add(op, [x, b.constant(np.array([-1]))], x.dtype, (*x.shape[:-1], 1))
        y = b.value({x.dtype}, lambda shape: shape == x.shape) or x
        _of_two(b, b.pick(["Add", "Sub", "Mul", "Max", "Min", "Div"]), y, one)


def arg_reduction(b: Builder) -> None:
    """ArgMax, ArgMin."""
    x = b.value(NUMBERS, lambda shape: len(shape) > 0 and 0 not in shape)
    if x is None:
        return
    axis, keepdims = b.below(len(x.shape)), b.chance(0.5)
    shape = _without(x.shape, {axis}, keepdims=keepdims)
    attrs = {"axis": axis, "keepdims": int(keepdims), "select_last_index": b.below(2)}
    b.add(b.pick(["ArgMax", "ArgMin"]), [x], DType.INT64, shape, **attrs)


def rearrange(b: Builder) -> None:
    """Ops that only move elements or change the shape."""
    x = b.value(EVERY, lambda shape: len(shape) > 0)
    if x is None:
        return
    rank, axis = len(x.shape), b.below(len(x.shape))
    match b.pick(
        ["Transpose", "Reshape", "Unsqueeze", "Flatten", "Concat", "Slice", "Gather", "Expand", "Pad", "Identity"]
    ):
        case "Transpose":
            perm = [int(item) for item in b.rng.permutation(rank)]
            b.add("Transpose", [x], x.dtype, [x.shape[item] for item in perm], perm=perm)
        case "Reshape":
            shape = (math.prod(x.shape[: axis + 1]), *x.shape[axis + 1 :])
            b.add("Reshape", [x, b.constant(np.array(shape, np.int64))], x.dtype, shape, allowzero=1)
        case "Unsqueeze":
            shape = (*x.shape[:axis], 1, *x.shape[axis:])
            if rank < 5:
                b.add("Unsqueeze", [x, b.constant(np.array([axis]))], x.dtype, shape)
        case "Flatten":
            b.add("Flatten", [x], x.dtype, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), axis=axis)
        case "Concat":
            y = b.value(
                {x.dtype}, lambda s: len(s) == rank and s[:axis] + s[axis + 1 :] == x.shape[:axis] + x.shape[axis + 1 :]
            )
            if y is not None:
                shape = (*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :])
                b.add("Concat", [x, y], x.dtype, shape, axis=axis)
        case "Slice":
            begin, step = b.below(x.shape[axis] + 1), b.pick([1, 1, 2])
            count = len(range(begin, x.shape[axis], step))
            ends = [b.constant(np.array([item])) for item in (begin, x.shape[axis], axis, step)]
            b.add("Slice", [x, *ends], x.dtype, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
        case "Gather":
            if x.shape[axis]:
                index = b.constant(b.rng.integers(-x.shape[axis], x.shape[axis], 3))
                b.add("Gather", [x, index], x.dtype, (*x.shape[:axis], 3, *x.shape[axis + 1 :]), axis=axis)
        case "Expand":
            shape = broadcast(x.shape, tuple(2 if size == 1 else 1 for size in x.shape))
            b.add("Expand", [x, b.constant(np.array(shape, np.int64))], x.dtype, shape)
        case "Pad":
            if x.dtype is not DType.BOOL:
                pads = b.rng.integers(0, 2, 2 * rank)
                b.add(
                    "Pad", [x, b.constant(pads)], x.dtype, [n + pads[i] + pads[i + rank] for i, n in enumerate(x.shape)]
                )
        case op:
            b.add(op, [x], x.dtype, x.shape)


def product(b: Builder) -> None:
    """MatMul, Softmax, convolution, pooling: ops that choose formats."""
    x = b.value(FLOATS, lambda shape: len(shape) >= 2 and 0 not in shape)
    if x is None:
        return
    kind = b.pick(["MatMul", "Softmax", "Conv", "MaxPool", "Conv"])
    if kind == "Softmax":
        axis = b.below(len(x.shape))
        b.add(kind, [x], x.dtype, x.shape, axis=axis)
    elif kind == "MatMul":
        columns = b.pick([1, 3, 16, 17])
        b.add(kind, [x, b.constant(b.numbers(x.dtype, (x.shape[-1], columns)))], x.dtype, (*x.shape[:-1], columns))
    elif len(x.shape) == 4 and math.prod(x.shape) <= 2000:
        n, c, h, w = x.shape
        if kind == "MaxPool":
            b.add(kind, [x], x.dtype, x.shape, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            m = b.pick([1, 8, 16, 17])
            weights = b.numbers(x.dtype, (m, c, 3, 3))
            b.add(kind, [x, b.constant(weights)], x.dtype, (n, m, h, w), pads=[1, 1, 1, 1])


STEPS: tuple[Step, ...] = (
    *[unary] * 3, *[activation] * 2, unary_predicate, *[arithmetic] * 3, division, power, bits, *[comparison] * 2,
    variadic, *[choice] * 2, *[cast] * 3, *[reduction] * 2, *[row_reduction] * 2, arg_reduction, *[rearrange] * 2,
    *[product] * 2, *[by_sizes] * 4, parts,
)  # fmt: skip
# The steps whose ops graph kernels fuse.
ELEMENTWISE: tuple[Step, ...] = (
    *[unary] * 4, *[activation] * 2, *[arithmetic] * 5, division, power, comparison, variadic, *[choice] * 2,
    *[row_reduction] * 3,
)  # fmt: skip
