"""Memory of the caller: inputs that are read, and outputs that are written, where they lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atcpy
from atcpy.errors import UsageError
from atcpy.ir.tensor import Array
from tests.models_in_text import package

TWO = "g (float[4,8] x) => (float[4,8] y, int64[4] best) { y = Neg(x) best = ArgMax<axis = 1, keepdims = 0>(x) }"
OPEN = "g (float[n,8] x) => (float[n,8] y) { y = Neg(x) }"
BITS = "g (uint8[6] x) => (uint4[6] y) { y = Cast<to = 21>(x) }"
ON_HOST = "g (float[2] x) => (string[2] y) { y = Cast<to = 8>(x) }"
X = np.arange(32, dtype=np.float32).reshape(4, 8) - 7


@pytest.fixture(scope="module")
def session() -> atcpy.InferenceSession:
    return atcpy.InferenceSession(package(TWO), threads=1)


def test_results_are_written_into_the_arrays_of_the_caller(session: atcpy.InferenceSession) -> None:
    y, best = np.zeros((4, 8), np.float32), np.zeros(4, np.int64)
    results = session.run(None, {"x": X}, out=[y, best])
    assert results[0] is y and results[1] is best
    np.testing.assert_array_equal(y, -X)
    np.testing.assert_array_equal(best, [7] * 4)
    [again] = session.run(["y"], {"x": 2 * X}, out=[y])
    assert again is y
    np.testing.assert_array_equal(y, -2 * X)


def test_none_leaves_an_output_to_the_session(session: atcpy.InferenceSession) -> None:
    best = np.zeros(4, np.int64)
    y, also_best = session.run(None, {"x": X}, out=[None, best])
    assert also_best is best
    np.testing.assert_array_equal(y, -X)
    later = session.run(None, {"x": X + 1})[0]
    np.testing.assert_array_equal(y, -X)
    assert later is not y


def test_a_callers_array_is_never_given_out_again() -> None:
    large = atcpy.InferenceSession(package("g (float[64,256] x) => (float[64,256] y) { y = Neg(x) }"), threads=1)
    x = np.ones((64, 256), np.float32)
    out = np.zeros_like(x)
    large.run(None, {"x": x}, out=[out])
    for _ in range(4):
        assert not np.may_share_memory(large.run(None, {"x": x})[0], out)


def test_a_view_of_a_larger_array_is_written(session: atcpy.InferenceSession) -> None:
    whole = np.full((3, 4, 8), 9, np.float32)
    session.run(["y"], {"x": X}, out=[whole[1]])
    np.testing.assert_array_equal(whole[1], -X)
    assert (whole[0] == 9).all() and (whole[2] == 9).all()


def read_only() -> Array:
    array = np.zeros((4, 8), np.float32)
    array.flags.writeable = False
    return array


UNUSABLE: dict[str, tuple[Any, str]] = {
    "another shape": (np.zeros((4, 9), np.float32), r"float32 \[4, 9\], the output float32 \[(4|n), 8\]"),
    "fewer dims": (np.zeros(32, np.float32), r"\[32\]"),
    "another type": (np.zeros((4, 8), np.float64), "float64"),
    "not contiguous": (np.zeros((8, 4), np.float32).T, "follow each other"),
    "every second element": (np.zeros((4, 16), np.float32)[:, ::2], "follow each other"),
    "read-only": (read_only(), "read-only"),
    "a list": ([[0.0] * 8] * 4, "list is no array"),
}


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("text", [TWO, OPEN])
def test_arrays_that_cannot_be_written_are_refused(name: str, text: str) -> None:
    array, reason = UNUSABLE[name]
    session = atcpy.InferenceSession(package(text), threads=1)
    with pytest.raises(UsageError, match=reason) as caught:
        session.run(["y"], {"x": X}, out=[array])
    assert (caught.value.code, caught.value.exit_code) == ("E13031", 2)
    assert caught.value.where.value == "y" and caught.value.hint
    np.testing.assert_array_equal(session.run(["y"], {"x": X})[0], -X)


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("text", [TWO, OPEN])
def test_arrays_that_no_run_could_write_are_not_bound(name: str, text: str) -> None:
    array, reason = UNUSABLE[name]
    binding = atcpy.InferenceSession(package(text), threads=1).io_binding()
    with pytest.raises(UsageError, match=reason) as caught:
        binding.bind_cpu_output("y", array)
    assert caught.value.code == "E13031" and caught.value.where.value == "y" and caught.value.hint
    assert binding.targets == {}


def test_arrays_are_refused_before_anything_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = atcpy.InferenceSession(package(OPEN), threads=1)
    monkeypatch.setattr(session, "_compute", lambda *_: pytest.fail("it runs"))
    x = X.copy()
    for array in (*[array for array, _ in UNUSABLE.values()], x):
        with pytest.raises(UsageError):
            session.run(["y"], {"x": x}, out=[array])


def test_an_output_that_is_no_tensor_has_no_memory_of_the_caller() -> None:
    text = "g (float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x, x) }"
    session = atcpy.InferenceSession(package(text), threads=1)
    with pytest.raises(UsageError, match="no tensor") as caught:
        session.run(None, {"x": np.zeros(2, np.float32)}, out=[np.zeros(4, np.float32)])
    assert caught.value.code == "E13031" and caught.value.hint


def test_an_optional_output_without_value_has_no_memory_of_the_caller() -> None:
    text = "g (float[2] x) => (optional(float[2]) y) { y = Optional<type = float[2]>() }"
    session = atcpy.InferenceSession(package(text), threads=1)
    with pytest.raises(UsageError, match="no tensor") as caught:
        session.run(None, {"x": np.zeros(2, np.float32)}, out=[np.zeros(2, np.float32)])
    assert caught.value.code == "E13031"


def test_arrays_that_share_memory_are_refused(session: atcpy.InferenceSession) -> None:
    x = X.copy()
    for other in (x, x.view(), x[::-1][::-1], x.reshape(-1).reshape(4, 8)):
        with pytest.raises(UsageError, match="with an input") as caught:
            session.run(["y"], {"x": x}, out=[other])
        assert caught.value.where.value == "y" and caught.value.hint
    whole = np.zeros(4 * 8 + 8, np.float32)
    y, best = whole[:32].reshape(4, 8), whole[30:38].view(np.int64)
    with pytest.raises(UsageError, match="with the one of"):
        session.run(None, {"x": x}, out=[y, best])
    session.run(None, {"x": x}, out=[y, whole[32:].view(np.int64)])
    np.testing.assert_array_equal(y, -x)


def test_as_many_arrays_as_outputs(session: atcpy.InferenceSession) -> None:
    with pytest.raises(UsageError, match="1 arrays for 2 outputs"):
        session.run(None, {"x": X}, out=[None])
    with pytest.raises(UsageError, match="3 arrays for 2 outputs"):
        session.run(None, {"x": X}, out=[None] * 3)


def test_open_dims_and_elements_of_half_a_byte() -> None:
    session = atcpy.InferenceSession(package(OPEN), threads=1)
    for rows in (1, 5, 3, 0):
        x, y = np.ones((rows, 8), np.float32), np.zeros((rows, 8), np.float32)
        assert session.run(None, {"x": x}, out=[y])[0] is y
        assert (y == -1).all()
    bits = atcpy.InferenceSession(package(BITS), threads=1)
    x = np.arange(6, dtype=np.uint8)
    [expected] = bits.run(None, {"x": x})
    y = np.zeros_like(expected)
    assert bits.run(None, {"x": x}, out=[y])[0] is y
    np.testing.assert_array_equal(y.view(np.uint8), expected.view(np.uint8))


def test_results_of_the_host_are_copied() -> None:
    session = atcpy.InferenceSession(package(ON_HOST), threads=1)
    y = np.zeros(2, np.object_)
    assert session.run(None, {"x": np.array([1, 2], np.float32)}, out=[y])[0] is y
    assert [float(text) for text in y] == [1, 2]


def test_a_binding_is_used_by_many_runs(session: atcpy.InferenceSession) -> None:
    x, y = X.copy(), np.zeros((4, 8), np.float32)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    binding.bind_cpu_output("y", y)
    binding.bind_output("best")
    for factor in (1, 2, 3):
        x[:] = factor * X
        session.run_with_iobinding(binding)
        np.testing.assert_array_equal(y, -factor * X)
    first, best = binding.get_outputs()
    assert first.numpy() is y and first.data_ptr() == y.ctypes.data and first.device_name() == "cpu"
    assert first.shape() == [4, 8]
    np.testing.assert_array_equal(best.numpy(), [7] * 4)
    np.testing.assert_array_equal(np.from_dlpack(first), y)
    copies = binding.copy_outputs_to_cpu()
    assert not np.may_share_memory(copies[0], y)


def test_memory_is_bound_by_its_address(session: atcpy.InferenceSession) -> None:
    x, y = X.copy(), np.zeros((4, 8), np.float32)
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, -X)


def test_what_one_run_wrote_the_next_one_reads(session: atcpy.InferenceSession) -> None:
    binding = session.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    session.run_with_iobinding(binding)
    [y] = binding.get_outputs()
    binding.bind_ortvalue_input("x", y)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[0], X)
    binding.bind_ortvalue_output("y", y)
    with pytest.raises(UsageError, match="with an input"):
        session.run_with_iobinding(binding)


def test_bindings_that_cannot_be(session: atcpy.InferenceSession) -> None:
    binding = session.io_binding()
    with pytest.raises(UsageError, match="no output is bound"):
        session.run_with_iobinding(binding)
    for bind in (binding.bind_cpu_input, binding.bind_cpu_output):
        with pytest.raises(UsageError, match="z"):
            bind("z", X)
    with pytest.raises(UsageError, match="cuda:0"):
        binding.bind_output("y", "cuda")
    with pytest.raises(UsageError, match="cpu:1"):
        binding.bind_input("x", "cpu", 1, np.float32, (4, 8), X.ctypes.data)
    with pytest.raises(UsageError, match="float64"):
        binding.bind_input("x", "cpu", 0, np.float64, (4, 8), X.ctypes.data)
    with pytest.raises(UsageError, match="the shape"):
        binding.bind_output("y", buffer_ptr=X.ctypes.data)
    for address, shape in ((0, (4, 8)), (X.ctypes.data + 1, (4, 8)), (X.ctypes.data, (-4, 8))):
        with pytest.raises(UsageError, match="aligned"):
            binding.bind_input("x", "cpu", 0, np.float32, shape, address)
    binding.bind_output("y")
    with pytest.raises(UsageError, match='input "x" is missing'):
        session.run_with_iobinding(binding)
    binding.clear_binding_outputs()
    with pytest.raises(UsageError, match="no output is bound"):
        session.run_with_iobinding(binding)


class ByDlpack:
    """An array of another library."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


def test_arrays_of_other_libraries_are_read_where_they_lie(session: atcpy.InferenceSession) -> None:
    x = X.copy()
    np.testing.assert_array_equal(session.run(["y"], {"x": ByDlpack(x)})[0], -X)
    binding = session.io_binding()
    binding.bind_cpu_input("x", ByDlpack(x))
    binding.bind_output("y")
    x[:] = 5
    session.run_with_iobinding(binding)
    assert (binding.get_outputs()[0].numpy() == -5).all()


def test_states_and_maps_have_memory_of_their_own(tmp_path: Path) -> None:
    session = atcpy.InferenceSession(package(TWO), threads=1)
    session._package.map_keys[0] = ["a"]
    with pytest.raises(UsageError, match="returns maps"):
        session.run(None, {"x": X}, out=[None, None])
