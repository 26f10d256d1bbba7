"""Gradients of elementwise functions against finite differences in float64."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from atcpy.ir import Builder, DType, Graph, TensorDesc
from atcpy.ir.arithmetic import Expr
from atcpy.ops.lowerings.activation_gradients import BY_INPUT, BY_RESULT
from tests.parsers.onnx.canonical import Array, run_canonical

_erf = np.vectorize(math.erf)
_SELU_ALPHA, _SELU_GAMMA = 1.6732632423543772, 1.0507009873554805

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Elu": lambda x: np.where(x < 0, np.expm1(x), x),
    "Exp": np.exp,
    "FastGelu": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "Gelu": lambda x: x * 0.5 * (1 + _erf(x / math.sqrt(2))),
    "Identity": lambda x: x,
    "LeakyRelu": lambda x: np.where(x > 0, x, 0.3 * x),
    "Log": np.log,
    "Neg": np.negative,
    "QuickGelu": lambda x: x / (1 + np.exp(-0.3 * x)),
    "Reciprocal": np.reciprocal,
    "Relu": lambda x: np.maximum(x, 0),
    "Relu6": lambda x: np.clip(x, 0, 6),
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Selu": lambda x: _SELU_GAMMA * np.where(x < 0, _SELU_ALPHA * np.expm1(x), x),
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Sin": np.sin,
    "Softplus": lambda x: np.log1p(np.exp(x)),
    "Softsign": lambda x: x / (1 + np.abs(x)),
    "Sqrt": np.sqrt,
    "Tanh": np.tanh,
}
_ALPHA = {"LeakyRelu", "QuickGelu"}
_POSITIVE = {"Log", "Rsqrt", "Sqrt"}


def gradient(name: str, dy: Array, read: Array) -> Array:
    """The gradient by the table's formula, from dy and the function's input or result."""
    graph = Graph("gradient")
    values = []
    for index, array in enumerate((dy, read)):
        data = graph.append("Data", (), {"index": index}, name=f"i{index}")
        data.output.desc = TensorDesc.plain(DType.FLOAT32, array.shape)
        values.append(Expr(b := Builder(graph, name="dx"), data.output))
    formula = (BY_INPUT | BY_RESULT)[name]
    result = formula(*values, 0.3) if name in _ALPHA else formula(*values)
    graph.append("NetOutput", [b.op("Identity", result.value)], name="NetOutput", outputs=())
    (found,) = run_canonical(graph, {"i0": dy, "i1": read})
    return found


def test_each_function_has_one_row() -> None:
    assert BY_INPUT.keys().isdisjoint(BY_RESULT)
    assert BY_INPUT.keys() | BY_RESULT.keys() == FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_gradient_agrees_with_finite_differences(name: str) -> None:
    x = np.array([-7.5, -2.0, -0.25, 0.125, 1.5, 5.75, 6.25])
    x = np.abs(x) if name in _POSITIVE else x
    dy = np.array([1, -2, 0.5, 3, -1, 2, -0.25])
    forward = FUNCTIONS[name]
    expected = dy * (forward(x + 1e-6) - forward(x - 1e-6)) / 2e-6
    read = forward(x) if name in BY_RESULT else x
    found = gradient(name, dy.astype(np.float32), read.astype(np.float32))
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(("name", "expected"), [("Relu", [0, 0, 2]), ("Relu6", [0, 0, 2]), ("LeakyRelu", [3, 0.3, 2])])
def test_at_a_kink_the_gradient_is_the_slope_to_its_left(name: str, expected: list[float]) -> None:
    dy, x = np.array([10, 1, 2], np.float32), np.array([-1, 0, 1], np.float32)
    np.testing.assert_allclose(gradient(name, dy, x), expected, rtol=1e-6)


def test_the_gradient_of_relu6_is_zero_at_its_upper_bound() -> None:
    assert gradient("Relu6", np.array([3], np.float32), np.array([6], np.float32)).tolist() == [0]
