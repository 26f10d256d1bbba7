"""Runs by one plan whose sizes depend on what is fed: those that C serves as a whole equal the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import ModelInvalid, PackageCorrupt, ResourceLimit
from atcpy.ir import ClusterVariant, Task
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from atcpy.om import writer
from atcpy.om.package import parse_package
from atcpy.options import convert_options
from atcpy.runtime.plan import DirectRun
from atcpy.runtime.planned_model import PlannedModel
from atcpy.runtime.profile import Profile
from atcpy.runtime.symbolic import serves_directly
from atcpy.stages.pipeline import compile_model
from tests.models_in_text import model, package

Feeds = Mapping[str, Array]
Variant = ClusterVariant[tuple[Task, ...]]


@dataclass(frozen=True)
class Case:
    """A model, what it computes, and feeds, of which no two give results of the same values."""

    text: str
    compute: Callable[..., Sequence[Array]]
    feeds: tuple[Feeds, ...]


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


def floats(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def positions(x: Array, p: Array) -> list[Array]:
    return [x + np.arange(p, p + x.shape[1], dtype=np.float32)]


CASES = {
    "rows that a condition keeps": Case(
        "m (float[5,3] x, bool[5] c) => (float[k,3] y) { y = Compress<axis=0>(x, c) }",
        lambda x, c: [x[c]],
        tuple({"x": floats(5, 3, seed=n), "c": np.arange(5) < n} for n in (0, 2, 5)),
    ),
    "columns that a condition keeps": Case(
        "m (float[n,4] x, bool[4] c) => (float[n,k] y) { y = Compress<axis=1>(x, c) }",
        lambda x, c: [x[:, c]],
        tuple({"x": floats(n, 4, seed=n), "c": np.arange(4) < n} for n in (1, 2, 3)),
    ),
    "a large part of a large result": Case(
        "m (float[2000,16] x, bool[2000] c) => (float[k,16] y) { y = Compress<axis=0>(x, c) }",
        lambda x, c: [x[c]],
        tuple({"x": floats(2000, 16, seed=n), "c": np.arange(2000) < n} for n in (20, 1000, 2000)),
    ),
    "indices": Case(
        "m (float[n,4] x) => (int64[2,k] y) { y = NonZero(x) }",
        lambda x: [np.stack(np.nonzero(x))],
        ({"x": np.eye(4, dtype=np.float32)}, {"x": floats(4, 4)}, {"x": floats(3, 4)}),
    ),
    "four results of one count": Case(
        "m (int64[6] x) => (int64[k] y, int64[k] i, int64[6] r, int64[k] c) { y, i, r, c = Unique(x) }",
        lambda x: np.unique(x, return_index=True, return_inverse=True, return_counts=True),
        tuple({"x": ints(*values)} for values in ((3, 1, 2, 1, 3, 3), (5, 5, 5, 5, 5, 5), (6, 5, 4, 3, 2, 1))),
    ),
    "another order of the outputs": Case(
        "m (int64[6] x) => (int64[k] c, int64[k] y) { y, i, r, c = Unique(x) }",
        lambda x: np.unique(x, return_counts=True)[::-1],
        tuple({"x": ints(*values)} for values in ((3, 1, 2, 1, 3, 3), (6, 5, 4, 3, 2, 1))),
    ),
    "a range": Case(
        "m (int64[1] a, int64[1] n, int64[1] d) => (int64[m] y) { y = Range(a, n, d) }",
        lambda a, n, d: [np.arange(a[0], n[0], d[0])],
        tuple({"a": ints(0), "n": ints(n), "d": ints(d)} for n, d in ((3, 1), (7, 1), (7, 2), (7, 3))),
    ),
    "a large fill": Case(
        "m (int64[1] n) => (float[m] y) { y = ConstantOfShape<value=float[1] {2}>(n) }",
        lambda n: [np.full(n, 2, np.float32)],
        tuple({"n": ints(n)} for n in (20000, 30000, 20001)),
    ),
    "borders, and an open size": Case(
        "m (float[n,3] x, int64[4] p) => (float[a,b] y) { y = Pad(x, p) }",
        lambda x, p: [np.pad(x, p.reshape(2, 2).T)],
        (
            {"x": floats(2, 3), "p": ints(1, 0, 0, 2)},
            {"x": floats(2, 3), "p": ints(0, 1, 0, 2)},
            {"x": floats(4, 3), "p": ints(0, 1, 0, 2)},
            {"x": floats(4, 3, seed=1), "p": ints(0, 1, 0, 2)},
        ),
    ),
    "an element that is data too": Case(
        "m (float[b,s] x, int64 p) => (float[b,s] z) <int64 one={1}> {"
        " n = Shape<start=1>(x) l = Squeeze(n) e = Add(p, l) r = Range(p, e, one) c = Cast<to=1>(r) z = Add(x, c) }",
        positions,
        tuple({"x": floats(1, s), "p": np.array(p)} for s, p in ((3, 0), (3, 5), (4, 5), (4, -2))),
    ),
    "sizes of int32": Case(
        "m (int32 n) => (int32[m] y) <int32 a={1}, int32 d={2}> { y = Range(a, n, d) }",
        lambda n: [np.arange(1, n, 2, np.int32)],
        tuple({"n": np.array(n, np.int32)} for n in (3, 9, 4)),
    ),
    "a shape": Case(
        "m (float[6] x, int64[2] s) => (float[a,b] z) { z = Reshape(x, s) }",
        lambda x, s: [x.reshape(s)],
        tuple({"x": floats(6, seed=s[1]), "s": ints(*s)} for s in ((2, 3), (3, 2), (-1, 1), (1, 6))),
    ),
    "a shape of what was computed before": Case(
        "m (float[6] x, int64[2] s) => (float[a,b] z, float[6] t) { t = Neg(x) u = Abs(t) z = Reshape(u, s) }",
        lambda x, s: [abs(x).reshape(s), -x],
        tuple({"x": floats(6, seed=s[1]), "s": ints(*s)} for s in ((2, 3), (3, 2), (-1, 1), (1, 6))),
    ),
    "columns from a position on": Case(
        "m (float[n,5] x, int64[1] a) => (float[n,k] z) <int64[1] end={9}, int64[1] axis={1}> {"
        " t = Neg(x) z = Slice(t, a, end, axis) }",
        lambda x, a: [-x[:, a[0] :]],
        tuple({"x": floats(n, 5, seed=n), "a": ints(a)} for n, a in ((2, 1), (3, 2), (2, 4), (2, 0))),
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def opened(case: Case) -> InferenceSession:
    return InferenceSession(package(case.text), threads=1)


def direct_run(session: InferenceSession, feeds: Feeds) -> DirectRun:
    """What serves such feeds, from the third run on."""
    session.run(None, feeds)
    session.run(None, feeds)
    assert session._last_run is not None
    return session._last_run


def expect(case: Case, results: Sequence[Array], feeds: Feeds) -> None:
    expected = case.compute(*feeds.values())
    for actual, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(actual, right)
        assert actual.dtype == right.dtype and actual.flags.writeable


@every_case
def test_runs_in_any_order_give_the_same(case: Case) -> None:
    session, kept = opened(case), []
    for feeds in (*case.feeds * 3, *(item for item in case.feeds for _ in range(3)), *case.feeds):
        results = session.run(None, feeds)
        expect(case, results, feeds)
        kept.append((results, feeds))
    for results, feeds in kept:  # the memory of no result was used again
        expect(case, results, feeds)


@every_case
def test_it_serves_the_values_that_sizes_follow_from_and_no_others(case: Case) -> None:
    session = opened(case)
    by_values = [
        direct_run(session, feeds) for feeds in case.feeds
    ]  # one object where the shapes of the feeds are the same and decide
    for run, feeds in zip(by_values, case.feeds, strict=True):
        found = run.run_fed({name: array.copy() for name, array in feeds.items()})
        assert found is not None
        expect(case, found, feeds)
        for other, others in zip(by_values, case.feeds, strict=True):
            served = run.run_fed(others)
            assert (served is not None) == (other is run)
            if served is not None:
                expect(case, served, others)


@every_case
def test_results_are_the_callers(case: Case) -> None:
    session, feeds = opened(case), case.feeds[0]
    direct_run(session, feeds)
    first = session.run(None, feeds)
    before = {name: array.copy() for name, array in feeds.items()}
    for result in first:
        result[...] = 77
        assert not any(np.shares_memory(result, array) for array in feeds.values())
    assert not any(np.shares_memory(one, other) for one, other in pairwise(first))
    expect(case, session.run(None, feeds), before)


@every_case
def test_threads_share_a_session(case: Case) -> None:
    session = opened(case)

    def many(first: int) -> None:
        for number in range(first, first + 60):
            feeds = case.feeds[number // 3 % len(case.feeds)]
            expect(case, session.run(None, feeds), feeds)

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(many, 3 * number) for number in range(4)]:
            future.result()


@every_case
def test_a_profile_and_memory_of_the_caller(case: Case) -> None:
    session = opened(case)
    for feeds in case.feeds:
        run, expected = direct_run(session, feeds), case.compute(*feeds.values())
        profile = Profile()
        expect(case, session.run(None, feeds, profile=profile), feeds)
        assert len(profile.times()) == len(run.plan.tasks)
        out = [np.full(right.shape, 9, right.dtype) for right in expected]
        results = session.run(None, feeds, out=out)
        assert all(result is given for result, given in zip(results, out, strict=True))
        expect(case, out, feeds)
        expect(case, session.run(None, feeds), feeds)


@every_case
def test_runs_of_several_iterations(case: Case) -> None:
    session = opened(case)
    for feeds in (*case.feeds, *case.feeds):
        expect(case, session.run_iterations(feeds, 3), feeds)


def test_iterations_whose_sizes_change() -> None:
    text = "m (int64[1] n) => (int64[1] more, int64[m] y) <int64 a={0}, int64 d={1}, int64[1] one={1}> {"
    session = InferenceSession(package(text + " more = Add(n, one) l = Squeeze(n) y = Range(a, l, d) }"), threads=1)
    for _ in range(3):
        assert session.run(None, {"n": ints(3)})[1].tolist() == [0, 1, 2]
        more, y = session.run_iterations({"n": ints(3)}, 3, state={"more": "n"})
        assert more.tolist() == [6] and y.tolist() == [0, 1, 2, 3, 4]


def test_a_part_of_the_outputs() -> None:
    session = opened(CASES["four results of one count"])
    feeds = {"x": ints(3, 1, 3, 1, 2, 2)}
    for _ in range(4):
        c, y = session.run(["c", "y"], feeds)
        assert c.tolist() == [2, 2, 2] and y.tolist() == [1, 2, 3]


def test_a_value_that_was_changed_in_its_array() -> None:
    session, n = opened(CASES["a large fill"]), ints(5)
    for size in (5, 5, 5, 7, 7, 7, 0, 0, 0, 5):
        n[0] = size
        assert session.run(None, {"n": n})[0].shape == (size,)


def test_values_that_break_a_rule_are_refused_at_each_run() -> None:
    session = opened(CASES["a shape"])
    x = floats(6)
    for _ in range(4):
        assert session.run(None, {"x": x, "s": ints(2, 3)})[0].shape == (2, 3)
        with pytest.raises(ModelInvalid):
            session.run(None, {"x": x, "s": ints(2, 4)})


def test_the_variant_that_fits_the_values() -> None:
    """A range that is empty has a plan of its own, without tasks."""
    session = opened(CASES["sizes of int32"])
    for n in (9, 9, 9, 0, 0, 0, 9, -4, -4, -4, 9):
        assert session.run(None, {"n": np.array(n, np.int32)})[0].tolist() == [*range(1, n, 2)]


def with_variants(text: str, change: Callable[[Variant], tuple[Variant, ...]]) -> InferenceSession:
    """The package of a model of one plan, with other variants."""
    good = compile_model(model(text), convert_options({}))[0]
    [cluster] = good.clusters
    [variant] = cluster.variants
    broken = replace(good, clusters=(replace(cluster, variants=change(variant)),))
    return InferenceSession(writer.to_bytes(broken), threads=1)


INDICES = "m (float[4,4] x) => (int64[2,k] y) { y = NonZero(x) }"
FEW = {"x": np.eye(4, dtype=np.float32)}
MANY = {"x": np.ones((4, 4), np.float32)}
NONE = {"x": np.zeros((4, 4), np.float32)}


@pytest.mark.parametrize("others", [0, 1])
def test_a_variant_with_a_condition_is_asked_at_each_run(others: int) -> None:
    """One that serves only what has no indices, by their count, and maybe one without that condition."""

    def variants(variant: Variant) -> tuple[Variant, ...]:
        [plan] = variant.plans
        condition = len(plan.inputs) + plan.counted[0].count
        return (replace(variant, condition=condition), *(variant,) * others)

    session = with_variants(INDICES, variants)
    for _ in range(4):
        assert session.run(None, NONE)[0].shape == (2, 0)
        assert others or session._last_run is None
    for feeds in (MANY, NONE, FEW) * 4:
        np.testing.assert_array_equal(session.run(None, feeds)[0], np.stack(np.nonzero(feeds["x"])))
    assert (session._last_run is not None) == bool(others)


@pytest.mark.parametrize("order", [(0, 0), (1, 0), (1, 1)])
def test_outputs_in_another_order_have_memory_of_their_own(order: tuple[int, ...]) -> None:
    def ordered(variant: Variant) -> tuple[Variant, ...]:
        return (replace(variant, outputs=tuple(variant.outputs[index] for index in order)),)

    session = with_variants("m (int64[6] x) => (int64[k] y, int64[k] i) { y, i = Unique(x) }", ordered)
    right = [1, 2, 3], [1, 4, 0]
    for _ in range(4):
        first, second = session.run(None, {"x": ints(3, 1, 3, 1, 2, 2)})
        assert (first.tolist(), second.tolist()) == (right[order[0]], right[order[1]])
        assert not np.shares_memory(first, second)
    assert (session._last_run is not None) == (order == (1, 0))


SUMS = "m (float[n,2] x, float[m,2] b) => (float[k,2] y, float[n,2] z) { y = Add(x, b) z = Neg(x) }"
UNEQUAL = [(1, 3), (3, 1), (1, 2), (2, 1)]


def unserved(text: str, *, shapes: int = 4) -> InferenceSession:
    """A package that has a plan only for as many rows of `x` as of `b`: others are compiled when they are met."""
    full = compile_model(model(text), convert_options({}))[0]
    [cluster] = full.clusters
    reduced = replace(full, clusters=(replace(cluster, variants=cluster.variants[:1]),))
    return InferenceSession(writer.to_bytes(reduced), threads=1, shape_cache=shapes)


def test_sizes_that_no_plan_serves_have_a_direct_run_once_they_were_compiled() -> None:
    session, kept = unserved(SUMS), []
    for n, m in (*UNEQUAL * 3, *(shape for shape in UNEQUAL for _ in range(3))):
        feeds = {"x": floats(n, 2, seed=n), "b": floats(m, 2, seed=m + 9)}
        kept.append((session.run(None, feeds), feeds))
        assert (session._last_run is None) == (len(kept) <= len(UNEQUAL))
    for (y, z), feeds in kept:  # the memory of no result was used again
        np.testing.assert_array_equal(y, feeds["x"] + feeds["b"])
        np.testing.assert_array_equal(z, -feeds["x"])


def test_direct_runs_of_compiled_sizes_are_as_many_as_the_shapes_that_are_kept() -> None:
    session = unserved(SUMS, shapes=2)
    served = session._procedure
    assert isinstance(served, PlannedModel)
    for count, (n, m) in enumerate(UNEQUAL):
        session.run(None, {"x": floats(n, 2), "b": floats(m, 2)})
        assert len(served._compiled_runs) == count % 2 + 1


@pytest.mark.parametrize("kept", ["x", "y"])
def test_outputs_that_are_an_input_or_another_are_copied_at_each_run(kept: str) -> None:
    text = f"m (float[n,2] x, float[m,2] b) => (float[k,2] y, float[l,2] z) {{ y = Add(x, b) z = Identity({kept}) }}"
    session, x, b = unserved(text), floats(3, 2), floats(1, 2)
    for _ in range(3):
        y, z = session.run(None, {"x": x, "b": b})
        assert session._last_run is None
        assert not np.shares_memory(y, z) and not np.shares_memory(z, x)
        np.testing.assert_array_equal(z, x if kept == "x" else x + b)
        z[:] = 0
        np.testing.assert_array_equal(y, x + b)
    assert session.shape_cache is not None
    assert session.shape_cache.hits == 3, "one of each run but the first, and one to see that it is not one plan"


def test_a_small_part_of_a_large_result_does_not_keep_its_memory() -> None:
    case = CASES["a large part of a large result"]
    session = opened(case)
    small, *large = case.feeds
    for _ in range(4):
        assert session.run(None, small)[0].base is None
        for feeds in large:
            assert session.run(None, feeds)[0].base is not None


def test_a_deadline_ends_it() -> None:
    session = InferenceSession(package("m (float[3000,3000] x) => (int64[2,k] y) { y = NonZero(x) }"), threads=1)
    x = np.zeros((3000, 3000), np.float32)
    x[2, 5] = 1
    for _ in range(3):
        assert session.run(None, {"x": x})[0].tolist() == [[2], [5]]
    with pytest.raises(ResourceLimit, match="R0003"):
        session.run(None, {"x": x}, timeout=1e-4)
    assert session.run(None, {"x": x})[0].tolist() == [[2], [5]]


def test_defaults_of_inputs() -> None:
    good = model("m (float[4] x, int64[1] n) => (float[k] y) { a = ConstantOfShape(n) y = Concat<axis=0>(x, a) }")
    default = good.graph.initializer.add(name="n", data_type=7, dims=[1])
    default.int64_data.append(2)
    session = InferenceSession(writer.to_bytes(compile_model(good, convert_options({}))[0]), threads=1)
    x = floats(4)
    for _ in range(4):
        assert len(session.run(None, {"x": x})[0]) == 6
        assert len(session.run(None, {"x": x, "n": ints(1)})[0]) == 5


def test_a_count_beyond_the_memory_is_refused_at_each_run() -> None:
    """A package whose result grows with its count along both axes has memory for small counts alone."""

    def square(variant: Variant) -> tuple[Variant, ...]:
        [plan] = variant.plans
        [counted] = plan.counted
        return (replace(variant, plans=(replace(plan, counted=(replace(counted, axes=(0, 1)),)),)),)

    session = with_variants(INDICES, square)
    run = direct_run(session, FEW)
    found = run.run_fed(FEW)
    assert found is not None and found[0].shape == (4, 4)
    for attempt in (lambda: run.run_fed(MANY), lambda: run.run([MANY["x"]]), lambda: session.run(None, MANY)):
        with pytest.raises(PackageCorrupt, match="is cut out of 32 elements") as caught:
            attempt()
        assert caught.value.code == "P0005"


def test_what_is_compared_with_each_feed_is_as_small_as_the_package_says() -> None:
    [cluster] = parse_package(package(CASES["a large fill"].text)).clusters
    [variant], [n] = cluster.variants, cluster.inputs
    assert serves_directly(variant, [n])
    for dims in ((100_000,), (-1,), (1, -1), (2,)):
        assert not serves_directly(variant, [replace(n, dims=dims)])


def test_an_input_that_the_plan_does_not_take_is_compared() -> None:
    run = direct_run(opened(CASES["a range"]), CASES["a range"].feeds[0])
    feeds = dict(CASES["a range"].feeds[0])
    assert not run.plan.inputs and run.run_fed(feeds) is not None
    others: dict[str, Any] = {
        "another type": feeds["n"].astype(np.int32),
        "another rank": feeds["n"].reshape(()),
        "another size": ints(3, 3),
        "another value": ints(4),
        "no array": [3],
        "strided": np.repeat(ints(3, 4), 2)[::2][:1].view(),
    }
    for name, array in others.items():
        found = run.run_fed({**feeds, "n": array})
        assert (found is None) == (name != "strided"), name
    assert run.run_fed({"a": feeds["a"], "n": feeds["n"]}) is None
    assert run.run_fed({**feeds, "other": feeds["n"]}) is None


def test_a_content_has_the_size_of_its_input() -> None:
    run = direct_run(opened(CASES["a range"]), CASES["a range"].feeds[0])
    feeds = CASES["a range"].feeds[0]
    takes = tuple(pool.take for pool in run.plan.pools)
    for content, is_served in ((ints(3).tobytes(), True), (ints(3, 3).tobytes(), False), (b"", False), (None, True)):
        inputs = tuple(
            (name, array.dtype, array.shape, content if name == "n" else None) for name, array in feeds.items()
        )
        call = _kernels.PlanCall(run.plan.plan, np.ndarray, inputs, takes)
        assert (call.run(feeds) is not None) == is_served
