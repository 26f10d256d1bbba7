"""ai.onnx.preview.training: Gradient is expanded to ordinary nodes, optimizers are split by tensor."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper

import atcpy
from atcpy.errors import AtcError
from atcpy.ir.tensor import Array

HEAD = '<ir_version: 10, opset_import: ["" : 21, "ai.onnx.preview.training" : 1]>\n'
GRADIENT = "ai.onnx.preview.training.Gradient"
X = np.array([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]])
ROW = np.array([1.5, -0.5, 0.25])

FUNCTIONS: dict[str, tuple[str, Callable[[Array, Array], Array]]] = {
    "Add": ("t = Add(x, r)", lambda x, r: x + r),
    "Sub": ("t = Sub(r, x)", lambda x, r: r - x),
    "Mul": ("t = Mul(x, r)", lambda x, r: x * r),
    "Div": ("t = Div(x, r)", lambda x, r: x / r),
    "twice": ("s = Mul(x, x) t = Mul(s, x)", lambda x, r: x**3),
    "functions": (
        "a = Exp(x) b = Sqrt(a) c = Log(b) d = Neg(c) e = Tanh(d) f = Sigmoid(e) h = Identity(f) t = Relu(h)",
        lambda x, r: np.maximum(1 / (1 + np.exp(-np.tanh(-np.log(np.sqrt(np.exp(x)))))), 0),
    ),
    "Relu": ("t = Relu(x)", lambda x, r: np.maximum(x, 0)),
}


def numerically(function: Callable[[Array], Array], x: Array) -> Array:
    """The derivative of the sum of all results, by finite differences."""
    step = 1e-6
    slopes = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][index] += step
        moved[1][index] -= step
        slopes[index] = (function(moved[0]).sum() - function(moved[1]).sum()) / (2 * step)
    return slopes


def run(text: str, *inputs: Array) -> tuple[Array, ...]:
    return atcpy.backend.run_model(onnx.parser.parse_model(HEAD + text), list(inputs))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_agrees_with_finite_differences(name: str) -> None:
    body, function = FUNCTIONS[name]
    text = f"""g (double[2,3] x, double[3] r) => (double[2,3] t, double[2,3] dx, double[3] dr)
      {{ {body} dx, dr = {GRADIENT}<xs = ["x", "r"], y = "t">(x, r) }}"""
    value, dx, dr = run(text, X, ROW)
    np.testing.assert_allclose(value, function(X, ROW), rtol=1e-12)
    np.testing.assert_allclose(dx, numerically(lambda x: function(x, ROW), X), rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(dr, numerically(lambda r: function(X, r), ROW), rtol=1e-6, atol=1e-8)


def test_the_gradient_of_a_matmul_at_another_point() -> None:
    text = f"""g (double[2,3] x, double[3,2] w, double[2,3] there) => (double[2,3] dx, double[3,2] dw)
      {{ h = MatMul(x, w) y = Mul(h, h) dx, dw = {GRADIENT}<xs = ["x"], zs = ["w"], y = "y">(there, w) }}"""
    w, there = X.T * 2, X + 1
    (dx,) = run(text.replace(", double[3,2] dw", "").replace("dx, dw =", "dx ="), X, w, there)
    np.testing.assert_allclose(dx, numerically(lambda x: (x @ w) ** 2, there), rtol=1e-6)


def test_a_gradient_can_be_differentiated_again() -> None:
    text = f"""g (double[2,3] x) => (double[2,3] d2)
      {{ a = Mul(x, x) y = Mul(a, x) d1 = {GRADIENT}<xs = ["x"], y = "y">(x)
        d2 = {GRADIENT}<xs = ["x"], y = "d1">(x) }}"""
    np.testing.assert_allclose(run(text, X)[0], 6 * X, rtol=1e-12)


def test_values_that_do_not_affect_the_result_have_a_zero_gradient() -> None:
    text = f"""g (double[2,3] x, double[3] r) => (double[3] dr)
      {{ y = Neg(x) dr = {GRADIENT}<xs = ["r"], zs = ["x"], y = "y">(r, x) }}"""
    assert run(text, X, ROW)[0].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (f'y = Sin(x) d = {GRADIENT}<xs = ["x"], y = "y">(x)', "Sin has no derivative"),
        (f'y = Elu<alpha = 0.5>(x) d = {GRADIENT}<xs = ["x"], y = "y">(x)', "Elu has no derivative"),
        (f'y = Neg(x) d = {GRADIENT}<xs = ["x"], y = "nowhere">(x)', 'no value "nowhere"'),
        (f'y = Neg(x) d = {GRADIENT}<xs = ["x", "y"], y = "y">(x)', "name 2 tensors, 1 are given"),
    ],
)
def test_non_differentiable_graphs_are_refused(body: str, text: str) -> None:
    with pytest.raises(AtcError, match=text):
        run(f"g (double[2,3] x) => (double[2,3] d) {{ {body} }}", X)


@pytest.mark.parametrize(("op_type", "lists", "results"), [("Adagrad", 3, 2), ("Adam", 4, 3), ("Momentum", 3, 2)])
def test_an_optimizer_of_two_tensors_equals_two_optimizers(op_type: str, lists: int, results: int) -> None:
    names = [[f"{name}{tensor}" for tensor in (1, 2)] for name in "XGVH"[:lists]]
    output_names = [[f"{name}{tensor}_new" for tensor in (1, 2)] for name in "XVH"[:results]]
    attrs: dict[str, object] = {"norm_coefficient": 0.1}
    attrs |= {"alpha": 0.9, "beta": 0.8, "mode": "nesterov"} if op_type == "Momentum" else {}
    rng = np.random.default_rng(1)
    rate, count = np.array(0.1, np.float32), np.array(2)
    arrays = [[rng.uniform(0.1, 1, size).astype(np.float32) for size in (2, 5)] for _ in range(lists)]

    def node(which: list[int]) -> onnx.NodeProto:
        inputs = ["R", "T", *[group[i] for group in names for i in which]]
        outputs = [group[i] for group in output_names for i in which]
        return helper.make_node(op_type, inputs, outputs, domain="ai.onnx.preview.training", **attrs)

    both = atcpy.backend.run_node(
        node([0, 1]), [rate, count, *[array for group in arrays for array in group]], opset_version=1
    )
    for i in (0, 1):
        single = atcpy.backend.run_node(node([i]), [rate, count, *[group[i] for group in arrays]], opset_version=1)
        assert [array.tolist() for array in both[i::2]] == [array.tolist() for array in single]
