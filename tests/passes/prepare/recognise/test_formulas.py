"""Formulas that passes replace by one op: each spelling, on ordinary values and on those at which formulas differ."""

from __future__ import annotations

import re

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from atcpy import InferenceSession
from atcpy.om import writer
from atcpy.ops.custom import CustomOps
from atcpy.options import ParseOptions, convert_options
from atcpy.passes.pass_manager import PassManager
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import compile_model
from atcpy.stages.prepare import prepare

NUMBERS = {
    "zero": 0.0, "one": 1.0, "two": 2.0, "three": 3.0, "six": 6.0, "half": 0.5, "minus": -1.0, "sixth": 1 / 6,
    "small": 0.044715, "root": 0.7978845608, "a": 0.3, "b": 1.702, "root_two": 2**0.5, "root_half": 0.5**0.5,
}  # fmt: skip
HEAD = '<ir_version: 10, opset_import: ["" : 21]> formula (float[N,4] x) => (float[N,4] y) <{constants}> {{ {body} }}'

SPELLINGS = {
    "Gelu": [
        "d = Div(x, root_two) e = Erf(d) s = Add(e, one) h = Mul(x, half) y = Mul(h, s)",
        "d = Mul(root_half, x) e = Erf(d) s = Add(one, e) m = Mul(s, x) y = Div(m, two)",
        "d = Mul(x, root_half) e = Erf(d) s = Add(one, e) h = Mul(half, s) y = Mul(x, h)",
        "p = Pow(x, three) q = Mul(small, p) s = Add(x, q) i = Mul(root, s) "
        "t = Tanh(i) b1 = Add(one, t) h = Mul(half, x) y = Mul(h, b1)",
        "p = Mul(x, x) q = Mul(p, x) r = Mul(q, small) s = Add(r, x) i = Mul(s, root) "
        "t = Tanh(i) b1 = Add(t, one) h = Mul(b1, x) y = Mul(half, h)",
        "p = Pow(x, two) q = Mul(p, small) f = Add(q, one) r = Mul(x, root) i = Mul(f, r) "
        "t = Tanh(i) b1 = Add(t, one) h = Mul(half, b1) y = Mul(h, x)",
        "p = Pow(x, two) q = Mul(p, x) r = Mul(small, q) s = Add(x, r) i = Mul(s, root) "
        "t = Tanh(i) b1 = Add(t, one) h = Div(x, two) y = Mul(h, b1)",
    ],
    "Sigmoid": [
        "n = Neg(x) e = Exp(n) b1 = Add(e, one) y = Div(one, b1)",
        "n = Mul(minus, x) e = Exp(n) b1 = Add(one, e) y = Reciprocal(b1)",
    ],
    "Swish": [
        "s = Sigmoid(x) y = Mul(s, x)",
        "m = Mul(x, b) s = Sigmoid(m) y = Mul(x, s)",
        "n = Neg(x) e = Exp(n) b1 = Add(one, e) y = Div(x, b1)",
        "n = Mul(x, minus) e = Exp(n) b1 = Add(one, e) y = Div(x, b1)",
    ],
    "HardSigmoid": [
        "p = Add(x, three) c = Clip(p, zero, six) y = Div(c, six)",
        "p = Add(three, x) r = Relu(p) c = Min(r, six) y = Mul(sixth, c)",
        "m = Mul(a, x) p = Add(half, m) y = Clip(p, zero, one)",
    ],
    "HardSwish": [
        "p = Add(x, three) c = Clip(p, zero, six) m = Mul(x, c) y = Div(m, six)",
        "p = Add(x, three) c = Clip(p, zero, six) d = Div(c, six) y = Mul(d, x)",
        "p = Add(x, three) c = Clip(p, zero, six) d = Mul(x, sixth) y = Mul(d, c)",
        "g = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x) y = Mul(x, g)",
    ],
    "Softplus": ["e = Exp(x) s = Add(one, e) y = Log(s)"],
    "Softsign": ["d = Abs(x) s = Add(d, one) y = Div(x, s)"],
    "Mish": [
        "p = Softplus(x) t = Tanh(p) y = Mul(x, t)",
        "e = Exp(x) s = Add(e, one) p = Log(s) t = Tanh(p) y = Mul(t, x)",
    ],
    "LeakyRelu": [
        "s = Mul(x, a) y = Max(x, s)",
        "s = Mul(x, a) c = GreaterOrEqual(x, zero) y = Where(c, x, s)",
        "s = Mul(a, x) c = Greater(zero, x) y = Where(c, s, x)",
        "r = Relu(x) n = Neg(x) l = Relu(n) s = Mul(a, l) y = Sub(r, s)",
        "r = Relu(x) l = Min(x, zero) s = Mul(l, a) y = Add(r, s)",
        "r = Relu(x) l = Min(zero, x) s = Mul(a, l) y = Add(s, r)",
    ],
    "Relu": ["y = Max(zero, x)", "r = Relu(x) y = Relu(r)", "r = Max(x, minus) y = Max(r, zero)"],
    "Max": ["m = Max(x, one) y = Max(two, m)"],
    "Min": ["m = Min(x, one) y = Min(two, m)"],
    "Clip": [
        "r = Relu(x) y = Min(r, six)",
        "m = Min(x, two) y = Max(m, minus)",
        "m = Max(x, minus) y = Min(two, m)",
        "r = Clip(x, minus, two) y = Relu(r)",
        "r = Clip(x, minus, two) y = Clip(r, zero)",
    ],
    "Elu": [
        "c = Greater(x, zero) e = Exp(x) m = Sub(e, one) s = Mul(b, m) y = Where(c, x, s)",
        "r = Relu(x) e = Exp(x) m = Sub(e, one) s = Mul(b, m) l = Min(s, zero) y = Add(r, l)",
    ],
    "Celu": [
        "r = Max(x, zero) d = Div(x, a) e = Exp(d) m = Sub(e, one) s = Mul(a, m) l = Min(zero, s) y = Add(r, l)",
    ],
    "Selu": ["e = Elu<alpha = 1.5>(x) y = Mul(b, e)"],
    "ThresholdedRelu": ["c = Greater(x, a) y = Where(c, x, zero)"],
}  # fmt: skip
CASES = [(kind, body) for kind, bodies in SPELLINGS.items() for body in bodies]
SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-30, -1e-30, 60.0, -60.0, 3.0, -3.0, 6.0]
"""Finite values stay where e^x is finite: there the formulas are defined as the ops are."""


X = np.concatenate([np.array(SPECIAL), np.random.default_rng(1).standard_normal(52) * 3]).astype(np.float32)
X = X.reshape(-1, 4)


def constants_of(body: str) -> list[str]:
    names = set(body.replace(",", " ").replace("(", " ").replace(")", " ").split())
    return [name for name in NUMBERS if name in names]


def model_of(body: str, **changed: float) -> onnx.ModelProto:
    numbers = {**NUMBERS, **changed}
    constants = ", ".join(f"float {name} = {{{numbers[name]}}}" for name in constants_of(body))
    return parser.parse_model(HEAD.format(constants=constants, body=body))


def kinds_of(model: onnx.ModelProto) -> list[str]:
    """The ops that preparation leaves."""
    options = convert_options({"debug": True})
    graph = parse(model, options.parse, CustomOps()).graph
    prepare(graph, PassManager(options))
    return [node.op_type for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]


def check_results(model: onnx.ModelProto) -> None:
    """Fails unless the compiled model computes what ONNX Runtime does."""
    oracle = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = oracle.run(None, {"x": X})
    compiled, _ = compile_model(model, convert_options({"input_shape": f"x:{X.shape[0]},4"}), None)
    (actual,) = InferenceSession(writer.to_bytes(compiled), threads=1).run(None, {"x": X})
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize(("kind", "body"), CASES)
def test_a_formula_becomes_one_node_with_the_same_results(kind: str, body: str) -> None:
    model = model_of(body)
    assert kinds_of(model) == [kind]
    check_results(model)


def near(value: float) -> float:
    """Another number, so near that a formula with it looks alike, so far that results differ."""
    return value * 1.01 if value else 0.01


@pytest.mark.parametrize(("kind", "body"), CASES)
def test_a_formula_with_another_number_keeps_its_results(kind: str, body: str) -> None:
    for name in constants_of(body):
        check_results(model_of(body, **{name: near(NUMBERS[name])}))
    for literal in re.finditer(r"(?<== )\d+\.\d+", body):
        check_results(model_of(f"{body[: literal.start()]}{near(float(literal[0]))}{body[literal.end() :]}"))


@pytest.mark.parametrize(
    ("body", "a", "left"),
    [
        ("s = Mul(x, a) y = Max(x, s)", 0.001, ["LeakyRelu"]),
        ("s = Mul(x, a) y = Max(x, s)", 0.999, ["LeakyRelu"]),
        ("s = Mul(x, a) y = Max(x, s)", 1.001, ["Mul", "Max"]),
        ("s = Mul(x, a) y = Max(x, s)", 0, ["Mul", "Max"]),
        ("s = Mul(x, a) y = Max(x, s)", -0.001, ["Mul", "Max"]),
    ],
)
def test_a_formula_ends_where_another_function_begins(body: str, a: float, left: list[str]) -> None:
    model = model_of(body, a=a)
    assert kinds_of(model) == left
    check_results(model)


@pytest.mark.parametrize(
    ("body", "numbers", "left"),
    [
        ("y = PRelu(x, a)", {"a": 0.25}, ["LeakyRelu"]),
        ("y = PRelu(x, a)", {"a": 0.001}, ["PRelu"]),
        ("c = Greater(x, a) y = Where(c, x, zero)", {"a": 0.1, "zero": 0}, ["Greater", "Where"]),
        ("s = Mul(x, a) g = Sigmoid(s) y = Mul(x, g)", {"a": 1.702}, ["Mul", "Sigmoid", "Mul"]),
        (
            "d = Div(x, a) e = Erf(d) p = Add(e, one) h = Mul(p, b) y = Mul(x, h)",
            {"a": 1.4142135, "one": 1, "b": 0.5},
            ["Div", "Erf", "Add", "Mul", "Mul"],
        ),
        (
            "d = Div(x, a) e = Erf(d) p = Add(e, one) h = Mul(p, b) y = Mul(x, h)",
            {"a": 1.4142135623730951, "one": 1, "b": 0.5},
            ["Gelu"],
        ),
    ],
)
def test_float64_keeps_its_digits(body: str, numbers: dict[str, float], left: list[str]) -> None:
    constants = ", ".join(f"double {name} = {{{value}}}" for name, value in numbers.items())
    head = '<ir_version: 10, opset_import: ["" : 21]> m (double[4] x) => (double[4] y)'
    graph = parse(parser.parse_model(f"{head} <{constants}> {{ {body} }}"), ParseOptions(), CustomOps()).graph
    prepare(graph, PassManager())
    assert [node.op_type for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}] == left
