"""The examples of MindSpore's articles on static graphs and on graph kernels, and Cells."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.jit import nn, ops
from atcpy.jit import ops as P
from tests.effort import quick_and_slow

pytest.importorskip("ndonnx")
INPUT = np.random.default_rng(1).standard_normal((64, 1, 28, 28)).astype(np.float32)


class Network(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        rng = np.random.default_rng(2)
        self.flatten = nn.Flatten()
        self.dense_relu_sequential = nn.SequentialCell(
            nn.Dense(28 * 28, 512, rng=rng),
            nn.ReLU(),
            nn.Dense(512, 512, rng=rng),
            nn.ReLU(),
            nn.Dense(512, 10, rng=rng),
        )

    def construct(self, x: Any) -> Any:
        x = self.flatten(x)
        logits = self.dense_relu_sequential(x)
        return logits


class JitNetwork(Network):
    @atcpy.jit
    def construct(self, x: Any) -> Any:
        x = self.flatten(x)
        logits = self.dense_relu_sequential(x)
        return logits


def expected() -> Any:
    """The network in float64, by numpy alone."""
    layers = Network().dense_relu_sequential.cells
    x = INPUT.reshape(64, -1).astype(np.float64)
    for index, dense in enumerate(layers[::2]):
        assert isinstance(dense, nn.Dense)
        assert dense.bias is not None
        x = x @ dense.weight.T.astype(np.float64) + dense.bias
        x = x if index == 2 else np.where(x > 0, x, 0)
    return x


def by_decorator() -> Any:
    @atcpy.jit
    def run(x: Any) -> Any:
        model = Network()
        return model(x)

    found = run(INPUT)
    assert run.signatures == 1
    return found, run(INPUT)


def by_call() -> Any:
    def run(x: Any) -> Any:
        model = Network()
        return model(x)

    run_with_jit = atcpy.jit(run)
    return run_with_jit(INPUT), run(INPUT)


def by_construct() -> Any:
    network = JitNetwork()
    found = network(INPUT)
    assert network.construct.signatures == 1
    return found, network(INPUT)


def by_context() -> Any:
    network = Network()
    atcpy.set_context(mode=atcpy.GRAPH_MODE)
    found = network(INPUT)
    atcpy.set_context(mode=atcpy.PYNATIVE_MODE)
    return found, network(INPUT)


@pytest.mark.parametrize("method", quick_and_slow([by_decorator, by_call, by_construct, by_context], 1))
def test_the_dense_network_of_the_article(method: Callable[[], Any]) -> None:
    for found in method():
        assert found.shape == (64, 10)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected(), rtol=1e-5, atol=1e-5)


class MyNet(nn.Cell):
    def construct(self, x: Any) -> Any:
        a = ops.mul(x, 2.0)
        res = ops.add(a, 1.0)
        return res


class MyNetOfClasses(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.add = ops.Add()
        self.mul = ops.Mul()

    def construct(self, x: Any) -> Any:
        a = self.mul(x, 2.0)
        res = self.add(a, 1.0)
        return res


class MyOp(nn.Cell):
    """my first custom OP composited by basic OPs"""

    def __init__(self) -> None:
        super().__init__()
        self.sub = P.Sub()
        self.mul = P.Mul()

    def construct(self, x: Any, y: Any) -> Any:
        a = self.sub(x, y)
        return self.mul(a, x)


class NetWithMyOp(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.mul = P.Mul()
        self.pow = P.Pow()
        self.my_op = MyOp()

    def construct(self, x: Any, y: Any) -> Any:
        a = self.mul(x, 2.0)
        b = self.pow(a, 3.0)
        res = self.my_op(b, y)
        return res


@pytest.mark.parametrize("mode", [atcpy.GRAPH_MODE, atcpy.PYNATIVE_MODE])
def test_the_networks_of_the_articles_on_graph_kernels(mode: Any) -> None:
    atcpy.set_context(mode=mode)
    x = np.ones((4, 4)).astype(np.float32) * 0.5
    for kind in (MyNet, MyNetOfClasses):
        np.testing.assert_array_equal(kind()(x), np.full((4, 4), 2.0, np.float32))
    x, y = (np.ones((4, 4)).astype(np.float32) * factor for factor in (0.2, 0.3))
    np.testing.assert_allclose(NetWithMyOp()(x, y), np.full((4, 4), -0.015104), rtol=1e-5)


def test_ops_have_the_names_of_mindspore() -> None:
    x, y = np.array([1.0, 4.0]), np.array([2.0, 3.0])
    for name in ops._FUNCTIONS:
        arguments = (x,) if name in {"abs", "exp", "log", "neg", "sqrt", "square", "tanh"} else (x, y)
        np.testing.assert_array_equal(getattr(ops, name)(*arguments), getattr(np, ops._FUNCTIONS[name])(*arguments))
    for name, function in ops._CLASSES.items():
        assert getattr(ops, name)().__name__ == function
    with pytest.raises(AttributeError, match="nothing"):
        _ = ops.nothing


# --- Cells ------------------------------------------------------------------------------------------------------------


class Weighted(nn.Cell):
    def __init__(self) -> None:
        self.weight = np.ones(3, np.float32)
        self.factors = [2.0]
        self.inner: nn.Cell | None = None

    def construct(self, x: Any) -> Any:
        x = x * self.weight * self.factors[0]
        return x if self.inner is None else self.inner(x)


Y = np.arange(3, dtype=np.float32)


def test_a_changed_cell_is_compiled_again() -> None:
    cell = Weighted()
    run = atcpy.jit(lambda x: cell(x))
    atcpy.set_context(mode=atcpy.GRAPH_MODE)
    for call in (run, cell):
        np.testing.assert_array_equal(call(Y), Y * cell.factors[0] * cell.weight)
    cell.weight = cell.weight * 3
    for call in (run, cell):
        np.testing.assert_array_equal(call(Y), Y * 6)
    cell.factors[0] = 1.0
    for call in (run, cell):
        np.testing.assert_array_equal(call(Y), Y * 3)
    cell.inner = Weighted()
    for call in (run, cell):
        np.testing.assert_array_equal(call(Y), Y * 6)
    cell.inner.weight = np.zeros(3, np.float32)
    for call in (run, cell):
        np.testing.assert_array_equal(call(Y), Y * 0)
    assert run.signatures == 1


def test_weights_cannot_be_written_to() -> None:
    weight = np.ones(3, np.float32)
    cell = Weighted()
    cell.weight = weight
    weight[:] = 7
    np.testing.assert_array_equal(cell(Y), Y * 2)
    with pytest.raises(ValueError, match="read-only"):
        cell.weight[:] = 5


@pytest.mark.slow
def test_a_cell_is_not_kept_by_what_is_compiled_for_it() -> None:
    atcpy.set_context(mode=atcpy.GRAPH_MODE)
    cell = Weighted()
    cell(Y)
    alive = weakref.ref(cell)
    del cell
    gc.collect()
    assert alive() is None


def test_subclasses_are_compiled_apart() -> None:
    class Negative(Weighted):
        def construct(self, x: Any) -> Any:
            return -super().construct(x)

    atcpy.set_context(mode=atcpy.GRAPH_MODE)
    np.testing.assert_array_equal(Weighted()(Y), Y * 2)
    np.testing.assert_array_equal(Negative()(Y), Y * -2)


def test_a_cell_without_construct_is_an_error() -> None:
    with pytest.raises(NotImplementedError, match="Cell has no construct"):
        nn.Cell()(Y)


def test_a_dense_layer_without_a_bias() -> None:
    dense = nn.Dense(3, 2, has_bias=False)
    np.testing.assert_allclose(atcpy.jit(dense.construct)(Y), dense.weight @ Y, rtol=1e-6)
    assert np.all(np.abs(dense.weight) <= 3**-0.5)
