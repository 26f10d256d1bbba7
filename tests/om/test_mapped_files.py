"""Files that are cut short, written over, touched or replaced while they are mapped."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from atcpy import InferenceSession
from atcpy.errors import AtcError, PackageCorrupt, ResourceLimit
from atcpy.files import require_unchanged_files
from atcpy.ir.tensor import Array
from atcpy.om.container import Partition, Verify, open_container
from atcpy.om.package import read_package
from atcpy.om.writer import to_bytes
from atcpy.options import Stage, convert_options
from atcpy.stages.pipeline import Observer, compile_model, convert
from tests.models_in_text import model, package
from tests.ops.ml.random_trees import RandomTrees

REPO = Path(__file__).parents[2]
TEXT = "wide (float[4,600] x) => (float[4,700] y) <float[600,700] w> { y = MatMul(x, w) }"
FEEDS = {"x": np.random.default_rng(0).standard_normal((4, 600)).astype(np.float32)}


@pytest.fixture(scope="module")
def content() -> bytes:
    return package(TEXT)


@pytest.fixture
def path(content: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "wide.om"
    path.write_bytes(content)
    return path


def cut(path: Path) -> None:
    os.truncate(path, 8192)


def cut_and_restore(path: Path) -> None:
    """As `cp` does with the same file: whoever looks only at the content sees nothing."""
    content = path.read_bytes()
    os.truncate(path, 0)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def write_over(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(20_000)
        file.write(b"other weights" * 10)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def touch(path: Path) -> None:
    """What is being written has another time before it has another content."""
    os.utime(path, (1, 1))


@pytest.mark.parametrize("change", [cut, cut_and_restore, write_over, append, touch])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_session_refuses_to_go_on_when_its_package_was_changed(
    change: Callable[[Path], None], threads: int, path: Path, content: bytes
) -> None:
    session = InferenceSession(path, threads=threads)
    session.run(None, FEEDS)
    change(path)
    for _ in range(2):
        with pytest.raises(PackageCorrupt) as caught:
            session.run(None, FEEDS)
        assert (caught.value.code, caught.value.exit_code) == ("P0009", 7)
    status = path.stat()
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(PackageCorrupt, match="P0009"):
        session.run(None, FEEDS)
    InferenceSession(path).run(None, FEEDS)


@pytest.mark.parametrize("use", [InferenceSession.profile, partial(InferenceSession.run_iterations, n=3)])
def test_a_profile_and_iterations_are_refused_too(use: Callable[..., object], path: Path) -> None:
    session = InferenceSession(path)
    cut(path)
    with pytest.raises(PackageCorrupt, match="P0009"):
        use(session, feeds=FEEDS)


def replace(path: Path) -> None:
    other = path.with_name("other.om")
    other.write_bytes(b"another package")
    other.rename(path)


@pytest.mark.parametrize("change", [replace, Path.unlink])
def test_a_session_goes_on_with_the_file_that_it_opened(change: Callable[[Path], None], path: Path) -> None:
    session = InferenceSession(path)
    expected = session.run(None, FEEDS)
    change(path)
    for _ in range(2):
        np.testing.assert_array_equal(session.run(None, FEEDS), expected)


def test_a_package_in_memory_does_not_depend_on_its_file(path: Path) -> None:
    session = InferenceSession(path, mmap=False)
    expected = session.run(None, FEEDS)
    cut(path)
    np.testing.assert_array_equal(session.run(None, FEEDS), expected)


@pytest.mark.parametrize("change", [cut, write_over])
def test_no_wrong_result_leaves_a_run_during_the_change(change: Callable[[Path], None], path: Path) -> None:
    session = InferenceSession(path, threads=2)
    expected: Array = session.run(None, FEEDS)[0]
    results: list[Array] = []
    errors: list[AtcError] = []
    started = threading.Event()

    def run() -> None:
        try:
            while True:
                results.append(session.run(None, FEEDS)[0])
                if len(results) == 20:
                    started.set()
        except AtcError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    started.wait()
    change(path)
    for thread in threads:
        thread.join()
    assert [error.code for error in errors] == ["P0009", "P0009"]
    assert all(np.array_equal(result, expected) for result in results)


def trees(rows: str | int) -> bytes:
    """A package whose kernel follows indices that lie in its constants."""
    attributes = RandomTrees(np.random.default_rng(0), features=4)
    attributes.grow(0, depth=6)
    attrs = {
        **attributes.nodes, **attributes.weights("target", [0], positive=False, one_each=True), "n_targets": 1,
    }  # fmt: skip
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    ports = [helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", [rows, 4]), ("y", [rows, 1]))]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 3)]
    graph = helper.make_graph([node], "trees", ports[:1], ports[1:])
    source = helper.make_model(graph, opset_imports=imports, ir_version=10)
    return to_bytes(compile_model(source, convert_options({}))[0])


@pytest.mark.parametrize("rows", ["n", 3])
def test_constants_that_a_checker_proved_are_those_that_run(rows: str | int, path: Path) -> None:
    path.write_bytes(trees(rows))
    opened = read_package(path)
    before = bytes(opened.weights)
    assert any(before)
    at = opened.container.extent(Partition.WEIGHTS_DATA)
    with path.open("r+b") as file:
        file.seek(at.offset)
        file.write(b"\x7f" * at.size)
    assert bytes(opened.container.partition(Partition.WEIGHTS_DATA)) == b"\x7f" * at.size
    assert bytes(opened.weights) == before


def test_other_constants_are_not_copied(path: Path) -> None:
    opened = read_package(path)
    assert opened.weights.obj is opened.container.buffer.obj


@pytest.mark.parametrize("verify", list(Verify))
def test_python_that_reads_a_package_meets_zeros_and_the_same_error(verify: Verify, path: Path) -> None:
    with pytest.raises(PackageCorrupt, match="P0009"), require_unchanged_files():
        container = open_container(path, verify=verify)
        cut(path)
        assert bytes(container.buffer[-100:]) == bytes(100)
        container.check_sha256()


def test_what_came_of_a_change_is_not_its_error(path: Path) -> None:
    with pytest.raises(PackageCorrupt, match="P0009"), require_unchanged_files():
        container = open_container(path)
        cut(path)
        raise ValueError(container.name)
    with pytest.raises(ValueError, match="wide"), require_unchanged_files():
        raise ValueError("wide")


@pytest.mark.parametrize("change", [cut, write_over])
@pytest.mark.parametrize("stage", [Stage.PREPARE, Stage.COMPILE])
def test_a_model_that_is_changed_while_it_is_converted_gives_no_package(
    change: Callable[[Path], None], stage: Stage, tmp_path: Path
) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "m.om"
    onnx.save(model(TEXT), source)
    target.write_bytes(b"old")

    class Changing(Observer):
        def stage(self, stage_now: Stage) -> None:
            if stage_now is stage:
                change(source)

    with pytest.raises(ResourceLimit) as caught:
        convert(source, target, convert_options({}), Changing())
    assert caught.value.code == "E13003"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["m.om", "m.onnx"]
    assert target.read_bytes() == b"old"


# ---- what is no file of ours

FOREIGN = """
import ctypes, faulthandler, mmap, os, signal, sys
from atcpy import InferenceSession
def foreign_fault():
    with open(sys.argv[2], "r+b") as file:
        pages = mmap.mmap(file.fileno(), 0)
        os.truncate(file.fileno(), 0)
    print(pages[5000])
"""


def ending(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    other = path.with_name("other")
    shutil.copy(path, other)
    return subprocess.run(
        [sys.executable, "-c", FOREIGN + script, path, other],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "code", "text"),
    [
        ("s = InferenceSession(sys.argv[1]); foreign_fault()", -signal.SIGBUS, ""),
        ("s = InferenceSession(sys.argv[1]); os.kill(os.getpid(), signal.SIGBUS)", -signal.SIGBUS, ""),
        ("s = InferenceSession(sys.argv[1]); signal.raise_signal(signal.SIGBUS)", -signal.SIGBUS, ""),
        ("faulthandler.enable(); s = InferenceSession(sys.argv[1]); foreign_fault()", -signal.SIGBUS, "Bus error"),
        ("s = InferenceSession(sys.argv[1]); faulthandler.enable(); foreign_fault()", -signal.SIGBUS, "Bus error"),
        (
            "handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: os._exit(number + 40))\n"
            "ctypes.CDLL(None).signal(signal.SIGBUS, handler)\n"
            "s = InferenceSession(sys.argv[1]); foreign_fault()",
            signal.SIGBUS + 40,
            "",
        ),
    ],
)
def test_other_faults_end_as_if_no_package_were_open(script: str, code: int, text: str, path: Path) -> None:
    ended = ending(script, path)
    assert ended.returncode == code, ended.stderr
    assert text in ended.stderr and ended.stdout == ""


CUT = """
from atcpy.errors import PackageCorrupt
import numpy as np
def cut_short(session):
    os.truncate(sys.argv[1], 8192)
    try:
        session.run(None, {"x": np.ones((4, 600), np.float32)})
    except PackageCorrupt as error:
        print(error.code)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "faulthandler.enable(); s = InferenceSession(sys.argv[1]); cut_short(s)",
        "s = InferenceSession(sys.argv[1]); faulthandler.enable(); cut_short(s)",
        "faulthandler.enable(); s = InferenceSession(sys.argv[1]); faulthandler.disable()\n"
        "t = InferenceSession(sys.argv[1]); cut_short(t)",
        "s = InferenceSession(sys.argv[1])\nif os.fork() == 0: cut_short(s)\nelse: sys.exit(os.wait()[1])",
    ],
)
def test_a_package_that_is_cut_short_is_an_error_beside_other_handlers(script: str, path: Path) -> None:
    ended = ending(CUT + script, path)
    assert (ended.returncode, ended.stdout) == (0, "P0009\n"), ended.stderr


def test_a_model_that_stays_as_it_is_is_converted(tmp_path: Path) -> None:
    source, target = tmp_path / "m.onnx", tmp_path / "m.om"
    onnx.save(model(TEXT), source)
    convert(source, target, convert_options({}))
    InferenceSession(target).run(None, FEEDS)
