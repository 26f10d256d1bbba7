"""Graphs of any size: each has the size that was asked for, is valid, and computes what its docstring says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
import synthetic_graphs
from synthetic_graphs import chain, diamonds, mixed, wide

Floats = npt.NDArray[np.float32]


def run(model: onnx.ModelProto) -> tuple[Floats, Floats]:
    """Returns the input of a fixed seed and the output that ONNX Runtime computes for it."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(3).standard_normal(session.get_inputs()[0].shape, np.float32)
    return x, session.run(None, {"x": x})[0]


@pytest.mark.parametrize("generate", [chain, wide, diamonds, mixed])
@pytest.mark.parametrize("n", [2, 7, 500])
def test_graph_is_valid_and_has_n_nodes(generate: Callable[[int], onnx.ModelProto], n: int) -> None:
    model = generate(n)
    assert len(model.graph.node) == n
    onnx.checker.check_model(model, full_check=True)
    _, y = run(model)
    assert np.isfinite(y).all()


@pytest.mark.parametrize("generate", [chain, wide, diamonds, mixed])
def test_graph_is_the_same_each_time(generate: Callable[[int], onnx.ModelProto]) -> None:
    assert generate(300).SerializeToString(deterministic=True) == generate(300).SerializeToString(deterministic=True)


def test_chain_alternates_and_its_offsets_cancel() -> None:
    model = chain(400)
    assert [node.op_type for node in model.graph.node] == ["Relu", "Add"] * 200
    x, y = run(model)
    np.testing.assert_allclose(y, np.maximum(x, 0), atol=1e-4)


def test_wide_gives_one_value_many_users() -> None:
    model = wide(100)
    assert sum("x" in node.input for node in model.graph.node) == 99
    x, y = run(model)
    np.testing.assert_allclose(y, x * (99 * 100 / 2 / 100**2), rtol=1e-4)


@pytest.mark.parametrize(("n", "sign"), [(300, 1), (301, -1)])
def test_diamonds_return_their_input(n: int, sign: int) -> None:
    x, y = run(diamonds(n))
    assert np.array_equal(y, sign * x)


def test_mixed_holds_every_kind_of_piece() -> None:
    ops = Counter(node.op_type for node in mixed(2000).graph.node)
    for op_type in ("Relu", "Conv", "BatchNormalization", "Split", "Concat", "Transpose", "Shape", "Reshape"):
        assert ops[op_type] >= 20


def test_mixed_uses_every_result() -> None:
    graph = mixed(2000).graph
    used = {name for node in graph.node for name in node.input} | {value.name for value in graph.output}
    assert {name for node in graph.node for name in node.output} <= used


def test_seed_of_mixed_changes_the_graph() -> None:
    first, second = ([node.op_type for node in mixed(200, seed=seed).graph.node] for seed in (0, 1))
    assert first != second


def test_a_value_of_mixed_stays_near_unit_size() -> None:
    model = mixed(600)
    for node in model.graph.node[::7]:
        if "Shape" not in node.op_type and "piece" in node.output[0] and node.op_type in ("Conv", "Relu", "Tanh"):
            model.graph.output.append(onnx.helper.make_empty_tensor_value_info(node.output[0]))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    x = np.random.default_rng(3).standard_normal(synthetic_graphs.SHAPE, np.float32)
    assert max(np.abs(value).max() for value in session.run(None, {"x": x})) < 10
