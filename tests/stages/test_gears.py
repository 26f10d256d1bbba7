"""Gears: a package for several listed sizes, each against ONNX Runtime, and what it shares and records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError
from atcpy.ir import CompiledModel, Graph, walk
from atcpy.ir.gears import branches
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.om.reader import parse_package, read_model
from atcpy.options import convert_options
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model

CONV = """m (float[b,3,h,w] x) => (float[b,4,h,w] y) <float[4,3,3,3] k, float[4] c> {
    t = Conv<pads=[1,1,1,1]>(x, k, c) y = Relu(t) }"""
ATTENTION = """m (float[b,s,8] x, float[b,s] mask) => (float[b,s,8] y, float[b,8] p, int64[3] n)
    <float[8,8] q, int64[1] one = {1}> {
    k = MatMul(x, q) kt = Transpose<perm=[0,2,1]>(k) s0 = MatMul(k, kt) m = Unsqueeze(mask, one)
    s1 = Add(s0, m) a = Softmax(s1) y = MatMul(a, k) p = ReduceMean<keepdims=0>(y, one) n = Shape(x) }"""
HOST = "m (float[b,4,2] x) => (float[b,4,2] y) { t = Exp(x) d = DFT<inverse = 1>(t) y = Neg(d) }"

CASES: dict[str, tuple[str, dict[str, object]]] = {
    "batches": (CONV, {"dynamic_batch_size": "1,2,5", "input_shape": "x:-1,3,8,8"}),
    "images": (CONV, {"dynamic_image_size": "8,8;16,9;1,1", "input_shape": "x:2,3,-1,-1"}),
    "dims": (ATTENTION, {"dynamic_dims": "1,7,1,7;3,16,3,16", "input_shape": "x:-1,-1,8;mask:-1,-1"}),
    "dims of a fixed batch": (ATTENTION, {"dynamic_dims": "7,7;16,16;1,1", "input_shape": "x:2,-1,8;mask:2,-1"}),
    "an op on the host": (HOST, {"dynamic_batch_size": "1,3", "input_shape": "x:-1,4,2"}),
}


def compiled(text: str, options: Mapping[str, object]) -> CompiledModel:
    return compile_model(model(text), convert_options(options))[0]


def random_feeds(session: InferenceSession, gear: int) -> dict[str, Array]:
    rng = np.random.default_rng(gear)
    return {arg.name: rng.standard_normal(arg.gears[gear]).astype(np.float32) for arg in session.get_inputs()}


@pytest.mark.parametrize(("text", "options"), CASES.values(), ids=CASES)
def test_each_gear_agrees_with_onnxruntime(text: str, options: dict[str, object]) -> None:
    reference = onnxruntime.InferenceSession(model(text).SerializeToString())
    compiled_model = compiled(text, options)
    session = InferenceSession(writer.to_bytes(compiled_model), threads=1)
    assert len(session.get_inputs()[0].gears) == len(compiled_model.gears) >= 2
    for number in (*range(len(compiled_model.gears)), 0):
        feeds = random_feeds(session, number)
        for ours, theirs in zip(session.run(None, feeds), reference.run(None, feeds), strict=True):
            assert ours.dtype == theirs.dtype
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_a_gear_is_compiled_as_a_package_of_its_shapes_is() -> None:
    gears = compiled(*CASES["batches"])
    for number, batch in enumerate((1, 2, 5)):
        fixed = compiled(CONV, {"input_shape": f"x:{batch},3,8,8"})
        gear = gears.gears[number]
        first = sum(before.task_count for before in gears.gears[:number])
        own = gears.tasks[first : first + gear.task_count]
        assert [(task.kernel, task.params) for task in own] == [(task.kernel, task.params) for task in fixed.tasks]
        assert gear.arena_bytes == fixed.memory.arena_bytes


def test_gears_share_their_constants() -> None:
    text = "m (float[b,256] x) => (float[b,256] y) <float[256,256] w> { t = MatMul(x, w) y = Relu(t) }"
    options = {"input_shape": "x:-1,256", "dynamic_batch_size": "16,17,32,64"}
    ours = parse_package(writer.to_bytes(compiled(text, options)))
    one = parse_package(writer.to_bytes(compiled(text, {"input_shape": "x:16,256"})))
    assert len(one.weights) >= 4 * 256 * 256
    assert len(ours.weights) <= 1.1 * len(one.weights)


def test_the_graph_is_that_of_ge() -> None:
    compiled_model = compiled(*CASES["dims of a fixed batch"])
    graph = read_model(parse_package(writer.to_bytes(compiled_model))).graph
    by_name = {node.name: node for node in graph.nodes}
    assert [node.op_type for node in graph.nodes] == [
        "Data", "Data", "Const", "GetDynamicDims", "MapIndex", "Case", "NetOutput",
    ]  # fmt: skip
    table = by_name["ascend_mbatch_shape_const"].output.tensor
    assert table is not None and table.array.tolist() == [7, 7, 16, 16, 1, 1] and table.array.dtype == np.int32
    assert by_name["ascend_mbatch_get_dynamic_dims_node"].output.desc.shape == (2,)
    assert by_name["ascend_mbatch_shape_mapindex"].op_type == "MapIndex"
    case = by_name["ascend_mbatch_shape_case"]
    assert {name: value for name, value in case.attrs.items() if name != "branches"} == {
        "_batch_num": 3,
        "_pred_value_0": (7, 7),
        "_pred_value_1": (16, 16),
        "_pred_value_2": (1, 1),
        "mbatch_dynamic_type": 3,
        "user_designate_shape_order": ("x", "mask"),
        "mbatch-inserted-node": True,
    }
    assert by_name["x"].attrs["_mbatch_origin_input_dims"] == (2, -1, 8)
    assert by_name["mask"].attrs["_all_origin_gears_inputs"] == (
        "ND:DT_FLOAT:mask:56:2:2,7", "ND:DT_FLOAT:mask:128:2:2,16", "ND:DT_FLOAT:mask:8:2:2,1",
    )  # fmt: skip
    assert graph.net_output.attrs["_dynamic_output_dims"][:4] == ("0,0,2,7,8", "1,0,2,16,8", "2,0,2,1,8", "0,1,2,8")
    assert [str(value.desc.shape and value.desc.shape[1]) for value in graph.outputs[:2]] == ["s", "8"]
    for number, branch in enumerate(branches(graph)):
        nodes = list(walk(branch))
        assert branch.name == f"Batch_{number}"
        assert all(f"_ascend_mbatch_batch_{number}" in node.name for node in nodes)
        assert {"y"} <= {source for node in nodes for source in node.sources}


def test_the_same_model_gives_the_same_bytes() -> None:
    assert writer.to_bytes(compiled(*CASES["dims"])) == writer.to_bytes(compiled(*CASES["dims"]))


def test_the_report_tells_the_gears() -> None:
    text, options = CASES["images"]
    report = compile_model(model(text), convert_options(options))[1]
    fixed = compile_model(model(text), convert_options({"input_shape": "x:2,3,8,8"}))[1]
    assert report.gears == ("8,8", "16,9", "1,1")
    assert report.engines == fixed.engines
    assert report.task_count == sum(gear.task_count for gear in compiled(text, options).gears)
    assert [port.shape for port in (*report.inputs, *report.outputs)] == [(2, 3, "h", "w"), (2, 4, "h", "w")]
    assert [entry.applied for entry in report.passes if entry.name == "ConvReluFusionPass"] == [1]


BATCHES = {"dynamic_batch_size": "1,2"}
REFUSED: dict[str, tuple[str, dict[str, object], str, str]] = {
    "a size that the model fixes": (CONV, {**BATCHES, "input_shape": "x:-1,-1,8,8"}, "E10018", "dimension 1"),
    "a dim that the model fixes": (
        CONV,
        {"dynamic_dims": "1,3;2,3", "input_shape": "x:-1,-1,8,8"},
        "E10050",
        "dimension 1: the model says 3",
    ),
    "an open input that is not listed": (ATTENTION, {**BATCHES, "input_shape": "x:-1,4,8"}, "E10004", '"mask"'),
    "two sizes of one name": (
        ATTENTION,
        {"dynamic_dims": "4,4;4,5", "input_shape": "x:2,-1,8;mask:2,-1"},
        "E10050",
        'gear 1 has 4 and 5 for "s"',
    ),
    "a shape that values decide": (
        "m (float[n] x) => (int64[1,m] y) { t = Relu(x) y = NonZero(t) }",
        {**BATCHES, "input_shape": "x:-1"},
        "E10055",
        "depends on values",
    ),
    "a gear that does not fit the model": (
        "m (float[b,4] x) => (float[c,8] y) <int64[2] to = {-1, 8}> { y = Reshape(x, to) }",
        {"dynamic_batch_size": "2,3", "input_shape": "x:-1,4"},
        "EZ8888",
        "Reshape",
    ),
}


@pytest.mark.parametrize(("text", "options", "code", "what"), REFUSED.values(), ids=REFUSED)
def test_gears_that_do_not_fit_the_model_are_refused(
    text: str, options: dict[str, object], code: str, what: str
) -> None:
    with pytest.raises(AtcError) as caught:
        compiled(text, options)
    assert caught.value.code == code
    assert what in str(caught.value)


def test_listed_sizes_leave_nothing_open() -> None:
    text, options = CASES["batches"]
    assert len(compiled(text, {**options, "static": True}).gears) == 3


def test_inputs_with_a_default_need_no_gear() -> None:
    text = "m (float[b,3] x, float[3] c) => (float[b,3] y) <float[3] c = {1, 2, 3}> { y = Add(x, c) }"
    compiled_model = compiled(text, {"dynamic_batch_size": "1,2", "input_shape": "x:-1,3"})
    session = InferenceSession(writer.to_bytes(compiled_model), threads=1)
    assert [arg.name for arg in session.get_overridable_initializers()] == ["c"]
    x, c = np.zeros((2, 3), np.float32), np.array([5, 6, 7], np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], [[1, 2, 3]] * 2)
    np.testing.assert_array_equal(session.run(None, {"x": x, "c": c})[0], [[5, 6, 7]] * 2)


def test_only_packages_with_gears_have_branches() -> None:
    assert branches(Graph("empty")) == ()
    assert branches(compiled(CONV, {"input_shape": "x:1,3,8,8"}).graph) == ()
