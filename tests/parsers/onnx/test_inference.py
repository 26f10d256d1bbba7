"""Types are inferred during import, and prepare infers again only nodes that folding changed."""

import onnx
import pytest

from atcpy.errors import AtcError, ModelInvalid
from atcpy.ir import DType, Sym, TensorDesc, walk
from atcpy.ir.desc import UNKNOWN
from atcpy.ops.custom import CustomOps
from atcpy.options import convert_options
from atcpy.passes.pass_manager import PassManager
from atcpy.passes.prepare.fold import constants
from atcpy.stages.parse import parse
from atcpy.stages.pipeline import compile_model
from atcpy.stages.prepare import prepare
from tests.parsers.onnx.canonical import parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def problems_of(text: str) -> list[tuple[str, str | None]]:
    with pytest.raises(AtcError) as raised:
        parsed(text)
    return [(problem.code, problem.where.node) for problem in raised.value.problems]


def test_the_type_of_each_value_is_inferred() -> None:
    graph = parsed(f"{HEAD} g (float[N,3] x, float[3,4] w) => (y) {{ t = MatMul(x, w) y = Shape(t) }}").graph
    assert [node.output.desc for node in graph.nodes_of("MatMul", "Shape")] == [
        TensorDesc.plain(DType.FLOAT32, (Sym("N"), 4)),
        TensorDesc.plain(DType.INT64, (2,)),
    ]


def test_input_shapes_are_set_before_anything_is_inferred() -> None:
    model = onnx.parser.parse_model(f"{HEAD} g (float[N,3] x) => (y) {{ y = Relu(x) }}")
    graph = parse(model, convert_options({"input_shape": "x:5,3"}).parse, CustomOps()).graph
    assert graph.outputs[0].desc.shape == (5, 3)


def test_type_errors_are_reported_with_all_other_problems() -> None:
    found = problems_of(
        f"{HEAD} g (float[2,3] x, float[4,5] w) => (y) {{"
        " [a] s = Add(x, w) [b] y = Mul(s, w) [c] t = Relu<beta = 1>(x) [d] u = MatMul(x, w) }"
    )
    assert sorted(found) == [("E13014", "c"), ("EZ8888", "a"), ("EZ8888", "d")]  # not "b", which only reads "a"


def test_a_node_that_violates_its_schema_is_one_problem() -> None:
    found = problems_of(f"{HEAD} g (float[2,3] x) => (y) {{ [a] s = Relu<beta = 1>(x) [b] y = Reshape(s, x) }}")
    assert found == [("E13014", "a")]


DECLARED = {
    "an output": "g (float[2] x) => ({} y) {{ [n] y = Relu(x) }}",
    "an input as an output": "g (float[2] n) => ({} n) {{ y = Relu(n) }}",
    "a constant as an output": "g (float[2] x) => ({} n) <float[1] n = {{1}}> {{ y = Relu(x) }}",
    "a value": "g (float[2] x) => (y) <{} t> {{ [n] t = Relu(x) y = Neg(t) }}",
    "what an If returns": (
        "g (float[2] x, bool c) => ({} y) {{ [n] y = If(c)"
        "<then_branch = a () => (r) {{ r = Neg(x) }}, else_branch = b () => (r) {{ r = Abs(x) }}> }}"
    ),
    "what a chosen branch returns": (
        "g (float[2] x) => ({} y) {{ c = Constant<value = bool {{1}}>() y = If(c)"
        "<then_branch = a () => (r) {{ [n] r = Neg(x) }}, else_branch = b () => (r) {{ r = Abs(x) }}> }}"
    ),
    "what a branch returns": (
        "g (float[2] x, bool c) => (y) {{ y = If(c)"
        "<then_branch = a () => ({} r) {{ [n] r = Neg(x) }}, else_branch = b () => (r) {{ r = Abs(x) }}> }}"
    ),
    "behind an op that is expanded": "g (float[2] x) => ({} y) {{ [n] y = com.microsoft.QuickGelu(x) }}",
}


@pytest.mark.parametrize("declared", ["float[2]", "int64[2]", "bool[2]", "seq(float[2])"])
@pytest.mark.parametrize("name", DECLARED)
def test_declared_types_are_those_that_are_inferred(name: str, declared: str) -> None:
    text = DECLARED[name].format(declared)
    model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>' + text)
    if declared == "float[2]":
        compile_model(model, convert_options({}))
        return
    with pytest.raises(ModelInvalid) as raised:
        compile_model(model, convert_options({}))
    assert raised.value.code == "E13014"
    assert "n" in (raised.value.where.node, raised.value.where.value)


def test_types_in_bodies_are_left_to_prepare() -> None:
    graph = parsed(
        f"""{HEAD} g (float[2] x, bool c) => (y) {{
        y = If (c) <then_branch = a () => (float[2] r) {{ r = Neg(x) }},
                    else_branch = b () => (float[2] r) {{ r = Abs(x) }}> }}"""
    ).graph
    assert {node.output.desc for node in walk(graph) if node.op_type in ("Neg", "Abs", "If")} == {UNKNOWN}


@pytest.mark.parametrize("folds", [False, True])
def test_prepare_infers_only_what_folding_changed(folds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    infer_node = constants.infer_node

    def spy(node: object, known: object) -> None:
        seen.append(node.op_type)  # type: ignore[attr-defined]
        infer_node(node, known)  # type: ignore[arg-type]

    monkeypatch.setattr(constants, "infer_node", spy)
    start = "c = Constant<value = float[1] {2.0}>() s = Sqrt(c) t = Add(x, s)" if folds else "t = Neg(x)"
    graph = parsed(f"{HEAD} g (float[2] x) => (y) {{ {start} u = Relu(t) y = Exp(u) }}").graph
    prepare(graph, PassManager())
    assert [op for op in seen if op not in ("Data", "NetOutput")] == (["Add"] if folds else [])
