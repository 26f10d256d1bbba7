"""Plans for all sizes of open dims, against ONNX Runtime at many sizes; nothing may be compiled when they run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import onnxruntime
import pytest
from onnx import numpy_helper

from atcpy import InferenceSession
from atcpy.errors import InternalError, ModelInvalid
from atcpy.ir import Graph, Symbol, plans_of
from atcpy.ir.symbolic import Op, Tracer, terms_of
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.om.reader import parse_package, read_model
from atcpy.options import convert_options
from atcpy.passes.pass_manager import PassManager
from atcpy.runtime import symbolic
from atcpy.stages import symbolic as stages
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package

SIZES = (1, 2, 3, 15, 16, 17, 40)

# Models with the open dims b, s, t, h and w: a name, and indented the graph.
TEXT = """
elementwise
    (float[b,s] x, float[s] y) => (float[b,s] z) { t = Mul(x, y) u = Exp(t) z = Sub(u, x) }
chains and rows
    (float[b,s,8] x) => (float[b,s,8] z) <int64[1] a = {-1}> { m = ReduceMean(x, a) d = Sub(x, m) z = Tanh(d) }
softmax
    (float[b,4,s,s] x) => (float[b,4,s,s] z) { z = Softmax(x) }
softmax on an inner axis
    (float[b,s,5] x) => (float[b,s,5] z) { z = Softmax<axis=1>(x) }
matmul
    (float[b,s,8] x) => (float[b,s,6] z) <float[8,6] w> { z = MatMul(x, w) }
product of two
    (float[b,s,8] x, float[b,t,8] y) => (float[b,s,t] z) { u = Transpose<perm=[0,2,1]>(y) z = MatMul(x, u) }
product over a broadcast batch
    (float[b,1,s,8] x, float[3,8,4] y) => (float[b,3,s,4] z) { z = MatMul(x, y) }
vectors
    (float[s] x, float[s,3] y) => (float[3] z) { z = MatMul(x, y) }
gemm with a bias
    (float[b,8] x, float[b,6] c) => (float[b,6] z) <float[8,6] w> { z = Gemm<alpha=0.5>(x, w, c) }
concat
    (float[b,s,4] x, float[b,t,4] y) => (float[b,u,4] z) { z = Concat<axis=1>(x, y) }
concat of computed parts
    (float[b,s] x, float[b,t] y) => (float[b,u] z) { p = Exp(x) q = Neg(y) z = Concat<axis=1>(p, q) }
transpose
    (float[b,s,3,5] x) => (float[b,3,s,5] z) { z = Transpose<perm=[0,2,1,3]>(x) }
heads
    (float[b,s,8] x) => (float[b,s,8] z) <int64[4] to = {0, -1, 2, 4}, int64[3] back = {0, -1, 8}> {
        r = Reshape(x, to) t = Transpose<perm=[0,2,1,3]>(r) e = Exp(t) u = Transpose<perm=[0,2,1,3]>(e)
        z = Reshape(u, back) }
flatten
    (float[b,s,4] x) => (float[n,4] z) <int64[2] to = {-1, 4}> { z = Reshape(x, to) }
a square out of a larger one
    (float[b,s] x) => (float[s,s] z) <float[64,64] m, int64[1] rows = {0}, int64[1] columns = {1}> {
        n = Shape<start=1>(x) r = Slice(m, rows, n, rows) c = Slice(r, rows, n, columns) z = Exp(c) }
reshape by shape arithmetic
    (float[b,s,8] x) => (float[b,n] z) <int64[1] one = {-1}> {
        f = Shape<start=0, end=1>(x) t = Concat<axis=0>(f, one) z = Reshape(x, t) }
dims as numbers
    (float[b,s] x) => (float[b,s] z) { n = Shape<start=1>(x) f = Cast<to=1>(n) z = Div(x, f) }
one dim as a scalar, a list and of another type
    (float[b,s] x) => (int64 p, int64[1] q, int32[1] r) <int64 zero = {0}, int64[1] first = {0}> {
        n = Shape(x) p = Gather(n, zero) q = Unsqueeze(p, first) r = Cast<to=6>(q) }
shape as a result
    (float[b,s] x) => (int64[2] z) { z = Shape(x) }
slice
    (float[b,s] x) => (float[b,t] z) <int64[1] from = {1}, int64[1] to = {9223372036854775807}, int64[1] a = {1}> {
        z = Slice(x, from, to, a) }
last row
    (float[b,s,4] x) => (float[b,1,4] z)
    <int64[1] from = {-1}, int64[1] to = {9223372036854775807}, int64[1] a = {1}> { z = Slice(x, from, to, a) }
split
    (float[b,6,s] x) => (float[b,2,s] y, float[b,4,s] z) <int64[2] n = {2, 4}> { y, z = Split<axis=1>(x, n) }
gather
    (int64[b,s] i) => (float[b,s,4] z) <float[3,4] w> { z = Gather(w, i) }
where and a mask
    (float[b,s] x) => (float[b,s] z) <float zero = {0}> { m = Greater(x, zero) z = Where(m, x, zero) }
expand
    (float[s] x, float[b,s] y) => (float[b,s] z) { n = Shape(y) z = Expand(x, n) }
positions
    (float[b,s] x) => (int64[s] z) <int64 zero = {0}, int64 one = {1}, int64 axis = {1}> {
        n = Shape(x) l = Gather(n, axis) z = Range(zero, l, one) }
positions after others
    (float[b,s] x, float[b,t] y) => (int64[u] z) <int64 one = {1}, int64 axis = {1}> {
        n = Shape(x) p = Gather(n, axis) m = Shape(y) q = Gather(m, axis) e = Add(p, q) z = Range(p, e, one) }
tile
    (float[b,s] x) => (float[b,t] z) <int64[2] n = {1, 3}> { z = Tile(x, n) }
pad
    (float[b,s] x) => (float[b,t] z) <int64[4] p = {0, 1, 0, 2}> { z = Pad(x, p) }
reduce
    (float[b,s,4] x) => (float[b,4] y, float[b] z) <int64[1] a = {1}, int64[2] c = {1, 2}> {
        y = ReduceSum<keepdims=0>(x, a) z = ReduceMax<keepdims=0>(x, c) }
layer norm
    (float[b,s,8] x) => (float[b,s,8] z) <float[8] g> { z = LayerNormalization(x, g) }
conv
    (float[b,3,h,w] x) => (float[b,4,p,q] z) <float[4,3,3,3] k> {
        c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, k) z = Relu(c) }
depthwise conv and pool
    (float[b,16,h,w] x) => (float[b,16,1,1] z) <float[16,1,3,3] k> {
        c = Conv<pads=[1,1,1,1], group=16>(x, k) p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(c)
        z = GlobalAveragePool(p) }
one spatial dim
    (float[b,2,s] x) => (float[b,4,t] z) <float[4,2,3] k> { z = Conv<pads=[1,1]>(x, k) }
upsampling
    (float[b,3,h,w] x) => (float[b,3,p,q] z) <float[4] f = {1, 1, 2, 2}> {
        e = Exp(x)
        z = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(e, , f) }
integers
    (int32[b,s] x) => (int32[b,s] z, int64[b] i) { z = Add(x, x) i = ArgMax<axis=1, keepdims=0>(x) }
sums along
    (float[b,s] x) => (float[b,s] z) <int64 a = {1}> { z = CumSum(x, a) }
lengths that must agree
    (float[b,s] x, float[b,t] y) => (float[b,s] z) { z = Add(x, y) }
squeezed and unsqueezed
    (float[b,1,s] x) => (float[b,s,1] z) <int64[1] one = {1}, int64[1] two = {2}> {
        q = Squeeze(x, one) z = Unsqueeze(q, two) }
"""


def _models() -> dict[str, str]:
    found: dict[str, str] = {}
    for line in TEXT.strip().splitlines():
        if not line.startswith(" "):
            found[line] = ""
        else:
            found[list(found)[-1]] += line + "\n"
    return found


MODELS = _models()


def feeds_of(session: onnxruntime.InferenceSession, sizes: Mapping[str, int], seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port in session.get_inputs():
        shape = [dim if isinstance(dim, int) else sizes[dim] for dim in port.shape]
        floats = port.type == "tensor(float)"
        dtype = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}.get(port.type, np.float32)
        feeds[port.name] = rng.standard_normal(shape).astype(dtype) if floats else rng.integers(0, 3, shape, dtype)
    return feeds


def ort_session(proto: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    return onnxruntime.InferenceSession(proto, options)


@pytest.mark.parametrize("name", MODELS)
def test_one_package_serves_all_sizes(name: str) -> None:
    proto = model("m " + MODELS[name])
    oracle = ort_session(proto.SerializeToString())
    session = InferenceSession(package("m " + MODELS[name]), threads=1)
    rng = np.random.default_rng(len(name))
    drawn = [dict(zip("bsthw", rng.choice(SIZES, 5).tolist(), strict=True)) for _ in range(12)]
    for number, sizes in enumerate([dict.fromkeys("bsthw", 1), dict.fromkeys("bsthw", 16), *drawn]):
        if name == "lengths that must agree":
            sizes["t"] = sizes["s"]
        feeds = feeds_of(oracle, sizes, number)
        for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=str(sizes))
            assert found.dtype == expected.dtype
    cache = session.shape_cache
    assert cache is not None and cache.misses == 0, "something was compiled"


def test_sizes_that_break_a_guard_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths of both are one symbol in the plan; a length of 1, which is broadcast, takes another."""
    monkeypatch.setattr(stages, "MAX_VARIANTS", 1)
    session = InferenceSession(package("m " + MODELS["lengths that must agree"]), threads=1)
    x, y = np.ones((2, 5), np.float32), np.ones((2, 1), np.float32)
    [z] = session.run(None, {"x": x, "y": y})
    assert z.shape == (2, 5) and (z == 2).all()
    assert session.shape_cache is not None and session.shape_cache.misses == 1
    session.run(None, {"x": x, "y": x})
    assert session.shape_cache.misses == 1


@pytest.mark.usefixtures("all_variants")
def test_a_length_that_equals_others_may_be_broadcast() -> None:
    """In general the mask has a column for each key, old and new. One of a single column has plans, too."""
    text = """m (float[b,n,4] x, float[b,p,4] past, float[b,t] mask) => (float[b,n,4] y, float[b,u,4] all)
        <int64[1] one = {1}> {
        all = Concat<axis=1>(past, x) k = Transpose<perm=[0,2,1]>(all) s = MatMul(x, k)
        m = Unsqueeze(mask, one) a = Add(s, m) w = Softmax(a) y = MatMul(w, all) }"""
    session, oracle = InferenceSession(package(text), threads=1), ort_session(model(text).SerializeToString())
    for number, (b, n, p) in enumerate(product((1, 3), (1, 4), (1, 5))):
        for t in (1, n + p):
            feeds = feeds_of(oracle, {"b": b, "n": n, "p": p, "t": t}, number)
            for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert session.shape_cache is not None and session.shape_cache.misses == 0


def test_a_block_with_residuals_and_a_mask_is_one_plan_for_all_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_VARIANTS", 1)
    text = """block (float[b,s,8] x, int64[b,t] m) => (float[b,s,8] z, int64[b] n)
        <float[8,8] w, float[8] g, float[8] h, int64[1] a = {1}, int64 one = {1}> {
        p = MatMul(x, w) r = Add(p, x) z = LayerNormalization(r, g, h)
        u = ReduceSum<keepdims=0>(m, a) n = Sub(u, one) }"""
    session = InferenceSession(package(text), threads=1)
    for b, s, t in ((2, 3, 4), (1, 3, 1), (1, 1, 5000), (3, 1, 4096)):
        x, m = np.random.default_rng(t).standard_normal((b, s, 8)).astype(np.float32), np.ones((b, t), np.int64)
        z, n = session.run(None, {"x": x, "m": m})
        [want, _] = onnxruntime.InferenceSession(model(text).SerializeToString()).run(None, {"x": x, "m": m})
        np.testing.assert_allclose(z, want, rtol=1e-4, atol=1e-5)
        assert (n == t - 1).all()
    assert session.shape_cache.misses == 0


def test_what_is_not_planned_says_why() -> None:
    text = "m (float[n] x, int64[r] s) => (float y) { z = Reshape(x, s) y = ReduceSum<keepdims=0>(z) }"
    compiled, report = compile_model(model(text), convert_options({}))
    assert not compiled.clusters and not report.plans and "of any rank" in report.unplanned
    text = "m (float[n] x) => (string[n] y) { y = Cast<to = 8>(x) }"
    compiled, report = compile_model(model(text), convert_options({}))
    assert not compiled.clusters and not report.unplanned and not report.plans, "a node of the host needs no plan"
    compiled, report = compile_model(model("m (float[n] x) => (float[n] y) { y = Exp(x) }"), convert_options({}))
    plan, of_nothing = plans_of(compiled.clusters)
    assert not of_nothing.tasks and report.plans == ((1, 0),) and not report.unplanned and plan.symbols[0].name == "n"


# Sizes that values decide: graph, then feeds of three runs.
BY_VALUE: dict[str, tuple[str, list[dict[str, object]]]] = {
    "indices of what is not 0": (
        "(float[n,m] x) => (float[k] z) { i = NonZero(x) j = Transpose(i) y = GatherND(x, j) z = Exp(y) }",
        [{"x": [[1, 0, 2]]}, {"x": np.eye(5)}, {"x": np.ones((3, 4))}],
    ),
    "rows that are kept": (
        "(float[n,m] x, bool[n] c) => (float[k,m] z) { y = Compress<axis=0>(x, c) z = Exp(y) }",
        [{"x": np.eye(4), "c": [True, False, True, True]}, {"x": np.ones((2, 3)), "c": [True, True]}],
    ),
    "a shape": (
        "(float[n,m] x, int64[2] s) => (float[a,b] z) { y = Reshape(x, s) z = Exp(y) }",
        [{"x": np.ones((4, 6)), "s": [3, 8]}, {"x": np.ones((3, 4)), "s": [2, 6]}],
    ),
    "the end of a range": (
        "(int64 n, float t) => (float[k] z) <int64 a={0}, int64 b={1}> {"
        " y = Range(a, n, b) f = Cast<to=1>(y) z = Mul(f, t) }",
        [{"n": 5, "t": 2}, {"n": 17, "t": 3}, {"n": 1, "t": 1}],
    ),
    "a computed K": (
        "(float[n] x, float t) => (float[k] v, int64[k] i) <int64[1] one={1}> {"
        " c = Cast<to=7>(t) k = Reshape(c, one) v, i = TopK(x, k) }",
        [{"x": range(9), "t": 3}, {"x": range(4), "t": 4}, {"x": range(4), "t": 1}],
    ),
    "a slice": (
        "(float[n] x, int64[1] a, int64[1] b) => (float[k] z) { y = Slice(x, a, b) z = Exp(y) }",
        [{"x": range(9), "a": [2], "b": [5]}, {"x": range(9), "a": [1], "b": [9]}],
    ),
    "one after the other": (
        "(float[n] x) => (float[k] z) <float low={0.5}, float high={4}> {"
        " a = Greater(x, low) y = Compress<axis=0>(x, a) e = Exp(y) b = Less(e, high) z = Compress<axis=0>(e, b) }",
        [{"x": [0, 1, 2, 1]}, {"x": [1, 1, 3, 1, 1]}],
    ),
    "a branch": (
        "(float[n] x, bool c) => (float[n] z) { y = Exp(x) z = If<"
        "then_branch = t () => (float[n] a) { a = Neg(y) }, else_branch = e () => (float[n] b) { b = Add(y, y) }>(c) }",
        [{"x": [1, 2], "c": True}, {"x": [1, 2, 3], "c": False}, {"x": [1, 2, 3], "c": True}],
    ),
    "iterations": (
        "(float[n] x, int64 t) => (float[n] z, float[t,n] s) <bool y = {1}> { z, s = Loop<body = b"
        " (int64 i, bool c, float[n] a) => (bool d, float[n] w, float[n] v)"
        " { d = Identity(c) w = Mul(a, x) v = Exp(w) }>(t, y, x) }",
        [{"x": [1, 0.5], "t": 3}, {"x": [1, 2, 0.1], "t": 7}, {"x": [1, 2, 0.1], "t": 0}],
    ),
    "texts between": (
        "(float[n] x) => (float[n] z) { y = Neg(x) d = Cast<to=8>(y) f = Cast<to=1>(d) z = Exp(f) }",
        [{"x": [1, 0.5]}, {"x": [1, 0.5, 3]}],
    ),
}


@pytest.mark.parametrize("name", BY_VALUE)
def test_sizes_that_values_decide_are_planned(name: str) -> None:
    text, runs = BY_VALUE[name]
    oracle = ort_session(model("m " + text).SerializeToString())
    session = InferenceSession(package("m " + text), threads=1)
    types = {"tensor(int64)": np.int64, "tensor(bool)": np.bool_}
    for run in runs:
        feeds = {
            port.name: np.asarray(run[port.name], types.get(port.type, np.float32)) for port in oracle.get_inputs()
        }
        for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert session.shape_cache is not None and session.shape_cache.misses == 0, "something was compiled"


def test_bounds_of_dims_are_those_of_the_plan() -> None:
    session = InferenceSession(
        package("m (float[n] x) => (float[n] y) { y = Exp(x) }", {"input_shape": "x:2~5"}), threads=1
    )
    for size in (2, 5):
        session.run(None, {"x": np.zeros(size, np.float32)})
    assert session.shape_cache is not None and session.shape_cache.misses == 0


@pytest.mark.parametrize(("bounds", "variants"), [("x:1~8,-1,8", 2), ("x:1~8,0~9,8", 2), ("x:1~8,1~9,8", 1)])
def test_no_plan_is_for_sizes_outside_the_bounds(bounds: str, variants: int) -> None:
    """Dims of size 0 get a plan of their own, unless they cannot have it."""
    text = "m (float[b,s,8] x) => (float[b,s,s] z) { t = Transpose<perm=[0,2,1]>(x) z = MatMul(x, t) }"
    _, report = compile_model(model(text), convert_options({"input_shape": bounds}))
    assert [len(plans) for plans in report.plans] == [variants]


def test_dims_of_one_name_are_one_symbol() -> None:
    compiled, _ = compile_model(
        model("m (float[n,3] x, float[3,n] y) => (float[n,n] z) { z = MatMul(x, y) }"), convert_options({})
    )
    [first, *_] = plans_of(compiled.clusters)
    assert first.symbols == (Symbol("n", 0, 0),)


@pytest.mark.parametrize(
    "text",
    [
        "m (float[n,64] x) => (float[n,64] z) <float[64] w> { z = Add(x, w) }",
        "m (float[n,64] x) => (float[n,48] z) <float[64,48] w> { z = MatMul(x, w) }",
        "m (float[n,3,h,h] x) => (float[n,8,k,k] z) <float[8,3,3,3] w> { z = Conv(x, w) }",
    ],
)
def test_the_constants_of_a_plan_lie_in_the_package_once(text: str) -> None:
    source = model(text)
    compiled, _ = compile_model(source, convert_options({}))
    assert len({weight.offset for weight in compiled.weights}) == 1
    graph = read_model(parse_package(writer.to_bytes(compiled))).graph
    [kept] = [node.output.tensor for node in graph.nodes if node.op_type == "Const"]
    assert kept is not None
    np.testing.assert_array_equal(kept.array, numpy_helper.to_array(source.graph.initializer[0]))


def test_a_graph_is_compiled_with_the_constants_of_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_VARIANTS", 1)
    text = (
        "m (float[b,s,64] x, float[b,t,48] y) => (float[b,u,48] z) <float[64,48] w> { p = MatMul(x, w) z = Add(p, y) }"
    )
    session, oracle = InferenceSession(package(text), threads=1), ort_session(model(text).SerializeToString())
    for misses, length in ((0, 5), (1, 1)):  # a length of 1 is broadcast, which one plan does not do
        feeds = {"x": np.ones((2, 5, 64), np.float32), "y": np.ones((2, length, 48), np.float32)}
        np.testing.assert_allclose(session.run(None, feeds)[0], oracle.run(None, feeds)[0], rtol=1e-5, atol=1e-5)
        assert session.shape_cache is not None and session.shape_cache.misses == misses


def test_a_shape_that_was_met_goes_to_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "m (float[b,s,8] x) => (float[n,2,4] z) <int64[4] to = {0, -1, 2, 4}, int64[3] back = {-1, 2, 4}> {"
        " r = Reshape(x, to) t = Transpose<perm=[1,0,2,3]>(r) u = Reshape(t, back) z = Exp(u) }"
    )
    session, oracle = InferenceSession(package(text), threads=1), ort_session(model(text).SerializeToString())
    feeds = [{"x": np.full(shape, 2, np.float32)} for shape in ((3, 5, 8), (1, 5, 8), (3, 1, 8), (1, 1, 8))]
    expected = [oracle.run(None, feed)[0] for feed in feeds]
    for feed in feeds:
        session.run(None, feed)
    asked: list[object] = []
    monkeypatch.setattr(symbolic.PlanTemplate, "complete", lambda *args: asked.append(args))
    for feed, result in zip(feeds, expected, strict=True):
        np.testing.assert_allclose(session.run(None, feed)[0], result, rtol=1e-6)
    assert not asked


@pytest.mark.parametrize("cause", [ValueError("too many values"), None])
def test_inference_that_is_written_for_numbers_leaves_a_cluster_without_plans(
    monkeypatch: pytest.MonkeyPatch, cause: Exception | None
) -> None:
    def prepare(graph: Graph, manager: PassManager) -> None:
        raise InternalError("inference failed", where=graph.net_output) from cause

    monkeypatch.setattr("atcpy.stages.symbolic.prepare", prepare)
    text = "g (float[n] x) => (float[n] y) { y = Neg(x) }"
    if cause is None:
        with pytest.raises(InternalError):
            compile_model(model(text), convert_options({}))
    else:
        _, report = compile_model(model(text), convert_options({}))
        assert report.unplanned == "inference failed"


def test_sizes_are_found_for_which_a_model_has_results() -> None:
    """A Squeeze needs one frame, which the sizes that are tried first do not give."""
    text = """g (float[b,s] x) => (float[b,5] y) <float[5,1,64] w, int64[1] one = {1}, int64[1] two = {2}> {
        u = Unsqueeze(x, one) c = Conv<strides=[32]>(u, w) y = Squeeze(c, two) }"""
    built = model(text)
    session, oracle = (
        InferenceSession(package(text), threads=1),
        onnxruntime.InferenceSession(built.SerializeToString()),
    )
    for size in (64, 80, 95):
        x = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], oracle.run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)
    assert session.shape_cache is not None and session.shape_cache.misses == 0
    for size in (63, 96):
        with pytest.raises(ModelInvalid):
            session.run(None, {"x": np.zeros((3, size), np.float32)})


def test_a_range_is_no_number_only_where_nothing_is_known() -> None:
    """A product with a factor that has one value has that of the others; infinite ones made it NaN."""
    tracer = Tracer()
    open_ended, one = tracer.symbol("n", 1, 2**40, 8), tracer.symbol("m", 0, 2**40, 3)
    quotient = tracer.apply(Op.FDIV, one, open_ended - 7)  # of which nothing is known
    assert tracer.range(terms_of(one * quotient)) == (-np.inf, np.inf)
    unbounded = tracer.symbol("u", 1, np.inf, 8)  # type: ignore[arg-type]
    fixed = tracer.symbol("f", 3, 3, 3)
    assert tracer.range(terms_of(unbounded * fixed)) == (3, np.inf)


def test_a_size_may_have_another_formula_where_a_guard_makes_both_equal() -> None:
    """Of [k,n,m,w], -1 beside 8, 4, 2 and w is k·n·m // 64, which is m only where k·n is 64."""
    text = (
        "m (float[k,n,m,w] x) => (float[8,4,2,m,w] y) <int64[1] a={8}, int64[1] b={4}, int64[1] c={2}> {"
        " t = Elu(x) h = Shape<start=2,end=3>(t) w = Shape<start=3>(t) i = Cast<to=6>(w) j = Cast<to=7>(i)"
        " s = Concat<axis=0>(a, b, c, h, j) y = Reshape(t, s) }"
    )
    session = InferenceSession(package(text, {"debug": True}), threads=1)
    x = np.arange(8 * 8 * 3 * 8, dtype=np.float32).reshape(8, 8, 3, 8)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x.reshape(8, 4, 2, 3, 8))


@pytest.mark.usefixtures("all_variants")
def test_the_first_run_of_a_decoder_is_planned_for_one_sequence() -> None:
    """Caches that are empty, and a batch of 1: that is how each text begins."""
    text = """g (float[b,s,8] x, float[b,p,8] past_k, float[b,p,8] past_v, float[b,t] mask)
        => (float[b,s,8] y, float[b,t,8] k, float[b,t,8] v)
        <float[8,8] wq, float[8,8] wk, float[8,8] wv, int64[1] one = {1}> {
        q = MatMul(x, wq) nk = MatMul(x, wk) nv = MatMul(x, wv)
        k = Concat<axis=1>(past_k, nk) v = Concat<axis=1>(past_v, nv)
        kt = Transpose<perm=[0,2,1]>(k) s0 = MatMul(q, kt) m = Unsqueeze(mask, one) s1 = Add(s0, m)
        a = Softmax(s1) y = MatMul(a, v) }"""
    built = model(text)
    session, oracle = (
        InferenceSession(package(text), threads=1),
        onnxruntime.InferenceSession(built.SerializeToString()),
    )
    rng = np.random.default_rng(0)
    for batch, past, new in ((1, 0, 5), (1, 0, 1), (1, 5, 1), (1, 6, 2), (2, 0, 3), (3, 4, 1)):
        feeds = {
            "x": rng.standard_normal((batch, new, 8)).astype(np.float32),
            "past_k": rng.standard_normal((batch, past, 8)).astype(np.float32),
            "past_v": rng.standard_normal((batch, past, 8)).astype(np.float32),
            "mask": rng.standard_normal((batch, past + new)).astype(np.float32),
        }
        for actual, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)
    assert session.shape_cache is not None and session.shape_cache.misses == 0


@pytest.mark.parametrize(
    ("node", "axes"),
    [
        ("ReduceMin(x, a)", [[0], [1], [2], [-1]]),
        ("ReduceSum<keepdims=0>(x, a)", [[0], [2], [-3]]),
        ("Unsqueeze(x, a)", [[0], [3], [-1]]),
    ],
)
def test_axes_that_are_inputs_are_those_of_each_run(node: str, axes: list[list[int]]) -> None:
    """Axes are numbers: a plan with a symbol for one took it for none of the dims."""
    text = f"g (float[n,2,2] x, int64[1] a) => (float y) {{ y = {node} }}"
    built = model(text)
    built.graph.output[0].type.tensor_type.ClearField("shape")
    compiled, _ = compile_model(built, convert_options({}))
    session = InferenceSession(writer.to_bytes(compiled), threads=1)
    oracle = onnxruntime.InferenceSession(built.SerializeToString())
    x = np.random.default_rng(0).standard_normal((3, 2, 2)).astype(np.float32)
    for axis in axes:
        feeds = {"x": x, "a": np.array(axis)}
        actual, expected = session.run(None, feeds)[0], oracle.run(None, feeds)[0]
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_axes_keep_their_type_where_dims_change_places() -> None:
    """The bounds and axes of a Slice have one type, which a Slice of the transposed input must have, too."""
    text = """g (float[2,3,4,5] x, int32[1] begin) => (float[a,b,c,d] y)
        <int32[1] end = {2147483647}, int32[1] axis = {3}> {
        t = Transpose<perm=[0,2,3,1]>(x) e = Exp(t) s = Slice(e, begin, end, axis) y = Transpose<perm=[0,3,1,2]>(s) }"""
    built = model(text)
    session, oracle = (
        InferenceSession(package(text), threads=1),
        onnxruntime.InferenceSession(built.SerializeToString()),
    )
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    for begin in (0, 1, 2):
        feeds = {"x": x, "begin": np.array([begin], np.int32)}
        np.testing.assert_allclose(session.run(None, feeds)[0], oracle.run(None, feeds)[0], rtol=1e-5)
