"""Gears on the command line: convert, inspect, run, verify, bench, explain and check know them."""

from pathlib import Path

import onnx
import pytest

from atcpy.cli.app import execute
from tests.models_in_text import model

from .conftest import Invoke

TEXT = "m (float[b,3,h,w] x) => (float[b,4,h,w] y) <float[4,3,3,3] k> { t = Conv<pads=[1,1,1,1]>(x, k) y = Relu(t) }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with g.onnx and g.om, which has the batches 1, 2 and 4."""
    folder = tmp_path_factory.mktemp("gears")
    onnx.save(model(TEXT), folder / "g.onnx")
    options = ["--input_shape", "x:-1,3,8,8", "--dynamic_batch_size", "1,2,4", "-o", str(folder / "g"), "-q"]
    assert execute(["convert", "--model", str(folder / "g.onnx"), *options]) == 0
    return folder


def test_convert_and_inspect_tell_the_gears(invoke: Invoke, folder: Path) -> None:
    ran = invoke(
        "convert", "-m", folder / "g.onnx", "--input-shape", "x:1,3,-1,-1", "--dynamic-image-size", "8,8;9,9",
        "-o", folder / "images",
    )  # fmt: skip
    assert "2 nodes → 4 tasks in 2 gears" in ran.out
    assert "\n  gears      8,8 · 9,9\n" in ran.out
    shown = invoke("inspect", folder / "images.om", "--io").out
    assert "\n  gears      8,8 · 9,9\n" in shown
    assert "   1  [1,3,9,9]  [1,4,9,9]      2" in shown
    record = invoke("inspect", folder / "images.om", "--io", "--json").envelope["result"]
    assert record["gears"] == ["8,8", "9,9"]
    assert [gear["inputs"] for gear in record["io"]["gears"]] == [[[1, 3, 8, 8]], [[1, 3, 9, 9]]]


@pytest.mark.parametrize("gear", [0, 2])
def test_inspect_shows_the_tasks_of_one_gear(invoke: Invoke, folder: Path, gear: int) -> None:
    tasks = invoke("inspect", folder / "g.om", "--tasks", "--gear", gear, "--json").envelope["result"]["tasks"]
    assert [task["op"] for task in tasks] == ["FusedConv", "TransData"]
    assert tasks[-1]["outputs"][0]["shape"] == [[1, 4, 8, 8], [], [4, 4, 8, 8]][gear]
    assert tasks[0]["sources"] == ["y", "t"]


@pytest.mark.parametrize("package", ["g.om", "plain.om"])
def test_a_gear_that_there_is_not(invoke: Invoke, folder: Path, package: str) -> None:
    invoke("convert", "-m", folder / "g.onnx", "--input_shape", "x:1,3,8,8", "-o", folder / "plain")
    ran = invoke("inspect", folder / package, "--gear", 3)
    assert (ran.code, ran.err.splitlines()[0]) == (2, f"error[E10013] --gear: {folder / package} has no gear 3")


def test_run_takes_the_first_gear_that_fits(invoke: Invoke, folder: Path) -> None:
    assert invoke("run", folder / "g.om", "--fill", "ones").out.startswith("y  float32 [1,4,8,8]")
    ran = invoke("run", folder / "g.om", "--fill", "ones", "--shape", "x=4,3,8,8")
    assert ran.out.startswith("y  float32 [4,4,8,8]")
    refused = invoke("run", folder / "g.om", "--fill", "ones", "--shape", "x=3,3,8,8")
    assert refused.code == 2 and "error[E10405]" in refused.err and "the gears are 1; 2; 4" in refused.err


def test_verify_compares_every_gear(invoke: Invoke, folder: Path) -> None:
    result = invoke("verify", folder / "g.om", "--json").envelope["result"]
    assert result["passed"] and result["shapes"] == ["x:1,3,8,8", "x:2,3,8,8", "x:4,3,8,8"]
    assert invoke("verify", folder / "g.om", "--shape", "x=2,3,8,8", "--json").envelope["result"]["passed"]


def test_bench_and_explain_know_the_tasks_of_a_gear(invoke: Invoke, folder: Path) -> None:
    options = ["--min_time", "0", "--warmup", "1", "--layers", "--json"]
    layers = invoke("bench", folder / "g.om", *options).envelope["result"]["layers"]
    assert [layer["op"] for layer in layers] == ["FusedConv", "TransData"]
    ran = invoke("explain", folder / "g.om", "--node", "t", "--time")
    assert ran.code == 0 and "FusedConv" in ran.out


def test_check_refuses_gears_that_convert_would(invoke: Invoke, folder: Path) -> None:
    shape = ["--input_shape", "x:-1,-1,8,8"]
    ran = invoke("check", folder / "g.onnx", *shape, "--dynamic_dims", "1,3;1,2")
    assert ran.code == 2 and "error[E10050]" in ran.err
