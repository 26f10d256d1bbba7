"""`atcpy.optimize`: what of the model stays, what goes, and that it computes the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from onnx import TensorProto, helper, numpy_helper

import atcpy
from atcpy.errors import AtcError, VerifyFailed
from atcpy.ir import Graph, PassRecord
from atcpy.passes import base
from atcpy.passes.base import graph_pass
from atcpy.passes.phase import Phase
from atcpy.rewrite import serialize
from tests.effort import trials
from tests.ort import open_ort
from tests.random_models import cnn_models


def parse(
    body: str, *, opset: int = 17, inputs: str = "float[N,4] x", outputs: str = "float[N,4] y"
) -> onnx.ModelProto:
    header = f'<ir_version: 8, opset_import: ["" : {opset}, "acme" : 3, "com.microsoft" : 1]>'
    return onnx.parser.parse_model(f"{header} g ({inputs}) => ({outputs}) {{ {body} }}")


def optimized(model: onnx.ModelProto, target: Path, **options: object) -> onnx.ModelProto:
    atcpy.optimize(model, target / "out.onnx", **options)
    return onnx.load(target / "out.onnx")


def kinds(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def run(model: onnx.ModelProto | Path, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    return open_ort(model).run(None, feeds)


X = {"x": np.arange(8, dtype=np.float32).reshape(2, 4)}


# --- what stays -------------------------------------------------------------------------------


def test_what_the_model_says_of_itself(tmp_path: Path) -> None:
    model = parse("a = Relu(x) b = Identity(a) y = Sigmoid(b)")
    model.producer_name, model.producer_version, model.doc_string = "me", "2", "a model"
    model.metadata_props.add(key="k", value="v")
    model.graph.doc_string = "a graph"
    model.graph.input[0].doc_string = "rows"
    model.graph.node[0].name, model.graph.node[0].doc_string = "first", "from line 3"
    model.graph.value_info.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, ["N", 4]))
    result = optimized(model, tmp_path)
    assert kinds(result) == ["Relu", "Sigmoid"]
    for field in ("producer_name", "producer_version", "doc_string", "ir_version"):
        assert getattr(result, field) == getattr(model, field)
    assert result.metadata_props == model.metadata_props
    assert result.opset_import == model.opset_import
    assert result.graph.doc_string == "a graph"
    assert (result.graph.input, result.graph.output) == (model.graph.input, model.graph.output)
    assert result.graph.node[0] == model.graph.node[0]
    assert result.graph.value_info == model.graph.value_info


def test_an_output_keeps_its_name_without_the_identity(tmp_path: Path) -> None:
    result = optimized(parse("a = Relu(x) y = Identity(a)"), tmp_path)
    assert [(node.op_type, list(node.output)) for node in result.graph.node] == [("Relu", ["y"])]


def test_two_outputs_of_one_value(tmp_path: Path) -> None:
    result = optimized(parse("y = Relu(x) z = Relu(x)", outputs="float[N,4] y, float[N,4] z"), tmp_path)
    assert sorted(kinds(result)) == ["Identity", "Relu"]
    assert [info.name for info in result.graph.output] == ["y", "z"]


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    result = optimized(parse("y = Identity(x) z = Relu(x)", outputs="float[N,4] y, float[N,4] z"), tmp_path)
    assert [np.array_equal(a, X["x"]) for a in run(result, X)] == [True, True]


def test_a_constant_output(tmp_path: Path) -> None:
    body = "c = Constant<value = float[2] {1, 2}>() y = Relu(x) z = Neg(c)"
    result = optimized(parse(body, outputs="float[N,4] y, float[2] z"), tmp_path)
    assert np.array_equal(run(result, X)[1], [-1, -2])


def test_defaults_of_inputs_can_still_be_overridden(tmp_path: Path) -> None:
    model = parse("b = Neg(a) y = Add(x, b)", inputs="float[N,4] x, float[4] a")
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "a"))
    result = optimized(model, tmp_path)
    assert kinds(result) == ["Neg", "Add"]
    assert [info.name for info in result.graph.input] == ["x", "a"]
    assert np.array_equal(run(result, X)[0], X["x"] - 1)
    assert np.array_equal(run(result, {**X, "a": np.full(4, 5, np.float32)})[0], X["x"] - 5)


def test_constants_among_the_inputs_of_ir_3_are_constants(tmp_path: Path) -> None:
    model = parse("b = Neg(a) y = Add(x, b)", inputs="float[2,4] x, float[4] a", outputs="float[2,4] y", opset=8)
    model.ir_version = 3
    model.graph.initializer.append(numpy_helper.from_array(np.ones(4, np.float32), "a"))
    result = optimized(model, tmp_path)
    assert kinds(result) == ["Add"]
    assert [info.name for info in result.graph.input] == ["x"]
    assert result.ir_version == 4


# --- barriers ---------------------------------------------------------------------------------


def test_unknown_ops_stay(tmp_path: Path) -> None:
    body = """a = Identity(x) b = acme.Mix<alpha = 0.5>(a) c = acme.Mix<alpha = 0.5>(a) d, e = acme.Two(b, c)
    dead = acme.Log(x) y = Identity(d)"""
    model = parse(body)
    result = optimized(model, tmp_path, verify=False)
    assert kinds(result) == ["Mix", "Mix", "Two", "Log"]
    assert result.graph.node[0].attribute == model.graph.node[1].attribute
    assert result.graph.node[0].domain == "acme"
    assert list(result.graph.node[2].output) == ["y", "e"]


def test_a_model_of_unknown_ops_is_written_not_verified(tmp_path: Path) -> None:
    report = atcpy.optimize(parse("y = acme.Mix(x)"), tmp_path / "out.onnx")
    assert not report.verified
    assert [warning.code for warning in report.warnings] == ["W0041"]
    assert kinds(onnx.load(tmp_path / "out.onnx")) == ["Mix"]


def test_ops_of_onnxruntime_stay_one_node(tmp_path: Path) -> None:
    body = """one = Constant<value = float {1}>() a = Mul(x, one) b = com.microsoft.FusedMatMul<transB = 1>(a, a)
    y = com.microsoft.Gelu(b)"""
    report = atcpy.optimize(parse(body, outputs="float[N,M] y"), tmp_path / "out.onnx")
    assert report.verified
    assert kinds(onnx.load(tmp_path / "out.onnx"))[-2:] == ["FusedMatMul", "Gelu"]


def test_an_old_meaning_stays_one_node(tmp_path: Path) -> None:
    """Softmax of opset 11 along the first of several axes is four ops of today."""
    model = parse(
        "a = Identity(x) y = Softmax<axis = 1>(a)", opset=11, inputs="float[2,3,4] x", outputs="float[2,3,4] y"
    )
    result = optimized(model, tmp_path)
    assert kinds(result) == ["Softmax"]
    assert result.opset_import == model.opset_import


def test_a_mask_that_nobody_reads(tmp_path: Path) -> None:
    result = optimized(parse("a, mask = Dropout<ratio = 0.5>(x) y = Relu(a)", opset=10), tmp_path)
    assert kinds(result) == ["Relu"]


def test_kept_nodes(tmp_path: Path) -> None:
    model = parse("a = Relu(x) b = Identity(a) y = Neg(b)")
    for node, name in zip(model.graph.node, ("r", "i", "n"), strict=True):
        node.name = name
    result = optimized(model, tmp_path, keep=["i"])
    assert list(result.graph.node) == list(model.graph.node)
    with pytest.raises(AtcError, match="no node"):
        atcpy.optimize(model, tmp_path / "no.onnx", keep="x")


def test_what_has_no_older_form_raises_the_opset(tmp_path: Path) -> None:
    """Only a pass that makes a newer op than it says can: an argument for the warning, not a use."""
    with a_pass(
        "RaisingPass", lambda graph: [graph.change_op(n, "HardSwish") for n in graph.nodes if n.op_type == "Relu"]
    ):
        report = atcpy.optimize(parse("y = Relu(x)", opset=11), tmp_path / "out.onnx", verify=False)
    assert report.opset == 14
    assert [warning.code for warning in report.warnings if warning.code == "W0040"] == ["W0040"]


def test_constants_that_an_older_opset_asks_for_are_in_the_model_that_is_verified(tmp_path: Path) -> None:
    resize = "s{0} = Constant<value = float[4] {{1, 1, 2, 2}}>() r{0} = Constant<value = float[0] {{}}>() {0} = "
    body = resize.format("a") + "Resize(x, ra, sa)" + resize.format("b") + "Resize(a, rb, sb) y = Identity(b)"
    result = optimized(parse(body, opset=11, inputs="float[1,1,2,3] x", outputs="float[1,1,8,12] y"), tmp_path)
    assert kinds(result) == ["Resize", "Resize"]


def test_passes_that_would_raise_the_opset_are_left_out(tmp_path: Path) -> None:
    """DepthToSpace got its mode CRD in opset 11."""
    body = """s = Constant<value = int64[6] {1, 1, 2, 2, 3, 3}>() t = Constant<value = int64[4] {1, 1, 6, 6}>()
    a = Reshape(x, s) b = Transpose<perm = [0, 1, 4, 2, 5, 3]>(a) y = Reshape(b, t)"""
    shapes = {"inputs": "float[1,4,3,3] x", "outputs": "float[1,1,6,6] y"}
    result = optimized(parse(body, opset=10, **shapes), tmp_path)
    assert result.opset_import[0].version == 10
    assert len(result.graph.node) == 3
    assert kinds(optimized(parse(body, opset=11, **shapes), tmp_path)) == ["DepthToSpace"]


# --- verification -----------------------------------------------------------------------------


class a_pass:
    """A pass of the stage prepare for as long as the block runs."""

    def __init__(self, name: str, change: object) -> None:
        self._name, self._change = name, change

    def __enter__(self) -> None:
        change = self._change

        def breaks(graph: Graph, record: PassRecord, options: object) -> None:
            change(graph)  # type: ignore[operator]
            record.matched = record.applied = 1

        graph_pass(self._name, Phase.RECOGNISE)(breaks)

    def __exit__(self, *_: object) -> None:
        del base._REGISTRY[self._name]


def test_a_broken_pass_is_found_and_nothing_is_written(tmp_path: Path) -> None:
    def negate(graph: Graph) -> None:
        for node in graph.nodes:
            if node.op_type == "Relu":
                graph.change_op(node, "Neg")

    target = tmp_path / "out.onnx"
    with a_pass("BreakingPass", negate), pytest.raises(VerifyFailed) as failed:
        atcpy.optimize(parse("y = Relu(x)"), target)
    assert failed.value.exit_code == 5
    assert not target.exists()


def test_more_nodes_than_the_source_are_not_written(tmp_path: Path) -> None:
    def double(graph: Graph) -> None:
        for node in list(graph.nodes):
            if node.op_type == "Relu":
                more = graph.insert_after(node, "Exp", [], name="more")
                graph.replace_uses(node.output, more.output)
                graph.set_inputs(more, [node.output])

    with a_pass("GrowingPass", double):
        report = atcpy.optimize(parse("y = Relu(x)"), tmp_path / "out.onnx", verify=False)
    assert report.after.nodes == 1
    assert "W0042" in [warning.code for warning in report.warnings]


# --- large weights ----------------------------------------------------------------------------


def big_model() -> onnx.ModelProto:
    model = parse("a = MatMul(x, w) b = Identity(a) y = Add(b, c)")
    rng = np.random.default_rng(0)
    model.graph.initializer.append(numpy_helper.from_array(rng.standard_normal((4, 4)).astype(np.float32), "w"))
    model.graph.initializer[0].doc_string = "weights"
    large = numpy_helper.from_array(rng.standard_normal((2048, 1024)).astype(np.float32), "t")
    model.graph.initializer.extend([numpy_helper.from_array(np.float32([1, 2, 3, 4]), "c"), large])
    model.graph.node.append(helper.make_node("ReduceSum", ["t2"], ["z"], keepdims=0))
    model.graph.node.insert(0, helper.make_node("Mul", ["t", "x0"], ["t2"]))
    model.graph.node.insert(0, helper.make_node("ReduceSum", ["x"], ["x0"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, []))
    return model


def test_external_data_stays_external(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "elsewhere" / "out.onnx"
    target.parent.mkdir()
    onnx.save(big_model(), source, save_as_external_data=True, location="in.data", size_threshold=1024)
    report = atcpy.optimize(source, target)
    assert (report.verified, report.external_data) == (True, "out.onnx.data")
    assert target.stat().st_size < 10_000
    assert report.before.bytes == source.stat().st_size + (8 << 20)
    assert (target.parent / "out.onnx.data").stat().st_size >= 8 << 20
    for ours, theirs in zip(run(target, X), run(source, X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_model_in_one_file_stays_in_one(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(big_model(), source)
    report = atcpy.optimize(source, target)
    assert (report.verified, report.external_data) == (True, "")
    result = onnx.load(target)
    found, expected = ({t.name: t for t in each.graph.initializer} for each in (result, big_model()))
    assert [found[name] for name in ("w", "t")] == [expected[name] for name in ("w", "t")]
    for ours, theirs in zip(run(target, X), run(source, X), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_no_message_holds_becomes_external(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "MAX_MESSAGE", 1 << 20)
    report = atcpy.optimize(big_model(), tmp_path / "out.onnx")
    assert report.external_data == "out.onnx.data"
    np.testing.assert_array_equal(run(tmp_path / "out.onnx", X)[0], run(big_model(), X)[0])


# --- bodies and functions ---------------------------------------------------------------------


def test_bodies_read_weights_of_the_graph_around_them(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    branches = [
        helper.make_graph(
            [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node(op, ["m"], [f"{op}_out"])],
            op,
            [],
            [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, None)],
        )
        for op in ("Relu", "Neg")
    ]
    node = helper.make_node("If", ["c"], ["y"], then_branch=branches[0], else_branch=branches[1])
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", 1, [2, 64])]
    outputs = [helper.make_tensor_value_info("y", 1, None)]
    graph = helper.make_graph([node], "g", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    result = optimized(model, tmp_path)
    assert len(result.graph.initializer) == 1
    feeds = {"x": np.ones((2, 64), np.float32)}
    for choice in (True, False):
        chosen = {**feeds, "c": np.array(choice)}
        np.testing.assert_array_equal(run(result, chosen)[0], run(model, chosen)[0])


def test_functions_are_inlined(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[N,4] x) => (float[N,4] y) {
            a = my.twice<k = 2.0>(x) y = my.twice<k = 3.0>(a) }
        <domain: "my", opset_import: ["" : 17]> twice <k>(t) => (u) {
            c = Constant<value_float: float = @k>() v = Mul(t, c)
            w = LeakyRelu<alpha: float = @k>(v) u = Identity(w) }"""
    )
    report = atcpy.optimize(model, tmp_path / "out.onnx")
    result = onnx.load(tmp_path / "out.onnx")
    assert report.verified
    assert report.before.nodes == 6
    assert kinds(result) == ["Mul", "LeakyRelu", "Mul", "LeakyRelu"]
    np.testing.assert_array_equal(run(result, X)[0], run(model, X)[0])


# --- any model --------------------------------------------------------------------------------


@given(model=cnn_models())
@hypothesis_settings(
    max_examples=trials(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_optimised_models_are_verified_and_no_larger(tmp_path: Path, model: onnx.ModelProto) -> None:
    report = atcpy.optimize(model, tmp_path / "out.onnx")
    assert report.verified
    assert report.after.nodes <= report.before.nodes
    onnx.checker.check_model(str(tmp_path / "out.onnx"), full_check=True)
