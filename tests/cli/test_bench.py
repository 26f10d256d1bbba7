import re
from pathlib import Path

import pytest

from atcpy.cli.bench import _ranges

from .conftest import Invoke


def test_the_table_and_the_ratio(invoke: Invoke, package: Path) -> None:
    ran = invoke("bench", package, "--vs", "ort", "--min-time", "0.01", "--threads", "1", "--layers")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].split() == ["median", "p90", "min", "load", "first", "run"]
    assert lines[1].split()[0] == "atcpy"
    assert lines[2].startswith("ort 1.")
    assert re.fullmatch(
        r"ratio [\d.]+× (faster|slower|same) \(95 % CI [\d.]+–[\d.]+, \d+ interleaved runs, 1 thread, cores [\d,-]+\)",
        lines[3],
    )
    assert lines[5].split() == ["task", "op", "kernel", "time", "share", "floor", "bytes", "nodes"]
    assert re.fullmatch(r" +0  MatMul  matmul_f32_\w+ +[\d.]+ [mµ]s  100\.0%  [\d.]+ µs  1\.1 KB  y", lines[6])
    assert lines[7].startswith("peaks of 1 thread: ")


@pytest.mark.slow
def test_json_has_both_sides(invoke: Invoke, package: Path) -> None:
    result = invoke("bench", package, "--vs", "ort", "--min-time=0.01", "--layers", "--json").envelope["result"]
    assert [side["name"].split()[0] for side in result["sides"]] == ["atcpy", "ort"]
    assert result["ci"][0] <= result["ratio"] <= result["ci"][1]
    assert result["verdict"] in ("faster", "slower", "same")
    assert [layer["nodes"] for layer in result["layers"]] == [["y"]]
    assert {"cpu", "isa", "cores"} == set(result["machine"])


@pytest.mark.slow
def test_two_numbers_of_threads_are_two_measurements(invoke: Invoke, package: Path) -> None:
    result = invoke("bench", package, "--threads", "1,2", "--min-time=0.01", "--json").envelope["result"]
    assert [run["threads"] for run in result["runs"]] == [1, 2]
    assert [run["ratio"] for run in result["runs"]] == [None, None]


@pytest.mark.slow
def test_another_package_can_be_the_other_side(invoke: Invoke, package: Path) -> None:
    result = invoke("bench", package, "--vs", package, "--min-time=0.01", "--json").envelope["result"]
    assert [side["name"] for side in result["sides"]] == ["atcpy", "linear.om"]


@pytest.mark.slow
def test_a_limit_can_be_set(invoke: Invoke, package: Path) -> None:
    ran = invoke("bench", package, "--vs", package, "--min-time=0.01", "--fail-over", "0.01")
    assert ran.code == 5
    assert "times faster, more than 0.01" in ran.err


def test_wrong_options_are_refused(invoke: Invoke, package: Path) -> None:
    assert invoke("bench", package, "--vs", "tensorrt").code == 2
    assert invoke("bench", package, "--vs-model", "m.onnx").err.startswith("error[E10057]")
    assert invoke("bench", package, "--threads", "0").code == 2
    assert invoke("bench", package, "--min-time", "soon").code == 2


def test_cores_are_written_as_ranges() -> None:
    assert _ranges([0, 1, 2, 4, 6, 7]) == "0-2,4,6-7"
