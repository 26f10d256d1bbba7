"""Memory of results: used again when nobody reads it any more, and never before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import ResourceLimit
from atcpy.ir import DType
from atcpy.runtime.memory import BufferPool, new_buffers
from tests.models_in_text import package

SHAPE = (64, 2048)  # large enough to be used again
MODEL = "m (float[64,2048] x) => (float[64,2048] y) <float one = {1}> { y = Add(x, one) }"


OPEN_MODEL = MODEL.replace("64,2048", "rows,columns")


@pytest.fixture(scope="module", params=[MODEL, OPEN_MODEL], ids=["fixed", "open"])
def session(request: pytest.FixtureRequest) -> InferenceSession:
    return InferenceSession(package(request.param), threads=1)


def _run(session: InferenceSession, number: float) -> np.ndarray:
    [y] = session.run(None, {"x": np.full(SHAPE, number, np.float32)})
    return y


def test_a_result_that_is_held_never_changes(session: InferenceSession) -> None:
    results = [_run(session, number) for number in range(6)]
    for number, y in enumerate(results):
        assert np.all(y == number + 1)


@pytest.mark.parametrize("model", [MODEL, OPEN_MODEL], ids=["fixed", "open"])
def test_no_memory_for_results_is_a_limit_at_each_run(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = InferenceSession(package(model), threads=1)

    def refuse(*_: object) -> None:
        raise MemoryError("Unable to allocate")

    held = []
    for _ in range(4):  # shapes and plan are known at the second run, C looks the inputs up from the third on
        with monkeypatch.context() as patched, pytest.raises(ResourceLimit, match="no memory for the results"):
            patched.setattr(np, "zeros", refuse)
            _run(session, 1)
        held.append(_run(session, 2))
        assert np.all(held[-1] == 3)


@pytest.mark.parametrize("kept", [3, 1000, 2048])
def test_a_result_that_is_a_part_of_its_buffer_never_changes(kept: int) -> None:
    session = InferenceSession(package("m (float[2048,64] x, bool[2048] c) => (y) { y = Compress<axis=0>(x, c) }"))
    condition = np.arange(2048) < kept
    results = [session.run(None, {"x": np.full((2048, 64), k, np.float32), "c": condition})[0] for k in range(6)]
    for number, y in enumerate(results):
        assert y.shape == (kept, 64)
        assert np.all(y == number)


def test_a_view_and_a_memoryview_hold_it(session: InferenceSession) -> None:
    view = _run(session, 7)[3:, ::2]
    bytes_of = memoryview(_run(session, 8))
    for number in range(4):
        _run(session, number)
    assert np.all(view == 8)
    assert np.all(np.asarray(bytes_of) == 9)


def test_memory_that_was_let_go_is_used_again() -> None:
    pool = BufferPool(DType.FLOAT32, SHAPE)
    array = pool.take()
    addresses = {array.ctypes.data}
    for _ in range(8):
        array = pool.take()  # the one before is let go after it
        addresses.add(array.ctypes.data)
    assert len(addresses) == 2


def test_memory_that_was_used_last_is_used_first() -> None:
    pool = BufferPool(DType.FLOAT32, SHAPE)
    first, second = pool.take(), pool.take()
    assert second.ctypes.data != first.ctypes.data
    address = second.ctypes.data
    del first, second
    for _ in range(3):
        assert pool.take().ctypes.data == address


def test_results_of_other_sizes_use_it_too_unless_it_is_much_too_large() -> None:
    buffers = new_buffers()

    def address(columns: int, rows: int = 64) -> int:
        pool = BufferPool(DType.FLOAT32, (rows, columns), buffers)
        array = pool.take()
        assert array.shape == (rows, columns) and array.dtype == np.float32
        return array.ctypes.data

    first, second = address(8192), address(8192)
    assert {address(4096), address(4097), address(8192), address(10240)} <= {first, second}
    assert {address(2048), address(2047)} != {first, second}


def test_a_plan_for_all_sizes_uses_it_again_and_never_before_it_is_let_go() -> None:
    session = InferenceSession(package(OPEN_MODEL), threads=1)

    def run(rows: int) -> np.ndarray:
        [y] = session.run(None, {"x": np.full((rows, 2048), rows, np.float32)})
        return y

    kept = [run(rows) for rows in (64, 70, 60, 66)]
    for y in kept:
        assert (y == len(y) + 1).all()
    addresses = {y.ctypes.data for y in kept}
    del kept, y
    assert any(run(rows).ctypes.data in addresses for rows in (61, 62))


def test_small_results_are_not_kept() -> None:
    assert BufferPool(DType.FLOAT32, SHAPE).is_reused
    assert not BufferPool(DType.FLOAT32, (4,)).is_reused


def test_threads_do_not_get_the_same_memory(session: InferenceSession) -> None:
    def many(number: int) -> bool:
        return all(bool(np.all(_run(session, number + 8 * round_) == number + 8 * round_ + 1)) for round_ in range(40))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(many, range(8)))
