"""Runs that end before they are done: for a deadline or an interrupt. The session can be used again after both."""

import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import atcpy
from atcpy.errors import ResourceLimit, UsageError
from atcpy.ir.tensor import Array
from atcpy.runtime.memory import BufferPool


def long_product(folder: Path, threads: int = 1) -> tuple[atcpy.InferenceSession, dict[str, Array]]:
    """A product that takes tens of milliseconds at least, many times the time between two looks at the clock."""
    size = 1500
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [size, size]) for name in "aby"]
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"], "product")], "g", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    atcpy.convert(folder / "m.onnx", folder / "m.om")
    rng = np.random.default_rng(0)
    feeds = {name: rng.standard_normal((size, size), np.float32) for name in "ab"}
    return atcpy.InferenceSession(folder / "m.om", threads=threads), feeds


@pytest.mark.parametrize("threads", [1, 2])
def test_a_run_ends_at_its_deadline_and_the_next_one_is_right(tmp_path: Path, threads: int) -> None:
    session, feeds = long_product(tmp_path, threads)
    with pytest.raises(ResourceLimit) as caught:
        session.run(None, feeds, timeout=1e-4)
    assert (caught.value.code, caught.value.exit_code) == ("R0003", 6)
    [y] = session.run(None, feeds, timeout=600)
    np.testing.assert_allclose(y, feeds["a"] @ feeds["b"], atol=1e-3)


def test_the_memory_of_a_result_that_was_not_finished_serves_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, feeds = long_product(tmp_path)
    earlier = []

    def take(pool: BufferPool) -> Array:
        buffer = original(pool)
        earlier.append(buffer[-1, -1])
        buffer[-1, -1] = 7  # where a run of so little time does not write
        return buffer

    original = BufferPool.take
    monkeypatch.setattr(BufferPool, "take", take)
    for _ in range(3):
        with pytest.raises(ResourceLimit):
            session.run(None, feeds, timeout=1e-4)
    assert earlier == [0, 7, 7]


def test_a_deadline_ends_a_task_before_it_has_written_everything(tmp_path: Path) -> None:
    session, feeds = long_product(tmp_path)
    [plan] = session.plans
    y = np.full((1500, 1500), np.nan, np.float32)
    with atcpy.runtime.deadline.RunDeadline(1e-4), pytest.raises(TimeoutError):
        plan.run_in([feeds["a"], feeds["b"]], [y])
    assert np.isnan(y[-1]).all()


def test_an_interrupt_reaches_a_running_kernel(tmp_path: Path) -> None:
    session, feeds = long_product(tmp_path)
    [plan] = session.plans
    y = np.full((1500, 1500), np.nan, np.float32)
    timer = threading.Timer(0.002, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        while True:  # the signal may come between two runs
            y[:] = np.nan
            plan.run_in([feeds["a"], feeds["b"]], [y])
    timer.join()
    [right] = session.run(None, feeds)
    np.testing.assert_allclose(right, feeds["a"] @ feeds["b"], atol=1e-3)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_deadline_is_in_the_future(tmp_path: Path, timeout: float) -> None:
    session, feeds = long_product(tmp_path)
    with pytest.raises(UsageError, match="timeout"):
        session.run(None, feeds, timeout=timeout)


def test_the_earlier_deadline_of_two_holds(tmp_path: Path) -> None:
    session, feeds = long_product(tmp_path)
    with pytest.raises(ResourceLimit, match=r"0\.0001 s"), atcpy.runtime.deadline.RunDeadline(1e-4):
        session.run(None, feeds, timeout=600)
