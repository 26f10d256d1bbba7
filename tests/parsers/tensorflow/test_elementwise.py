"""Elementwise ops against numpy, by TensorFlow's definitions."""

import math
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import Case, check
from tests.parsers.tensorflow.graphs import TfBuilder, Type

RNG = np.random.default_rng(7)
X = (RNG.standard_normal((3, 5)) * 2).astype(np.float32)
Y = RNG.standard_normal((1, 5)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
EDGES = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38])
INTS = (np.int8, np.int16, np.int32, np.int64)


def _each(function):
    return lambda *arrays: np.vectorize(function, otypes=[arrays[0].dtype])(*[a.astype(np.float64) for a in arrays])


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def test_ops_with_an_onnx_equivalent(tmp_path: Path) -> None:
    unit = np.tanh(X)
    table = {
        "Abs": np.abs, "Acos": (np.arccos, unit), "Asin": (np.arcsin, unit), "Atan": np.arctan, "Sinh": np.sinh,
        "Acosh": (np.arccosh, POSITIVE + 1), "Asinh": np.arcsinh, "Atanh": (np.arctanh, unit), "Cosh": np.cosh,
        "Ceil": np.ceil, "Floor": np.floor, "Round": np.rint, "Rint": np.rint, "Cos": np.cos, "Sin": np.sin,
        "Tan": np.tan, "Tanh": np.tanh, "Exp": np.exp, "Log": (np.log, POSITIVE), "Sqrt": (np.sqrt, POSITIVE),
        "Neg": np.negative, "Sign": np.sign, "Square": np.square, "Reciprocal": np.reciprocal, "Inv": np.reciprocal,
        "Rsqrt": (lambda x: 1 / np.sqrt(x), POSITIVE), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Erf": _each(math.erf), "Softplus": lambda x: np.logaddexp(x, np.float32(0)),
        "Softsign": lambda x: x / (1 + np.abs(x)), "Relu": lambda x: np.maximum(x, 0),
        "Relu6": lambda x: np.clip(x, 0, 6), "Elu": lambda x: np.where(x > 0, x, np.expm1(x)),
        "Selu": lambda x: (1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))).astype("f"),
        "IsNan": (np.isnan, EDGES), "IsInf": (np.isinf, EDGES), "IsFinite": (np.isfinite, EDGES),
        "LeakyRelu": lambda x: np.where(x > 0, x, np.float32(0.2) * x), "ZerosLike": np.zeros_like,
        "OnesLike": np.ones_like, "Identity": lambda x: x,
    }  # fmt: skip
    cases = [
        Case(op, [entry[1]], entry[0]) if isinstance(entry, tuple) else Case(op, [X], entry)
        for op, entry in table.items()
    ]
    pairs = {
        "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "RealDiv": np.divide, "Div": np.divide,
        "Maximum": np.maximum, "Minimum": np.minimum, "Less": np.less, "LessEqual": np.less_equal,
        "Greater": np.greater, "GreaterEqual": np.greater_equal, "Equal": np.equal, "NotEqual": np.not_equal,
        "SquaredDifference": lambda x, y: (x - y) ** 2,
    }  # fmt: skip
    cases += [Case(op, [X, Y], function) for op, function in pairs.items()]
    cases += [
        Case("Pow", [POSITIVE, Y], np.power),
        Case("LeakyRelu", [X], lambda x: np.where(x > 0, x, np.float32(0.5) * x), {"alpha": 0.5}),
        Case("ApproximateEqual", [X, X + np.float32(0.01)], X == X, {"tolerance": 0.1}),
        Case("AddN", [X, X, X], lambda x, y, z: x + y + z, {"N": 3}),
        Case("BiasAdd", [X, Y[0]], np.add),
        Case("LogicalNot", [X > 0], X <= 0),
        Case("LogicalAnd", [X > 0, Y > 0], np.logical_and),
        Case("LogicalOr", [X > 0, Y > 0], np.logical_or),
        Case("ClipByValue", [X, np.float32(-0.5), np.float32(1)], lambda x, a, b: np.clip(x, a, b)),
        Case("ClipByValue", [X, -np.abs(X) / 2, np.abs(X) / 3], lambda x, a, b: np.clip(x, a, b)),
        Case("ClipByValue", [X, np.float32(1), np.float32(-1)], np.ones_like(X)),
        Case("Select", [X[:, 0] > 0, X, -X], lambda c, x, y: np.where(c[:, None], x, y)),
        Case("Select", [X > 0, X, -X], np.where),
        Case("Select", [np.array(True), X, -X], X),
        Case("Select", [X[0] > 0, X[0], -X[0]], np.where),
        Case("SelectV2", [X[:, :1] > 0, X, Y], np.where),
        Case("Softmax", [X], lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
        Case("LogSoftmax", [X], lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)), tolerance=1e-5),
    ]
    check(tmp_path, cases)


def test_quotients_and_remainders(tmp_path: Path) -> None:
    x, y = np.float32([7, -7, 7, -7, 6, -6, 0, 5.5]), np.float32([3, 3, -3, -3, 3, 3, -2, 0.5])
    cases = [
        Case("FloorDiv", [x, y], np.floor_divide),
        Case("FloorMod", [x, y], np.mod),
        Case(
            "FloorMod", [np.float32([5, -5, np.inf]), np.float32([np.inf, np.inf, 3])], np.float32([5, np.inf, np.nan])
        ),
        Case("Mod", [x, y], np.fmod),
        Case("TruncateMod", [x, y], np.fmod),
        Case("DivNoNan", [X, np.float32([0, 1, -0.0, 2, 0])], lambda x, y: np.where(y == 0, 0, x / y).astype("f")),
        Case("MulNoNan", [np.float32([np.inf, np.nan, 2]), np.float32([0, 0, 3])], np.float32([0, 0, 6])),
        Case("Xdivy", [np.float32([0, 1, 0]), np.float32([0, 2, np.nan])], np.float32([0, 0.5, 0])),
        Case("Xlogy", [np.float32([0, 2, 0]), np.float32([0, 2, np.nan])], np.float32([0, 2 * np.log(2), 0])),
        Case("Xlog1py", [np.float32([0, 2]), np.float32([-1, 1e-9])], np.float32([0, 2e-9])),
    ]
    for dtype in INTS:
        a = np.array([7, -7, 7, -7, 6, -6, 0, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype)
        b = np.array([3, 3, -3, -3, 3, 3, -2, 3, -2], dtype)
        cases += [
            Case("FloorDiv", [a, b], np.floor_divide),
            Case("FloorMod", [a, b], np.mod),
            Case(
                "TruncateDiv",
                [a, b],
                np.array([_truncated(p, q) for p, q in zip(a.tolist(), b.tolist(), strict=True)], dtype),
            ),
        ]
        cases.append(Case("Div", cases[-1].inputs, cases[-1].expected))
        if dtype in (np.int32, np.int64):
            cases.append(Case("Mod", [a, b], np.fmod))
    u = np.array([200, 7, 0], np.uint8)
    cases += [Case("FloorDiv", [u, np.uint8(3)], u // 3), Case("FloorMod", [u, np.uint8(3)], u % 3)]
    check(tmp_path, cases)


def test_integers_and_bits(tmp_path: Path) -> None:
    cases = []
    for dtype in (*INTS, np.uint8, np.uint16, np.uint32, np.uint64):
        info = np.iinfo(dtype)
        a = np.array([info.min, info.max, 5, 1, 100], dtype)
        b = np.array([1, 3, 2, 200 if info.max > 200 else 100, 0], dtype)
        shifts = [min(int(item), info.bits - 1) for item in b]
        left = np.array(
            [(int(item) << shift) & (2**info.bits - 1) for item, shift in zip(a, shifts, strict=True)], object
        )
        cases += [
            Case("LeftShift", [a, b], left.astype(f"uint{info.bits}").astype(dtype)),
            Case(
                "RightShift",
                [a, b],
                np.array([int(item) >> shift for item, shift in zip(a, shifts, strict=True)], dtype),
            ),
            Case("BitwiseAnd", [a, b], a & b),
            Case("BitwiseXor", [a, b], a ^ b),
            Case("Invert", [a], ~a),
            Case("Maximum", [a, b], np.maximum),
            Case("Less", [a, b], np.less),
            Case("Equal", [a, b], np.equal),
            Case("AddV2", [a, b], np.add),
            Case("Mul", [a, b], np.multiply),
            Case("SelectV2", [a > b, a, b], np.where),
        ]
        cases.append(Case("Relu6", [a], np.clip(a, 0, 6)))
        cases.append(Case("Relu", [a], np.maximum(a, 0)))
        if info.min:
            cases += [Case("Sign", [a], np.sign(a)), Case("Neg", [a], -a), Case("Relu", [a], np.maximum(a, 0))]
        if info.bits > 8 and info.min:
            cases += [
                Case("Pow", [np.array([3, 2, 0], dtype), np.array([4, 0, 0], dtype)], np.array([81, 1, 1], dtype))
            ]
    check(tmp_path, cases)


def test_functions_without_an_onnx_equivalent(tmp_path: Path) -> None:
    small = np.float32([1e-10, -1e-10, 1e-7, -3e-5, 1e-3, 0.1, -0.3, 0.6, -0.9, 1.5, 20, -0.0, 0])
    tails = np.float32([-4, -1, -0.1, 0, 0.1, 0.5, 1, 2, 4, 9, np.inf, -np.inf, np.nan])
    p = np.array([1e-30, 1e-5, 0.01, 0.1, 0.14, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999])
    normal = np.array([NormalDist().inv_cdf(item) for item in p])
    q = np.array([1e-9, 1e-3, 0.3, -0.5, 0.9, -0.999])
    inverse = np.array([NormalDist().inv_cdf(0.5 + item / 2) / math.sqrt(2) for item in q])
    inverse[0] = 1e-9 * math.sqrt(math.pi) / 2
    gammas = np.array([0.1, 0.5, 1, 1.5, 2, 3, 10, 100.5, -0.5, -1.5, -2.3])
    cases = [
        Case("Log1p", [small], np.log1p),
        Case("Log1p", [EDGES], np.log1p),
        Case("Expm1", [small], np.expm1),
        Case("Expm1", [EDGES], np.expm1),
        Case("Log1p", [small.astype(np.float64)], np.log1p),
        Case("Expm1", [small.astype(np.float64)], np.expm1),
        Case("Erfc", [tails], _each(math.erfc)),
        Case("Erfc", [tails.astype(np.float64)], _each(math.erfc)),
        Case("Ndtri", [p.astype("f")], [NormalDist().inv_cdf(float(item)) for item in p.astype("f")]),
        Case("Ndtri", [p], normal),
        Case("Ndtri", [np.array([0.0, 1, 1.5])], np.array([-np.inf, np.inf, np.nan])),
        Case("Erfinv", [q], inverse, tolerance=1e-9),
        Case("Erfinv", [q.astype("f")], inverse.astype("f"), tolerance=1e-5),
        Case("Erfinv", [np.float32([1, -1, 2, 0])], np.float32([np.inf, -np.inf, np.nan, 0])),
        Case("Lgamma", [gammas], _each(math.lgamma), tolerance=1e-11),
        Case("Lgamma", [np.float32([0, -1, np.inf, -2])], np.float32([np.inf] * 4)),
        Case("Digamma", [np.array([1, 0.5, 10, -0.5])],
             np.array([-0.5772156649015329, -1.9635100260214235, 2.251752589066721, 0.03648997397857652]),
             tolerance=1e-11),
    ]  # fmt: skip
    cases[8] = Case("Ndtri", [p.astype("f")], np.float32(cases[8].expected))
    grid = np.float32([0, -0.0, 1, -1, 2, -2, np.inf, -np.inf, np.nan, 1e-20])
    cases.append(Case("Atan2", [np.repeat(grid, 10), np.tile(grid, 10)], np.arctan2))
    check(tmp_path, cases)


def test_casts(tmp_path: Path) -> None:
    x = np.float32([1.9, -1.9, 0, 0.3, -0.3, 100.5])
    names = ["float16", "float64", "int8", "int16", "int32", "int64", "bool"]
    cases = [Case("Cast", [x], x.astype(name), {"DstT": Type(name)}) for name in names]
    cases += [Case("Cast", [np.float32([np.nan, 0.5])], np.array([True, True]), {"DstT": Type("bool")})]
    wide = np.array([300, -1, 65537, 127])
    cases += [
        Case("Cast", [wide], wide.astype(name), {"DstT": Type(name)}) for name in ("int8", "uint8", "uint16", "int32")
    ]
    cases += [Case("Cast", [wide > 0], (wide > 0).astype("f"), {"DstT": Type("float32")})]
    check(tmp_path, cases)


def test_unknown_and_empty_sizes(tmp_path: Path) -> None:
    cases = [
        Case(op, [x, y], function, is_dynamic=True)
        for op, function in {"FloorMod": np.mod, "Atan2": np.arctan2, "Maximum": np.maximum}.items()
        for x, y in ((X, Y), (X[:0], Y))
    ]
    cases += [Case(op, [X[:0]], X[:0]) for op in ("Log1p", "Expm1", "Erfc", "Square", "Relu6")]
    check(tmp_path, cases)


def test_equality_of_incompatible_shapes_is_false_if_the_graph_allows_it(tmp_path: Path) -> None:
    attrs = {"incompatible_shape_error": False}
    check(
        tmp_path,
        [
            Case("Equal", [X, X[:, :4]], np.array(False), attrs),
            Case("NotEqual", [X, X[:, :4]], np.array(True), attrs),
            Case("Equal", [X, Y], np.equal, attrs),
            Case("NotEqual", [X, X], np.not_equal, {"incompatible_shape_error": True}),
        ],
    )
    with pytest.raises(AtcError) as caught:
        check(tmp_path, [Case("Equal", [X, X[:, :4]], np.array(False))])
    assert caught.value.code == "EZ8888"


def test_strings_and_complex_numbers_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    z = g.input("z", "complex64", (2,))
    g.add("AddV2", z, z, name="sum")
    with pytest.raises(AtcError, match="complex") as caught:
        g.run(tmp_path, {}, "sum")
    assert caught.value.code == "E10055"
