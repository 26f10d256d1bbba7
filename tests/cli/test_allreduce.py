"""What is printed of allreduces that were put together, and what the model of costs predicts."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import onnx
import pytest

from tests.models_in_text import model

from .conftest import Invoke, finish, spawn

needs_mpi = pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="the extra dist is not installed")
COUNT = 40
LINES = " ".join(
    f'g{n} = Exp(x{n}) s{n} = HcomAllReduce<reduction = "sum">(g{n}) y{n} = Neg(s{n})' for n in range(COUNT)
)
INS, OUTS = (", ".join(f"float[256] {name}{n}" for n in range(COUNT)) for name in "xy")


@pytest.fixture(scope="module")
def step(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("allreduce") / "step.onnx"
    onnx.save(model(f"g ({INS}) => ({OUTS}) {{ {LINES} }}"), path)
    return path


def test_convert_inspect_and_explain_say_the_same(invoke: Invoke, step: Path, tmp_path: Path) -> None:
    options = ("--allreduce_split", "auto", "--allreduce_cost", "alpha=1e-3,ranks=6")
    ran = invoke("convert", "--model", step, "-o", tmp_path / "m", *options)
    line = "40 → 1 collective   3.05 ms predicted for 6 ranks (doubling); alone 120 ms, split by default 6.05 ms   "
    assert f"  allreduce  {line}0 fused copies\n" in ran.out
    assert f"  allreduce  {line}" in invoke("inspect", tmp_path / "m.om", "--all").out
    assert f"  {line}" in invoke("explain", tmp_path / "m.om", "--pass", "HcomAllReduceFusionPass").out
    found = invoke("inspect", tmp_path / "m.om", "--json").envelope["result"]
    again = invoke("convert", "--model", step, "-o", tmp_path / "again", *options, "--json").envelope["result"]
    assert found["allreduce"] == again["allreduce"]
    assert found["allreduce"]["algorithms"] == {"doubling": 1}
    assert (tmp_path / "m.om").read_bytes() == (tmp_path / "again.om").read_bytes()
    assert "--allreduce_cost=alpha=0.001,beta=3e-10,gamma=1e-10,ranks=6,speed=100000000000.0" in found["atc_cmdline"]


def test_what_is_said_of_allreduces_that_there_are_not_is_told(invoke: Invoke, step: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", step, "-o", tmp_path / "m", "--allreduce_split_size", "tpp:50,50;100", "--json")
    (warning,) = ran.envelope["warnings"]
    assert (warning["code"], '"tpp" has no effect' in warning["message"]) == ("W0012", True)
    onnx.save(model("g (float[4] x) => (float[4] y) { y = Neg(x) }"), tmp_path / "plain.onnx")
    convert = ("convert", "--model", tmp_path / "plain.onnx", "-o", tmp_path / "plain", "--json")
    (warning,) = invoke(*convert, "--allreduce_split", "auto").envelope["warnings"]
    assert "the model has no allreduces" in warning["message"]
    assert invoke(*convert).envelope["warnings"] == []


def test_copies_are_not_counted_before_shapes_are_known(invoke: Invoke, tmp_path: Path) -> None:
    text = """g (float[8] x, float[n] z) => (float[8] a, float[8] b, float[n] w) {
        a0 = Exp(x) a = HcomAllReduce<reduction = "sum">(a0)
        b0 = Sin(x) b = HcomAllReduce<reduction = "sum">(b0)
        w = Neg(z)
    }"""
    onnx.save(model(text), tmp_path / "m.onnx")
    ran = invoke("convert", "--model", tmp_path / "m.onnx", "-o", tmp_path / "m", "--allreduce_split", "auto")
    assert "  allreduce  2 → 1 collective   " in ran.out
    assert "cop" not in ran.out.partition("  allreduce")[2].partition("\n")[0]
    assert invoke("inspect", tmp_path / "m.om", "--json").envelope["result"]["allreduce"]["fused_copies"] is None


def test_many_ranks_are_predicted_by_the_numbers_of_the_package(invoke: Invoke, step: Path, tmp_path: Path) -> None:
    seconds = []
    for name, cost in (("dear", "alpha=2e-3"), ("cheap", "alpha=1e-3")):
        options = ("--allreduce_split_size", "100", "--allreduce_cost", cost, "-q")
        assert invoke("convert", "--model", step, "-o", tmp_path / name, *options).code == 0
        ran = invoke("run", tmp_path / f"{name}.om", "--simulate_ranks", "10000", "--json")
        (collective,) = ran.envelope["result"]["collectives"]
        assert collective["algorithm"] == "doubling"
        seconds.append(collective["seconds"])
    assert seconds[0] - seconds[1] == pytest.approx(14 * 1e-3)  # 14 rounds reach 10 000 ranks


def test_tasks_tell_their_streams_and_events(invoke: Invoke, step: Path, tmp_path: Path) -> None:
    assert invoke("convert", "--model", step, "-o", tmp_path / "m", "--allreduce_split", "auto", "-q").code == 0
    tasks = invoke("inspect", tmp_path / "m.om", "--tasks", "--json").envelope["result"]["tasks"]
    hccl = [task for task in tasks if task["engine"] == "DNN_HCCL"]
    assert [(task["stream"], task["event_wait"], task["event_record"]) for task in hccl] == [(1, 1, 2)]
    position = hccl[0]["task"]
    assert (tasks[position - 1]["event_record"], tasks[position + 1]["event_wait"]) == (1, 2)
    assert {task["stream"] for task in tasks if task not in hccl} == {0}
    shown = invoke("inspect", tmp_path / "m.om", "--tasks", "--model-info").out
    assert "1 waits 1 records 2" in shown
    assert "stream_num[2], event_num[2]" in shown


@pytest.mark.slow
@needs_mpi
def test_the_numbers_of_a_machine_are_an_option(invoke: Invoke, step: Path, tmp_path: Path) -> None:
    ran = finish(spawn("doctor", "--ranks", "2"))
    assert ran.code == 0, ran.err
    option = ran.out.splitlines()[-1]
    assert option.startswith("--allreduce_cost=alpha=")
    assert ",ranks=2,speed=" in option
    assert invoke("convert", "--model", step, "-o", tmp_path / "m", "--allreduce_split=auto", option, "-q").code == 0
