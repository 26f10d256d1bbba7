"""com.microsoft op records: types are inferred by expansion, and prepare expands the nodes."""

import onnx.parser
import pytest

from atcpy.errors import AtcError
from atcpy.ir import DType, Sym, TensorDesc, walk
from atcpy.options import ConvertOptions
from atcpy.passes.pass_manager import PassManager
from atcpy.stages.prepare import prepare, prepare_bodies
from tests.parsers.onnx.canonical import ops_of, parsed

HEAD = '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'


def test_a_node_stays_whole_and_typed_until_prepare() -> None:
    text = f"{HEAD} g (float[N,8] x, float[8] b) => (y) {{ y = com.microsoft.BiasSplitGelu(x, b) }}"
    graph = parsed(text).graph
    (node,) = [node for node in graph.nodes if node.domain]
    assert (node.op_type, node.output.desc) == ("BiasSplitGelu", TensorDesc.plain(DType.FLOAT32, (Sym("N"), 4)))
    prepare(graph, PassManager(ConvertOptions(verify_ir=True)))
    assert "Gelu" in ops_of(graph)
    assert [value.name for value in graph.outputs] == ["y"]
    assert graph.outputs[0].desc.shape == (Sym("N"), 4)


def test_each_result_of_unknown_size_has_a_symbol_of_its_own() -> None:
    text = f"{HEAD} g (float[?,1] x, float[A,B] b) => (y) {{ y = com.microsoft.BiasGelu(x, b) }}"
    (node,) = [node for node in parsed(text.replace("?", "C")).graph.nodes if node.domain]
    assert node.output.desc.shape == (Sym("y.0"), Sym("B"))


def test_unnamed_dims_of_one_input_stay_apart() -> None:
    nodes = "y = com.microsoft.FastGelu(x) z = com.microsoft.BiasGelu(x, b)"
    model = onnx.parser.parse_model(f"{HEAD} g (float[A,B] x, float[C,D] b) => (y, z) {{ {nodes} }}")
    for dim in model.graph.input[0].type.tensor_type.shape.dim:
        dim.Clear()
    gelu, bias_gelu = (node for node in parsed(model).graph.nodes if node.domain)
    shape = gelu.operand(0).desc.shape
    assert gelu.output.desc.shape == shape
    assert bias_gelu.output.desc.shape == (Sym("z.0"), Sym("z.1"))
    assert shape is not None and len({*shape, *(bias_gelu.output.desc.shape or ())}) == 4


@pytest.mark.parametrize(
    ("nodes", "codes"),
    [
        ('s = com.microsoft.BiasGelu(x, "") t = com.microsoft.QuickGelu<beta = 1.0>(x)', ["E13014", "E13014"]),
        ("s = com.microsoft.BiasGelu(x, i) t = Relu<alpha = 1.0>(x)", ["E13014", "E13014"]),
    ],
)
def test_import_reports_problems_of_contrib_nodes_with_all_others(nodes: str, codes: list[str]) -> None:
    with pytest.raises(AtcError) as raised:
        parsed(f"{HEAD} g (float[2,3] x, int32[2,3] i) => (y) {{ {nodes} y = Relu(x) }}")
    assert sorted(problem.code for problem in raised.value.problems) == codes


def test_prepare_reports_all_refusals_together() -> None:
    text = f"""{HEAD} g (float[2,3] x) => (y, m, n) {{
        y, m = com.microsoft.BiasDropout(x, x)
        z, n = com.microsoft.BitmaskBiasDropout(x, x) }}"""
    with pytest.raises(AtcError, match="the mask is made in training only") as raised:
        prepare(parsed(text).graph, PassManager())
    assert [problem.code for problem in raised.value.problems] == ["E10055", "E10055"]


@pytest.mark.parametrize("condition", ["x_is_there = Constant<value = bool {1}>()", "x_is_there = Identity(c)"])
def test_nodes_in_both_branches_of_an_if_are_expanded(condition: str) -> None:
    text = f"""{HEAD} g (float[2,3] x, bool c) => (y) {{
        {condition}
        y = If <then_branch = then () => (a) {{ a = com.microsoft.FastGelu(x) }},
                else_branch = other () => (b) {{ b = com.microsoft.QuickGelu(x) }}> (x_is_there) }}"""
    graph, manager = parsed(text).graph, PassManager(ConvertOptions(verify_ir=True))
    prepare(graph, manager)
    prepare_bodies(graph, manager)
    assert [node for node in walk(graph) if node.domain] == []
    assert "Gelu" in {node.op_type for node in walk(graph)}


def test_a_wrong_declared_size_is_not_trusted() -> None:
    text = f"{HEAD} g (float[N] x, int64[K] s) => (float[2,3] y) {{ r = Reshape(x, s) y = com.microsoft.FastGelu(r) }}"
    (node,) = [node for node in parsed(text).graph.nodes if node.domain]
    assert node.output.desc == TensorDesc.plain(DType.FLOAT32, None)
    text = text.replace("{ r", "<float[2,3] r> { r")
    (node,) = [node for node in parsed(text).graph.nodes if node.domain]
    assert node.output.desc.shape == (Sym("r.0"), Sym("r.1"))
