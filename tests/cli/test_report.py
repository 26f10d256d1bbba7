"""`atcpy report`: the file that it writes, what goes into it, and what is refused before anything is written."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import onnx
import pytest

import atcpy
from atcpy.errors import UsageError
from tests.models_in_text import model
from tests.models_in_text import package as package_of

from .conftest import Invoke

GEARS = "m (float[n,4] x) => (float[n,4] y) { y = Softmax(x) }"


@pytest.fixture
def package(shelf: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shelf / "linear.om", tmp_path))


def test_the_page_is_written_beside_the_package(invoke: Invoke, package: Path) -> None:
    ran = invoke("report", package)
    page = package.with_suffix(".html")
    assert ran.code == 0, ran.err
    assert ran.out == f"{page}  {len(page.read_bytes()) / 1024:.1f} KB\n"
    assert "<title>" in page.read_text(encoding="utf-8")


def test_the_same_package_makes_the_same_page(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    for name in ("a.html", "b.html"):
        assert invoke("report", package, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_the_record(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    ran = invoke("report", package, "--output", tmp_path / "r.html", "--json")
    assert ran.envelope["result"] == {
        "output": str(tmp_path / "r.html"),
        "bytes": (tmp_path / "r.html").stat().st_size,
        "nodes": len(atcpy.inspect(package, "nodes").record["nodes"]),
        "tasks": 1,
    }


def test_times_of_a_trace_and_of_a_benchmark(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    assert invoke("run", package, "--fill", "ones", "--profile", tmp_path / "p.json").code == 0
    timed = invoke("bench", package, "--layers", "--min_time", "0", "--warmup", "1", "--threads", "1", "--json")
    (tmp_path / "b.json").write_text(timed.out, encoding="utf-8")
    assert invoke("report", package, "-o", tmp_path / "r.html").code == 0
    assert "Layers against the roofline" not in (tmp_path / "r.html").read_text(encoding="utf-8")
    for option, file in (("--profile", "p.json"), ("--bench", "b.json")):
        ran = invoke("report", package, "-o", tmp_path / "r.html", option, tmp_path / file)
        assert ran.code == 0, ran.err
        page = (tmp_path / "r.html").read_text(encoding="utf-8")
        assert "Layers against the roofline" in page
        assert '"seconds":[' in page
        assert "peaks of" in page


def test_errors_of_values(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    layer = {"value": "y", "node": "y", "op": "MatMul", "max_abs": 0.5, "allowed": 0.25, "passed": False}
    (tmp_path / "a.json").write_text(json.dumps({"result": {"layers": {"table": [layer]}}}), encoding="utf-8")
    assert invoke("report", package, "--accuracy", tmp_path / "a.json").code == 0
    page = package.with_suffix(".html").read_text(encoding="utf-8")
    assert "Accuracy by layer" in page and "1 of them differ by more" in page
    [node] = [node["name"] for node in atcpy.inspect(package, "nodes").record["nodes"] if node["op"] == "MatMul"]
    assert ('"errors":[null,2.0,null]' in page) == (node == "y")


def test_each_gear_has_a_page(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "m.om").write_bytes(package_of(GEARS, {"input_shape": "x:-1,4", "dynamic_batch_size": "2,8"}))
    for gear, rows in ((0, 2), (1, 8)):
        assert invoke("report", tmp_path / "m.om", "--gear", gear).code == 0
        page = (tmp_path / "m.html").read_text(encoding="utf-8")
        assert f"This page shows gear {gear}" in page
        assert f"float32 [{rows},4] ND" in page
    assert invoke("report", tmp_path / "m.om", "--gear", 2).err.startswith("error[E10013")


def test_sizes_of_open_dims_draw_the_memory(invoke: Invoke, tmp_path: Path) -> None:
    text = "m (float[n,64] x) => (float[n,64] y) { a = Softmax(x) y = Softmax(a) }"
    (tmp_path / "m.om").write_bytes(package_of(text))
    assert invoke("report", tmp_path / "m.om").code == 0
    assert "by task and offset" not in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert invoke("report", tmp_path / "m.om", "--shape", "x=8,64").code == 0
    assert "by task and offset" in (tmp_path / "m.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        (["missing.om"], "E10410", 2),
        (["{package}", "--profile", "p.json", "--bench", "b.json"], "E10056", 2),
        (["{package}", "--profile", "missing.json"], "E10410", 2),
        (["{package}", "--profile", "{package}"], "E13005", 2),
        (["{package}", "--shape", "x=1,2"], "E10057", 2),
        (["{package}", "-o", "{folder}"], "E10022", 2),
        (["{folder}/damaged.om"], "P0004", 7),
        (["{folder}/m.onnx"], "P0001", 7),
    ],
)
def test_what_is_refused_writes_nothing(
    invoke: Invoke, package: Path, tmp_path: Path, arguments: list[str], code: str, exit_code: int
) -> None:
    onnx.save(model("m (float[2] x) => (float[2] y) { y = Relu(x) }"), tmp_path / "m.onnx")
    (tmp_path / "damaged.om").write_bytes(b"IMOD")
    ran = invoke("report", *(text.format(package=package, folder=tmp_path) for text in arguments))
    assert (ran.code, ran.out) == (exit_code, "")
    assert ran.err.startswith(f"error[{code}"), ran.err
    assert not list(tmp_path.rglob("*.html"))


def test_bytes_need_the_name_of_a_page(package: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output is required"):
        atcpy.report(package.read_bytes())
    result = atcpy.report(package.read_bytes(), tmp_path / "r.html")
    assert result.output == str(tmp_path / "r.html") and result.tasks == 1
    assert str(result).startswith(result.output)
