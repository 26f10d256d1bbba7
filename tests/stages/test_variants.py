"""Variants of plans: sizes and elements that a guard leaves out get plans of their own, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from onnx import ModelProto

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime.plan import ExecutionPlan
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package
from tests.stages.test_symbolic import ort_session

SIZES = (0, 1, 2, 7)
DTYPES = {1: np.float32, 6: np.int32, 7: np.int64, 9: np.bool_}

# A name, and indented the graph; then each line lists the shapes of float inputs, and the elements of others.
TEXT = """
the end of a range
    (int64 n) => (int64[m] y) <int64 a={0}, int64 b={1}> { y = Range(a, n, b) }
    0; 1; 7; -2
a range of int32 that ends before its start
    (int32 n) => (int32[m] y) <int32 a={1}, int32 b={2}> { y = Range(a, n, b) }
    0; 1; 2; 7
positions after others
    (float[b,s] x, int64 p) => (float[b,s] z) <int64 one={1}> {
        n = Shape<start=1>(x) l = Squeeze(n) e = Add(p, l) r = Range(p, e, one) c = Cast<to=1>(r) z = Add(x, c) }
    2x3, 0; 2x1, 5; 1x7, 2; 2x0, 3
positions as float32
    (float[b,s,8] x) => (float[b,s,8] z) <float one={2}, float[1,1] w> {
        n = Shape<start=1,end=2>(x) l = Squeeze(n) k = Add(l, l) f = Cast<to=1>(k) zero = Sub(one, one)
        r = Range(zero, f, one) axis = Constant<value_ints=[1]>() u = Unsqueeze(r, axis) m = Mul(u, w) z = Add(x, m) }
    2x5x8; 1x1x8; 2x0x8; 1x2x8
expansion to a size that is 0 or 1
    (float[4,1,8] x, int64[3] s) => (float[a,b,c] z) { t = Relu(x) z = Expand(t, s) }
    4x1x8, [4,3,8]; 4x1x8, [1,0,1]; 4x1x8, [1,1,1]; 4x1x8, [4,7,1]
a shape with 0 and -1
    (float[n] x, int64[2] s) => (float[a,b] z) { t = Relu(x) z = Reshape(t, s) }
    6, [2,3]; 6, [-1,3]; 6, [1,-1]; 12, [0,-1]; 12, [12,1]
a bound counted from the end
    (float[b,s] x, int64[1] a, int64[1] e) => (float[b,t] z) <int64[1] axis={1}> {
        t = Neg(x) z = Slice(t, a, e, axis) }
    2x7, [0], [3]; 2x7, [-3], [9]; 2x7, [1], [-1]; 2x7, [5], [2]; 2x1, [0], [0]; 1x7, [0], [0]
a bound of int32
    (float[b,s] x, int32[1] e) => (float[b,t] z) <int32[1] a={0}, int32[1] axis={1}> {
        t = Neg(x) z = Slice(t, a, e, axis) }
    2x7, [3]; 2x7, [0]; 2x7, [-2]; 2x1, [5]
the last rows, as many as another has
    (float[b,s] x, float[b,t] y) => (float[b,u] z) <int64[1] end={9223372036854775807}, int64[1] axis={1}> {
        n = Shape<start=1>(y) m = Neg(n) z = Slice(x, m, end, axis) }
    2x7, 2x3; 2x7, 2x1; 2x7, 2x9; 2x1, 2x1; 2x7, 2x7
borders that come in
    (float[b,s] x, int64[4] p) => (float[c,t] z) { t = Relu(x) z = Pad(t, p) }
    2x5, [0,1,0,2]; 2x5, [0,0,0,0]; 2x5, [1,-2,0,3]; 2x5, [0,-9,0,6]; 2x5, [0,6,0,-9]; 1x1, [1,1,1,1]
borders up to a multiple
    (float[b,3,h,w] x) => (float[b,3,p,q] z) <int64[2] m={8,8}, int64[6] first={0,0,0,0,0,0}> {
        s = Shape<start=2>(x) r = Mod(s, m) d = Sub(m, r) e = Mod(d, m) p = Concat<axis=0>(first, e) z = Pad(x, p) }
    1x3x8x8; 2x3x1x5; 1x3x9x16; 2x3x7x17
mirrored borders that come in
    (float[b,c,s] x, int64[2] q) => (float[b,c,t] z) <int64[2] zero={0,0}> {
        a, b0 = Split<num_outputs=2>(q) p = Concat<axis=0>(zero, a, zero, b0) z = Pad<mode="reflect">(x, p) }
    2x3x9, [2,3]; 2x3x9, [0,0]; 1x1x4, [1,0]
zeros in front
    (float[b,s] x, int64[1] n) => (float[b,t] z) {
        s0 = Shape<end=1>(x) t = Concat<axis=0>(s0, n) c = ConstantOfShape(t) z = Concat<axis=1>(c, x) }
    2x3, [2]; 2x3, [0]; 1x1, [1]; 0x3, [2]
a size like another's
    (float[b,3,h,w] x, float[b,3,p,q] y) => (float[b,3,p,q] z) {
        s = Shape<end=2>(x) r = Shape<start=2>(y) t = Concat<axis=0>(s, r)
        u = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , , t) z = Add(u, y) }
    1x3x4x6, 1x3x8x12; 2x3x1x1, 2x3x5x7; 1x3x4x6, 1x3x1x3; 1x3x4x6, 1x3x4x6
a size that comes in
    (float[b,3,h,w] x, int64[2] r) => (float[b,3,p,q] z) {
        s = Shape<end=2>(x) t = Concat<axis=0>(s, r)
        z = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , t) }
    1x3x4x6, [8,12]; 2x3x1x1, [3,1]; 1x3x4x6, [2,3]; 1x3x4x6, [4,6]
a size of float arithmetic
    (float[b,3,h,w] x) => (float[b,3,p,q] z) <float[2] k={1.5, 0.7}> {
        s = Shape<start=2>(x) f = Cast<to=1>(s) m = Mul(f, k) i = Cast<to=7>(m) n = Shape<end=2>(x)
        t = Concat<axis=0>(n, i) z = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , , t) }
    1x3x4x10; 2x3x3x7; 1x3x2x2
a scale that is no whole number
    (float[b,3,h,w] x) => (float[b,3,p,q] z) <float[4] k={1, 1, 1.5, 0.7}> {
        z = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , k) }
    1x3x4x10; 2x3x3x7; 1x3x2x2
repeats that come in
    (float[b,s] x, int64[2] r) => (float[c,t] z) { t = Relu(x) z = Tile(t, r) }
    2x3, [2,1]; 2x3, [1,1]; 2x3, [0,2]; 1x1, [3,7]
the largest, but not more than there are
    (float[b,s] x) => (float[b,k] v, int64[b,k] i) <int64[1] most={5}> {
        n = Shape<start=1>(x) k = Min(n, most) v, i = TopK(x, k) }
    2x7; 2x5; 2x4; 1x1; 1x0
a depth that comes in
    (int64[n] i, int64 d) => (float[n,m] z) <float[2] v={0, 1}> { z = OneHot(i, d, v) }
    [0,1,2], 7; [0,1], 2; [0], 1
pieces that come in
    (float[b,s] x, int64[2] c) => (float[b,p] y, float[b,q] z) { y, z = Split<axis=1>(x, c) }
    2x5, [2,3]; 2x3, [0,3]; 1x2, [1,1]; 1x1, [1,0]
the middle of a size that comes in
    (float[b,s] x, int64[1] t) => (float[b,u] z) { z = CenterCropPad<axes=[1]>(x, t) }
    2x7, [2]; 2x2, [7]; 2x4, [4]; 1x1, [1]
an axis that comes in
    (float[b,s] x, int64[1] a) => (float[p,q,r] z) { t = Neg(x) z = Unsqueeze(t, a) }
    2x3, [1]; 2x3, [0]; 2x3, [2]; 2x3, [-1]
nothing of a batch
    (float[n,3,8,8] x) => (float[n,4] z) <float[4,3,3,3] k, int64[2] to={-1, 4}> {
        c = Conv(x, k) p = GlobalAveragePool(c) f = Flatten(p) z = Softmax(f) }
    2x3x8x8; 1x3x8x8; 0x3x8x8
attention over nothing
    (float[b,2,s,8] q, float[b,2,s,8] k, float[b,2,s,8] v) => (float[b,2,s,8] z) {
        t = Transpose<perm=[0,1,3,2]>(k) m = MatMul(q, t) p = Softmax(m) z = MatMul(p, v) }
    2x2x3x8, 2x2x3x8, 2x2x3x8; 0x2x3x8, 0x2x3x8, 0x2x3x8; 1x2x1x8, 1x2x1x8, 1x2x1x8
products of heads by Einsum
    (float[b,s,2,4] q, float[b,t,2,4] k) => (float[b,2,s,t] z) { z = Einsum<equation="bshd,bthd->bhst">(q, k) }
    2x3x2x4, 2x5x2x4; 1x1x2x4, 1x5x2x4; 2x1x2x4, 2x1x2x4
rows of a table, as long as all that came
    (float[b,s] x, float[b,p] past) => (float[s,t] z) <float[64,64] m, int64[1] zero={0}, int64[1] one={1}> {
        n = Shape<start=1>(x) k = Shape<start=1>(past) t = Add(n, k) a = Slice(m, k, t, zero)
        z = Slice(a, zero, t, one) }
    1x3, 1x4; 1x1, 1x7; 1x7, 1x0; 1x60, 1x9
rows that are rolled
    (float[b,h,w,4] x) => (float[b,h,w,4] z) <int64[1] n={3}, int64[1] end={9223372036854775807}, int64[1] zero={0},
        int64[1] axis={1}> { p = Slice(x, n, end, axis) q = Slice(x, zero, n, axis) z = Concat<axis=1>(p, q) }
    2x7x5x4; 1x9x2x4; 1x3x2x4; 2x2x1x4; 1x0x2x4
halves in another order
    (float[b,s,8] x) => (float[b,s,8] z) <int64[1] zero={0}, int64[1] two={2}, int64[1] end={9223372036854775807},
        int64[1] axis={1}> { n = Shape<start=1,end=2>(x) h = Div(n, two) p = Slice(x, zero, h, axis)
        q = Slice(x, h, end, axis) z = Concat<axis=1>(q, p) }
    2x7x8; 1x8x8; 1x1x8; 2x2x8
slices of slices up to computed bounds
    (float[b,s] x, float[b,t] y) => (float[b,u] z) <int64[1] zero={0}, int64[1] one={1},
        int64[1] end={9223372036854775807}, int64[1] step={2}> { n = Shape<start=1>(y) p = Slice(x, zero, n, one)
        q = Slice(p, one, end, one, step) r = Slice(q, one, end, one) z = Neg(r) }
    2x9, 2x7; 2x5, 2x9; 1x3, 1x2; 1x1, 1x1; 2x6, 2x4
expanded twice
    (float[1,1,4] x, float[b,s] y) => (float[b,s,4] z) <int64[1] four={4}, int64[1] one={1}> {
        n = Shape(y) t = Concat<axis=0>(n, four) m = Shape<end=1>(y) u = Concat<axis=0>(m, one, four)
        p = Expand(x, u) z = Expand(p, t) }
    1x1x4, 2x5; 1x1x4, 1x1; 1x1x4, 3x1; 1x1x4, 0x2
lengths that are equal or 1
    (float[b,s] x, float[b,t] y) => (float[b,u] z) { z = Add(x, y) }
    2x5, 2x5; 2x5, 2x1; 2x1, 2x5; 1x1, 1x1; 0x5, 0x5
a branch that a number decides
    (float[b,s] x, int64 r) => (float[b,t] z) <int64 rate={16000}> {
        c = Equal(r, rate) z = If(c) <then_branch = t () => (float[b,u] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,v] a) { a = Relu(x) }> }
    2x3, 16000; 2x3, 8000; 2x3, 15999; 2x3, 16001; 1x1, 16000; 1x1, -1; 1x7, 16000; 7x1, 1
ranks that a bound decides
    (float[b,s] x, int32[1] n) => (float z) <int32[1] most={7}> { r = Sub(most, n) z0 = Less(r, n) z = If(z0) <
        then_branch = t () => (float[b,s,k] a) { axis = Constant<value_ints=[2]>() a = Unsqueeze(x, axis) },
        else_branch = e () => (float[l,m] a) { a = Neg(x) }> }
    2x3, [3]; 2x3, [4]; 2x3, [100]; 1x1, [-1]; 1x1, [4]
a truth value that is fed
    (float[b,s,4] x, float[b,p,4] past, bool[1] is_first) => (float[b,s,4] z, float[b,t,4] present) <float[4,4] w> {
        h = MatMul(x, w) c = Not(is_first) z, present = If(c) <
        then_branch = t () => (float[b,s,4] y, float[b,u,4] q) { y = Relu(h) q = Concat<axis=1>(past, h) },
        else_branch = e () => (float[b,s,4] y, float[b,v,4] q) { y = Neg(h) q = Identity(h) }> }
    2x3x4, 2x5x4, [1]; 2x3x4, 2x5x4, [0]; 1x1x4, 1x7x4, [0]; 1x7x4, 1x0x4, [1]; 1x1x4, 1x0x4, [0]; 1x5x4, 1x1x4, [1]
two truth values of which both have to be
    (float[b,s] x, bool u, bool v) => (float[b,t] z) { c = And(u, v) z = If(c) <
        then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,l] a) { a = Relu(x) }> }
    2x3, 1, 1; 2x3, 1, 0; 2x3, 0, 1; 2x3, 0, 0; 1x1, 1, 1
two conditions of which one has to be
    (float[b,s] x, bool u, int64 n) => (float[b,t] z) <int64 four={4}> { g = Greater(n, four) c = Or(u, g) z = If(c) <
        then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,l] a) { a = Relu(x) }> }
    2x3, 1, 5; 2x3, 1, 4; 2x3, 0, 5; 2x3, 0, 4; 1x1, 0, 4
two conditions of which one is
    (float[b,s] x, bool u, int64 n) => (float[b,t] z) <int64 four={4}> {
        g = GreaterOrEqual(n, four) c = Xor(u, g) z = If(c) <
        then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,l] a) { a = Relu(x) }> }
    2x3, 1, 4; 2x3, 1, 3; 2x3, 0, 4; 2x3, 0, 3
a branch within a branch
    (float[b,s] x, int64 n) => (float[b,t] z) <int64 four={4}, int64 six={6}> {
        c = Less(n, four) d = Less(n, six) z = If(c) <
        then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,l] a) { a = If(d) <
            then_branch = t2 () => (float[b,o] a2) { a2 = Concat<axis=1>(x, x, x) },
            else_branch = e2 () => (float[b,m] a2) { a2 = Relu(x) }> }> }
    2x3, 3; 2x3, 4; 2x3, 5; 2x3, 6; 1x1, 4
a truth value that is computed with, too
    (float[b,s] x, bool u) => (float[b,t] z, float[b,s] w) { f = Cast<to=1>(u) w = Mul(x, f) z = If(u) <
        then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },
        else_branch = e () => (float[b,l] a) { a = Relu(x) }> }
    2x3, 1; 2x3, 0; 1x1, 1
"""


def _cases() -> Iterator[tuple[str, str, list[str]]]:
    name, lines = "", list[str]()
    for line in [*TEXT.strip().splitlines(), "end"]:
        if line.startswith(" "):
            lines.append(line.strip())
            continue
        if name:
            yield name, " ".join(lines[:-1]), lines[-1].split("; ")
        name, lines = line, []


CASES = {name: (text, runs) for name, text, runs in _cases()}


def _feeds(proto: ModelProto, run: str, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    feeds: dict[str, Array] = {}
    for port, value in zip(proto.graph.input, run.split(", "), strict=True):
        dtype = DTYPES[port.type.tensor_type.elem_type]
        if dtype is np.float32:
            feeds[port.name] = rng.standard_normal([int(size) for size in value.split("x")]).astype(dtype)
        else:
            numbers = [int(number) for number in value.strip("[]").split(",")]
            feeds[port.name] = np.array(numbers if "[" in value else numbers[0], dtype)
    return feeds


def _compiled(session: InferenceSession) -> int:
    assert session.shape_cache is not None
    return session.shape_cache.hits + session.shape_cache.misses


@pytest.mark.usefixtures("all_variants")
@pytest.mark.parametrize("name", CASES)
def test_no_size_is_compiled_when_it_is_met(name: str) -> None:
    text, runs = CASES[name]
    proto = model("m " + text)
    oracle, session = ort_session(proto.SerializeToString()), InferenceSession(package("m " + text), threads=1)
    for seed, run in enumerate(runs):
        feeds = _feeds(proto, run, seed)
        for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=run)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), run
        assert _compiled(session) == 0, run


def test_plans_with_which_several_variants_begin_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which variant serves is known only when the first plan has computed the length."""
    text = (
        "m (float[n] x) => (float[k] y) <int64 a={0}, int64 b={1}> {"
        " t = Exp(x) s = ReduceMax<keepdims=0>(t) i = Cast<to=7>(s) r = Range(a, i, b) y = Cast<to=1>(r) }"
    )
    session = InferenceSession(package(text), threads=1)
    runs: list[object] = []
    run = ExecutionPlan.run
    monkeypatch.setattr(ExecutionPlan, "run", lambda plan, arrays: runs.append(plan) or run(plan, arrays))
    for value, length in ((2, 7), (-1, 0), (0, 1), (-2, 0)):
        [y] = session.run(None, {"x": np.full(5, value, np.float32)})
        assert y.tolist() == list(range(length)) and len(runs) == 2 and _compiled(session) == 0
        runs.clear()


CONCAT_OR_RELU = (
    "z = If(c) <then_branch = t () => (float[b,k] a) { a = Concat<axis=1>(x, x) },"
    " else_branch = e () => (float[b,l] a) { a = Relu(x) }> }"
)
ALIKE = CONCAT_OR_RELU.replace("Concat<axis=1>(x, x)", "Neg(x)").replace("b,k", "b,s").replace("b,l", "b,s")


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("float[b,s] x, bool c) => (float[b,t] z) { " + CONCAT_OR_RELU, {"c"}),
        ("float[b,s] x, bool[1,1] d) => (float[b,t] z) <int64[1] o={1}> { c = Reshape(d, o) " + CONCAT_OR_RELU, {"d"}),
        ("float[b,s] x, bool c) => (float[b,s] z) { " + ALIKE, set()),
        (
            "float[b,s] x, int64[8] n) => (float[b,t] z) <int64 i={7}> { m = Gather(n, i) c = Cast<to=9>(m) "
            + CONCAT_OR_RELU,
            {"n"},
        ),
        (
            "float[b,s] x, int64[9] n) => (float[b,t] z) <int64 i={8}> { m = Gather(n, i) c = Cast<to=9>(m) "
            + CONCAT_OR_RELU,
            set(),
        ),
        ("float[b,s] x, float n) => (float[b,t] z) { c = Cast<to=9>(n) " + CONCAT_OR_RELU, set()),
        (
            "float[b,s] x, bool u) => (float[b,t] z) { m = ReduceMax<keepdims=0>(x) d = Cast<to=9>(m) c = And(u, d) "
            + CONCAT_OR_RELU,
            set(),
        ),
    ],
    ids=["one", "of rank 2", "branches of one type", "8 elements", "9 elements", "a float", "data too"],
)
def test_conditions_are_decided_by_few_integers_and_truth_values(text: str, sources: set[str]) -> None:
    proto, rng = model(f"m ({text}"), np.random.default_rng(0)
    compiled = compile_model(proto, convert_options({}))[0]
    plans = [(cluster, plan) for cluster in compiled.clusters for item in cluster.variants for plan in item.plans]
    assert sources == {
        cluster.inputs[symbol.variable].name
        for cluster, plan in plans
        for symbol in plan.symbols
        if symbol.is_element and symbol.variable < len(cluster.inputs)
    }
    session, oracle = InferenceSession(writer.to_bytes(compiled), threads=1), ort_session(proto.SerializeToString())
    for truth in (0, 1, 0):
        feeds = {"x": rng.standard_normal((2, 3), np.float32)}
        for port in proto.graph.input[1:]:
            shape = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
            feeds[port.name] = np.full(shape, truth, DTYPES[port.type.tensor_type.elem_type])
        for found, expected in zip(session.run(None, feeds), oracle.run(None, feeds), strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_dim_may_have_the_name_of_an_element() -> None:
    proto = model("m (float[b,s] x, bool c) => (float[b,t] z) { " + CONCAT_OR_RELU)
    proto.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "c[0]"
    session = InferenceSession(writer.to_bytes(compile_model(proto, convert_options({}))[0]), threads=1)
    x = np.ones((2, 3), np.float32)
    for truth in (True, False):
        assert session.run(None, {"x": x, "c": np.array(truth)})[0].shape == ((2, 6) if truth else (2, 3))
