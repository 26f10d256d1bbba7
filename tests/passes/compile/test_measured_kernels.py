"""`--auto_tune_mode`: times of kernels decide which one runs, and are kept in a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import atcpy
from atcpy.errors import AtcError, UsageError
from atcpy.ir import DType, TensorDesc
from atcpy.kernels import _kernels
from atcpy.kernels.timing import time_kernel
from atcpy.options import convert_options
from atcpy.options.kernel_times import SCHEMA
from atcpy.passes.compile import measured_kernels
from atcpy.passes.compile.choose_winograd import SMALLEST_MEASURED_GAIN
from tests.models_in_text import model

NET = (
    "net (float[{n},32,12,14] x) => (float[{n},20,12,14] y) <float[20,32,3,3] w> {{ y = Conv<pads = [1,1,1,1]>(x, w) }}"
)


def net(folder: Path, n: str = "1") -> Path:
    path = folder / "net.onnx"
    onnx.save(model(NET.format(n=n)), path)
    return path


def convert(folder: Path, times: Path, **options: Any) -> set[str]:
    """The kernels of the package, which is written as net.om."""
    atcpy.convert(net(folder), folder / "net.om", auto_tune_mode=times, threads=1, **options)
    tasks = atcpy.inspect(folder / "net.om", "tasks").record["tasks"]
    return {task["kernel"].partition("_")[0] for task in tasks} - {"transdata"}


def set_gain(times: Path, gain: float) -> None:
    """Let the winograd2d launches of a file take one second, and those of conv2d `gain` seconds."""
    record = json.loads(times.read_text())
    for each in record["times"]:
        each["microseconds"] = 1e6 * (gain if each["kernel"] == "conv2d" else 1)
    times.write_text(json.dumps(record))


def no_measurement(*_: object) -> float:
    raise AssertionError("measured again")


def test_what_is_measured_is_in_the_file(tmp_path: Path) -> None:
    times = tmp_path / "folder" / "times.json"
    convert(tmp_path, times)
    record = json.loads(times.read_text())
    assert record["schema"] == SCHEMA
    assert [each["kernel"] for each in record["times"]] == ["conv2d", "winograd2d"]
    assert all(each["microseconds"] > 0 and each["threads"] == 1 for each in record["times"])
    assert {each["isa"] for each in record["times"]} == {_kernels.cpu()[0]}


@pytest.mark.parametrize(
    ("gain", "kernel"),
    [(10, "winograd2d"), (SMALLEST_MEASURED_GAIN, "winograd2d"), (1.04, "conv2d"), (0.1, "conv2d")],
)
def test_times_of_the_file_decide(tmp_path: Path, gain: float, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    times = tmp_path / "times.json"
    convert(tmp_path, times)
    set_gain(times, gain)
    before = times.read_bytes()
    monkeypatch.setattr(measured_kernels, "time_kernel", no_measurement)
    assert convert(tmp_path, times) == {kernel}
    package = (tmp_path / "net.om").read_bytes()
    convert(tmp_path, times)
    assert (tmp_path / "net.om").read_bytes() == package and times.read_bytes() == before


@pytest.mark.parametrize(
    ("key", "value"), [("cpu", "another"), ("isa", "another"), ("threads", 2), ("version", "0"), ("launch", "another")]
)
def test_times_of_something_else_are_kept_and_not_used(tmp_path: Path, key: str, value: object) -> None:
    times = tmp_path / "times.json"
    convert(tmp_path, times)
    set_gain(times, 1e-6)
    record = json.loads(times.read_text())
    for each in record["times"]:
        each[key] = value
    times.write_text(json.dumps(record))
    convert(tmp_path, times)
    found = json.loads(times.read_text())["times"]
    assert len(found) == 4
    assert all(each in found for each in record["times"])


@pytest.mark.parametrize(
    ("n", "options"),
    [("n", {}), ("1", {"op_select_implmode": "high_precision"}), ("1", {"optimization_switch": "WinogradPass:off"})],
)
def test_nothing_is_measured_where_there_is_no_choice(
    tmp_path: Path, n: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured_kernels, "time_kernel", no_measurement)
    options = {**options, **({"input_shape": "x:-1,32,12,14"} if n == "n" else {})}
    atcpy.convert(net(tmp_path, n), tmp_path / "net.om", auto_tune_mode=tmp_path / "times.json", **options)
    assert not (tmp_path / "times.json").exists()


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AtcError) as caught:
        convert(tmp_path, tmp_path / "file" / "times.json")
    assert isinstance(caught.value, UsageError)
    assert not (tmp_path / "net.om").exists()


TIME = {
    "cpu": "c", "isa": "scalar", "threads": 1, "version": "0", "kernel": "conv2d", "launch": "", "microseconds": 1.5,
}  # fmt: skip


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is not an object"),
        ({}, "it has no schema"),
        ({"schema": "atcpy.kernel_times/2", "times": []}, "it has no schema"),
        ({"schema": SCHEMA, "times": {}}, "it has no schema"),
        ({"schema": SCHEMA, "times": [], "more": 1}, "unknown key"),
        ({"schema": SCHEMA, "times": [1]}, "time 1 is not an object"),
        ({"schema": SCHEMA, "times": [TIME | {"more": 1}]}, "time 1 has the unknown key"),
        ({"schema": SCHEMA, "times": [TIME, {"cpu": "c"}]}, "time 2 lacks isa"),
        ({"schema": SCHEMA, "times": [TIME | {"cpu": 1}]}, "cpu of time 1 is no text"),
        ({"schema": SCHEMA, "times": [TIME | {"threads": "1"}]}, "threads of time 1 is no number"),
        ({"schema": SCHEMA, "times": [TIME | {"threads": True}]}, "threads of time 1 is no number"),
        *(
            ({"schema": SCHEMA, "times": [TIME | {"microseconds": wrong}]}, "microseconds of time 1 are no number")
            for wrong in (0, -1, "1", True, None, float("inf"), float("nan"))
        ),
    ],
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "times.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError, match=message):
        convert_options({"auto_tune_mode": path})


def test_a_launch_takes_time_and_one_that_is_none_is_refused() -> None:
    desc = TensorDesc.plain(DType.FLOAT32, (64,))
    assert 0 < time_kernel("unary", [desc], [desc], {"op": "Neg", "n": 64}, 1) < 1
    with pytest.raises(_kernels.Refused):
        time_kernel("unary", [], [desc], {"op": "Neg", "n": 64}, 1)


def test_results_do_not_depend_on_the_times(tmp_path: Path) -> None:
    times = tmp_path / "times.json"
    convert(tmp_path, times)
    x = np.random.default_rng(0).standard_normal((1, 32, 12, 14), np.float32)
    results = []
    for gain in (10, 0.1):
        set_gain(times, gain)
        convert(tmp_path, times)
        results += atcpy.InferenceSession(tmp_path / "net.om").run(None, {"x": x})
    np.testing.assert_allclose(*results, rtol=0, atol=1e-5 * np.abs(results[0]).max())
