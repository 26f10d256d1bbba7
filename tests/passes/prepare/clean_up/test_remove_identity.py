"""Which nodes hand their input through, and which only look so."""

from __future__ import annotations

import pytest

from atcpy.ir import Graph
from atcpy.options import ConvertOptions, ParseOptions
from atcpy.parsers.onnx import import_onnx
from atcpy.passes.pass_manager import PassManager
from atcpy.stages.prepare import prepare
from tests.models_in_text import model

DECLARED = "int64[4] as_it_is = {1, 4, 3, 3}, int64[4] zeros = {0, 0, 0, 0}, int64[8] none = {0, 0, 0, 0, 0, 0, 0, 0}, "
DECLARED += "float minus_zero = {-0.0}, float zero = {0.0}, int64[1] front = {0}, "
DECLARED += "float half = {0.5}, bool no = {0}, bool yes = {1}"


def left(body: str, inputs: str = "float[1,4,3,3] x") -> list[str]:
    """The op types that are left of a body."""
    graph: Graph = import_onnx(
        model(f"m ({inputs}) => (float[1,4,3,3] y) <{DECLARED}> {{ {body} }}"), ParseOptions()
    ).graph
    prepare(graph, PassManager(ConvertOptions(verify_ir=True)))
    return [node.op_type for node in graph.nodes if node.op_type not in {"Data", "Const", "NetOutput"}]


@pytest.mark.parametrize(
    "body",
    [
        "y = Identity(x)",
        "y = Dropout(x)",
        "y = Dropout(x, half)",
        "y = Dropout(x, half, no)",
        "y = Cast<to = 1>(x)",
        "y = Reshape(x, as_it_is)",
        "y = Reshape(x, zeros)",
        "y = Expand(x, as_it_is)",
        "y = Transpose<perm = [0,1,2,3]>(x)",
        "y = Concat<axis = 1>(x)",
        "y = Sum(x)",
        "y = Add(x, minus_zero)",
        "y = Sub(x, zero)",
        "y = Max(x, x)",
        "y = Max(x, x, x)",
        "y = Pad(x, none)",
        "a = Identity(x) b = Identity(a) y = Identity(b)",
    ],
)
def test_what_changes_nothing_goes(body: str) -> None:
    assert left(body) == []


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("y = Dropout(x, half, yes)", "RandomUniformLike"),
        ("y, m = Dropout(x) n = Cast<to = 1>(m) z = Add(y, n)", "Add"),
        ("y = Transpose<perm = [0,1,3,2]>(x)", "Transpose"),
        ("y = Transpose(t)", "Transpose"),
        ("y = Sum(x, x)", "Sum"),
        ("y = Add(x, zero)", "Add"),
        ("y = Sub(x, minus_zero)", "Sub"),
        ("y = Max(x, x, zero)", "Max"),
        ("y = ReduceMax<keepdims = 1>(u, front)", "ReduceMax"),
    ],
)
def test_what_only_looks_so_stays(body: str, kept: str) -> None:
    inputs = "float[1,4,3,3] x, float[3,3,4,1] t, float[2,4,3,3] u"
    text = body.replace("y, m = ", "d, m = ").replace("z = Add(y, n)", "y = Add(d, n)")
    assert kept in left(text, inputs)


def test_a_pad_by_numbers_that_come_at_run_time_stays() -> None:
    assert left("y = Pad(x, p)", "float[1,4,3,3] x, int64[8] p") == ["Pad"]


def test_an_open_dim_that_is_kept_is_no_change() -> None:
    text = "m (float[N,4] x) => (float[N,4] y) <int64[2] keep = {0, 4}> { y = Reshape(x, keep) }"
    graph = import_onnx(model(text), ParseOptions()).graph
    prepare(graph, PassManager(ConvertOptions(verify_ir=True)))
    assert graph.outputs == (graph.inputs[0].output,)
    assert graph.decisions.removed == {"y": "identity"}
