"""Bodies and borders at their corners: shapes that change late, names that lie, memory that could be shared."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from threading import Thread
from typing import Any

import numpy as np
import onnxruntime
import pytest

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid, ResourceLimit
from tests.models_in_text import model, package
from tests.runtime.test_unknown_shapes import X, same

Feeds = Mapping[str, Any]
TRUE = "c = Constant<value = bool {1}>()"

# The change of `a` reaches `h` only after as many iterations as there are values between.
CHAIN = "abdefgjh"
LATE = (
    f"(int64 M, float[1] x) => (float[n] y, int64[1] z) {{ {TRUE} s = Shape(x)"
    f" {', '.join('o' + n for n in CHAIN)}, z = Loop(M, c, {', '.join('x' for _ in CHAIN)}, s)"
    f"<body = b (int64 i, bool ci, {', '.join(f'float[u{n}] {n}' for n in CHAIN)}, int64[1] k) => (bool co,"
    f" {', '.join(f'float[w{n}] {n}o' for n in CHAIN)}, int64[1] ko)"
    " { co = Identity(ci) ao = Concat<axis = 0>(a, x)"
    f" {' '.join(f'{n}o = Identity({p})' for p, n in pairwise(CHAIN))}"
    " t = Shape(h) ko = Add(t, k) }> y = Identity(oh) }"
)
CASES: dict[str, tuple[str, list[Feeds]]] = {
    "a change that arrives late": (LATE, [{"M": np.array(m), "x": X[0, :1]} for m in (0, 1, 5, 12)]),
    "a rank that changes": (
        f"(int64 M, float[n] x) => (float[a] y, int64[k] s) {{ {TRUE} z = Constant<value = int64[1] {{0}}>()"
        " y, s = Loop(M, c, x)<body = b (int64 i, bool ci, float[] v) => (bool co, float[] vo, int64 r)"
        " { co = Identity(ci) vo = Unsqueeze(v, z) t = Shape(v) r = Size(t) }> }",
        [{"M": np.array(m), "x": X[0]} for m in (0, 3)],
    ),
    "number and condition of shape 1": (
        "(int64[1] M, bool[1] c, float[n] x) => (float[a] y, int64[q,1] z) { y, z = Loop(M, c, x)"
        "<body = b (int64[1] i, bool[1] ci, float[p] v) => (bool[1] co, float[q] vo, int64[1] s)"
        " { co = Identity(ci) t = Cast<to = 1>(i) vo = Concat<axis = 0>(v, t) s = Add(i, i) }> }",
        [{"M": np.array([m]), "c": np.array([c]), "x": X[0]} for m, c in ((0, True), (3, True), (3, False))],
    ),
    "a condition that the body computes": (
        "(int64 M, bool c, float[n] x) => (float[a] y, int64[q] z) { y, z = Loop(M, c, x)"
        "<body = b (int64 i, bool ci, float[p] v) => (bool co, float[q] vo, int64 s)"
        " { k = Constant<value = int64 {2}>() co = Less(i, k) vo = Add(v, v) s = Identity(i) }> }",
        [{"M": np.array(m), "c": np.array(c), "x": X[0]} for m in (0, 2, 9) for c in (True, False)],
    ),
    "a Loop without carried values": (
        f"(int64 M, float[n] x) => (float[q,n] z) {{ {TRUE} z = Loop(M, c)"
        "<body = b (int64 i, bool ci) => (bool co, float[n] s) { co = Identity(ci) t = Cast<to = 1>(i)"
        " s = Mul(t, x) }> }",
        [{"M": np.array(m), "x": X[0]} for m in (1, 3)],
    ),
    "outputs that are carried, captured and constant": (
        f"(int64 M, float[n] x, float[n] w) => (float[a] y, float[b] z, float[2] k) {{ {TRUE}"
        " q = Constant<value = float[2] {3.0, 4.0}>() y, z, k = Loop(M, c, x, x, q)"
        "<body = b (int64 i, bool ci, float[n] u, float[n] v, float[2] j)"
        " => (bool co, float[n] uo, float[n] vo, float[2] jo) { co = Identity(ci) uo = Identity(v)"
        " vo = Identity(w) jo = Constant<value = float[2] {1.0, 2.0}>() }> }",
        [{"M": np.array(m), "x": X[0], "w": X[1]} for m in (0, 1, 2)],
    ),
    "captures through two levels": (
        f"(int64 M, float[n] x, bool d) => (float[a] y) {{ {TRUE} g = Neg(x) y = Loop(M, c, x)"
        "<body = b (int64 i, bool ci, float[n] v) => (bool co, float[n] vo) { co = Identity(ci) h = Add(v, g)"
        " vo = If(d)<then_branch = t () => (float[n] o) { e = Loop(M, ci, h)<body = bb (int64 j, bool cj, float[n] r)"
        " => (bool ck, float[n] ro) { ck = Identity(cj) ro = Sub(r, g) }> o = Add(e, x) },"
        " else_branch = e () => (float[n] p) { p = Identity(g) }> }> }",
        [{"M": np.array(m), "x": X[0], "d": np.array(d)} for m in (0, 3) for d in (True, False)],
    ),
    "branches of other shapes and ranks": (
        "(float[n,m] x, bool[1] c) => (float s, int64[k] t) { y = If(c)<then_branch = t () => (float[a] o)"
        " { z = Constant<value = int64[1] {-1}>() o = Reshape(x, z) }, else_branch = e () => (float[a,b] p)"
        " { p = Neg(x) }> s = ReduceSum<keepdims = 0>(y) t = Shape(y) }",
        [{"x": X, "c": np.array([c])} for c in (True, False)],
    ),
    "one name, two sizes": (
        "(float[n] x, bool c) => (float[q] y, float[r] z) { one = Constant<value = float[1] {1.0}>()"
        " y = If(c)<then_branch = t () => (float[n] o) { i = NonZero(x) j = Cast<to = 1>(i)"
        " k = Constant<value = int64[1] {-1}>() o = Reshape(j, k) }, else_branch = e () => (float[n] p)"
        " { p = Concat<axis = 0>(x, x) }> s = Shape(y) w = Expand(one, s) z = Add(w, y) }",
        [{"x": X[0], "c": np.array(c)} for c in (True, False)],
    ),
    "several scans, states and axes": (
        "(float[n,m] x, float[m,n] w, float[m] s, float t) => (float[m] a, float b, float[n,m] u, float[m,n] v)"
        " { a, b, u, v = Scan<num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [0, 1],"
        " scan_output_axes = [0, -1], scan_output_directions = [1, 0],"
        " body = q (float[m] p, float r, float[m] xi, float[m] wi) => (float[m] po, float ro, float[m] uo, float[m] vo)"
        " { po = Add(p, xi) d = ReduceSum<keepdims = 0>(wi) ro = Add(r, d) uo = Mul(po, wi) vo = Sub(xi, wi) }>"
        "(s, t, x, w) }",
        [{"x": X[:n], "w": X[:n].T + 1, "s": X[1], "t": np.array(2, np.float32)} for n in (1, 2)],
    ),
    "a Scan that captures a sequence": (
        "(float[n,m] x, float[m] s) => (float[m] a, float[n,m] z) { q = SequenceConstruct(s, s)"
        " a, z = Scan<num_scan_inputs = 1, body = b (float[m] st, float[m] xi) => (float[m] so, float[m] zo)"
        " { i = Constant<value = int64 {1}>() e = SequenceAt(q, i) so = Add(st, xi) zo = Add(so, e) }>(s, x) }",
        [{"x": X, "s": X[1]}],
    ),
    "slices by the number of the iteration": (
        f"(int64 M, float[n,m] x) => (float[k,1,m] z) {{ {TRUE} one = Constant<value = int64[1] {{1}}>()"
        " z = Loop(M, c)<body = b (int64 i, bool ci) => (bool co, float[1,m] s) { co = Identity(ci)"
        " f = Reshape(i, one) g = Add(f, one) s = Slice(x, f, g) }> }",
        [{"M": np.array(2), "x": X}],
    ),
    "carried values that change places": (
        f"(int64 M, float[n] x, float[n] w) => (float[a] y, float[b] z, float[k,n] s) {{ {TRUE}"
        " y, z, s = Loop(M, c, x, w)"
        "<body = b (int64 i, bool ci, float[n] u, float[n] v) => (bool co, float[n] uo, float[n] vo, float[n] so)"
        " { co = Identity(ci) uo = Neg(v) vo = Abs(u) so = Identity(uo) }> }",
        [{"M": np.array(m), "x": X[0], "w": -X[1]} for m in (1, 2, 3, 4, 5)],
    ),
    "captured arrays of any strides": (
        f"(int64 M, float[n,m] x, float[n,m] w) => (float[a,b] y) {{ {TRUE} y = Loop(M, c, x)"
        "<body = b (int64 i, bool ci, float[n,m] v) => (bool co, float[n,m] vo)"
        " { co = Identity(ci) h = Mul(v, w) vo = Add(h, w) }> }",
        [{"M": np.array(4), "x": X.T, "w": X.T}, {"M": np.array(4), "x": X[:, ::2], "w": X[:, ::-2]}],
    ),
    "the output is the input": (
        "(float[n] x, float[n] w) => (float[n] y, float[n] z, float[n] v) { y = Identity(x) z = Identity(x)"
        " v = Add(x, w) }",
        [{"x": X[0], "w": X[1]}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_onnxruntime(case: str) -> None:
    text, runs = CASES[case]
    theirs = onnxruntime.InferenceSession(model(f"m {text}").SerializeToString())
    ours = InferenceSession(package(f"m {text}"), threads=1)
    for feeds in [*runs, runs[0]]:
        same(ours.run(None, feeds), theirs.run(None, feeds))


OWN = {
    "inputs, one of them twice": "(float[n] x, float[n] w) => (float[n] y, float[n] z, float[n] v)"
    " { y = Identity(x) z = Identity(x) v = Add(x, w) }",
    "constants": "(float[n] x, float[n] w) => (float[3] y, float[n] z)"
    " { y = Constant<value = float[3] {1.0, 2.0, 3.0}>() z = Neg(x) }",
    "constants of a body": f"(float[n] x, float[n] w) => (float[3] y, float[a] z) {{ {TRUE}"
    " m = Constant<value = int64 {2}>() y, z = Loop(m, c, x, w)"
    "<body = b (int64 i, bool ci, float[n] u, float[n] v) => (bool co, float[3] uo, float[n] vo)"
    " { co = Identity(ci) uo = Constant<value = float[3] {1.0, 2.0, 3.0}>() vo = Identity(x) }> }",
    "a result and its view": "(float[n] x, float[n] w) => (float[n] y, float[a] z, int64[p,q] r, int64[s] t)"
    " { y = Neg(x) o = Constant<value = int64[1] {-1}>() z = Reshape(y, o) r = NonZero(x) t = Reshape(r, o) }",
    "elements of sequences": "(float[n] x, float[n] w) => (seq(float[n]) y, float[n] z)"
    " { i = Constant<value = int64 {0}>() y = SequenceConstruct(x, w, x) z = SequenceAt(y, i) }",
    "no iterations": f"(float[n] x, float[n] w) => (float[n] y) {{ {TRUE} m = Constant<value = int64 {{0}}>()"
    " y = Loop(m, c, x)<body = b (int64 i, bool ci, float[n] v) => (bool co, float[n] vo)"
    " { co = Identity(ci) vo = Neg(v) }> }",
}


def arrays(value: object) -> Iterator[np.ndarray]:
    if isinstance(value, list):
        for item in value:
            yield from arrays(item)
    else:
        assert isinstance(value, np.ndarray)
        yield value


@pytest.mark.parametrize("case", OWN)
def test_what_run_returns_belongs_to_the_caller(case: str) -> None:
    session = InferenceSession(package(f"m {OWN[case]}"), threads=1)
    feeds = {"x": X[0].copy(), "w": X[1].copy()}
    first = list(arrays(session.run(None, feeds)))
    kept = [array.copy() for array in first]
    for index, array in enumerate(first):
        assert not any(np.shares_memory(array, other) for other in (*first[:index], *feeds.values()))
        array[...] = -77
    assert np.array_equal(feeds["x"], X[0]) and np.array_equal(feeds["w"], X[1])
    for again, before in zip(arrays(session.run(None, feeds)), kept, strict=True):
        np.testing.assert_array_equal(again, before)


def test_a_sequence_that_is_fed_stays_what_it_is() -> None:
    text = (
        "m (seq(float[n]) s, float[n] x) => (seq(float[n]) y, seq(float[n]) z)"
        " { y = SequenceInsert(s, x) z = SequenceErase(y) }"
    )
    session, fed = InferenceSession(package(text), threads=1), [X[0].copy()]
    y, z = session.run(None, {"s": fed, "x": X[1]})
    assert (len(fed), len(y), len(z)) == (1, 2, 1)
    y[0][:] = z[0][:] = -1
    np.testing.assert_array_equal(fed[0], X[0])


def test_a_state_of_a_scan_keeps_its_shape() -> None:
    text = (
        "m (float[n,3] x, float[k] s) => (float[q] y) { y = Scan<num_scan_inputs = 1,"
        " body = b (float[p] v, float[3] xi) => (float[r] vo) { vo = Concat<axis = 0>(v, xi) }>(s, x) }"
    )
    session = InferenceSession(package(text), threads=1)
    with pytest.raises(ModelInvalid, match="shape of a state") as caught:
        session.run(None, {"x": X, "s": X[0]})
    assert caught.value.where.op == "Scan"


def test_a_size_beyond_all_memory_names_the_node_and_leaves_the_session_usable() -> None:
    session = InferenceSession(package("m (int64[k] s) => (float[q] y) { y = ConstantOfShape(s) }"), threads=1)
    with pytest.raises(ResourceLimit) as caught:
        session.run(None, {"s": np.array([2**45])})
    assert caught.value.where.op == "ConstantOfShape"
    assert session.run(None, {"s": np.array([3])})[0].tolist() == [0, 0, 0]


def test_threads_share_a_session() -> None:
    text = CASES["captures through two levels"][0]
    session = InferenceSession(package(f"m {text}"), threads=1, shape_cache=2)
    feeds = [
        {"M": np.array(n % 3), "x": np.arange(n, dtype=np.float32), "d": np.array(bool(n % 2))} for n in range(1, 7)
    ]
    single = InferenceSession(package(f"m {text}"), threads=1)
    expected = [single.run(None, each)[0] for each in feeds]
    wrong: list[object] = []

    def work(first: int) -> None:
        try:
            for round_ in range(12):
                index = (first + round_ * 5) % len(feeds)
                np.testing.assert_array_equal(session.run(None, feeds[index])[0], expected[index])
        except Exception as error:  # noqa: BLE001
            wrong.append(error)

    threads = [Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.slow
def test_a_long_chain_of_results_whose_size_data_decide_runs_in_pieces() -> None:
    links, value = [], "x"
    for n in range(70):
        links.append(f"a{n} = NonZero({value}) b{n} = Cast<to = 1>(a{n}) c{n} = ReduceSum<keepdims = 0>(b{n}, axis)")
        links.append(f"d{n} = Add(c{n}, x) k{n} = Greater(d{n}, half) e{n} = Compress<axis = 0>(d{n}, k{n})")
        value = f"e{n}"
    text = (
        "m (float[n] x) => (float[n] y, float[q] v, float[r] w, float[1] half)"
        " { half = Constant<value = float[1] {0.5}>() axis = Constant<value = int64[1] {1}>() y = Identity(x) "
        f"{' '.join(links)} v = Neg({value}) w = Abs(e3) }}"
    )
    theirs = onnxruntime.InferenceSession(model(text).SerializeToString())
    ours = InferenceSession(package(text), threads=1)
    for x in (X[0], X[0, :1], X[0]):
        same(ours.run(None, {"x": x}), theirs.run(None, {"x": x}))
