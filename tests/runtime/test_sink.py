"""`session.run_iterations`: what many runs in one call compute, how they end, and what is refused."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atcpy import InferenceSession
from atcpy.errors import AtcError, ModelInvalid, ResourceLimit, UsageError
from atcpy.ir.tensor import Array
from atcpy.om import writer
from atcpy.options import convert_options
from atcpy.runtime import sink
from atcpy.runtime.distributed.simulated_world import run_simulated
from atcpy.runtime.iterations import Iterations
from atcpy.stages.pipeline import compile_model
from tests.effort import trials
from tests.models_in_text import model, package
from tests.runtime.test_training import BATCH, PARAMETERS, data, step

State = Mapping[str, str]

RNN = """rnn (float[2,3] x, float[2,5] h) => (float[2,5] h2, float[2,4] y) <float[3,5] w, float[5,5] u, float[5,4] v> {
    a = MatMul(x, w) b = MatMul(h, u) s = Add(a, b) h2 = Tanh(s) y = MatMul(h2, v) }"""
FIBONACCI = "f (int64[1] a, int64[1] b) => (int64[1] c, int64[1] a2) { c = Add(a, b) a2 = Identity(b) }"
# The size of NonZero's result is known when it has run: two plans, and nothing that C could repeat.
STEPS = """g (float[4] x, float[4] h) => (float[4] h2, float total) {
    i = NonZero(h) j = Transpose(i) picked = GatherND(h, j) total = ReduceSum<keepdims=0>(picked) h2 = Sub(h, x) }"""
OPEN = """g (float[n,3] x, float[n,3] h) => (float[n,3] h2, float[n,3] h3) <float[3] w> {
    a = Mul(h, w) h2 = Add(a, x) h3 = Neg(h2) }"""


def singly(
    session: InferenceSession, feeds: Mapping[str, Any], n: int, state: State, collect: Sequence[str] = ()
) -> list[Any]:
    """What `n` calls of `run` give; a feed that has one axis more than its input is stepped through."""
    ranks = {port.name: len(port.shape or ()) for port in session.get_inputs()}
    names = [port.name for port in session.get_outputs()]
    now = {name: value for name, value in feeds.items() if name in state.values()}
    rows: dict[str, list[Array]] = {name: [] for name in collect}
    for i in range(n):
        own = {name: value[i] if np.ndim(value) > ranks[name] else value for name, value in feeds.items()}
        found = dict(zip(names, session.run(None, {**own, **now}), strict=True))
        now = {old: found[new] for new, old in state.items()}
        for name in collect:
            rows[name].append(found[name])
    return [np.stack(rows[name]) if name in rows else found[name] for name in names]


def check(
    session: InferenceSession, feeds: Mapping[str, Any], n: int, state: State, collect: Sequence[str] = ()
) -> None:
    """Compare the two to the bit, and see that feeds stay as they are."""
    expected = singly(session, feeds, n, state, collect)
    before = {name: np.copy(value) for name, value in feeds.items()}
    results = session.run_iterations(feeds, n, state=state, collect=collect)
    for result, other in zip(results, expected, strict=True):
        assert result.dtype == other.dtype
        np.testing.assert_array_equal(result, other)
    for name, value in before.items():
        np.testing.assert_array_equal(feeds[name], value)


def noise(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many iterations each stretch of C had."""
    runs: list[int] = []

    class Counted(Iterations):
        def run(self, count: int, steps: Mapping[int, Array]) -> tuple[int, dict[int, Array]]:
            runs.append(count)
            return super().run(count, steps)

    monkeypatch.setattr(sink, "Iterations", Counted)
    return runs


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 8])
def test_a_sequence_is_read_as_by_single_runs(n: int, threads: int, counted: list[int]) -> None:
    session = InferenceSession(package(RNN), threads=threads)
    for collect in ([], ["y"]):
        check(session, {"x": noise(1, n, 2, 3), "h": noise(2, 2, 5)}, n, {"h2": "h"}, collect)
    check(session, {"x": noise(1, 2, 3), "h": noise(2, 2, 5)}, n, {"h2": "h"})
    assert counted == [n] * 3


@pytest.mark.parametrize("n", [1, 2, 5, 90])
def test_states_may_go_to_inputs_crosswise(n: int) -> None:
    session = InferenceSession(package(FIBONACCI))
    state = {"c": "b", "a2": "a"}
    check(session, {"a": np.array([0]), "b": np.array([1])}, n, state)
    numbers = [0, 1]
    while len(numbers) < n + 2:
        numbers.append(sum(numbers[-2:]))
    last, before = session.run_iterations({"a": np.array([0]), "b": np.array([1])}, n, state=state)
    assert (last[0], before[0]) == (numbers[-1], numbers[-2])


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_a_state_that_nothing_reads_and_a_scalar_are_carried(n: int) -> None:
    text = """c (int64 i, float[3] unread) => (int64 j, float[3] k) <int64 one = {1}, float[3] w> {
        j = Add(i, one) f = Cast<to = 1>(j) k = Mul(f, w) }"""
    session = InferenceSession(package(text))
    check(session, {"i": np.array(7), "unread": noise(0, 3)}, n, {"j": "i", "k": "unread"})
    assert session.run_iterations({"i": np.array(7), "unread": noise(0, 3)}, n, state={"j": "i"})[0] == 7 + n


def test_a_scalar_is_stepped_through_and_no_state_is_needed() -> None:
    session = InferenceSession(package("g (float s, float[2] x) => (float[2] y) { y = Mul(x, s) }"))
    steps = noise(3, 6)
    [rows] = session.run_iterations({"s": steps, "x": np.ones(2, np.float32)}, 6, collect=["y"])
    np.testing.assert_array_equal(rows, np.repeat(steps[:, None], 2, 1))


def test_outputs_come_in_the_order_asked_for() -> None:
    session = InferenceSession(package(RNN))
    feeds = {"x": noise(1, 3, 2, 3), "h": noise(2, 2, 5)}
    h2, y = session.run_iterations(feeds, 3, state={"h2": "h"})
    [last] = session.run_iterations(feeds, 3, state={"h2": "h"}, output_names=["y"])
    np.testing.assert_array_equal(last, y)
    rows, again = session.run_iterations(feeds, 3, state={"h2": "h"}, output_names=["y", "h2"], collect=["y"])
    np.testing.assert_array_equal(again, h2)
    np.testing.assert_array_equal(rows[-1], y)


def test_results_belong_to_the_caller() -> None:
    session = InferenceSession(package(RNN))
    feeds = {"x": noise(1, 3, 2, 3), "h": noise(2, 2, 5)}
    first = session.run_iterations(feeds, 3, state={"h2": "h"}, collect=["y"])
    kept = [array.copy() for array in first]
    for array in session.run_iterations(feeds, 3, state={"h2": "h"}, collect=["y"]):
        array[...] = 0
    for array, copy in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, copy)
        assert array.flags.writeable


def test_feeds_of_any_memory_are_read() -> None:
    session = InferenceSession(package(RNN))
    wide = noise(4, 5, 3, 4)
    check(session, {"x": wide[::2, :2, 1:].copy(), "h": noise(2, 5, 2).T}, 3, {"h2": "h"})
    x = wide[::2, :2, 1:]
    assert not x.flags.c_contiguous
    check(session, {"x": x, "h": noise(2, 2, 5)}, 3, {"h2": "h"})


@pytest.mark.parametrize("threads", [1, 2])
def test_open_dims_iterate_in_c_from_the_second_run_of_their_sizes(threads: int, counted: list[int]) -> None:
    session = InferenceSession(package(OPEN), threads=threads)
    for rows in (2, 5):
        for _ in range(2):
            session.run_iterations({"x": noise(1, 4, rows, 3), "h": noise(2, rows, 3)}, 4, state={"h2": "h"})
    assert counted == [3, 4, 3, 4]
    feeds = {"x": noise(1, 4, 7, 3), "h": noise(2, 7, 3)}
    expected = singly(InferenceSession(package(OPEN), threads=threads), feeds, 4, {"h2": "h"}, ["h3"])
    for result, other in zip(
        session.run_iterations(feeds, 4, state={"h2": "h"}, collect=["h3"]), expected, strict=True
    ):
        np.testing.assert_array_equal(result, other)


def test_gears_iterate_in_c(counted: list[int]) -> None:
    options = {"input_shape": "x:-1,3;h:-1,3", "dynamic_batch_size": "2,4"}
    session = InferenceSession(package(OPEN, options))
    for rows in (2, 4):
        check(session, {"x": noise(1, 3, rows, 3), "h": noise(2, rows, 3)}, 3, {"h2": "h"})
    assert counted == [3, 3]
    with pytest.raises(UsageError, match="E10405"):
        session.run_iterations({"x": noise(1, 3, 3, 3), "h": noise(2, 3, 3)}, 3, state={"h2": "h"})


@pytest.mark.parametrize("collect", [[], ["total"]])
def test_what_no_single_plan_serves_runs_run_by_run(collect: list[str], counted: list[int]) -> None:
    session = InferenceSession(package(STEPS))
    x = np.eye(4, dtype=np.float32)[[0, 1, 3]]
    check(session, {"x": x, "h": np.ones(4, np.float32)}, 3, {"h2": "h"}, collect)
    assert counted == []


def test_sequences_and_texts_run_run_by_run() -> None:
    text = """g (string[2] s, float[2] h) => (float[2] h2, string[2] t) <float[2] w> {
        t = Identity(s) h2 = Add(h, w) }"""
    session = InferenceSession(package(text))
    steps = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    rows = session.run_iterations({"s": steps, "h": noise(0, 2)}, 3, state={"h2": "h"}, collect=["t"])[1]
    assert rows.tolist() == steps.tolist()
    last = session.run_iterations({"s": steps, "h": noise(0, 2)}, 3, state={"h2": "h"})[1]
    assert (last.tolist(), last.dtype) == (["e", "f"], np.dtype(np.object_))


def test_an_input_with_a_default_begins_with_it() -> None:
    text = "g (float[2] x, float[2] h = {1, 2}) => (float[2] h2) { h2 = Add(h, x) }"
    session = InferenceSession(package(text))
    x = np.array([[1, 10], [2, 20], [3, 30]], np.float32)
    assert session.run_iterations({"x": x}, 3, state={"h2": "h"})[0].tolist() == [7, 62]
    begun = session.run_iterations({"x": x, "h": np.zeros(2, np.float32)}, 3, state={"h2": "h"})
    assert begun[0].tolist() == [6, 60]


def test_types_of_less_than_a_byte_are_carried() -> None:
    text = "g (int4[3] q, float[3] x) => (int4[3] q2) <float scale = {1}, int4 zero = {0}> { \
        d = DequantizeLinear(q, scale, zero) s = Add(d, x) q2 = QuantizeLinear(s, scale, zero) }"
    session = InferenceSession(package(text))
    q = np.array([1, -2, 0]).astype(session.get_inputs()[0].dtype.numpy)
    check(session, {"q": q, "x": np.array([1, -1, 2], np.float32)}, 3, {"q2": "q"})


# --- tasks of the host, and collectives -----------------------------------------------------------------------------

ALLREDUCE = 'HcomAllReduce<reduction = "sum">'
HOST_MODELS = {
    "behind": "g (float[4] x, float[4] h) => (float[4] h2, float[4] y) { h2 = Add(h, x) y = HOST(h2) }",
    "before": "g (float[4] x, float[4] h) => (float[4] h2, float[4] y) { y = HOST(h) h2 = Add(y, x) }",
    "between": "g (float[4] x, float[4] h) => (float[4] h2, float[4] y) { a = Tanh(h) y = HOST(a) h2 = Add(y, x) }",
    "twice": "g (float[4] x, float[4] h) => (float[4] h2, float[4] y) { a = HOST(x) b = Add(a, h) h2 = HOST(b) \
        y = Neg(h2) }",
    "alone": "g (float[4] x, float[4] h) => (float[4] h2) { h2 = HOST(h) }",
}


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("name", HOST_MODELS)
def test_python_runs_tasks_of_the_host_between_those_of_c(name: str, n: int, counted: list[int]) -> None:
    text = HOST_MODELS[name].replace("HOST", ALLREDUCE)
    session = InferenceSession(package(text))
    assert any(segment.on_host for plan in session.plans for segment in plan.segments)
    collect = ["y"] if "float[4] y" in text else []
    check(session, {"x": noise(1, n, 4), "h": noise(2, 4)}, n, {"h2": "h"}, collect)
    assert counted == [n]


@pytest.mark.parametrize("ranks", [1, 2])
def test_training_on_several_ranks_is_that_of_single_runs(ranks: int) -> None:
    om, steps = package(step(BATCH // ranks)), 5
    pictures, truth = data()
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0, 0.3, shape).astype(np.float32) for name, shape in PARAMETERS.items()}
    weights |= {f"{name}_v": np.zeros_like(array) for name, array in weights.items()}
    state = {f"{name}_next": name for name in weights}

    def train(world: Any) -> tuple[list[Array], list[Array]]:
        session = InferenceSession(om, threads=1, world=world)
        own = slice(world.rank, None, world.ranks)
        feeds = {"x": pictures[own], "truth": truth[own], **weights}
        one_by_one = singly(session, feeds, steps, state, ["loss"])
        return one_by_one, session.run_iterations(feeds, steps, state=state, collect=["loss"])

    for expected, found in run_simulated(train, ranks):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a, b)
        assert found[0].shape == (steps,)
        assert found[0][-1] < found[0][0]


# --- random models --------------------------------------------------------------------------------------------------

UNARY = ("Tanh", "Sin", "Neg", "Softmax", "Sigmoid", "Relu", "Identity")
BINARY = ("Add", "Sub", "Mul", "Max")


@st.composite
def models_with_states(draw: st.DrawFn) -> tuple[str, int, int]:
    """A model of elementwise nodes whose states are any of its values, in text; how many states, and iterations."""
    states, nodes = draw(st.integers(0, 3)), draw(st.integers(1, 8))
    values = ["x", *(f"h{i}" for i in range(states))]
    lines = []
    for number in range(nodes):
        operands = [draw(st.sampled_from(values)) for _ in range(draw(st.integers(1, 2)))]
        op = draw(st.sampled_from(UNARY if len(operands) == 1 else BINARY))
        lines.append(f"v{number} = {op}({', '.join(operands)})")
        values.append(f"v{number}")
    for number in range(states):
        lines.append(f"n{number} = {draw(st.sampled_from(['Identity', 'Tanh']))}({draw(st.sampled_from(values))})")
    inputs = ", ".join(["float[2,6] x", *(f"float[2,6] h{i}" for i in range(states))])
    outputs = ", ".join([*(f"float[2,6] n{i}" for i in range(states)), f"float[2,6] v{nodes - 1}"])
    text = f"g ({inputs}) => ({outputs}) {{ {' '.join(lines)} }}"
    return text, states, draw(st.integers(1, 5))


@settings(max_examples=trials(60), deadline=None)
@given(models_with_states(), st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False))
def test_random_models_give_what_single_runs_give(
    drawn: tuple[str, int, int], threads: int, stepped: bool, random: Any
) -> None:
    text, states, n = drawn
    session = InferenceSession(package(text), threads=threads)
    targets = list(range(states))
    random.shuffle(targets)
    state = {f"n{i}": f"h{target}" for i, target in enumerate(targets)}
    feeds = {"x": noise(0, *([n] if stepped else []), 2, 6), **{f"h{i}": noise(i + 1, 2, 6) for i in range(states)}}
    collect = [session.get_outputs()[-1].name] if random.random() < 0.5 else []
    check(session, feeds, n, state, collect)


# --- how iterations end ---------------------------------------------------------------------------------------------

ENDLESS = 2**31 - 1


@pytest.mark.parametrize(
    "text", [RNN, STEPS, HOST_MODELS["alone"].replace("HOST", ALLREDUCE)], ids=["in C", "run by run", "on the host"]
)
def test_a_deadline_ends_iterations_and_the_session_goes_on(text: str) -> None:
    session = InferenceSession(package(text))
    shapes = {port.name: port.shape for port in session.get_inputs()}
    feeds = {name: noise(1, *shape) for name, shape in shapes.items() if shape}  # type: ignore[arg-type]
    before = {name: array.copy() for name, array in feeds.items()}
    with pytest.raises(ResourceLimit) as caught:
        session.run_iterations(feeds, ENDLESS, state={"h2": "h"}, timeout=0.02)
    assert (caught.value.code, caught.value.exit_code) == ("R0003", 6)
    for name, array in before.items():
        np.testing.assert_array_equal(feeds[name], array)
    check(session, feeds, 3, {"h2": "h"})


@pytest.mark.parametrize("text", [RNN, HOST_MODELS["alone"].replace("HOST", ALLREDUCE)], ids=["C", "host"])
def test_an_interrupt_ends_iterations_and_the_session_goes_on(text: str) -> None:
    session = InferenceSession(package(text))
    shapes = {port.name: port.shape for port in session.get_inputs()}
    feeds = {name: noise(1, *shape) for name, shape in shapes.items() if shape}  # type: ignore[arg-type]
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        session.run_iterations(feeds, ENDLESS, state={"h2": "h"})
    timer.join()
    check(session, feeds, 3, {"h2": "h"})


def test_an_iteration_that_breaks_a_rule_ends_all() -> None:
    text = """g (float[3,2] table, int64 i) => (int64 j, float[2] row) <int64 one = {1}> {
        row = Gather(table, i) j = Add(i, one) }"""
    session = InferenceSession(package(text))
    feeds = {"table": noise(0, 3, 2), "i": np.array(0)}
    with pytest.raises(ModelInvalid, match="index 3 is outside an axis of size 3"):
        session.run_iterations(feeds, 5, state={"j": "i"})
    check(session, feeds, 3, {"j": "i"}, ["row"])


# --- what is refused ------------------------------------------------------------------------------------------------

BAD = """bad (float[2] x, float[2] h, double[2] d, float[3] three, float[n] open) =>
    (float[2] y, float[2] y2, double[2] e, float[n] o, float[1,2] flat) {
    y = Add(x, h) y2 = Neg(y) e = Neg(d) o = Neg(open) axes = Constant<value_ints=[0]>() flat = Unsqueeze(y, axes)
    t = Neg(three) }"""

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no iterations": ({"n": 0}, "E10013.*0 iterations are outside 1..2147483647"),
    "fewer than none": ({"n": -3}, "E10013.*-3 iterations"),
    "absurdly many": ({"n": 2**70}, "E10013.*1180591620717411303424 iterations"),
    "half a one": ({"n": 2.5}, "E10013.*2.5 is no number of iterations"),
    "a text": ({"n": "3"}, "E10013.*'3' is no number of iterations"),
    "an unknown output": ({"state": {"z": "h"}}, 'E13031.*no output "z"'),
    "an unknown input": ({"state": {"y": "hh"}}, 'E13025.*no input "hh".*did you mean'),
    "two outputs for an input": ({"state": {"y": "h", "y2": "h"}}, 'E13025.*"y" and "y2" are states of one input, "h"'),
    "another type": ({"state": {"e": "h"}}, r"E13031.*tensor\(double\) and tensor\(float\)"),
    "another size": ({"state": {"y": "three"}}, r"E13031.*\[2\] and \[3\]"),
    "another rank": ({"state": {"flat": "h"}}, r"E13031.*\[1,2\] and \[2\]"),
    "a collected state": ({"state": {"y": "h"}, "collect": ["y"]}, "E13031.*it is a state"),
    "an unknown output to collect": ({"collect": ["z"]}, 'E13031.*no output "z"'),
    "an unknown output to return": ({"output_names": ["z"]}, 'E13031.*no output "z"'),
    "steps of another number": ({"feeds": {"x": noise(0, 4, 2)}}, r"E10405.*values for 4 iterations of 3.*\[3,2\]"),
    "steps of another size": ({"feeds": {"x": noise(0, 3, 5)}}, r"E10405.*needs \[2\] float32, got \[5\]"),
    "steps of another type": ({"feeds": {"x": np.ones((3, 2))}}, r"E10403.*needs \[2\] float32, got \[2\] float64"),
    "two axes more": ({"feeds": {"x": noise(0, 3, 1, 2)}}, r"E10402.*got \[3, 1, 2\]"),
    "a state that is stepped through": ({"state": {"y": "h"}, "feeds": {"h": noise(0, 3, 2)}}, r"E10402.*got \[3, 2\]"),
    "an input that is no array": ({"feeds": {"x": None}}, "E10402"),
    "an unknown feed": ({"feeds": {"xx": noise(0, 2)}}, 'E13025.*no input "xx"'),
    "no time": ({"timeout": 0}, "E10013"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_before_anything_runs(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes, message = REFUSED[case]
    session = InferenceSession(package(BAD))
    ran: list[int] = []
    monkeypatch.setattr(session, "_compute", lambda *_: ran.append(1))
    feeds: dict[str, Any] = {
        "x": noise(0, 2),
        "h": noise(1, 2),
        "d": np.ones(2),
        "three": noise(2, 3),
        "open": noise(3, 2),
    }
    arguments = {"n": 3, "state": {}, **changes, "feeds": feeds | changes.get("feeds", {})}
    with pytest.raises(AtcError, match="(?s)" + message):
        session.run_iterations(arguments.pop("feeds"), arguments.pop("n"), **arguments)
    assert not ran


def test_a_state_of_open_size_that_changes_is_refused() -> None:
    text = "g (float[n] h, float[1] x) => (float[m] h2) { h2 = Concat<axis=0>(h, x) }"
    session = InferenceSession(package(text))
    with pytest.raises(UsageError, match=r"(?s)E13031.*an iteration makes \[3\] of \[2\].*bind_state"):
        session.run_iterations({"h": noise(0, 2), "x": noise(1, 1)}, 3, state={"h2": "h"})


def test_results_of_several_sizes_cannot_be_collected() -> None:
    text = "g (float[4] x) => (int64[1,n] i) { i = NonZero(x) }"
    session = InferenceSession(package(text))
    with pytest.raises(UsageError, match=r'E13031.*"i" cannot be collected: \[1,1\] in iteration 1, \[1,4\] before'):
        session.run_iterations({"x": np.array([[1, 1, 1, 1], [0, 1, 0, 0]], np.float32)}, 2, collect=["i"])


def test_more_results_than_there_is_memory_are_refused() -> None:
    session = InferenceSession(package(RNN))
    with pytest.raises(ResourceLimit, match=r"R0001.*y of 2147483647 iterations needs"):
        session.run_iterations({"x": noise(1, 2, 3), "h": noise(2, 2, 5)}, ENDLESS, state={"h2": "h"}, collect=["y"])


def test_an_input_of_unknown_rank_is_ambiguous() -> None:
    proto = model("g (float[2] h, float x) => (float[2] h2) { h2 = Add(h, x) }")
    proto.graph.input[1].type.tensor_type.ClearField("shape")
    session = InferenceSession(writer.to_bytes(compile_model(proto, convert_options({}))[0]))
    with pytest.raises(UsageError, match=r'E13025.*"x" has no known rank'):
        session.run_iterations({"h": noise(0, 2), "x": noise(1, 3, 2)}, 3, state={"h2": "h"})


def test_caches_that_grow_exclude_iterations() -> None:
    text = "g (float[1,2] x, float[p,2] past) => (float[t,2] present) { present = Concat<axis=0>(past, x) }"
    session = InferenceSession(package(text))
    session.bind_state({"present": "past"}, capacity=4)
    with pytest.raises(UsageError, match=r"(?s)E13025.*states of its own.*bind_state\(\{\}\)"):
        session.run_iterations({"x": noise(0, 1, 2)}, 3)
