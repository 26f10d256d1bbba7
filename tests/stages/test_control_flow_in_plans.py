"""If, Loop and Scan as part of a plan, against ONNX Runtime: the session runs one plan, and compiles nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.passes.split.plan_control_flow import MAX_DEPTH
from atcpy.runtime.planned_model import PlannedModel
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.fuzz.control_flow import draw

# A name, and indented a graph with the inputs x, a tensor of floats with two columns, c, a bool, and n, a number.
TEXT = """
branches
    y = If(c) <then_branch = t () => (float[2] a) { a = ReduceSum<keepdims=0>(x, first) },
               else_branch = e () => (float[2] b) { b = ReduceMax<keepdims=0>(x, first) }>
one value out of both branches, the input out of one
    y = If(c) <then_branch = t () => (float[r,2] a) { a = Identity(x) },
               else_branch = e () => (float[r,2] b) { b = Neg(x) }>
branches that compute nothing
    t = Neg(x)  u = Abs(x)
    y = If(c) <then_branch = t () => (float[r,2] a) { a = Identity(t) },
               else_branch = e () => (float[r,2] b) { b = Identity(u) }>
one result twice, and a constant
    y, z = If(c) <then_branch = t () => (float[r,2] a, float[r,2] b) { a = Neg(x) b = Identity(a) },
                  else_branch = e () => (float[r,2] d, float[r,2] f) { d = Abs(x) f = Sub(x, x) }>
a value that one branch may overwrite and the other reads
    t = Exp(x)
    y = If(c) <then_branch = t () => (float[r,2] a) { a = Relu(t) },
               else_branch = e () => (float[r,2] b) { p = Neg(x) b = Mul(p, t) }>
a branch in a branch
    y = If(c) <then_branch = t () => (float[r,2] a) { a = If(c) <
                   then_branch = tt () => (float[r,2] aa) { aa = Neg(x) },
                   else_branch = te () => (float[r,2] ab) { ab = Abs(x) }> },
               else_branch = e () => (float[r,2] b) { b = Exp(x) }>
a loop
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  f = Cast<to=1>(i)  w = Add(v, f) }>
a loop without a condition
    y = Loop(n, , x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  w = Neg(v) }>
a loop whose condition ends it
    y = Loop(, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        w = Add(v, half)  m = ReduceMax<keepdims=0>(w)  co = Less(m, four) }>
a loop whose condition may be false before it
    y = Loop(n, c, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  w = Neg(v) }>
a loop that runs once because its body says so
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Not(ci)  w = Neg(v) }>
two values that change places
    t = Neg(x)
    y, z = Loop(n, yes, x, t) <body = b (int64 i, bool ci, float[r,2] v, float[r,2] u)
        => (bool co, float[r,2] w, float[r,2] s) { co = Identity(ci)  w = Identity(u)  s = Identity(v) }>
one value carried twice
    t = Neg(x)
    y, z = Loop(n, yes, t, t) <body = b (int64 i, bool ci, float[r,2] v, float[r,2] u)
        => (bool co, float[r,2] w, float[r,2] s) { co = Identity(ci)  w = Add(v, u)  s = Sub(v, u) }>
a carried value that is read after its successor is computed
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  p = Exp(v)  q = Transpose(v)  s = MatMul(q, p)  w = MatMul(v, s)  }>
a carried value that the body returns unchanged
    y, z = Loop(n, yes, x, x) <body = b (int64 i, bool ci, float[r,2] v, float[r,2] u)
        => (bool co, float[r,2] w, float[r,2] s) { co = Identity(ci)  w = Add(v, u)  s = Identity(u) }>
a captured value that a kernel would overwrite
    t = Exp(x)
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  p = Softmax(t)  w = Add(v, p) }>
a captured value whose memory would be used again
    t = Softmax(x)
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  p = MatMul(t, square)  q = Softmax(v)  s = MatMul(q, square)  w = Add(p, s) }>
what is carried in is an output too
    z = Neg(x)
    y = Loop(n, yes, z) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  w = Exp(v) }>
loops in loops
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)
        w = Loop(n, ci, v) <body = d (int64 j, bool cj, float[r,2] p) => (bool cp, float[r,2] q) {
            cp = Identity(cj)  f = Cast<to=1>(i)  g = Cast<to=1>(j)  h = Add(f, g)  s = Add(p, h)  q = Tanh(s) }> }>
a branch in a loop
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  m = ReduceMean<keepdims=0>(v)  s = Less(m, half)
        w = If(s) <then_branch = t () => (float[r,2] a) { a = Add(v, half) },
                   else_branch = e () => (float[r,2] d) { d = Sub(v, four) }> }>
a weight in a body
    y = Loop(n, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w) {
        co = Identity(ci)  p = MatMul(v, square)  w = Tanh(p) }>
results that are collected
    y, z = Loop(three, yes, x) <body = b (int64 i, bool ci, float[r,2] v) => (bool co, float[r,2] w, float[2] s) {
        co = Identity(ci)  w = Neg(v)  s = ReduceSum<keepdims=0>(w, first) }>
results that are collected, of each type
    y, z = Loop(three, yes) <body = b (int64 i, bool ci) => (bool co, int64 j, bool s) {
        co = Identity(ci)  j = Add(i, i)  s = Equal(i, j) }>
a scan
    y, z = Scan<num_scan_inputs=1, body = b (float[2] s, float[2] e) => (float[2] t, float[2] u) {
        t = Add(s, e)  u = Neg(t) }>(vector, x)
a scan backwards along the second axis
    s = ReduceSum<keepdims=0>(x, second)
    y, z = Scan<num_scan_inputs=1, scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[-1],
        scan_output_directions=[1], body = b (float[r] v, float[r] e) => (float[r] t, float[r] u) {
        t = Sub(v, e)  u = Exp(t) }>(s, x)
a scan of two inputs without a state
    t = Exp(x)
    y = Scan<num_scan_inputs=2, body = b (float[2] p, float[2] q) => (float[2] u) { u = Mul(p, q) }>(x, t)
"""


def cases() -> dict[str, str]:
    graphs: dict[str, str] = {}
    for line in TEXT.strip().splitlines():
        if line.startswith(" "):
            graphs[next(reversed(graphs))] += line + "\n"
        else:
            graphs[line] = ""
    return graphs


CASES = cases()
CONSTANTS = """<bool yes = {1}, int64 three = {3}, int64[1] first = {0}, int64[1] second = {1}, float half = {0.5},
    float four = {4}, float[2] vector = {1, -1}, float[2,2] square = {0.5, -0.25, 0.125, 1}>"""


def model_of(name: str, rows: int | str) -> onnx.ModelProto:
    """The model of a case, whose input has a number of rows, or an open dim."""
    body = CASES[name]
    outputs = "y, z" if " z" in body or "y, z" in body else "y"
    results = ", ".join(f"float[a{index},b{index}] {output}" for index, output in enumerate(outputs.split(", ")))
    text = f"g (float[r,2] x, bool c, int64 n) => ({results}) {CONSTANTS} {{ {body} }}".replace("[r", f"[{rows}")
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    for output in made.graph.output:  # their types are those of what computes them
        output.ClearField("type")
    return onnx.shape_inference.infer_shapes(made, strict_mode=True)


def load(model: onnx.ModelProto) -> InferenceSession:
    compiled, report = compile_model(model, replace(convert_options({}), verify_ir=True))
    assert report.unplanned == ""
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    assert not session.eager_nodes
    return session


def check(session: InferenceSession, oracle: onnxruntime.InferenceSession, feeds: dict[str, Array]) -> None:
    for actual, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def oracle_of(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize("rows", [3, "r"])
@pytest.mark.parametrize("name", CASES)
def test_agrees_with_onnxruntime(name: str, rows: int | str) -> None:
    model = model_of(name, rows)
    session, oracle = load(model), oracle_of(model)
    rng = np.random.default_rng(0)
    for count in (rows,) if isinstance(rows, int) else (2, 5, 1):
        for condition, trips in ((True, 0), (False, 1), (True, 2), (True, 3)):
            x = rng.standard_normal((count, 2)).astype(np.float32)
            check(session, oracle, {"x": x, "c": np.array(condition), "n": np.array(trips)})
    assert session.shape_cache is not None and session.shape_cache.misses == 0


@pytest.mark.parametrize("seed", range(trials(60)))
def test_random_models_agree_with_onnxruntime(seed: int) -> None:
    drawn = draw(seed)
    session, oracle = load(drawn.model), oracle_of(drawn.model)
    for feeds in drawn.feeds:
        check(session, oracle, feeds)


# The names of kernels show where values are copied.
@pytest.mark.parametrize(
    ("body", "families"),
    [
        ("w = Neg(v)", ["strided_copy", "loop", "unary"]),
        ("w = Add(v, v)", ["strided_copy", "loop", "binary", "strided_copy"]),
        ("p = Exp(v) w = Transpose<perm=[1,0]>(v)", ["strided_copy", "loop", "strided_copy", "strided_copy"]),
        (
            "p = Exp(v) t = Transpose<perm=[1,0]>(p) w = Exp(t)",
            ["strided_copy", "loop", "unary", "strided_copy", "unary"],
        ),
    ],
    ids=["in place", "read twice", "read by a kernel that cannot overwrite it", "written after the last read"],
)
def test_carried_values_are_copied_only_where_they_have_to_be(body: str, families: list[str]) -> None:
    text = (
        "g (float[2,2] x, int64 n) => (float[2,2] y) { y = Loop(n, , x) <body = b (int64 i, bool c, float[2,2] v) => "
        f"(bool d, float[2,2] w) {{ d = Identity(c) {body} }}> }}"
    )
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    compiled, _ = compile_model(model, convert_options({"enable_graph_kernel": False}))
    [cluster] = compiled.clusters
    assert [task.kernel for task in cluster.variants[0].plans[0].tasks] == families


def nested(depth: int) -> onnx.ModelProto:
    """An If in an If, and so on."""
    text = "v0 = Neg(x)"
    for level in range(1, depth + 1):
        text = (
            f"v{level} = If(c) <then_branch = t{level} () => (float[2] a{level}) {{ {text} a{level} = "
            f"Abs(v{level - 1}) }}, else_branch = e{level} () => (float[2] b{level}) {{ b{level} = Exp(x) }}>"
        )
    text = f"g (float[2] x, bool c) => (float[2] y) {{ {text} y = Neg(v{depth}) }}"
    return parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')


@pytest.mark.parametrize(("depth", "is_planned"), [(MAX_DEPTH, True), (MAX_DEPTH + 1, False)])
def test_bodies_within_each_other(depth: int, is_planned: bool) -> None:
    model = nested(depth)
    compiled, _ = compile_model(model, convert_options({}))
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    assert bool(session.eager_nodes) is not is_planned
    for condition in (True, False):
        check(session, oracle_of(model), {"x": np.array([1, -2], np.float32), "c": np.array(condition)})


def test_control_flow_that_no_plan_has_leaves_the_rest_its_plans() -> None:
    """The first Loop carries a tensor that grows; the second is part of a plan."""
    text = """g (float[2] x, int64 n) => (float[a] y, float[2] z) {
        y = Loop(n, , x) <body = b (int64 i, bool c, float[p] v) => (bool d, float[q] w) {
            d = Identity(c) w = Concat<axis=0>(v, x) }>
        t = Exp(x)
        z = Loop(n, , t) <body = e (int64 j, bool f, float[2] r) => (bool g, float[2] s) {
            g = Identity(f) s = Neg(r) }> }"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    compiled, _ = compile_model(model, convert_options({}))
    session, oracle = InferenceSession(writer.to_bytes(compiled), threads=1), oracle_of(model)
    assert [node.outputs[0].name for node in session.eager_nodes if node.has_subgraphs] == ["y"]
    for trips in (0, 1, 3):
        check(session, oracle, {"x": np.array([1, 2], np.float32), "n": np.array(trips)})


def test_sizes_that_no_plan_serves_run_node_by_node(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("loops in loops", "r")
    session, oracle = load(model), oracle_of(model)
    feeds = {"x": np.ones((4, 2), np.float32), "c": np.array(True), "n": np.array(2)}
    procedure = session._procedure
    assert isinstance(procedure, PlannedModel)
    monkeypatch.setattr(procedure._cluster, "run", lambda *arguments: None)
    [actual] = procedure.run_owned([feeds[port.name] for port in session.get_inputs()])
    np.testing.assert_allclose(actual, oracle.run(None, feeds)[0], rtol=1e-6)
    assert session.shape_cache is not None and session.shape_cache.misses


def test_an_error_in_a_body_names_its_node() -> None:
    text = """g (float[4] x, int64 n) => (float[4] y) { y = Loop(n, , x) <body = b (int64 i, bool c, float[4] v) =>
        (bool d, float[4] w) { d = Identity(c) taken = Gather(v, i) w = Add(v, taken) }> }"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    model.graph.node[0].attribute[0].g.node[1].name = "the one that fails"
    session = load(model)
    x = np.ones(4, np.float32)
    assert session.run(None, {"x": x, "n": np.array(4)})[0].tolist() == [16.0] * 4
    with pytest.raises(ModelInvalid, match="index 4 is outside an axis of size 4") as raised:
        session.run(None, {"x": x, "n": np.array(5)})
    assert "the one that fails" in str(raised.value)
    assert session.run(None, {"x": x, "n": np.array(1)})[0].tolist() == [2.0] * 4, "the session stays usable"


def test_tasks_of_bodies_are_timed_with_their_names() -> None:
    session = load(model_of("a branch in a loop", 3))
    feeds = {"x": np.zeros((3, 2), np.float32), "c": np.array(True), "n": np.array(1)}
    seconds = {time.task.op_type: time.seconds for time in session.profile(feeds)}
    assert seconds["Add"] > 0 and seconds["Sub"] == 0, "one branch ran"
    assert {"Loop", "If"} <= seconds.keys()


def test_a_loop_that_carries_nothing() -> None:
    text = """g (int64 m, float[3] x) => (float[k,3] y) { y = Loop(m, "") <body = b (int64 i, bool c) =>
        (bool d, float[3] o) { d = Identity(c) f = Cast<to=1>(i) o = Mul(x, f) }> }"""
    model = parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    onnx.checker.check_model(model)
    compiled, _ = compile_model(model, convert_options({}))
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    for count in (0, 2):
        check(session, oracle_of(model), {"m": np.array(count), "x": np.ones(3, np.float32)})
