"""Sessions of one file share its memory: for how long, and what never is shared."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from atcpy import InferenceSession
from atcpy.errors import PackageCorrupt
from atcpy.files import require_unchanged_files
from atcpy.om.container import reseal
from atcpy.om.package import Package
from atcpy.runtime import shared_packages
from tests.models_in_text import package
from tests.om.signing_keys import public_pem

X = np.arange(4, dtype=np.float32)


@cache
def scaled(factor: int) -> bytes:
    """A package that multiplies by a constant, of the same size for each factor."""
    w = ", ".join(str(factor) for _ in range(4))
    return package(f"m (float[4] x) => (float[4] y) <float[4] w = {{{w}}}> {{ y = Mul(x, w) }}")


def factor_of(session: InferenceSession) -> float:
    [y] = session.run(None, {"x": X})
    return float(y[1])


def damaged(content: bytes) -> bytes:
    """The package with another weight, and the checksums of before."""
    at = content.index(np.full(4, 2, np.float32).tobytes())
    return content[: at + 3] + bytes([content[at + 3] ^ 1]) + content[at + 4 :]


def mappings(path: Path) -> int:
    return Path("/proc/self/maps").read_text(encoding="utf-8").count(f"{path}\n")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "m.om").write_bytes(scaled(2))
    gc.freeze()  # collections look at what the test makes, not at what thousands of others left
    yield tmp_path / "m.om"


def test_two_sessions_have_one_mapping_for_as_long_as_one_of_them_is_there(path: Path) -> None:
    first, second = InferenceSession(path, threads=1), InferenceSession(os.path.relpath(path), threads=2)
    assert mappings(path) == 1
    del first
    gc.collect()
    assert (mappings(path), factor_of(second)) == (1, 2)
    third = InferenceSession(path, threads=1)
    assert mappings(path) == 1
    del second, third
    gc.collect()
    assert mappings(path) == 0


def test_a_file_that_is_read_is_in_memory_once(path: Path) -> None:
    first, second = (InferenceSession(path, threads=1, mmap=False) for _ in range(2))
    mapped = InferenceSession(path, threads=1)
    assert first._package.weights.obj is second._package.weights.obj is not mapped._package.weights.obj
    assert [factor_of(session) for session in (first, second, mapped)] == [2, 2, 2]


def test_a_package_that_was_replaced_is_not_shared(path: Path) -> None:
    old = InferenceSession(path, threads=1)
    path.with_suffix(".new").write_bytes(scaled(3))
    os.replace(path.with_suffix(".new"), path)
    new = InferenceSession(path, threads=1)
    assert (factor_of(old), factor_of(new)) == (2, 3)
    assert factor_of(InferenceSession(path, threads=1)) == 3


def test_a_package_that_was_written_over_is_opened_anew(path: Path) -> None:
    old = InferenceSession(path, threads=1)
    os.utime(path, ns=(0, 0))  # a clock that goes back
    path.write_bytes(scaled(3))
    assert factor_of(InferenceSession(path, threads=1)) == 3
    with pytest.raises(PackageCorrupt) as caught:
        factor_of(old)
    assert caught.value.code == "P0009"


def test_the_digest_tells_packages_apart_whose_times_are_equal(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    status = os.stat(path)
    monkeypatch.setattr(os, "fstat", lambda _: status)  # both written within one tick of the file system's clock
    old = InferenceSession(path, threads=1, mmap=False)
    again = InferenceSession(path, threads=1, mmap=False)
    assert old._package is again._package
    path.write_bytes(scaled(3))
    assert os.stat(path).st_size == status.st_size
    assert factor_of(InferenceSession(path, threads=1, mmap=False)) == 3


def test_a_file_that_is_damaged_while_it_is_open_is_refused(path: Path) -> None:
    first = InferenceSession(path, threads=1, mmap=False)
    path.write_bytes(damaged(path.read_bytes()))
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(path, threads=1, mmap=False)
    assert (caught.value.code, factor_of(first)) == ("P0003", 2)


def test_a_file_that_changes_while_it_is_opened_is_not_shared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file has the name while the package is opened; the first one comes back, with the times that it had."""
    old, new = path.with_suffix(".old"), path.with_suffix(".new")
    new.write_bytes(scaled(3))
    fstat, open_package = os.fstat, shared_packages.open_package

    def without_times(descriptor: int) -> SimpleNamespace:
        names = ("st_mode", "st_dev", "st_ino", "st_size")
        status = fstat(descriptor)
        return SimpleNamespace(**{name: getattr(status, name) for name in names}, st_mtime_ns=0, st_ctime_ns=0)

    def replace_and_open(*arguments: Any, **options: Any) -> Package:
        os.rename(path, old)
        os.rename(new, path)
        return open_package(*arguments, **options)

    monkeypatch.setattr(os, "fstat", without_times)
    with monkeypatch.context() as patch:
        patch.setattr(shared_packages, "open_package", replace_and_open)
        first = InferenceSession(path, threads=1)
    os.rename(old, path)
    assert (factor_of(first), factor_of(InferenceSession(path, threads=1))) == (3, 2)


def test_all_bytes_are_checked_where_that_is_asked_for(path: Path) -> None:
    path.write_bytes(damaged(path.read_bytes()))
    unchecked = InferenceSession(path, threads=1, verify="header")
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(path, threads=1)
    assert caught.value.code == "P0003"
    path.write_bytes(reseal(path.read_bytes()))
    checked = InferenceSession(path, threads=1)
    assert InferenceSession(path, threads=1, verify="header")._package is checked._package is not unchecked._package


def test_a_signature_is_asked_of_each_session(path: Path) -> None:
    pytest.importorskip("cryptography")
    session = InferenceSession(path, threads=1, mmap=False)
    with pytest.raises(PackageCorrupt) as caught:
        InferenceSession(path, threads=1, mmap=False, require_signature=public_pem())
    assert (caught.value.code, factor_of(session)) == ("P0008", 2)


def test_threads_that_open_a_file_at_the_same_time_share_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    barrier, open_package = Barrier(8), shared_packages.open_package

    def open_together(*arguments: Any, **options: Any) -> Package:
        barrier.wait(10)
        return open_package(*arguments, **options)

    monkeypatch.setattr(shared_packages, "open_package", open_together)
    with ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda _: InferenceSession(path, threads=1), range(8)))
    assert {id(session._package) for session in sessions} == {id(sessions[0]._package)}
    assert [factor_of(session) for session in sessions] == [2] * 8
    gc.collect()
    assert mappings(path) == 1


def test_constants_packed_at_run_time_are_shared(tmp_path: Path) -> None:
    text = """m (float[n] x) => (float[2] y) <int64[1] one = {1}> {
        s = SequenceConstruct(x, x)  c = ConcatFromSequence<axis = 0, new_axis = 1>(s)
        y = ReduceSum<keepdims = 0>(c, one) }"""
    (tmp_path / "m.om").write_bytes(package(text))
    first, second = (InferenceSession(tmp_path / "m.om", threads=1) for _ in range(2))
    assert first._shared.store is second._shared.store
    for session in (first, second):
        [y] = session.run(None, {"x": np.array([0, 1, 2], np.float32)})
        assert y.tolist() == [3, 3]


def test_a_shared_file_is_checked_where_a_later_session_needs_it(path: Path) -> None:
    first = InferenceSession(path, threads=1)
    with require_unchanged_files() as files:
        second = InferenceSession(path, threads=1)
        assert files == [second._package.container.file] == [first._package.container.file]


def test_bytes_are_not_shared() -> None:
    content = scaled(2)
    first, second = InferenceSession(content, threads=1), InferenceSession(content, threads=1)
    assert first._package is not second._package
