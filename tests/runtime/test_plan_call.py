"""Runs that C serves as a whole, from the third with the same shapes on: they equal the others, and refuse the same."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, ModelInvalid, PackageCorrupt, ResourceLimit, UsageError
from atcpy.kernels import _kernels
from atcpy.runtime.plan import DirectRun
from tests.models_in_text import package

TWO = "m (float[2,3] x, int64[2,3] n) => (float[2,3] y, int64[2,3] z) { y = Relu(x) z = Abs(n) }"
OPEN = TWO.replace("2,3", "rows,3")
X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)
N = np.array([[-1, 2, -3], [4, -5, 6]], np.int64)
FEEDS = {"x": X, "n": N}


class Subclass(np.ndarray[Any, Any]):
    """An array that is no plain one."""


def served(text: str = TWO, feeds: Mapping[str, np.ndarray] = FEEDS) -> tuple[InferenceSession, DirectRun]:
    """A session that has met these feeds, and its direct run for them."""
    session = InferenceSession(package(text), threads=1)
    session.run(None, feeds)
    session.run(None, feeds)
    run = session._last_run
    assert run is not None
    return session, run


@pytest.mark.parametrize("text", [TWO, OPEN], ids=["fixed", "open"])
@pytest.mark.parametrize("names", [None, ["z", "y"], ["y"], ("z", "z"), []])
def test_it_gives_what_other_runs_give(text: str, names: list[str] | None) -> None:
    session, run = served(text)
    results = session.run(names, FEEDS)
    expected = {"y": np.maximum(X, 0), "z": np.abs(N)}
    for name, result in zip("yz" if names is None else names, results, strict=True):
        np.testing.assert_array_equal(result, expected[name])
        assert result.dtype == expected[name].dtype and result.flags.owndata and result.flags.writeable
    direct = run.run_fed(FEEDS)
    assert direct is not None
    for result, right in zip(direct, expected.values(), strict=True):
        np.testing.assert_array_equal(result, right)


@pytest.mark.parametrize(
    "feeds",
    [pickle.loads(pickle.dumps(FEEDS)), {"n": N, "x": X}, {"x": X, "n": N.astype(np.longlong)}],
    ids=["pickled", "in another order", "a type of another name"],
)
def test_feeds_that_equal_the_inputs_are_served(feeds: dict[str, np.ndarray]) -> None:
    _, run = served()
    direct = run.run_fed(feeds)
    assert direct is not None
    np.testing.assert_array_equal(direct[1], np.abs(N))


def misaligned(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(b"\0" + array.tobytes(), np.uint8)[1:].view(array.dtype).reshape(array.shape)


SAME_ANSWER: dict[str, Callable[[], object]] = {
    "columns first": lambda: {"x": np.asfortranarray(X), "n": N},
    "strided": lambda: {"x": np.repeat(X, 2, axis=1)[:, ::2], "n": N},
    "misaligned": lambda: {"x": X, "n": misaligned(N)},
    "a subclass": lambda: {"x": X.view(Subclass), "n": N},
    "lists": lambda: {"x": X, "n": N.tolist()},
    "another mapping": lambda: OrderedDict(FEEDS),
}


@pytest.mark.parametrize("feeds", SAME_ANSWER.values(), ids=SAME_ANSWER)
def test_other_forms_of_the_feeds_go_the_long_way(feeds: Callable[[], Any]) -> None:
    session, run = served()
    given = feeds()
    assert run.run_fed(given) is None
    y, z = session.run(None, given)
    np.testing.assert_array_equal(y, np.maximum(X, 0))
    np.testing.assert_array_equal(z, np.abs(N))


REFUSED: dict[str, tuple[Any, str]] = {
    "one is missing": ({"x": X}, "E13025"),
    "one too many": ({**FEEDS, "v": X}, "E13025"),
    "another name": ({"x": X, "v": N}, "E13025"),
    "another type": ({"x": X.astype(np.float64), "n": N}, "E10403"),
    "the other byte order": ({"x": X.astype(">f4"), "n": N}, "E10403"),
    "a type of the same size": ({"x": X, "n": N.astype(np.float64)}, "E10403"),
    "fewer rows": ({"x": X[:1], "n": N}, "E10405"),
    "more rows": ({"x": X, "n": np.vstack([N, N])}, "E10405"),
    "as many bytes": ({"x": X.T.copy(), "n": N}, "E10405"),
    "fewer dims": ({"x": X.reshape(-1), "n": N}, "E10402"),
    "more dims": ({"x": X, "n": N[None]}, "E10402"),
    "more dims behind": ({"x": X[..., None], "n": N}, "E10402"),
    "none at all": ({}, "E13025"),
}


@pytest.mark.parametrize(("feeds", "code"), REFUSED.values(), ids=REFUSED)
def test_feeds_that_do_not_fit_are_refused_as_before(feeds: Any, code: str) -> None:
    session, run = served()
    assert run.run_fed(feeds) is None
    with pytest.raises(UsageError) as caught:
        session.run(None, feeds)
    assert caught.value.code == code
    assert run.run_fed(FEEDS) is not None


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        ("m (float x) => (float y) { y = Neg(x) }", {"x": np.array(2, np.float32)}),
        ("m (bfloat16[3] x) => (bfloat16[3] y) { y = Neg(x) }", None),
        ("m (float[3] x, float[3] unused) => (float[3] y) { y = Neg(x) }", None),
    ],
    ids=["scalar", "bfloat16", "an input that is not used"],
)
def test_it_serves_all_ports_that_are_arrays(text: str, feeds: dict[str, np.ndarray] | None) -> None:
    session = InferenceSession(package(text), threads=1)
    if feeds is None:
        feeds = {port.name: np.ones(port.shape, port.dtype.numpy) for port in session.get_inputs()}
    session, run = served(text, feeds)
    direct = run.run_fed(feeds)
    assert direct is not None
    np.testing.assert_array_equal(direct[0], -feeds["x"])
    assert direct[0].shape == feeds["x"].shape


@pytest.mark.parametrize("port", ["int4[3]", "uint4[3]", "float[0,3]"])
def test_elements_of_four_bits_and_plans_without_tasks_go_the_long_way(port: str) -> None:
    session = InferenceSession(package(f"m ({port} x) => ({port} y) {{ y = Identity(x) }}"), threads=1)
    [x] = session.get_inputs()
    feeds = {"x": np.ones(x.shape).astype(x.dtype.numpy)}
    for _ in range(4):
        np.testing.assert_array_equal(session.run(None, feeds)[0], feeds["x"])
    assert session._last_run is not None and session._last_run.run_fed(feeds) is None


def test_a_node_that_fails_is_named_at_each_run() -> None:
    session = InferenceSession(
        package("m (float[4] x, int64[2] i) => (float[2] y) { y = Gather <axis = 0> (x, i) }"), threads=1
    )
    x = np.arange(4, dtype=np.float32)
    for _ in range(3):
        assert session.run(None, {"x": x, "i": np.array([0, -1])})[0].tolist() == [0, 3]
        with pytest.raises(ModelInvalid, match="index 4 is outside an axis of size 4") as caught:
            session.run(None, {"x": x, "i": np.array([0, 4])})
        assert caught.value.code == "D0001" and caught.value.where is not None


def test_a_deadline_ends_it() -> None:
    text = """m (float[1500,1500] a, float[1500,1500] b) => (float[1500,1500] y) { y = MatMul(a, b) }"""
    session = InferenceSession(package(text), threads=1)
    feeds = dict.fromkeys("ab", np.ones((1500, 1500), np.float32))
    for _ in range(3):
        assert session.run(None, feeds)[0][0, 0] == 1500
    with pytest.raises(ResourceLimit, match="R0003"):
        session.run(None, feeds, timeout=1e-4)


def test_a_package_that_was_written_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.om"
    path.write_bytes(package(TWO))
    session = InferenceSession(path, threads=1)
    for _ in range(3):
        session.run(None, FEEDS)
    with path.open("r+b") as file:
        file.seek(300)
        file.write(b"changed")
    with pytest.raises(PackageCorrupt, match="P0009"):
        session.run(None, FEEDS)


def test_the_memory_that_it_gets_is_checked() -> None:
    _, run = served()
    plan = run.plan
    ports = tuple((port.name, port.dtype.numpy, port.shape, None) for port in plan.inputs)
    right = tuple(pool.take for pool in plan.pools)

    def call(*allocators: Callable[[], Any]) -> object:
        return _kernels.PlanCall(plan.plan, np.ndarray, ports, allocators).run(FEEDS)

    assert call(*right) is not None
    with pytest.raises(ValueError, match="buffer 1 has 40 bytes, needs 48"):
        call(right[0], lambda: np.zeros(5, np.int64))
    read_only = np.frombuffer(bytes(48), np.int64)
    with pytest.raises(ValueError, match="read-only"):
        call(right[0], lambda: read_only)
    with pytest.raises(TypeError):
        call(lambda: 3, right[1])
    with pytest.raises(AtcError, match="mine"):
        call(right[0], refuse)


def refuse() -> None:
    raise UsageError("E13025", "mine")


def test_it_is_made_of_what_the_plan_has() -> None:
    _, run = served()
    plan = run.plan
    ports = tuple((port.name, port.dtype.numpy, port.shape, None) for port in plan.inputs)
    takes = tuple(pool.take for pool in plan.pools)
    made: Any = _kernels.PlanCall
    for wrong in (
        (plan.plan, np.ndarray, ports[:1], takes),
        (plan.plan, np.ndarray, ports, takes[:1]),
        (plan.plan, "ndarray", ports, takes),
    ):
        with pytest.raises(ValueError, match="a call is made once"):
            made(*wrong)
    float32 = np.dtype(np.float32)
    odd_inputs = (
        (1, float32, (2, 3), None),
        ("x", float32, [2, 3], None),
        ("x", float32),
        ("x", float32, (2, 3), "text"),
    )
    for odd in odd_inputs:
        with pytest.raises(TypeError):
            made(plan.plan, np.ndarray, (odd, ports[1]), takes)
    with pytest.raises(TypeError):
        made(None, np.ndarray, ports, takes)
    with pytest.raises(RuntimeError, match="not loaded"):
        made(_kernels.Plan.__new__(_kernels.Plan), np.ndarray, (), ())
    with pytest.raises(RuntimeError, match="no plan"):
        made.__new__(made).run({})
    call = made(plan.plan, np.ndarray, ports, takes)
    with pytest.raises(ValueError, match="a call is made once"):
        call.__init__(plan.plan, np.ndarray, ports, takes)
