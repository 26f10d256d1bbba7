"""Test helper: compares a model before and after its conversion to the canonical opset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from atcpy.exporters.onnx import export_model
from atcpy.ir import Graph, Tensor
from atcpy.ir.verify import violations
from atcpy.ops.ml.trees import evaluate_trees
from atcpy.ops.quant.int4_matmul import evaluate_int4_matmul
from atcpy.options import ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.parsers.parsed import ParsedModel
from tests.harness import make_node
from tests.ort import open_ort

Array = npt.NDArray[Any]
REAL = Path(__file__).parents[4] / "shared" / "models" / "real"


def parsed(model: onnx.ModelProto | Path | str, **options: Any) -> ParsedModel:
    """Import a model, also from ONNX text, and verify the graph."""
    if isinstance(model, str):
        model = onnx.parser.parse_model(model)
    result = import_onnx(model, ParseOptions(**options))
    assert list(violations(result.graph)) == []
    return result


def ops_of(graph: Graph) -> list[str]:
    """The op types of a graph's nodes, without inputs, constants and outputs."""
    return [node.op_type for node in graph.nodes if node.op_type not in ("Data", "Const", "NetOutput")]


def run_ort(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    return open_ort(model).run(None, dict(feeds))


class Trees(OpRun):
    """The internal op of tree ensembles, implemented for the reference evaluator."""

    op_domain = ""

    def _run(self, *arrays: Array, **attrs: object) -> tuple[Array, ...]:
        return tuple(evaluate_trees(make_node("Trees", arrays, attrs), arrays))


class Int4MatMul(OpRun):
    """The internal op of products with weights of 4 bits."""

    op_domain = ""

    def _run(self, *arrays: Array, **attrs: object) -> tuple[Array, ...]:
        return tuple(evaluate_int4_matmul(make_node("Int4MatMul", arrays, attrs), arrays))


def run_reference(model: onnx.ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    results = ReferenceEvaluator(model, new_ops=[Trees, Int4MatMul]).run(None, dict(feeds))
    assert isinstance(results, list)
    return results


def run_canonical(graph: Graph, feeds: Mapping[str, Array]) -> list[Array]:
    """Run with ONNX Runtime if it supports the exported opset, else with the reference evaluator, which also runs
    Attention, whose mask ONNX Runtime does not broadcast over the queries, and the internal ops.
    """
    model = export_model(graph)
    defaults = {node.output.name: node.attrs.get("default") for node in graph.inputs}
    feeds = {name: item.array for name, item in defaults.items() if isinstance(item, Tensor)} | dict(feeds)
    is_known = not any(graph.has_any({op_type}) for op_type in ("Attention", "Trees", "Int4MatMul"))
    if model.opset_import[0].version <= 26 and is_known:
        return run_ort(model, feeds)
    return run_reference(model, feeds)


def assert_same_meaning(model: onnx.ModelProto | str, feeds: Mapping[str, Array], **options: Any) -> Graph:
    """Assert that the old model in ONNX Runtime and the canonical graph compute the same."""
    if isinstance(model, str):
        model = onnx.parser.parse_model(model)
    graph = parsed(model, **options).graph
    expected = run_ort(model, feeds)
    got = run_canonical(graph, feeds)
    assert len(expected) == len(got)
    for want, have in zip(expected, got, strict=True):
        assert want.shape == have.shape
        assert want.dtype == have.dtype
        np.testing.assert_allclose(have, want, rtol=1e-5, atol=1e-6)
    return graph
