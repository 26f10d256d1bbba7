"""`run --sandbox`: the same result, written by the parent, and a child that reaches nothing and is not trusted."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.cli import sandbox
from atcpy.cli.job import Computed
from atcpy.cli.sandbox import receive, send, send_error
from atcpy.errors import AtcError, InternalError, ModelInvalid, PackageCorrupt, Unsupported, group
from tests.models_in_text import package as compile_text
from tests.om.signing_keys import write_keys
from tests.sandboxes import need_sandbox

from .conftest import Invoke


@pytest.fixture
def needs_sandbox() -> None:
    need_sandbox()


MODELS = {
    "threads": "m (float[256,512] x) => (float[256,512] y) <float[512,512] w> { p = MatMul(x, w) y = Softmax(p) }",
    "two outputs": "m (float[2,3] x) => (float[2,3] y, int64[2,1] k) { y = Neg(x) k = ArgMax<axis = 1>(x) }",
    "half": "m (float[4] x) => (bfloat16[4] y) { y = Cast<to = 16>(x) }",
    "the reference implementation": "m (float[1,2,2] x) => (float[1,2,2] y) { y = DFT<inverse = 1>(x) }",
    "texts by the host": "m (float[3] x) => (string[3] y) { y = Cast<to = 8>(x) }",
    "open dims": "m (float[b,4] x) => (float[b,4] y) { y = Softmax(x) }",
    "a size without plan": "m (float[b,n] x) => (int64[2,k] y) { y = NonZero(x) }",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.usefixtures("needs_sandbox")
def test_run_gives_what_it_gives_outside(name: str, invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "m.om").write_bytes(compile_text(MODELS[name]))
    shape = ["--shape", "x=3,4"] if "[b," in MODELS[name] else []
    common = ["run", tmp_path / "m.om", "--fill", "random:1", *shape, "--threads", "2", "--json"]
    outside = invoke(*common, "--npz-out", tmp_path / "a.npz")
    inside = invoke(*common, "--npz-out", tmp_path / "b.npz", "--output-dir", tmp_path / "d", "--sandbox")
    assert outside.code == inside.code == 0, inside.err
    for a, b in zip(outside.envelope["result"]["outputs"], inside.envelope["result"]["outputs"], strict=True):
        assert {**b, "path": None} == a and Path(b["path"]).exists()
    first, second = np.load(tmp_path / "a.npz"), np.load(tmp_path / "b.npz")
    assert first.files == second.files
    assert all(first[each].tobytes() == second[each].tobytes() for each in first.files)


@pytest.mark.slow
@pytest.mark.usefixtures("needs_sandbox")
def test_run_that_fails_says_what_it_says_outside(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "m.om").write_bytes(compile_text("m (float[4] x, int64[1] i) => (float[1] y) { y = Gather(x, i) }"))
    np.save(tmp_path / "i.npy", np.array([9]))
    common = ["run", tmp_path / "m.om", "--input", "x=ones", "--input", f"i={tmp_path / 'i.npy'}"]
    outside, inside = invoke(*common), invoke(*common, "--sandbox", "--npz-out", tmp_path / "never.npz")
    assert (outside.code, outside.err) == (inside.code, inside.err) and inside.code == 3
    assert not (tmp_path / "never.npz").exists()


@pytest.mark.usefixtures("needs_sandbox")
def test_package_that_cannot_be_loaded_says_what_it_says_outside(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.om"
    broken.write_bytes(package.read_bytes()[:-1])
    outside, inside = (invoke("run", broken, "--fill", "ones", *more) for more in ([], ["--sandbox"]))
    assert (outside.code, outside.err) == (inside.code, inside.err) and inside.code == 7


@pytest.mark.slow
@pytest.mark.usefixtures("needs_sandbox")
def test_signature_is_asked_for_in_the_sandbox_as_well(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    _, public = write_keys(tmp_path)
    ran = invoke("run", package, "--fill", "ones", "--sandbox", "--require-signature", public)
    assert ran.code == 7 and "P0008" in ran.err


# The run of the child, replaced by what code that took it over would do.
TAKEN_OVER = """
import atcpy.runtime.session as session
session.InferenceSession.run = lambda *_, **__: {attempt}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize(
    "attempt",
    [
        "open('{folder}/new', 'w')",
        "__import__('socket').socket()",
        "__import__('os').fork()",
        "open('/proc/self/maps')",
    ],
)
def test_child_runs_closed_in(
    attempt: str, invoke: Invoke, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = f"exec({TAKEN_OVER.format(attempt=attempt.format(folder=tmp_path))!r}); from atcpy.cli.sandboxed"
    monkeypatch.setattr(sandbox, "_START", sandbox._START.replace("from atcpy.cli.sandboxed", start))
    ran = invoke("run", package, "--fill", "ones", "--sandbox")
    assert ran.code == 2 and "operation not permitted" in ran.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("needs_sandbox")
@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("import os; os.kill(os.getpid(), 11)", "Segmentation fault (signal 11)"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import os, time; os.close(1); time.sleep(600)", "it closed its output"),
        ("print('hello')", "sent no result"),
        ("print('[1]')", "sent no result"),
    ],
)
def test_child_without_a_result_is_a_bug(
    start: str, message: str, invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "_START", start)
    ran = invoke("run", package, "--fill", "ones", "--sandbox")
    assert ran.code == 1 and message in ran.err and "X0001" in ran.err


@pytest.mark.usefixtures("needs_sandbox")
def test_time_limit_ends_the_child(invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_START", "import time; time.sleep(600)")
    ran = invoke("run", package, "--fill", "ones", "--sandbox", "--timeout", "0.3")
    assert ran.code == 6 and "R0003" in ran.err


@pytest.mark.parametrize("more", [["--ranks", "2"], ["--simulate-ranks", "2"], ["--custom-ops", "{folder}/ops.py"]])
def test_what_a_sandbox_excludes(more: list[str], invoke: Invoke, package: Path, tmp_path: Path) -> None:
    (tmp_path / "ops.py").write_text("")
    ran = invoke("run", package, "--fill", "ones", "--sandbox", *[each.format(folder=tmp_path) for each in more])
    assert ran.code == 2 and "E10056" in ran.err


def test_system_without_filters_is_refused_before_anything_runs(
    invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    monkeypatch.setattr(sandbox, "_START", "")
    ran = invoke("run", package, "--fill", "ones", "--sandbox")
    assert ran.code == 4 and "E10055" in ran.err and "aarch64" in ran.err


# ---- what goes through the pipe


def round_trip(computed: Computed) -> Computed:
    stream = io.BytesIO()
    send(stream, computed)
    stream.seek(0)
    received = receive(stream)
    assert stream.read() == b""
    return received


def test_outputs_of_all_types_come_back() -> None:
    arrays: dict[str, Any] = {
        "float": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "bool": np.array([True, False]),
        "scalar": np.array(3, np.int64),
        "empty": np.empty((0, 4), np.float64),
        "texts": np.array([["a", "☃\n"]], np.object_),
        "complex": np.array([1 + 2j], np.complex64),
    }
    received = round_trip(Computed(arrays, "ran", 0.5))
    assert (received.ran, received.seconds, list(received.arrays)) == ("ran", 0.5, list(arrays))
    for name, array in arrays.items():
        found = received.arrays[name]
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(found, array)


def test_outputs_that_are_no_tensors_are_refused() -> None:
    with pytest.raises(Unsupported, match='"maps" is no tensor'):
        send(io.BytesIO(), Computed({"maps": [{1: 0.5}]}, "ran", 0.0))


@pytest.mark.parametrize(
    "error",
    [
        ModelInvalid("D0001", "a value", where="node", why="it is 9", hint="look"),
        group([PackageCorrupt("P0005", "one"), PackageCorrupt("P0005", "two")]),
        InternalError("a bug"),
    ],
)
def test_errors_come_back(error: AtcError | InternalError) -> None:
    stream = io.BytesIO()
    send_error(stream, error)
    stream.seek(0)
    with pytest.raises(type(error)) as caught:
        receive(stream)
    assert str(caught.value) == str(error) and caught.value.exit_code == error.exit_code


GOOD: dict[str, Any] = {"name": "y", "dtype": "float32", "shape": [2]}


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "object"}, {"dtype": "undefined"}, {"dtype": 3}, {"shape": [-1]}, {"shape": [True]}, {"shape": ["2"]},
        {"shape": None}, {"shape": [1] * 65}, {"shape": [2**41]}, {"dtype": "string"},
        {"dtype": "string", "texts": ["a"]},
    ],
    ids=str,
)  # fmt: skip
def test_hostile_outputs_are_refused(change: dict[str, Any]) -> None:
    line = json.dumps({"ran": "ran", "seconds": 1, "outputs": [GOOD | change]}).encode() + b"\n"
    with pytest.raises(InternalError, match="sent no result"):
        receive(io.BytesIO(line + bytes(8)))


def test_output_larger_than_memory_is_a_limit() -> None:
    header = GOOD | {"shape": [2**40, 2**20]}
    line = json.dumps({"ran": "ran", "seconds": 1, "outputs": [header]}).encode() + b"\n"
    with pytest.raises(AtcError) as caught:
        receive(io.BytesIO(line))
    assert caught.value.code == "R0001"


@pytest.mark.parametrize(
    "line",
    [
        b"null\n", b"[]\n", b"{}\n", b"\xff\n", b"[" * 50_000 + b"\n", b'{"error": 3}\n',
        b'{"error": [{"code": "P0001"}]}\n',
        b'{"error": [{"code": "X9", "what": "", "where": {}, "exit_code": 7, "why": "", "hint": ""}]}\n',
        b'{"error": [{"code": "P0001", "what": "", "where": {}, "exit_code": 2, "why": "", "hint": ""}]}\n',
        b'{"error": [{"code": "P0001", "what": "", "where": {"a": 1}, "exit_code": 7, "why": "", "hint": ""}]}\n',
        b'{"error": []}\n',
    ],
    ids=lambda line: line[:40].decode("latin-1").strip(),
)  # fmt: skip
def test_hostile_lines_are_bugs_of_ours(line: bytes) -> None:
    with pytest.raises(InternalError):
        receive(io.BytesIO(line))


def test_result_that_is_cut_short_is_noticed() -> None:
    stream = io.BytesIO()
    send(stream, Computed({"y": np.ones(5, np.float32)}, "ran", 0.0))
    whole = stream.getvalue()
    for end in range(len(whole)):
        with pytest.raises(EOFError):
            receive(io.BytesIO(whole[:end]))
