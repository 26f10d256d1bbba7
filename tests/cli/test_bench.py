import hashlib
import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import pytest

from atcpy import __version__
from atcpy.cli.bench_tables import ranges

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
    assert lines[5].split() == ["runs/s", "samples/s", "p95", "p99"]
    assert lines[6].split()[0] == "atcpy" and "-" not in lines[6].split()
    head = ["task", "op", "kernel", "time", "share", "GFLOP/s", "GB/s", "floor", "roofline", "nodes"]
    assert lines[9].split() == head
    rates = r" +[\d.e-]+ +[\d.e-]+  [\d.]+ µs +\d+%"
    assert re.fullmatch(rf" +0  MatMul  matmul_f32_\w+ +[\d.]+ [mµ]s  100\.0%{rates}  y", lines[10])
    assert lines[11].startswith("peaks of 1 thread: ")
    assert lines[12].endswith(": 2: 50%, 4: 75%, 8: 88%, 16: 94%, 32: 97%, 64: 98%")  # too little work to share


@pytest.mark.slow
def test_json_has_both_sides(invoke: Invoke, package: Path) -> None:
    result = invoke("bench", package, "--vs", "ort", "--min-time=0.01", "--layers", "--json").envelope["result"]
    assert [side["name"].split()[0] for side in result["sides"]] == ["atcpy", "ort"]
    assert result["ci"][0] <= result["ratio"] <= result["ci"][1]
    assert result["verdict"] in ("faster", "slower", "same")
    assert [layer["nodes"] for layer in result["layers"]] == [["y"]]
    assert result["peaks"]["threads"] == result["threads"] and len(result["peaks"]["bandwidths"]) == 4
    assert {"cpu", "isa", "cores"} == set(result["machine"])
    assert result["samples"] == 2
    assert result["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 3]}]
    assert result["package"]["sha256"] == hashlib.sha256(package.read_bytes()).hexdigest()
    assert result["package"]["model_sha256"] == hashlib.sha256(package.with_suffix(".onnx").read_bytes()).hexdigest()
    assert [side["version"] for side in result["sides"]] == [__version__, onnxruntime.__version__]


@pytest.mark.slow
def test_two_numbers_of_threads_are_two_measurements(invoke: Invoke, package: Path) -> None:
    ran = invoke("bench", package, "--threads", "1,2", "--min-time=0.01", "--warmup=1", "--json")
    assert (ran.code, ran.envelope["errors"]) == (0, [])
    result = ran.envelope["result"]
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
    assert "linear.om is" in ran.err and "times faster, more than 0.01" in ran.err


def test_wrong_options_are_refused(invoke: Invoke, package: Path) -> None:
    assert invoke("bench", package, "--vs", "tensorrt").code == 2
    assert invoke("bench", package, "--vs", "ort,,").code == 2
    assert "two sides are named linear.om" in invoke("bench", package, "--vs", f"{package},linear.om").err
    assert invoke("bench", package, "--vs-model", "m.onnx").err.startswith("error[E10057]")
    assert invoke("bench", package, "--threads", "0").code == 2
    assert invoke("bench", package, "--min-time", "soon").code == 2


FAST = ("--min-time=0.01", "--warmup=1", "--threads=1")


@pytest.mark.slow
def test_several_sides_run_in_turns(invoke: Invoke, package: Path) -> None:
    pytest.importorskip("openvino")
    ran = invoke("bench", package, "--vs", f"ort,{package},openvino", *FAST)
    assert [line.split()[0] for line in ran.out.splitlines()[1:5]] == ["atcpy", "ort", "linear.om", "openvino"]
    ratios = [line for line in ran.out.splitlines() if line.startswith("ratio to ")]
    assert [line.split()[2] for line in ratios] == ["ort", "linear.om", "openvino"]


def test_an_engine_that_is_not_installed_is_named(
    invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atcpy.cli.bench.find_spec", lambda name: None if name == "openvino" else find_spec(name))
    ran = invoke("bench", package, "--vs", "ort,openvino", "--json")
    assert ran.code == 2
    [error] = ran.envelope["errors"]
    assert (error["code"], error["message"]) == ("E10001", "--vs: openvino is not installed")
    assert error["hint"] == "pip install openvino"


@pytest.fixture
def saved(invoke: Invoke, package: Path, tmp_path: Path) -> Path:
    assert invoke("bench", package, *FAST, "--layers", "--save", tmp_path / "new" / "j.json").code == 0
    return tmp_path / "new" / "j.json"


def scale(saved: Path, factor: float, **more: Any) -> None:
    """Multiply the times of a saved benchmark, and replace members of its result."""
    record = json.loads(saved.read_text())
    for timing in (*record["result"]["sides"], *record["result"]["layers"]):
        timing["median"] *= factor
        timing["ci"] = [factor * end for end in timing["ci"]]
    record["result"] |= more
    saved.write_text(json.dumps(record))


def test_a_saved_benchmark_is_what_json_prints(invoke: Invoke, package: Path, saved: Path) -> None:
    printed = invoke("bench", package, *FAST, "--layers", "--json").envelope
    record = json.loads(saved.read_text())
    assert record.keys() == printed.keys()
    assert record["result"].keys() == printed["result"].keys()
    assert record["schema"] == "atcpy.bench/1" and record["result"]["threads"] == 1


def test_comparison_by_side_and_by_task(invoke: Invoke, package: Path, saved: Path) -> None:
    scale(saved, 1000)
    ran = invoke("bench", package, *FAST, "--layers", "--compare", saved, "--fail-over", "1.05")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    start = lines.index(f"against {saved}: the same package, atcpy {__version__}")
    assert re.match(r"  atcpy  \d+\.\d\d× faster \(95 % CI ", lines[start + 1])
    assert lines[start + 2].split() == ["op", "before", "now", "ratio", "nodes"]
    assert re.match(r"MatMul .*× +faster +y$", lines[start + 3])
    assert lines[start + 4] == "0 tasks the same"


def test_a_saved_run_that_was_faster_ends_with_5(invoke: Invoke, package: Path, saved: Path) -> None:
    scale(saved, 0.001)
    ran = invoke("bench", package, *FAST, "--compare", saved, "--fail-over", "1.05", "--json")
    assert ran.code == 5
    assert ran.envelope["errors"][0]["message"].startswith("the saved run was ")
    comparison = ran.envelope["result"]["comparison"]
    assert [side["ratio"]["verdict"] for side in comparison["sides"]] == ["slower"]
    assert comparison["layers"] == [] and comparison["unmatched_layers"] == 0  # without --layers now
    assert invoke("bench", package, *FAST, "--compare", saved).code == 0
    assert invoke("bench", package, *FAST, "--compare", saved, "--fail-over", "1000000").code == 2


def test_what_is_the_same_within_the_noise_passes(invoke: Invoke, package: Path, saved: Path) -> None:
    record = json.loads(saved.read_text())
    record["result"]["sides"][0]["ci"] = [1e-9, 1e3]
    record["result"]["sides"][0]["median"] = 1e-9  # a thousand times faster, but nobody knows
    saved.write_text(json.dumps(record))
    ran = invoke("bench", package, *FAST, "--compare", saved, "--fail-over", "1.05")
    assert ran.code == 0 and "× same (95 % CI" in ran.out


def test_a_saved_run_of_another_machine_is_said(invoke: Invoke, package: Path, saved: Path) -> None:
    scale(saved, 1, machine={"cpu": "Z80", "isa": "scalar", "cores": [0]})
    ran = invoke("bench", package, *FAST, "--compare", saved, "--json")
    assert [warning["code"] for warning in ran.envelope["warnings"]] == ["W0090", "W0090"]
    assert "another CPU: Z80, now " in ran.envelope["warnings"][0]["message"]
    assert invoke("bench", package, *FAST, "--compare", saved, "--werror").code == 2


def test_saved_runs_need_the_same_number_of_threads(invoke: Invoke, package: Path, saved: Path) -> None:
    ran = invoke("bench", package, "--threads", "1,2", "--compare", saved, "--json")
    assert ran.code == 2
    [error] = ran.envelope["errors"]
    assert (error["code"], error["hint"]) == ("E10032", "--threads 1")


def test_files_of_benchmarks_are_checked_before_anything_is_timed(
    invoke: Invoke, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atcpy.bench.rounds.measure", None)
    (tmp_path / "j").write_text("{}")
    assert invoke("bench", package, "--compare", tmp_path / "j").err.startswith("error[E13005]")
    assert invoke("bench", package, "--compare", tmp_path / "none").err.startswith("error[E10410]")
    assert invoke("bench", package, "--save", tmp_path).code == 2
    assert invoke("bench", package, "--save", tmp_path / "j" / "k").code == 2


def test_cores_are_written_as_ranges() -> None:
    assert ranges([0, 1, 2, 4, 6, 7]) == "0-2,4,6-7"


BRANCHES = """<ir_version: 8, opset_import: ["" : 17]> g (float[64,64] x) => (float[64,64] y, float[64,64] z)
  { a = Softmax(x) b = Softmax(a) y = Softmax(b) c = Exp(x) d = Softmax(c) z = Softmax(d) }"""


@pytest.fixture
def branches(invoke: Invoke, tmp_path: Path) -> Path:
    """A package with two streams beside its model."""
    onnx.save(onnx.parser.parse_model(BRANCHES), tmp_path / "branches.onnx")
    assert invoke("convert", tmp_path / "branches.onnx", "-o", tmp_path / "branches", "-q").code == 0
    return tmp_path / "branches.om"


def test_streams_are_compared_with_none(invoke: Invoke, branches: Path, tmp_path: Path) -> None:
    options = ("--streams", "--min-time=0.001", "--warmup=1", "--threads=2", "--save", tmp_path / "j.json")
    ran = invoke("bench", branches, *options)
    assert ran.code == 0, ran.err
    assert re.search(r"^ +sections +streams +with streams +without +ratio$", ran.out, re.M)
    assert re.search(r"^branches\.om +1 +2 +[\d.]+ [mµ]s +[\d.]+ [mµ]s +[\d.]+× \w+ \(95 % CI ", ran.out, re.M)
    result = json.loads((tmp_path / "j.json").read_text())["result"]
    sides = {side["name"]: side for side in result["sides"]}
    assert list(sides) == ["atcpy", "single-stream.om"]
    assert result["streams"] == {
        "sections": 1,
        "streams": 2,
        "with_streams": sides["atcpy"]["median"],
        "without_streams": sides["single-stream.om"]["median"],
        "ratio": sides["single-stream.om"]["ratio"],
    }
    ran = invoke("bench", branches, *options[:-2], "--compare", tmp_path / "j.json", "--json")
    compared = ran.envelope["result"]["comparison"]["sides"]
    assert [side["name"] for side in compared] == ["atcpy", "single-stream.om"]


def test_without_streams_there_is_no_record_of_them(invoke: Invoke, branches: Path) -> None:
    ran = invoke("bench", branches, *FAST, "--json")
    assert (ran.code, ran.envelope["result"]["streams"]) == (0, None)


def test_streams_need_the_model(invoke: Invoke, branches: Path, tmp_path: Path) -> None:
    renamed = branches.with_suffix(".onnx").rename(tmp_path / "renamed.onnx")
    ran = invoke("bench", branches, *FAST, "--streams")
    assert ran.err.startswith("error[E10054]") and "--vs_model MODEL.onnx" in ran.err
    assert invoke("bench", branches, *FAST, "--streams", "--vs-model", renamed).code == 0
    ran = invoke("bench", branches, *FAST, "--streams", "--vs", "single-stream.om", "--vs-model", renamed)
    assert "two sides are named single-stream.om" in ran.err
