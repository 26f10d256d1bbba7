"""The single-op models that `ops.py` times: one line each, with operands for a given amount of work.

`n` is about the number of elements that a case reads or writes; where an element costs many products, the case divides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from feeds import Array

MICROSOFT: Final = "com.microsoft"
ML: Final = "ai.onnx.ml"
# The newest opsets that onnxruntime 1.31 implements for nearly all ops; a case may ask for a newer one.
OPSET: Final = 21


@dataclass(frozen=True)
class Const:
    """An operand that is an initializer of the model, not an input."""

    array: Array


Operand = Array | Const | None
Operands = Callable[[int], list[Operand]]


@dataclass(frozen=True)
class Case:
    """One node. `operands` returns its inputs in order for an amount of work; None leaves an optional one out.
    `is_random`: both engines draw numbers of their own, so that only shapes and types of the results are compared.
    """

    name: str
    op_type: str
    operands: Operands
    attrs: Mapping[str, Any]
    outputs: int = 1
    domain: str = ""
    opset: int = OPSET
    is_random: bool = False
    tolerance: float = 1e-4  # of an output's scale


CASES: Final[list[Case]] = []


def _add(
    name: str,
    operands: Operands,
    *,
    outputs: int = 1,
    domain: str = "",
    opset: int = OPSET,
    is_random: bool = False,
    tolerance: float = 1e-4,
    **attrs: Any,
) -> None:
    """Add a case; `name` is the op type, or begins with it and a space."""
    op_type = name.partition(" ")[0]
    CASES.append(Case(name, op_type, operands, attrs, outputs, domain, opset, is_random, tolerance))


def _rng(*shape: int) -> np.random.Generator:
    return np.random.default_rng(math.prod(shape))


def _normal(*shape: int, dtype: Any = np.float32) -> Array:
    return _rng(*shape).standard_normal(shape).astype(dtype)


def _positive(*shape: int) -> Array:
    return _rng(*shape).uniform(0.1, 2.0, shape).astype(np.float32)


def _integers(*shape: int, low: int = -100, high: int = 100, dtype: Any = np.int64) -> Array:
    return _rng(*shape).integers(low, high, shape).astype(dtype)


def _byte_weights(*shape: int) -> Const:
    """Weights as quantisation makes them of a normal distribution, of 7 bits: with 8, ONNX Runtime's sums of two
    products saturate on CPUs without VNNI.
    """
    return Const(np.clip(np.rint(_normal(*shape) * 21), -63, 63).astype(np.int8))


def _bools(*shape: int) -> Array:
    return _rng(*shape).integers(0, 2, shape).astype(bool)


def _ints(*values: int, dtype: Any = np.int64) -> Const:
    return Const(np.array(values, dtype))


def _scalar(value: float, dtype: Any = np.float32) -> Const:
    return Const(np.array(value, dtype))


def _weights(*shape: int) -> Const:
    fan_in = math.prod(shape[1:]) or 1
    return Const((_normal(*shape) / math.sqrt(fan_in)).astype(np.float32))


def _bytes(*shape: int) -> Array:
    return _integers(*shape, low=0, high=256, dtype=np.uint8)


def _root(n: float, degree: int, multiple: int = 1) -> int:
    """The length of a side of `degree` equal ones whose product is about `n`."""
    return max(multiple, round(n ** (1 / degree) / multiple) * multiple)


def _elementwise() -> None:
    normal = lambda n: [_normal(n)]  # noqa: E731
    for op in (
        "Abs", "Neg", "Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Floor", "Ceil", "Round", "Sign", "Reciprocal",
        "Softplus", "Softsign", "Elu", "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish", "Mish",
        "ThresholdedRelu", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "IsNaN", "IsInf",
    ):  # fmt: skip
        _add(op, normal, opset=22 if op == "Mish" else OPSET)
    _add("Acosh", lambda n: [_positive(n) + np.float32(1)])
    for op in ("Log", "Sqrt"):
        _add(op, lambda n: [_positive(n)])
    for op in ("Asin", "Acos", "Atanh"):
        _add(op, lambda n: [np.tanh(_normal(n))])
    _add("Gelu", normal)
    _add("Gelu tanh", normal, approximate="tanh")
    _add("Gelu contrib", normal, domain=MICROSOFT)
    _add("QuickGelu", normal, domain=MICROSOFT)
    _add("Clip", lambda n: [_normal(n), _scalar(-1), _scalar(1)])
    _add("PRelu", lambda n: [_normal(1, 16, n // 16), _normal(16, 1)])
    _add("Abs int64", lambda n: [_integers(n)])
    _add("Neg int64", lambda n: [_integers(n)])
    _add("Sign int64", lambda n: [_integers(n)])
    _add("Clip int64", lambda n: [_integers(n), _scalar(-10, np.int64), _scalar(10, np.int64)])
    _add("Clip int8", lambda n: [_integers(n, dtype=np.int8), _scalar(-10, np.int8), _scalar(10, np.int8)])
    _add("Relu int8", lambda n: [_integers(n, dtype=np.int8)])
    _add("Not", lambda n: [_bools(n)])
    _add("BitwiseNot int32", lambda n: [_integers(n, dtype=np.int32)])

    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        _add(op, lambda n: [_normal(n), _positive(n)])
        _add(f"{op} int64", lambda n: [_integers(n), _integers(n, low=1, high=9)])
    for op in ("Add", "Mul"):
        _add(f"{op} scalar", lambda n: [_normal(n), _normal(1)])
        _add(f"{op} row", lambda n: [_normal(n // 64, 64), _normal(64)])
        _add(f"{op} column", lambda n: [_normal(n // 64, 64), _normal(n // 64, 1)])
        _add(f"{op} channels", lambda n: [_normal(1, 16, n // 16), _normal(1, 16, 1)])
        _add(f"{op} int32", lambda n: [_integers(n, dtype=np.int32), _integers(n, dtype=np.int32)])
        _add(f"{op} float64", lambda n: [_normal(n, dtype=np.float64), _normal(n, dtype=np.float64)])
    _add("Add outer", lambda n: [_normal(_root(n, 2), 1), _normal(1, _root(n, 2))])
    _add("Add int8", lambda n: [_integers(n, dtype=np.int8), _integers(n, low=-20, high=20, dtype=np.int8)])
    _add("Add int64 scalar", lambda n: [_integers(n), _scalar(3, np.int64)])
    _add("Sum of 3", lambda n: [_normal(n), _normal(n), _normal(n)])
    _add("Mean of 3", lambda n: [_normal(n), _normal(n), _normal(n)])
    _add("Mod fmod", lambda n: [_normal(n), _positive(n)], fmod=1)
    _add("Mod int64", lambda n: [_integers(n), _integers(n, low=1, high=9)])
    _add("Mod int32", lambda n: [_integers(n, dtype=np.int32), _integers(n, low=1, high=9, dtype=np.int32)])
    _add("BitShift uint32", lambda n: [
        _integers(n, low=0, dtype=np.uint32), _integers(n, low=0, high=9, dtype=np.uint32)
    ], direction="LEFT")  # fmt: skip
    _add("BitwiseAnd int32", lambda n: [_integers(n, dtype=np.int32), _integers(n, dtype=np.int32)])
    for op in ("And", "Or", "Xor"):
        _add(op, lambda n: [_bools(n), _bools(n)[::-1].copy()])
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        _add(op, lambda n: [_normal(n), _positive(n)])
    _add("Equal int64", lambda n: [_integers(n), _integers(n)[::-1].copy()])
    _add("Less int64", lambda n: [_integers(n), _integers(n)[::-1].copy()])
    _add("Equal bool", lambda n: [_bools(n), _bools(n)[::-1].copy()])
    _add("Greater scalar", lambda n: [_normal(n), _scalar(0)])
    _add("Pow", lambda n: [_positive(n), _normal(n)])
    _add("Pow squared", lambda n: [_normal(n), _scalar(2)])
    _add("Pow cubed", lambda n: [_normal(n), _scalar(3)])
    _add("Pow root", lambda n: [_positive(n), _scalar(0.5)])
    _add("Pow 1.7", lambda n: [_positive(n), _scalar(1.7)])
    _add("Pow of a number", lambda n: [_scalar(1.7), _normal(n)])
    _add("Pow int64", lambda n: [_integers(n, low=-9, high=9), _integers(n, low=0, high=5)])

    _add("Where", lambda n: [_bools(n), _normal(n), _normal(n)])
    _add("Where scalar", lambda n: [_bools(n), _normal(n), _scalar(-1e9)])
    _add("Where two scalars", lambda n: [_bools(n), _scalar(0), _scalar(-1e9)])
    _add("Where mask of rows", lambda n: [_bools(1, 1, 32, 32), _normal(1, n // 1024, 32, 32), _scalar(-1e9)])
    _add("Where column", lambda n: [_bools(n // 64, 1), _normal(n // 64, 64), _normal(n // 64, 64)])
    _add("Where int64", lambda n: [_bools(n), _integers(n), _integers(n)])

    types = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}
    for source, target in (
        ("float32", "int64"), ("int64", "float32"), ("float32", "int32"), ("int32", "float32"), ("float32", "float16"),
        ("float16", "float32"), ("uint8", "float32"),
        ("float32", "uint8"), ("float32", "int8"), ("float32", "bool"), ("bool", "float32"), ("int64", "int32"),
        ("int32", "int64"), ("bool", "int64"), ("int64", "bool"), ("float32", "float64"), ("float64", "float32"),
    ):  # fmt: skip
        _add(f"Cast {source} {target}", lambda n, source=source: [
            np.abs(_integers(n)).astype(source)
        ], to=types[target])  # fmt: skip


def _reductions() -> None:
    shapes: dict[str, tuple[Callable[[int], Array], Const]] = {
        "all": (lambda n: _positive(_root(n, 2), _root(n, 2)), _ints(0, 1)),
        "last": (lambda n: _positive(_root(n, 2), _root(n, 2)), _ints(1)),
        "first": (lambda n: _positive(_root(n, 2), _root(n, 2)), _ints(0)),
        "middle": (lambda n: _positive(4, n // 64, 16), _ints(1)),
        "spatial": (lambda n: _positive(1, _root(n, 3), _root(n, 3), _root(n, 3)), _ints(2, 3)),
        "short last": (lambda n: _positive(n // 4, 4), _ints(1)),
    }
    for name, (array, axes) in shapes.items():
        for op in ("ReduceSum", "ReduceMean", "ReduceMax"):
            _add(f"{op} {name}", lambda n, array=array, axes=axes: [array(n), axes])
    for op in ("ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"):
        _add(f"{op} last", lambda n: [_positive(n // 64, 64), _ints(1)])
    for op in ("ReduceSum", "ReduceMax", "ReduceMean"):
        _add(f"{op} int64 last", lambda n: [_integers(n // 64, 64), _ints(1)])
        _add(f"{op} int64 first", lambda n: [_integers(n // 64, 64), _ints(0)])
    _add("ReduceSum int32 last", lambda n: [_integers(n // 64, 64, dtype=np.int32), _ints(1)])
    _add("ReduceMax int8 last", lambda n: [_integers(n // 64, 64, dtype=np.int8), _ints(1)])
    _add("ReduceSum float64 last", lambda n: [_normal(n // 64, 64, dtype=np.float64), _ints(1)])
    for op in ("ArgMax", "ArgMin"):
        _add(f"{op} last", lambda n: [_normal(_root(n, 2), _root(n, 2))], axis=1)
        _add(f"{op} first", lambda n: [_normal(_root(n, 2), _root(n, 2))], axis=0)
    _add("ArgMax channels", lambda n: [_normal(1, 21, _root(n / 21, 2), _root(n / 21, 2))], axis=1)
    _add("ArgMax int8 last", lambda n: [_integers(n // 64, 64, dtype=np.int8)], axis=1)
    _add("ArgMax int32 last", lambda n: [_integers(n // 64, 64, dtype=np.int32)], axis=1)
    _add("CumSum last", lambda n: [_normal(n // 64, 64), _scalar(1, np.int64)])
    _add("CumSum first", lambda n: [_normal(n // 64, 64), _scalar(0, np.int64)])
    _add("CumSum long", lambda n: [_normal(1, n), _scalar(1, np.int64)])
    _add("CumSum int64", lambda n: [_integers(n // 64, 64), _scalar(1, np.int64)])
    for op in ("Softmax", "LogSoftmax"):
        _add(f"{op} last", lambda n: [_normal(n // 256, 256)], axis=-1)
        _add(f"{op} channels", lambda n: [_normal(1, 21, n // 21)], axis=1)
        _add(f"{op} short", lambda n: [_normal(n // 4, 4)], axis=-1)
    _add("Softmax long", lambda n: [_normal(1, n)], axis=-1)
    _add("Hardmax", lambda n: [_normal(n // 64, 64)], axis=-1)


def _norms() -> None:
    _add("LayerNormalization", lambda n: [_normal(n // 256, 256), Const(_positive(256)), Const(_normal(256))])
    _add("LayerNormalization short", lambda n: [_normal(n // 32, 32), Const(_positive(32)), Const(_normal(32))])
    _add("SkipLayerNormalization", lambda n: [
        _normal(1, n // 256, 256), _normal(1, n // 256, 256), Const(_positive(256)), Const(_normal(256))
    ], domain=MICROSOFT)  # fmt: skip
    _add("RMSNormalization", lambda n: [_normal(n // 256, 256), Const(_positive(256))], opset=23)
    _add("SimplifiedLayerNormalization", lambda n: [_normal(n // 256, 256), Const(_positive(256))])
    _add("InstanceNormalization", lambda n: [
        _normal(1, 32, _root(n / 32, 2), _root(n / 32, 2)), Const(_positive(32)), Const(_normal(32))
    ])  # fmt: skip
    _add("GroupNormalization", lambda n: [
        _normal(1, 32, _root(n / 32, 2), _root(n / 32, 2)), Const(_positive(32)), Const(_normal(32))
    ], num_groups=8)  # fmt: skip
    _add("BatchNormalization", lambda n: [
        _normal(1, 32, _root(n / 32, 2), _root(n / 32, 2)),
        *(Const(array) for array in (_positive(32), _normal(32), _normal(32), _positive(32))),
    ])  # fmt: skip
    _add("MeanVarianceNormalization", lambda n: [_normal(4, 8, _root(n / 32, 2), _root(n / 32, 2))])
    _add("LpNormalization", lambda n: [_normal(n // 64, 64)], axis=-1, p=2)
    _add("LpNormalization L1", lambda n: [_normal(n // 64, 64)], axis=-1, p=1)
    _add("LRN", lambda n: [_normal(1, 32, _root(n / 32, 2), _root(n / 32, 2))], size=5)


def _convolutions() -> None:
    def conv(inputs: int, outputs: int, kernel: tuple[int, ...], group: int = 1) -> Operands:
        def operands(n: int) -> list[Operand]:
            products = outputs * inputs // group * math.prod(kernel)
            side = _root(max(32 * n / products, 4 ** len(kernel)), len(kernel))
            return [
                _normal(1, inputs, *[side] * len(kernel)),
                _weights(outputs, inputs // group, *kernel),
                Const(_normal(outputs)),
            ]

        return operands

    _add("Conv 3x3", conv(32, 32, (3, 3)), pads=[1] * 4)
    _add("Conv 3x3 stride 2", conv(32, 32, (3, 3)), pads=[1] * 4, strides=[2, 2])
    _add("Conv 1x1", conv(64, 64, (1, 1)))
    _add("Conv 7x7 of 3 channels", conv(3, 32, (7, 7)), pads=[3] * 4, strides=[2, 2])
    _add("Conv 5x5 dilated", conv(16, 16, (5, 5)), dilations=[2, 2], pads=[4] * 4)
    _add("Conv depthwise", conv(64, 64, (3, 3), 64), pads=[1] * 4, group=64)
    _add("Conv groups", conv(64, 64, (3, 3), 4), pads=[1] * 4, group=4)
    _add("Conv 1d", conv(32, 32, (5,)), pads=[2, 2])
    _add("Conv 3d", conv(16, 16, (3, 3, 3)), pads=[1] * 6)
    _add("Conv 3d stride 2", conv(16, 16, (3, 3, 3)), pads=[1] * 6, strides=[2] * 3)
    _add("Conv 3d 1x1x1", conv(32, 32, (1, 1, 1)))
    _add("Conv 3d of 3 channels", conv(3, 16, (3, 3, 3)), pads=[1] * 6)
    _add("Conv 3d depthwise", conv(16, 16, (3, 3, 3), 16), pads=[1] * 6, group=16)

    def transposed(inputs: int, outputs: int, kernel: tuple[int, ...], group: int = 1) -> Operands:
        def operands(n: int) -> list[Operand]:
            products = inputs * outputs // group * math.prod(kernel)
            side = _root(max(32 * n / products, 3 ** len(kernel)), len(kernel))
            weights = _weights(inputs, outputs // group, *kernel)
            return [_normal(1, inputs, *[side] * len(kernel)), weights, Const(_normal(outputs))]

        return operands

    _add("ConvTranspose 2x2", transposed(32, 32, (2, 2)), strides=[2, 2])
    _add("ConvTranspose 4x4", transposed(32, 32, (4, 4)), strides=[2, 2], pads=[1] * 4)
    _add("ConvTranspose 3x3", transposed(32, 32, (3, 3)), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
    _add("ConvTranspose 3x3 stride 1", transposed(32, 32, (3, 3)), pads=[1] * 4)
    _add("ConvTranspose 1d", transposed(32, 32, (4,)), strides=[2], pads=[1, 1])
    _add("ConvTranspose depthwise", transposed(32, 32, (4, 4), 32), strides=[2, 2], pads=[1] * 4, group=32)
    _add("ConvTranspose 3d", transposed(16, 16, (2, 2, 2)), strides=[2] * 3)
    _add("DeformConv", lambda n: [
        _normal(1, 16, _root(n / 64, 2), _root(n / 64, 2)), _weights(16, 16, 3, 3),
        _normal(1, 18, _root(n / 64, 2), _root(n / 64, 2)),
    ], pads=[1] * 4, opset=22)  # fmt: skip
    _add("Col2Im", lambda n: [
        _normal(1, 9 * 8, _root(n / 72, 2) ** 2), Const(np.full(2, _root(n / 72, 2) + 2, np.int64)), _ints(3, 3)
    ])  # fmt: skip


def _pooling() -> None:
    def picture(n: int, channels: int = 32) -> Array:
        return _normal(1, channels, _root(n / channels, 2), _root(n / channels, 2))

    def volume(n: int) -> Array:
        return _normal(1, 16, *[max(4, _root(n / 16, 3))] * 3)

    for op in ("MaxPool", "AveragePool", "LpPool"):
        _add(f"{op} 2x2", lambda n: [picture(n)], kernel_shape=[2, 2], strides=[2, 2])
        _add(f"{op} 3x3", lambda n: [picture(n)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        _add(f"{op} 3x3 stride 1", lambda n: [picture(n)], kernel_shape=[3, 3], pads=[1] * 4)
        _add(f"{op} 1d", lambda n: [_normal(1, 32, n // 32)], kernel_shape=[3], strides=[2])
        _add(f"{op} 3d", lambda n: [volume(n)], kernel_shape=[2] * 3, strides=[2] * 3)
    for op in ("MaxPool", "AveragePool"):
        _add(f"{op} 3d 3x3x3", lambda n: [volume(n)], kernel_shape=[3] * 3, strides=[1] * 3, pads=[1] * 6)
    _add("MaxPool int8", lambda n: [picture(n).astype(np.int8)], kernel_shape=[2, 2], strides=[2, 2])
    _add("MaxPool indices", lambda n: [picture(n)], kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        _add(op, lambda n: [picture(n)])
        _add(f"{op} 3d", lambda n: [volume(n)])

    def unpool(n: int) -> list[Operand]:
        side = _root(n / 16, 2)
        rows = np.arange(16 * side * side).reshape(1, 16, side, side)
        channel, row, column = np.unravel_index(rows, (16, side, side))
        return [_normal(1, 16, side, side), channel * 4 * side * side + 4 * side * row + 2 * column]

    _add("MaxUnpool", unpool, kernel_shape=[2, 2], strides=[2, 2])


def _products() -> None:
    _add("MatMul", lambda n: [_normal(*[_root(32 * n, 3)] * 2), _weights(*[_root(32 * n, 3)] * 2)])
    _add("MatMul two inputs", lambda n: [_normal(*[_root(32 * n, 3)] * 2), _normal(*[_root(32 * n, 3)] * 2)])
    _add("MatMul batched", lambda n: [_normal(max(1, n // 4096), 32, 64), _normal(max(1, n // 4096), 64, 32)])
    _add("MatMul vector", lambda n: [_normal(1, _root(n, 2)), _weights(_root(n, 2), _root(n, 2))])
    _add("MatMul int32", lambda n: [_integers(*[_root(n, 3)] * 2, dtype=np.int32) for _ in range(2)])
    _add("MatMul float64", lambda n: [_normal(*[_root(8 * n, 3)] * 2, dtype=np.float64) for _ in range(2)])
    _add("Gemm", lambda n: [
        _normal(32, _root(n, 2)), _weights(_root(n, 2), _root(n, 2)), Const(_normal(_root(n, 2)))
    ], transB=1)  # fmt: skip
    for equation, shapes in {
        "bij,bjk->bik": lambda s: ((s, s, s), (s, s, s)),
        "bhid,bhjd->bhij": lambda s: ((1, s, s, s), (1, s, s, s)),
        "ij,ij->i": lambda s: ((s * s, s), (s * s, s)),
        "ij->ji": lambda s: ((s * s, s),),
        "i,j->ij": lambda s: ((round(s**1.5),), (round(s**1.5),)),
        "bchw,cd->bdhw": lambda s: ((1, 16, s, s * 4), (16, 16)),
    }.items():
        _add(f"Einsum {equation}", lambda n, shapes=shapes: [_normal(*shape) for shape in shapes(_root(n, 3))],
             equation=equation)  # fmt: skip
    _add("MatMulInteger", lambda n: [
        _bytes(*[_root(32 * n, 3)] * 2), _byte_weights(*[_root(32 * n, 3)] * 2),
        _scalar(128, np.uint8), _scalar(0, np.int8),
    ])  # fmt: skip
    _add("QLinearMatMul", lambda n: [
        _bytes(*[_root(32 * n, 3)] * 2), _scalar(0.02), _scalar(128, np.uint8),
        _byte_weights(*[_root(32 * n, 3)] * 2), _scalar(0.02), _scalar(0, np.int8),
        _scalar(0.5), _scalar(128, np.uint8),
    ])  # fmt: skip

    _add("MatMulNBits", lambda n: [
        _normal(max(1, n // 256), 256), Const(_integers(256, 8, 16, low=0, high=256, dtype=np.uint8)), _weights(256, 8)
    ], domain=MICROSOFT, K=256, N=256, bits=4, block_size=32)  # fmt: skip

    def quantized(inputs: int, outputs: int, group: int, kernel: int) -> Operands:
        def operands(n: int) -> list[Operand]:
            side = _root(max(32 * n / (outputs * inputs // group * kernel**2), 16), 2)
            weights = _byte_weights(outputs, inputs // group, kernel, kernel)
            return [
                _bytes(1, inputs, side, side), _scalar(0.02), _scalar(128, np.uint8), weights, _scalar(0.01),
                _scalar(0, np.int8), _scalar(0.5), _scalar(128, np.uint8), Const(np.zeros(outputs, np.int32)),
            ]  # fmt: skip

        return operands

    _add("QLinearConv 3x3", quantized(32, 32, 1, 3), pads=[1] * 4)
    _add("QLinearConv 1x1", quantized(64, 64, 1, 1))
    _add("QLinearConv depthwise", quantized(64, 64, 64, 3), pads=[1] * 4, group=64)
    _add("QuantizeLinear", lambda n: [_normal(n), _scalar(0.02), _scalar(128, np.uint8)])
    _add("QuantizeLinear channels", lambda n: [
        _normal(1, 32, n // 32), Const(_positive(32)), Const(np.zeros(32, np.int8))
    ])  # fmt: skip
    _add("DequantizeLinear", lambda n: [_bytes(n), _scalar(0.02), _scalar(128, np.uint8)])
    _add("DynamicQuantizeLinear", lambda n: [_normal(n)], outputs=3)
    for op in ("QLinearAdd", "QLinearMul"):
        _add(op, lambda n: [
            _bytes(n), _scalar(0.02), _scalar(128, np.uint8), _bytes(n), _scalar(0.03), _scalar(100, np.uint8),
            _scalar(0.05), _scalar(128, np.uint8),
        ], domain=MICROSOFT)  # fmt: skip
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        _add(op, lambda n: [
            _bytes(n), _scalar(0.02), _scalar(128, np.uint8), _scalar(0.01), _scalar(100, np.uint8)
        ], domain=MICROSOFT)  # fmt: skip

    hidden = 128
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        _add(op, lambda n, gates=gates: [
            _normal(max(2, n // (16 * gates * hidden)), 1, hidden), _weights(1, gates * hidden, hidden),
            _weights(1, gates * hidden, hidden), Const(_normal(1, 2 * gates * hidden)),
        ], hidden_size=hidden)  # fmt: skip
    _add("Attention", lambda n: [_normal(1, 4, _root(n / 8, 2), 32) for _ in range(3)], opset=23)
    _add("RotaryEmbedding", lambda n: [
        _normal(1, 8, max(n // 512, 1), 64), Const(_normal(max(n // 512, 1), 32)), Const(_normal(max(n // 512, 1), 32)),
        Const(np.arange(max(n // 512, 1), dtype=np.int64)[None]),
    ], opset=23)  # fmt: skip


def _movement() -> None:
    for digits in (
        "10", "021", "102", "210", "120", "201", "0231", "0312", "0213", "0132", "3210", "2301", "0321", "02413",
    ):  # fmt: skip
        for dtype in ("float32", "int8", "int64"):
            if dtype == "float32" or digits in ("10", "0231", "0213"):
                _add(f"Transpose {digits} {dtype}", lambda n, digits=digits, dtype=dtype: [
                    _integers(*[_root(n, len(digits))] * len(digits), dtype=dtype)
                ], perm=[int(digit) for digit in digits])  # fmt: skip
    _add("Transpose 0231 of 3 channels", lambda n: [_normal(1, 3, _root(n / 3, 2), _root(n / 3, 2))], perm=[0, 2, 3, 1])
    _add("Transpose 0312 of 3 channels", lambda n: [_normal(1, _root(n / 3, 2), _root(n / 3, 2), 3)], perm=[0, 3, 1, 2])
    for dtype in ("float32", "int64"):
        _add(f"Concat first {dtype}", lambda n, dtype=dtype: [_integers(n // 128, 64, dtype=dtype)] * 2, axis=0)
        _add(f"Concat last {dtype}", lambda n, dtype=dtype: [_integers(n // 128, 64, dtype=dtype)] * 2, axis=1)
        _add(f"Split first {dtype}", lambda n, dtype=dtype: [_integers(n // 64, 64, dtype=dtype)], axis=0, outputs=2,
             num_outputs=2)  # fmt: skip
        _add(f"Split last {dtype}", lambda n, dtype=dtype: [_integers(n // 64, 64, dtype=dtype)], axis=1, outputs=2,
             num_outputs=2)  # fmt: skip
    _add("Concat last short", lambda n: [_normal(n // 4, 1)] * 4, axis=1)
    _add("Slice first", lambda n: [_normal(n // 32, 64), _ints(1), Const(np.array([n // 64])), _ints(0)])
    _add("Slice last", lambda n: [_normal(n // 64, 64), _ints(8), _ints(56), _ints(1)])
    _add("Slice strided", lambda n: [_normal(n // 64, 64), _ints(0), _ints(64), _ints(1), _ints(2)])
    _add("Slice backwards", lambda n: [_normal(n // 64, 64), _ints(-1), _ints(-65), _ints(1), _ints(-1)])
    _add("Expand rows", lambda n: [_normal(1, 64), Const(np.array([n // 64, 64]))])
    _add("Expand columns", lambda n: [_normal(n // 64, 1), Const(np.array([n // 64, 64]))])
    _add("Tile", lambda n: [_normal(n // 256, 64), _ints(2, 2)])
    _add("Tile last of 1", lambda n: [_normal(n // 64, 1), _ints(1, 64)])
    for op in ("DepthToSpace", "SpaceToDepth"):
        _add(op, lambda n: [_normal(1, 16, *[_root(n / 16, 2, 2)] * 2)], blocksize=2)
    _add("DepthToSpace CRD", lambda n: [_normal(1, 16, *[_root(n / 16, 2, 2)] * 2)], blocksize=2, mode="CRD")

    def rows(n: int) -> Array:
        return _integers(n // 64, low=0, high=1000)

    _add("Gather rows", lambda n: [Const(_normal(1000, 64)), rows(n)], axis=0)
    _add("Gather rows int64", lambda n: [Const(_integers(1000, 64)), rows(n)], axis=0)
    _add("Gather last", lambda n: [_normal(n // 64, 128), _integers(64, low=0, high=128)], axis=1)
    _add("Gather one", lambda n: [_normal(n // 64, 64), _scalar(3, np.int64)], axis=1)
    _add("Gather elements of 1", lambda n: [_normal(1000), _integers(n, low=0, high=1000)], axis=0)
    _add("GatherElements last", lambda n: [_normal(n // 64, 64), _integers(n // 64, 64, low=0, high=64)], axis=1)
    _add("GatherElements first", lambda n: [_normal(64, n // 64), _integers(64, n // 64, low=0, high=64)], axis=0)
    _add("GatherND", lambda n: [_normal(64, 64), _integers(n // 2, 2, low=0, high=64)])
    _add("GatherND rows", lambda n: [_normal(1000, 64), _integers(n // 64, 1, low=0, high=1000)])
    _add("ScatterElements last", lambda n: [
        _normal(n // 64, 64), np.argsort(_normal(n // 64, 64), axis=1), _normal(n // 64, 64)
    ], axis=1)  # fmt: skip
    _add("ScatterElements first", lambda n: [
        _normal(64, n // 64), np.argsort(_normal(64, n // 64), axis=0), _normal(64, n // 64)
    ], axis=0)  # fmt: skip
    _add("ScatterElements add", lambda n: [
        _normal(n // 64, 64), _integers(n // 64, 64, low=0, high=64), _normal(n // 64, 64)
    ], axis=1, reduction="add")  # fmt: skip
    _add("ScatterND rows", lambda n: [_normal(n // 64, 64), np.arange(n // 128)[:, None] * 2, _normal(n // 128, 64)])
    _add("ScatterND elements", lambda n: [
        _normal(n // 64, 64), np.stack(np.divmod(np.arange(n // 128) * 7 % (n // 64 * 64), 64), 1), _normal(n // 128)
    ])  # fmt: skip
    _add("TensorScatter", lambda n: [
        _normal(1, 4, max(n // 256, 2), 64), _normal(1, 4, 1, 64), Const(np.zeros(1, np.int64))
    ], opset=24)  # fmt: skip
    for mode in ("constant", "reflect", "edge", "wrap"):
        _add(f"Pad {mode}", lambda n: [
            _normal(1, 8, _root(n / 8, 2), _root(n / 8, 2)), _ints(0, 0, 1, 1, 0, 0, 1, 1)
        ], mode=mode)  # fmt: skip
    _add("Pad int8", lambda n: [
        _integers(1, 8, _root(n / 8, 2), _root(n / 8, 2), dtype=np.int8), _ints(0, 0, 1, 1, 0, 0, 1, 1)
    ])  # fmt: skip
    _add("Pad reflect 3d", lambda n: [
        _normal(4, *[max(_root(n / 4, 3), 3)] * 3), _ints(1, 2, 2, 2, 1, 2, 2, 2)
    ], mode="reflect")  # fmt: skip
    _add("Pad of computed sizes", lambda n: [_normal(_root(n, 2), _root(n, 2)), np.array([1, 1, 1, 1])])
    _add("ReverseSequence", lambda n: [
        _normal(n // 512, 8, 64), _integers(8, low=1, high=n // 512 + 1)
    ], batch_axis=1, time_axis=0)  # fmt: skip
    _add("Trilu", lambda n: [_normal(_root(n, 2), _root(n, 2))])
    _add("EyeLike", lambda n: [_normal(_root(n, 2), _root(n, 2))])
    _add("Range", lambda n: [np.array(0), np.array(n), np.array(1)])
    _add("ConstantOfShape", lambda n: [np.array([n])])
    _add("CenterCropPad", lambda n: [_normal(_root(n, 2) + 9, _root(n, 2) + 9), Const(np.full(2, _root(n, 2)))])


def _selection() -> None:
    _add("TopK", lambda n: [_normal(max(n // 1000, 1), 1000), _ints(10)], outputs=2)
    _add("TopK of one row", lambda n: [_normal(1, n), _ints(100)], outputs=2)
    _add("TopK half", lambda n: [_normal(max(n // 1000, 1), 1000), _ints(500)], outputs=2)
    _add("TopK sort", lambda n: [_normal(1, n // 4), Const(np.array([n // 4]))], outputs=2)
    _add("TopK first axis", lambda n: [_normal(100, n // 100), _ints(5)], axis=0, outputs=2)
    _add("TopK int64", lambda n: [_integers(max(n // 1000, 1), 1000), _ints(10)], outputs=2)
    _add("NonZero", lambda n: [np.maximum(_normal(n // 64, 64), 0)])
    _add("NonZero sparse", lambda n: [np.maximum(_normal(n // 64, 64) - np.float32(2.5), 0)])
    _add("NonZero bool", lambda n: [_bools(n)])
    _add("NonZero int64", lambda n: [_integers(n // 64, 64, low=0, high=2)])
    _add("OneHot", lambda n: [_integers(n // 64, low=0, high=64), _scalar(64, np.int64), Const(np.array([0, 1], "f4"))])
    _add("OneHot first axis", lambda n: [
        _integers(n // 64, low=0, high=64), _scalar(64, np.int64), Const(np.array([0, 1], "f4"))
    ], axis=0)  # fmt: skip
    _add("Compress", lambda n: [_normal(n // 64, 64), _bools(n // 64)], axis=0)
    _add("Compress elements", lambda n: [_normal(n), _bools(n)])
    _add("Unique int64", lambda n: [_integers(n // 4, low=0, high=1000)], outputs=4)
    _add("Unique float32", lambda n: [_normal(n // 4)], outputs=4)
    _add("Unique unsorted", lambda n: [_integers(n // 4, low=0, high=1000)], outputs=4, sorted=0)
    _add("Unique rows", lambda n: [_integers(n // 64, 8, low=0, high=3)], outputs=4, axis=0)

    def boxes(count: int) -> Array:
        corner = _rng(count).uniform(0, 100, (1, count, 2)).astype(np.float32)
        size = _rng(count + 1).uniform(1, 30, (1, count, 2)).astype(np.float32)
        return np.concatenate((corner, corner + size), -1)

    _add("NonMaxSuppression", lambda n: [
        boxes(_root(n, 2) * 4), np.abs(np.tanh(_normal(1, 1, _root(n, 2) * 4))), _ints(200),
        Const(np.array([0.5], "f4")),
    ])  # fmt: skip
    _add("NonMaxSuppression classes", lambda n: [
        boxes(_root(n, 2)), np.abs(np.tanh(_normal(1, 20, _root(n, 2)))), _ints(50), Const(np.array([0.5], "f4")),
        Const(np.array([0.3], "f4")),
    ])  # fmt: skip
    _add("RandomNormalLike", lambda n: [_normal(n)], is_random=True)
    _add("RandomUniformLike", lambda n: [_normal(n)], is_random=True)
    _add("Bernoulli", lambda n: [np.abs(np.tanh(_normal(n)))], is_random=True)
    _add("Multinomial", lambda n: [_normal(1, 100)], is_random=True, sample_size=100)


def _pictures() -> None:
    def picture(n: int, channels: int = 8) -> Array:
        return _normal(1, channels, _root(n / channels, 2), _root(n / channels, 2))

    doubled = Const(np.array([1, 1, 2, 2], np.float32))
    shrunk = Const(np.array([1, 1, 0.6, 0.6], np.float32))
    for mode in ("nearest", "linear", "cubic"):
        _add(f"Resize {mode} x2", lambda n: [picture(n / 4), None, doubled], mode=mode)
        _add(f"Resize {mode} x0.6", lambda n: [picture(n), None, shrunk], mode=mode)
        if mode != "cubic":  # which ONNX Runtime has for floats only
            _add(f"Resize {mode} x2 of bytes", lambda n: [np.abs(picture(n / 4) * 50).astype(np.uint8), None, doubled],
             mode=mode)  # fmt: skip
    _add("Resize nearest asymmetric", lambda n: [picture(n / 4), None, doubled], mode="nearest",
         coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    _add("Resize linear corners", lambda n: [picture(n / 4), None, doubled], mode="linear",
         coordinate_transformation_mode="align_corners")  # fmt: skip
    _add("Resize linear antialias", lambda n: [picture(n), None, shrunk], mode="linear", antialias=1)
    _add("Resize nearest channels last", lambda n: [
        _normal(1, _root(n / 64, 2), _root(n / 64, 2), 16), None, Const(np.array([1, 2, 2, 1], np.float32))
    ], mode="nearest")  # fmt: skip
    _add("Resize linear channels last", lambda n: [
        _normal(1, _root(n / 64, 2), _root(n / 64, 2), 16), None, Const(np.array([1, 2, 2, 1], np.float32))
    ], mode="linear")  # fmt: skip
    for mode in ("nearest", "linear"):
        _add(f"Resize {mode} 3d", lambda n: [
            _normal(1, 4, *[_root(n / 32, 3)] * 3), None, Const(np.array([1, 1, 2, 2, 2], np.float32))
        ], mode=mode)  # fmt: skip
        _add(f"Resize {mode} 1d", lambda n: [
            _normal(1, 16, n // 32), None, Const(np.array([1, 1, 2], np.float32))
        ], mode=mode)  # fmt: skip

    def grid(*shape: int) -> Array:
        return _rng(*shape).uniform(-1.1, 1.1, shape).astype(np.float32)

    for mode in ("linear", "nearest", "cubic"):
        _add(f"GridSample {mode}", lambda n: [
            picture(n), grid(1, _root(n / 8, 2), _root(n / 8, 2), 2)
        ], mode=mode)  # fmt: skip
    _add("GridSample border", lambda n: [picture(n), grid(1, _root(n / 8, 2), _root(n / 8, 2), 2)],
         padding_mode="border", align_corners=1)  # fmt: skip
    _add("GridSample reflection", lambda n: [picture(n), grid(1, _root(n / 8, 2), _root(n / 8, 2), 2)],
         padding_mode="reflection")  # fmt: skip
    _add("GridSample 3d", lambda n: [
        _normal(1, 4, *[_root(n / 4, 3)] * 3), grid(1, *[_root(n / 4, 3)] * 3, 3)
    ])  # fmt: skip
    _add("AffineGrid", lambda n: [_normal(1, 2, 3), Const(np.array([1, 1, _root(n / 2, 2), _root(n / 2, 2)]))])

    def regions(count: int) -> Array:
        corner = _rng(count).uniform(0, 20, (count, 2)).astype(np.float32)
        return np.concatenate((corner, corner + np.float32(12)), -1)

    for mode in ("avg", "max"):
        _add(f"RoiAlign {mode}", lambda n: [
            _normal(1, 16, 32, 32), regions(max(n // 3136, 1)), np.zeros(max(n // 3136, 1), np.int64)
        ], output_height=7, output_width=7, sampling_ratio=2, mode=mode)  # fmt: skip
    _add("MaxRoiPool", lambda n: [
        _normal(1, 16, 32, 32),
        np.concatenate((np.zeros((max(n // 3136, 1), 1), np.float32), regions(max(n // 3136, 1))), 1),
    ], pooled_shape=[7, 7])  # fmt: skip
    _add("DFT", lambda n: [_normal(max(n // 1024, 1), 1024, 1), None, _scalar(1, np.int64)], opset=20)
    _add("DFT inverse", lambda n: [_normal(max(n // 1024, 1), 1024, 2), None, _scalar(1, np.int64)], inverse=1,
         opset=20)  # fmt: skip
    # ONNX Runtime's result is 2e-4 of the scale from that in float64.
    _add("DFT of 1000", lambda n: [_normal(max(n // 1000, 1), 1000, 1), None, _scalar(1, np.int64)], opset=20,
         tolerance=1e-3)  # fmt: skip
    _add("STFT", lambda n: [_normal(1, max(n, 1024), 1), _scalar(256, np.int64), Const(_positive(512))])


def _learning() -> None:
    _add("Det", lambda n: [_normal(max(n // 64, 1), 8, 8)])

    def trees(n: int) -> list[Operand]:
        return [_normal(max(n // 100, 1), 8)]

    count, depth = 50, 6
    nodes, leaves = 2**depth - 1, 2**depth
    size = nodes + leaves
    inner = np.arange(size) < nodes
    _add("TreeEnsembleRegressor", trees, domain=ML, n_targets=1,
         nodes_treeids=np.repeat(np.arange(count), size).tolist(), nodes_nodeids=list(range(size)) * count,
         nodes_featureids=(np.arange(size * count) * 5 % 8).tolist(),
         nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist() * count,
         nodes_values=_normal(size * count).tolist(), nodes_hitrates=[1.0] * (size * count),
         nodes_missing_value_tracks_true=[0] * (size * count),
         nodes_truenodeids=np.where(inner, 2 * np.arange(size) + 1, 0).tolist() * count,
         nodes_falsenodeids=np.where(inner, 2 * np.arange(size) + 2, 0).tolist() * count,
         target_treeids=np.repeat(np.arange(count), leaves).tolist(),
         target_nodeids=list(range(nodes, size)) * count, target_ids=[0] * (leaves * count),
         target_weights=_normal(leaves * count).tolist())  # fmt: skip
    _add("SVMClassifier", lambda n: [_normal(max(n // 1000, 1), 8)], domain=ML, outputs=2, kernel_type="RBF",
         kernel_params=[0.5, 0.0, 3.0], classlabels_ints=[0, 1, 2], vectors_per_class=[20, 20, 20],
         support_vectors=_normal(60 * 8).tolist(), coefficients=_normal(120).tolist(), rho=[0.1, 0.2, 0.3],
         prob_a=[-1.0, -1.1, -1.2], prob_b=[0.1, 0.0, -0.1], post_transform="NONE")  # fmt: skip
    _add("LinearRegressor", lambda n: [_normal(n // 64, 64)], domain=ML, coefficients=_normal(64).tolist(),
         intercepts=[0.5])  # fmt: skip
    _add("Scaler", lambda n: [_normal(n // 64, 64)], domain=ML, offset=_normal(64).tolist(),
         scale=_positive(64).tolist())  # fmt: skip
    _add("Normalizer", lambda n: [_normal(n // 64, 64)], domain=ML, norm="L2")


for _cases in (
    _elementwise, _reductions, _norms, _convolutions, _pooling, _products, _movement, _selection, _pictures, _learning,
):  # fmt: skip
    _cases()
