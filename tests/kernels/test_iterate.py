"""`Run.iterate`: carried values, scanned inputs and outputs, conditions, and refused arguments."""

from __future__ import annotations

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.models_in_text import package

# a is loop-carried as w; s is scanned; v is collected; d is the condition.
BODY = """m (float[4] a, float[4] s) => (float[4] w, float[4] v, bool d) <float ten = {10}> {
    w = Add(a, s) v = Neg(w) g = ReduceMax<keepdims=0>(w) d = Less(g, ten) }"""
W, V, D = range(2, 5)  # ports, inputs counted first


def start(*, writable: bool = True) -> tuple[_kernels.Run, list[Array]]:
    """A run of the body, and its arrays: inputs followed by outputs."""
    [plan] = InferenceSession(package(BODY), threads=1).plans
    assert [(port.dtype.numpy, port.shape) for port in plan.outputs] == [("f4", (4,)), ("f4", (4,)), ("?", ())]
    arrays: list[Array] = [np.zeros(4, np.float32), np.ones(4, np.float32)]
    arrays[0].flags.writeable = writable
    arrays += [np.empty(port.shape, port.dtype.numpy) for port in plan.outputs]
    return plan.plan.start([*arrays[:2]], [*arrays[2:]]), arrays


@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_iterations_carry_scan_and_collect_values(count: int) -> None:
    run, arrays = start()
    steps = np.arange(count * 4, dtype=np.float32).reshape(count, 4) / 100
    collected = np.zeros((count, 4), np.float32)
    assert run.iterate(count, [(0, 0)], [(1, steps), (V, collected)], -1) == count
    np.testing.assert_allclose(collected, -np.cumsum(steps, 0), rtol=1e-6)
    if count:
        np.testing.assert_allclose(arrays[W if count % 2 else 0], steps.sum(0), rtol=1e-6)


def test_a_condition_ends_the_loop_and_a_run_may_continue() -> None:
    run, arrays = start()
    assert run.iterate(6, [(0, 0)], [], D - 2) == 6
    assert run.iterate(6, [(0, 0)], [], D - 2) == 4
    assert not arrays[D]
    assert (arrays[0] == 10).all(), "ten iterations: the last wrote the input's memory"


def test_scanned_memory_is_not_used_by_later_iterations() -> None:
    run, arrays = start()
    run.iterate(2, [], [(1, np.full((2, 4), 5, np.float32)), (V, np.empty((2, 4), np.float32))], -1)
    run.iterate(1, [], [], -1)
    np.testing.assert_array_equal(arrays[V], np.full(4, -1, np.float32))


REFUSED: dict[str, tuple[int, list[tuple[int, int]], list[tuple[int, int]], int]] = {
    "less than no iterations": (-1, [], [], -1),
    "a condition before the first": (1, [], [], -2),
    "a condition behind the last": (1, [], [], 3),
    "a condition that is no bool": (1, [], [], 0),
    "an exchange of an input before the first": (1, [(-1, 0)], [], -1),
    "an exchange of an input behind the last": (1, [(2, 0)], [], -1),
    "an exchange of an output before the first": (1, [(0, -1)], [], -1),
    "an exchange of an output behind the last": (1, [(0, 3)], [], -1),
    "an exchange of two sizes": (1, [(0, 2)], [], -1),
    "an input that is exchanged twice": (1, [(0, 0), (0, 1)], [], -1),
    "an output that is exchanged twice": (1, [(0, 0), (1, 0)], [], -1),
    "a stride of what is exchanged": (1, [(0, 0)], [(0, 4)], -1),
    "two strides of a port": (1, [], [(1, 4), (1, 4)], -1),
    "a port before the first": (1, [], [(-1, 4)], -1),
    "a port behind the last": (1, [], [(5, 4)], -1),
    "memory for an iteration less": (2, [], [(1, 7)], -1),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_arguments_are_refused(case: str) -> None:
    count, swaps, strides, condition = REFUSED[case]
    run, arrays = start()
    with pytest.raises(ValueError, match=r"iterations|exchanged|port"):
        run.iterate(count, swaps, [(port, np.empty(size, np.float32)) for port, size in strides], condition)
    run.iterate(1, [], [], -1)
    np.testing.assert_array_equal(arrays[V], np.full(4, -1, np.float32))


def test_read_only_memory_is_refused() -> None:
    run, _ = start(writable=False)
    with pytest.raises(ValueError, match="exchanged"):
        run.iterate(1, [(0, 0)], [], -1)
    frozen = np.empty(4, np.float32)
    frozen.flags.writeable = False
    with pytest.raises((ValueError, BufferError)):
        run.iterate(1, [], [(V, frozen)], -1)
