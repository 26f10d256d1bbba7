"""Graphs whose shapes are known only at run time, and control flow: what they return equals ONNX Runtime's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, ModelInvalid, UsageError
from atcpy.options import convert_options
from atcpy.runtime.distributed.world import SingleRank
from atcpy.runtime.loader import bind_compiled
from atcpy.runtime.profile import Profile
from atcpy.runtime.weights import WeightStore
from atcpy.runtime.workers import Workers
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package

Feeds = Mapping[str, Any]
X = np.array([[1, 0, 2], [0, 3, 0]], np.float32)
RNG = np.random.default_rng(0)
BOXES, SCORES = RNG.random((1, 5, 4), np.float32), RNG.random((1, 1, 5), np.float32)

LOOP_BODY = """<body = b (int64 i, bool ci, float[n,m] v) => (bool co, float[n,m] vo, float[n,m] s)
    { co = Identity(ci) vo = Add(v, x) s = Mul(v, v) }>"""
CASES: dict[str, tuple[str, list[Feeds]]] = {
    "open dims": (
        "(float[n,3] x, float[3,k] w) => (float[n,k] y) { t = MatMul(x, w) y = Relu(t) }",
        [{"x": np.ones((n, 3), np.float32), "w": np.ones((3, k), np.float32)} for n, k in ((1, 1), (5, 2), (1, 1))],
    ),
    "no elements": (
        "(float[n,3] x) => (float[n,3] y, float[3] z) { y = Exp(x) a = Constant<value = int64[1] {0}>()"
        " z = ReduceSum<keepdims = 0>(x, a) }",
        [{"x": np.ones((0, 3), np.float32)}],
    ),
    "shape arithmetic": (
        "(float[n,m] x) => (float[k] y) { s = Shape(x) p = ReduceProd<keepdims = 1>(s) y = Reshape(x, p) }",
        [{"x": X}, {"x": X[:1]}],
    ),
    "data decides the size": (
        "(float[n,m] x) => (int64[r,k] y, float[q] z) { y = NonZero(x) t = Transpose(y) z = GatherND(x, t) }",
        [{"x": X}, {"x": X[:1]}, {"x": X * 0}],
    ),
    "an input is a shape": ("(float[n,m] x, int64[k] s) => (float[a,b] y) { t = Reshape(x, s) y = Neg(t) }",
                            [{"x": X, "s": np.array(s)} for s in ([3, -1], [6, 1], [2, 3])]),
    "an input is a size of Resize": (
        '(float[1,1,n,m] x, int64[4] k) => (float[1,1,q,r] v) { v = Resize<mode = "linear">(x, , , k) }',
        [{"x": X[None, None], "k": np.array([1, 1, 4, 6])}, {"x": X[None, None], "k": np.array([1, 1, 3, 3])}],
    ),
    "an input is a list of axes, which may be empty": (
        "(float[n,m] x, int64[k] a) => (float[p,q] y) { y = ReduceSum(x, a) }",
        [{"x": X, "a": np.array(a, np.int64)} for a in ([], [1], [0, 1])],
    ),
    "an input is where to slice": (
        "(float[n,m] x, int64[1] a, int64[1] b) => (float[q,m] v) { y = Slice(x, a, b) v = Relu(y) }",
        [{"x": X, "a": np.array([a]), "b": np.array([b])} for a, b in ((0, 1), (1, 2), (2, 2))],
    ),
    "a Range": (
        "(int64 n) => (int64[q] v)"
        " { a = Constant<value = int64 {0}>() b = Constant<value = int64 {1}>() r = Range(a, n, b) v = Mul(r, r) }",
        [{"n": np.array(7)}, {"n": np.array(0)}],
    ),
    "TopK of a number": ("(float[n,m] x, int64[1] k) => (float[n,q] v, int64[n,q] i) { v, i = TopK(x, k) }",
                         [{"x": X, "k": np.array([k])} for k in (1, 2)]),
    "boxes": (
        "(float[1,5,4] b, float[1,1,5] s) => (int64[k,3] o) { m = Constant<value = int64[1] {3}>()"
        " i = Constant<value = float[1] {0.5}>() t = Constant<value = float[1] {0.0}>()"
        " o = NonMaxSuppression(b, s, m, i, t) }",
        [{"b": BOXES, "s": SCORES}],
    ),
    "kept and told apart": (
        "(float[n,m] x, bool[k] c, float[l] v) => (float[q,m] y, float[u] w, int64[u] i)"
        " { y = Compress<axis = 0>(x, c) w, i = Unique(v) }",
        [{"x": X, "c": np.array([c, False]), "v": np.array([2, 1, 1, 3], np.float32)} for c in (True, False)],
    ),
    "If": (
        "(float[n,m] x, bool c) => (float[a,b] y) { y = If(c)<then_branch = t () => (float[a,b] o) { o = Relu(x) },"
        " else_branch = e () => (float[a,b] p) { p = Transpose(x) }> }",
        [{"x": -X, "c": np.array(c)} for c in (False, True, False)],
    ),
    "If in If, constants around": (
        "(float[n,m] x, bool c, bool d) => (float[a,b] y) { k = Constant<value = float {2.0}>()"
        " w = Mul(x, k) y = If(c)<then_branch = t () => (float[a,b] o) {"
        " o = If(d)<then_branch = u () => (float[a,b] q) { q = Add(w, k) }, else_branch = v () => (float[a,b] r)"
        " { r = Sub(x, w) }> }, else_branch = e () => (float[a,b] p) { p = Identity(w) }> }",
        [{"x": X, "c": np.array(c), "d": np.array(d)} for c in (False, True) for d in (False, True)],
    ),
    "Loop": (
        "(int64 M, float[n,m] x) => (float[a,b] y, float[k,a,b] z)"
        f" {{ c = Constant<value = bool {{1}}>() y, z = Loop(M, c, x){LOOP_BODY} }}",
        [{"M": np.array(4), "x": X}, {"M": np.array(1), "x": X[:1]}],
    ),
    "Loop that grows what it carries": (
        "(int64 M, float[n,m] x) => (float[a,b] y) { c = Constant<value = bool {1}>() y = Loop(M, c, x)"
        "<body = b (int64 i, bool ci, float[p,m] v) => (bool co, float[q,m] vo)"
        " { co = Identity(ci) vo = Concat<axis = 0>(v, x) }> }",
        [{"M": np.array(3), "x": X}, {"M": np.array(0), "x": X}],
    ),
    "Loop while": (
        "(float x) => (float y) { c = Constant<value = bool {1}>() h = Constant<value = float {100.0}>()"
        " y = Loop(, c, x)<body = b (int64 i, bool ci, float v) => (bool co, float vo)"
        " { vo = Add(v, v) co = Less(vo, h) }> }",
        [{"x": np.array(3, np.float32)}],
    ),
    "Loop whose condition is captured, carried or what it was; values that stay or change places": (
        "(int64 M, bool c, float[2] x, float[2] z)"
        " => (float[2] a, float[2] b, float[k,2] s, float[2] d, bool g, float[2] e)"
        " { t = Constant<value = bool {1}>() a, b, s = Loop(M, t, x, z)"
        "<body = p (int64 i, bool ci, float[2] v, float[2] w) => (bool co, float[2] vo, float[2] wo, float[2] so)"
        " { co = Identity(c) vo = Neg(w) wo = Identity(v) so = Add(v, w) }>"
        " d = Loop(M, t, x)<body = q (int64 j, bool cj, float[2] u) => (bool cp, float[2] uo)"
        " { cp = Identity(cj) uo = Add(u, x) }> g, e = Loop(M, t, c, x)"
        "<body = r (int64 k, bool ck, bool gi, float[2] y) => (bool cq, bool go, float[2] yo)"
        " { cq = Identity(gi) go = Not(gi) yo = Add(y, x) }> }",
        [
            {"M": np.array(m), "c": np.array(c), "x": X[0, :2], "z": X[1, 1:]}
            for m in (0, 1, 2, 7)
            for c in (False, True)
        ],
    ),
    "Scan": (
        "(float[n,m] x, float[m] s) => (float[m] y, float[n,m] z) { y, z = Scan<num_scan_inputs = 1,"
        " body = b (float[m] st, float[m] xi) => (float[m] so, float[m] zo) { so = Add(st, xi) zo = Mul(so, so) }>"
        "(s, x) }",
        [{"x": X, "s": np.zeros(3, np.float32)}, {"x": X[:1], "s": np.ones(3, np.float32)}],
    ),
    "Scan backwards over columns": (
        "(float[n,m] x, float[n] s) => (float[n] y, float[n,m] z) { y, z = Scan<num_scan_inputs = 1,"
        " scan_input_axes = [1], scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1],"
        " body = b (float[n] st, float[n] xi) => (float[n] so, float[n] zo) { so = Add(st, xi) zo = Neg(so) }>(s, x) }",
        [{"x": X, "s": np.zeros(2, np.float32)}],
    ),
    "sequences": (
        "(float[n,m] x) => (seq(float[a,b]) y, float[a,b] z, int64 l) { i = Constant<value = int64 {1}>()"
        " t = Neg(x) y = SequenceConstruct(x, t) z = SequenceAt(y, i) l = SequenceLength(y) }",
        [{"x": X}],
    ),
    "a split sequence": (
        "(float[n,m] x) => (float[a,b] z) { y = SplitToSequence<axis = 1>(x) z = ConcatFromSequence<axis = 0>(y) }",
        [{"x": X}],
    ),
    "a sequence that a Loop carries": (
        "(int64 M, float[n,m] x) => (float[a,b] z) { c = Constant<value = bool {1}>() e = SequenceEmpty()"
        " q = Loop(M, c, e)<body = b (int64 i, bool ci, seq(float[n,m]) v) => (bool co, seq(float[n,m]) vo)"
        " { co = Identity(ci) vo = SequenceInsert(v, x) }> z = ConcatFromSequence<axis = 0>(q) }",
        [{"M": np.array(3), "x": X}],
    ),
}  # fmt: skip


def same(a: object, b: object) -> None:
    if isinstance(b, list):
        assert isinstance(a, list) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
        return
    assert isinstance(a, np.ndarray | np.generic) and isinstance(b, np.ndarray | np.generic | int)
    assert (a.dtype, a.shape) == (np.asarray(b).dtype, np.asarray(b).shape)
    np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_onnxruntime(case: str) -> None:
    text, runs = CASES[case]
    theirs = onnxruntime.InferenceSession(model(f"m {text}").SerializeToString())
    ours = InferenceSession(package(f"m {text}"), threads=1)
    for feeds in [*runs, runs[0]]:
        same(ours.run(None, feeds), theirs.run(None, feeds))


def test_a_variant_is_compiled_once_and_the_oldest_goes() -> None:
    text = "m (float[n] x, int64[r] s) => (float y) { z = Reshape(x, s) y = ReduceSum<keepdims=0>(z) }"  # of any rank
    session = InferenceSession(package(text), threads=1, shape_cache=2)
    for size in (1, 2, 1, 3, 1, 2):
        session.run(None, {"x": np.zeros(size, np.float32), "s": np.array([size])})
    cache = session.shape_cache
    assert cache is not None and (cache.hits, cache.misses) == (4, 8)  # two subgraphs


def test_variants_share_their_constants() -> None:
    store = WeightStore()
    text = "m (float[{n},64] x) => (float[{n},64] y) <float[64,64] w> {{ y = MatMul(x, w) }}"
    compiled = [compile_model(model(text.format(n=n)), convert_options({}))[0] for n in (1, 2, 3)]
    plans = [bind_compiled(each, store, workers=Workers(1), world=SingleRank()) for each in compiled]
    assert {id(plan.weights.obj) for plan in plans} == {id(plans[0].weights.obj)}
    x = np.ones((3, 64), np.float32)
    results = [plan.run([x[:n]])[0] for n, plan in zip((1, 2, 3), plans, strict=True)]
    for result in results:
        np.testing.assert_allclose(result, np.broadcast_to(results[0], result.shape), rtol=1e-5)


def test_ports_of_unknown_shape_have_names() -> None:
    session = InferenceSession(package("m (float[n,3] x, seq(int64[k]) s) => (float[n,3] y) { y = Exp(x) }"))
    assert [(port.shape, port.type) for port in session.get_inputs()] == [
        (("n", 3), "tensor(float)"),
        (None, "seq(tensor(int64))"),
    ]
    assert session.get_outputs()[0].shape == ("n", 3)


@pytest.mark.parametrize(
    ("shapes", "why"),
    [
        (((2, 4), (2,)), "needs"),
        (((2,), (2,)), "needs"),
        (((2, 3), (4,)), "n is 2 elsewhere"),
        (((9, 3), (9,)), "1 to 8"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(shapes: tuple[tuple[int, ...], ...], why: str) -> None:
    text = (
        "m (float[n,3] x, float[n] z) => (float[n] y) { a = Constant<value = int64[1] {1}>()"
        " s = ReduceSum<keepdims = 0>(x, a) y = Add(s, z) }"
    )
    session = InferenceSession(package(text, {"input_shape": "x:1~8,3"}))
    with pytest.raises(UsageError, match=why):
        session.run(None, {name: np.zeros(shape, np.float32) for name, shape in zip("xz", shapes, strict=True)})
    assert session.run(None, {"x": np.ones((8, 3), np.float32), "z": np.ones(8, np.float32)})[0].tolist() == [4] * 8


@pytest.mark.parametrize(
    ("text", "feeds", "why"),
    [
        (
            "(float[n] x, int64[k] s) => (float[a,b] y) { y = Reshape(x, s) }",
            {"x": X[0], "s": np.array([2, 2])},
            "cannot become",
        ),
        ("(float[n] x, float[m] z) => (float[k] y) { y = Add(x, z) }", {"x": X[0], "z": X[0, :2]}, "."),
        ("(float[n] x, int64[k] s) => (float[a] y) { y = Gather(x, s) }", {"x": X[0], "s": np.array([3])}, "outside"),
        (
            "(int64[n] x, int64[n] z) => (int64[n] y) { y = Div(x, z) }",
            {"x": np.ones(2, np.int64), "z": np.zeros(2, np.int64)},
            "zero",
        ),
    ],
)
def test_values_that_break_a_rule_name_the_node_and_leave_the_session_usable(text: str, feeds: Feeds, why: str) -> None:
    session = InferenceSession(package(f"m {text}"), threads=1)
    for _ in range(2):
        with pytest.raises(ModelInvalid, match=why) as caught:
            session.run(None, feeds)
        assert caught.value.where.node


@pytest.mark.parametrize("is_planned", [True, False])
def test_a_loop_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch, is_planned: bool) -> None:
    """By C in a plan; by Python where the shape of what is carried is not known, which keeps a Loop out of plans."""
    monkeypatch.setattr("atcpy.runtime.control.MAX_ITERATIONS", 50)
    kind, body = ("float[2]", "vo = Neg(v)") if is_planned else ("float[n]", "vo = Concat<axis = 0>(v, x)")
    text = (
        f"m (float[2] x, int64 n) => ({kind} y) {{ c = Constant<value = bool {{1}}>() y = Loop(n, c, x)"
        f"<body = b (int64 i, bool ci, {kind} v) => (bool co, {kind} vo) {{ co = Identity(ci) {body} }}> }}"
    )
    session, x = InferenceSession(package(text)), np.ones(2, np.float32)
    limit = 1_000_000 if is_planned else 50
    with pytest.raises(AtcError, match=f"D0001: .* {limit} iterations"):
        session.run(None, {"x": x, "n": np.array(2**63 - 1)})  # as good as no trip count
    [y] = session.run(None, {"x": x, "n": np.array(limit + 10)})
    assert y.sum() == (2 if is_planned else 2 * (limit + 11)), "a trip count may be larger"


@pytest.mark.parametrize("count", [2**31 + 5, 2**50, 2**63 - 2])
@pytest.mark.parametrize("is_constant", [True, False])
@pytest.mark.parametrize("kind", ["float[2]", "float[n]"])
def test_a_trip_count_is_one_however_large_it_is(
    monkeypatch: pytest.MonkeyPatch, kind: str, is_constant: bool, count: int
) -> None:
    """More iterations than a Loop without a count may have, which the condition ends: in a plan and in Python."""
    monkeypatch.setattr("atcpy.runtime.control.MAX_ITERATIONS", 50)
    last = 1_000_003 if kind == "float[2]" else 60
    step = "vo = Neg(v)" if kind == "float[2]" else "vo = Concat<axis = 0>(v, x)"
    trips = f"c = Constant<value_int = {count}>()" if is_constant else "c = Identity(n)"
    text = (
        f"m (float[2] x, int64 n) => ({kind} y) {{ {trips} y = Loop(c, , x)"
        f"<body = b (int64 i, bool ci, {kind} v) => (bool co, {kind} vo) {{ l = Constant<value_int = {last}>() "
        f"co = Less(i, l) {step} }}> }}"
    )
    [y] = InferenceSession(package(text)).run(None, {"x": np.ones(2, np.float32), "n": np.array(count)})
    np.testing.assert_array_equal(y, np.full(2, 1 if last % 2 else -1) if kind == "float[2]" else np.ones(2 * last + 4))


def test_elements_that_decide_sizes_count_in_each_run() -> None:
    """The same shapes again, with other elements: nothing that depends on them is kept."""
    text = "g (float[n] x, int64[2] s) => (float[a,b] y, int64[2] z) { t = Reshape(x, s) y = Add(t, t) z = Add(s, s) }"
    session = InferenceSession(package(text))
    x = np.arange(6, dtype=np.float32)
    for sizes in ([2, 3], [3, 2], [2, 3], [6, 1]):
        y, _ = session.run(None, {"x": x, "s": np.array(sizes)})
        np.testing.assert_array_equal(y, 2 * x.reshape(sizes))


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ("y = NonZero(x)", lambda x: np.stack(np.nonzero(x))),
        ("y = Compress<axis = 0>(x, c)", lambda x: x[x[:, 0] > 0]),
        ("y = Compress(x, d)", lambda x: x.reshape(-1)[:6][x.reshape(-1)[:6] > 0]),
    ],
)
def test_results_whose_size_data_decide_keep_their_elements(
    result: str, expected: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> None:
    """Runs after the first of a shape go straight to the plan."""
    text = f"g (float[4,3] x, bool[4] c, bool[6] d) => (y, z) {{ {result} z = Neg(x) }}"
    session = InferenceSession(package(text))
    results = []
    for seed in range(4):
        x = np.random.default_rng(seed).integers(0, 2, (4, 3)).astype(np.float32) * (seed != 2)
        feeds = {"x": x, "c": x[:, 0] > 0, "d": x.reshape(-1)[:6] > 0}
        profile = Profile() if seed == 3 else None
        results.append((session.run(None, feeds, profile=profile), expected(x), -x))
        assert profile is None or profile.times()
    for (ours, negative), theirs, x in results:
        np.testing.assert_array_equal(ours, theirs)
        np.testing.assert_array_equal(negative, x)
