"""The clean-ups that move elements about: nothing but the number of nodes changes, and they come to an end."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
from hypothesis import given, settings

from atcpy.exporters.onnx import export_model
from atcpy.ir import Graph
from atcpy.ir.dump import dump
from atcpy.ir.tensor import Array
from atcpy.options import Deadline, ParseOptions, PrepareOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.stages.prepare import prepare
from tests.random_moves import move_models


def prepared(model: onnx.ModelProto) -> Graph:
    """The graph after the passes that serve every runtime."""
    graph = import_onnx(model, ParseOptions()).graph
    prepare(graph, PrepareOptions(), deadline=Deadline(), verify_ir=True, wanted=lambda entry: entry.is_neutral)
    return graph


def run(model: onnx.ModelProto, x: Array) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results: list[Array] = session.run(None, {"x": x})
    return results


def bits(array: Array) -> bytes:
    return np.where(np.isnan(array), np.float32(np.nan), array).tobytes()


@settings(max_examples=60)
@given(model=move_models())
def test_results_stay_the_same_to_the_bit(model: onnx.ModelProto) -> None:
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(1).choice(np.array([0.0, -0.0, 1.5, -2.25, np.inf, np.nan, 3e-41], np.float32), shape)
    graph = prepared(model)
    assert graph.node_count_before >= sum(node.op_type not in {"Data", "Const", "NetOutput"} for node in graph.nodes)
    for ours, theirs in zip(run(export_model(graph), x), run(model, x), strict=True):
        assert ours.shape == theirs.shape
        assert bits(ours) == bits(theirs), dump(graph)
