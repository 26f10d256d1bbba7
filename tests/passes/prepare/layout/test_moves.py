"""The clean-ups that move elements about: nothing but the number of nodes changes, and they come to an end."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings

from atcpy.exporters.onnx import export_model
from atcpy.ir import Graph
from atcpy.ir.dump import dump
from atcpy.ir.tensor import Array
from atcpy.options import ConvertOptions, ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.pass_set import built_in_passes
from atcpy.stages.prepare import prepare
from tests.effort import trials
from tests.models_in_text import model as text_model
from tests.ort import open_ort
from tests.random_moves import move_models


def prepared(model: onnx.ModelProto) -> Graph:
    """The graph after the passes that serve every runtime."""
    graph = import_onnx(model, ParseOptions()).graph
    neutral = built_in_passes().where(lambda entry: entry.is_neutral)
    prepare(graph, PassManager(ConvertOptions(verify_ir=True), neutral))
    return graph


def run(model: onnx.ModelProto, x: Array) -> list[Array]:
    session = open_ort(model)
    results: list[Array] = session.run(None, {"x": x})
    return results


def bits(array: Array) -> bytes:
    return np.where(np.isnan(array), np.float32(np.nan), array).tobytes()


@settings(max_examples=trials(40))
@given(model=move_models())
def test_results_stay_the_same_to_the_bit(model: onnx.ModelProto) -> None:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).choice(np.array([0.0, -0.0, 1.5, -2.25, np.inf, np.nan, 3e-41], np.float32), shape)
    graph = prepared(model)
    assert graph.node_count_before >= sum(node.op_type not in {"Data", "Const", "NetOutput"} for node in graph.nodes)
    for ours, theirs in zip(run(export_model(graph), x), run(model, x), strict=True):
        assert ours.shape == theirs.shape
        assert bits(ours) == bits(theirs), dump(graph)


def nhwc_network(blocks: int) -> onnx.ModelProto:
    """Residual blocks as exporters of NHWC models write them, each Conv between two Transposes."""
    lines = ["h0 = Identity(x)"]
    for i in range(blocks):
        lines += [
            f"t{i} = Transpose<perm = [0,3,1,2]>(h{i})",
            f"c{i} = Conv<pads = [1,1,1,1]>(t{i}, w)",
            f"n{i} = Transpose<perm = [0,2,3,1]>(c{i})",
            f"b{i} = Add(n{i}, bias)",
            f"r{i} = Relu(b{i})",
            f"h{i + 1} = Add(r{i}, h{i})",
        ]
    body = " ".join(lines)
    return text_model(
        f"m (float[1,4,4,3] x) => (float[1,4,4,3] y) <float[3,3,3,3] w, float[3] bias> {{ {body} y = Neg(h{blocks}) }}"
    )


@pytest.mark.parametrize("blocks", [1, 2, pytest.param(60, marks=pytest.mark.slow)])
def test_an_nhwc_network_has_transposes_at_its_ends_only(blocks: int) -> None:
    model = nhwc_network(blocks)
    graph = prepared(model)
    nodes = [node.op_type for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]
    assert nodes.count("Transpose") == 2
    x = np.random.default_rng(0).standard_normal((1, 4, 4, 3)).astype(np.float32)
    (ours,), (theirs,) = run(export_model(graph), x), run(model, x)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * float(np.abs(theirs).max()))
