"""InferenceSession: what it returns, what it refuses, and that threads and forks may use it."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from atcpy import InferenceSession
from atcpy.errors import AtcError, ModelInvalid, UsageError
from tests.models_in_text import package

RELU = "m (float[2,3] x) => (float[2,3] y) { t = Relu(x) y = Neg(t) }"


@pytest.fixture(scope="module")
def relu() -> InferenceSession:
    return InferenceSession(package(RELU), threads=2)


def test_ports_have_names_shapes_and_types(relu: InferenceSession) -> None:
    (x,), (y,) = relu.get_inputs(), relu.get_outputs()
    assert (x.name, x.shape, x.type) == ("x", (2, 3), "tensor(float)")
    assert (y.name, y.shape, y.type) == ("y", (2, 3), "tensor(float)")


def test_run_returns_the_outputs_asked_for(relu: InferenceSession) -> None:
    x = np.array([[-1, 2, 3], [4, -5, 6]], np.float32)
    for names in (None, ["y"]):
        (y,) = relu.run(names, {"x": x})
        np.testing.assert_array_equal(y, -np.maximum(x, 0))


def test_inputs_are_not_changed_and_outputs_are_the_callers(relu: InferenceSession) -> None:
    x = np.ones((2, 3), np.float32)
    first = relu.run(None, {"x": x})[0]
    relu.run(None, {"x": -x})
    np.testing.assert_array_equal(x, 1)
    np.testing.assert_array_equal(first, -1)


@pytest.mark.parametrize(
    ("feeds", "code", "message"),
    [
        ({}, "E13025", 'input "x" is missing'),
        ({"X": np.zeros((2, 3), np.float32)}, "E13025", 'no input "X"'),
        ({"x": np.zeros((3, 2), np.float32)}, "E10405", "needs [2, 3] float32, got [3, 2] float32"),
        ({"x": np.zeros((2, 3))}, "E10403", "needs [2, 3] float32, got [2, 3] float64"),
        ({"x": np.zeros(6)}, "E10402", "needs [2, 3] float32, got [6] float64"),
    ],
)
def test_feeds_that_do_not_fit_are_told_with_both_sides(
    relu: InferenceSession, feeds: dict[str, np.ndarray], code: str, message: str
) -> None:
    with pytest.raises(UsageError, match="run:") as caught:
        relu.run(None, feeds)
    assert caught.value.code == code
    assert message in caught.value.what


def test_an_unknown_output_lists_those_that_there_are(relu: InferenceSession) -> None:
    with pytest.raises(UsageError) as caught:
        relu.run(["z"], {"x": np.zeros((2, 3), np.float32)})
    assert "y" in caught.value.hint


def test_strided_and_misaligned_arrays_are_taken(relu: InferenceSession) -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 6)[:, ::2]
    np.testing.assert_array_equal(relu.run(None, {"x": x})[0], -x)
    raw = np.zeros(25, np.uint8)[1:].view(np.float32).reshape(2, 3)
    np.testing.assert_array_equal(relu.run(None, {"x": raw})[0], -raw)


@pytest.mark.parametrize(
    "text",
    [
        "m (float[2] x) => (float[2] y) { y = Identity(x) }",
        "m (float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Identity(y) }",
        "m (float[2] x) => (float[2,1] y, float[2] z) <int64[1] s = {1}> { z = Relu(x) y = Unsqueeze(z, s) }",
        "m (float[2] x) => (float[2] y, float[2] c) { y = Relu(x) c = Constant <value_floats = [1.0, 2.0]> () }",
        "m (float[0] x) => (float[0] y) { y = Relu(x) }",
        "m (float x) => (float y) { y = Relu(x) }",
    ],
)
def test_outputs_that_share_memory_in_the_model_have_their_own(text: str) -> None:
    session = InferenceSession(package(text), threads=1)
    (port,) = session.get_inputs()
    x = np.abs(np.random.default_rng(0).standard_normal(port.shape)).astype(np.float32)
    results = session.run(None, {"x": x})
    np.testing.assert_array_equal(results[0].reshape(x.shape), x)
    assert len({result.__array_interface__["data"][0] for result in results}) == len(results)


def test_many_threads_get_what_one_gets(relu: InferenceSession) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal((2, 3), np.float32) for _ in range(8)]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(200):
            (y,) = relu.run(None, {"x": inputs[index]})
            if not np.array_equal(y, -np.maximum(inputs[index], 0)):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_child_of_a_fork_can_run_it(relu: InferenceSession) -> None:
    x = np.ones((2, 3), np.float32)
    relu.run(None, {"x": x})
    child = os.fork()
    if child == 0:
        ok = np.array_equal(relu.run(None, {"x": x})[0], -x)
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_index_outside_is_an_error_that_names_the_node() -> None:
    text = "m (float[4] x, int64[2] i) => (float[2] y) { y = Gather <axis = 0> (x, i) }"
    session = InferenceSession(package(text), threads=1)
    x = np.arange(4, dtype=np.float32)
    with pytest.raises(ModelInvalid) as caught:
        session.run(None, {"x": x, "i": np.array([0, 4])})
    assert caught.value.code == "D0001"
    np.testing.assert_array_equal(session.run(None, {"x": x, "i": np.array([0, -1])})[0], [0, 3])


def test_options_out_of_range_are_usage_errors() -> None:
    for options in ({"threads": 0}, {"verify": "maybe"}):
        with pytest.raises(AtcError) as caught:
            InferenceSession(package(RELU), **options)  # type: ignore[arg-type]
        assert caught.value.exit_code == 2


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_elements_of_four_bits_are_packed_in_memory(dtype: str) -> None:
    text = (
        f"m (float[3] x, {dtype}[3] q) => (float[3] y, {dtype}[3] r, float[3] z)"
        f"<float s = {{0.5}}, {dtype} zero = {{0}}>"
        "{ r = QuantizeLinear(x, s, zero) y = DequantizeLinear(r, s, zero) z = DequantizeLinear(q, s, zero) }"
    )
    session = InferenceSession(package(text), threads=1)
    q = np.array([1, 7, 3]).astype(session.get_inputs()[1].dtype.numpy)
    y, r, z = session.run(None, {"x": np.array([0.5, 3, 2], np.float32), "q": q})
    np.testing.assert_array_equal(y, [0.5, 3, 2])
    np.testing.assert_array_equal(r.astype(np.int8), [1, 6, 4])
    np.testing.assert_array_equal(z, [0.5, 3.5, 1.5])


@pytest.mark.parametrize(
    ("text", "given", "expected"),
    [
        ("m (float[2] x) => (string[2] y) { y = Cast <to = 8> (x) }", np.array([1.5, 2.5], np.float32), ["1.5", "2.5"]),
        ("m (string[2] x) => (int64[2] y) { y = Cast <to = 7> (x) }", np.array(["3", "-4"]), [3, -4]),
        ("m (string[2] x) => (string[2] y) { y = Identity(x) }", np.array(["a", "größer"], object), ["a", "größer"]),
    ],
)
def test_text_runs_on_the_host(text: str, given: npt.NDArray[Any], expected: list[object]) -> None:
    (result,) = InferenceSession(package(text)).run(None, {"x": given})
    assert result.tolist() == expected


def test_the_profile_times_what_runs_on_the_host() -> None:
    session = InferenceSession(package("m (float[1,3,2] x) => (float[1,3,2] y) { y = DFT<inverse = 1>(x) }"), threads=1)
    assert [task.engine for task in session.tasks] == ["HOST_CPU"]
    (timed,) = session.profile({"x": np.ones((1, 3, 2), np.float32)})
    assert timed.seconds > 0 and timed.runs == 1 and timed.task.kernel == "host"


def test_the_profile_times_every_kind_of_step() -> None:
    """Plans for all sizes, a body that runs again, a node of the host, and what is compiled for a shape of any rank."""
    text = (
        "m (float[n] x, int64 t, int64[r] s) => (float[n] y, string[k] w, float[a] v) <bool c = {1}> {"
        " e = Exp(x) y = Loop<body = b (int64 i, bool p, float[n] a) => (bool q, float[n] z)"
        " { q = Identity(p) z = Mul(a, e) }>(t, c, x) u = Reshape(x, s) w = Cast<to = 8>(u) v = Neg(u) }"
    )
    session = InferenceSession(package(text), threads=1)
    feeds = {"x": np.ones(4, np.float32), "t": np.array(3), "s": np.array([4])}
    runs = {item.task.op_type: item.runs for item in session.profile(feeds)}
    assert runs == {"Exp": 1, "Mul": 3, "Cast": 1, "Neg": 1} | runs
    assert session.profile(feeds)[0].seconds > 0


def test_feeds_are_checked_after_others_of_their_shapes_did_fit() -> None:
    session = InferenceSession(package("g (float[n,2] x, float[n,2] u) => (float[n,2] y) { y = Add(x, u) }"))
    good = np.ones((3, 2), np.float32)
    for _ in range(2):
        assert session.run(None, {"x": good, "u": good})[0].tolist() == [[2, 2]] * 3
    for feeds in (
        {"x": good, "u": good.astype(np.float64)},
        {"x": good, "u": good[:2]},
        {"x": good, "v": good},
        {"x": good},
        {"x": good, "u": good, "v": good},
    ):
        with pytest.raises(UsageError):
            session.run(None, feeds)
    assert session.run(None, {"x": good, "u": np.ones((2, 3), np.float32).T})[0].tolist() == [[2, 2]] * 3
