import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import atcpy

from .conftest import Invoke


def test_the_summary_has_a_line_for_each_thing(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "--output", tmp_path / "m")
    assert ran.code == 0
    assert ran.err == ""
    lines = ran.out.splitlines()
    assert re.fullmatch(
        rf"{re.escape(str(tmp_path))}/m\.om  [\d.]+ KB  sha256 [0-9a-f]{{4}}…  in [\d.]+ (s|ms|µs)", lines[0]
    )
    assert [line.split()[0] for line in lines[1:]] == [
        "from", "inputs", "outputs", "engines", "precision", "memory", "arena", "passes", "transdata", "stages",
        "soc",
    ]  # fmt: skip
    assert lines[1] == "  from       linear.onnx (ONNX opset 17, hand)  2 nodes → 1 task"
    assert lines[2] == "  inputs     x float32 [2,3]"
    assert lines[3] == "  outputs    y float32 [2,4]"
    assert lines[4] == "  engines    AIcoreEngine 1 · VectorEngine 0 · GE_LOCAL 0 · HOST_CPU 0"
    assert lines[5] == "  precision  origin (nothing lowered)"
    assert lines[6].startswith("  memory     arena ")
    assert lines[-1] == "  soc        Ascend910 (default)"


def test_json_has_the_keys_that_scripts_read(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    result = invoke("convert", "--model", model, "-o", tmp_path / "m.om", "--json").envelope["result"]
    assert list(result) == [
        "output", "bytes", "sha256", "source", "soc", "inputs", "outputs", "nodes_before", "task_count", "engines",
        "host_cpu_ops", "passes", "precision", "memory", "transdata", "gears", "stages", "unknown_shapes",
        "plans", "guards", "states", "unplanned", "custom_ops", "allreduce", "streams", "weight_files",
        "signed_by", "iterations",
    ]  # fmt: skip
    assert result["bytes"] == (tmp_path / "m.om").stat().st_size
    assert result["source"]["opsets"] == {"ai.onnx": 17}
    assert result["inputs"] == [{"name": "x", "dtype": "float32", "shape": [2, 3]}]
    assert [stage["name"] for stage in result["stages"]] == [
        "parse",
        "prepare",
        "split",
        "optimize",
        "compile",
        "write",
    ]


def test_the_package_goes_by_the_models_name_into_the_working_directory(
    invoke: Invoke, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("convert", "--model", model).out.startswith("linear.om ")
    assert (tmp_path / "linear.om").exists()


@pytest.mark.parametrize("spelling", ["--oo_level=O1", "--oo-level=O1", "--oo-level O1"])
def test_both_spellings_make_the_same_bytes(invoke: Invoke, model: Path, tmp_path: Path, spelling: str) -> None:
    assert invoke("convert", "--model", model, "-o", tmp_path / "m", *spelling.split()).code == 0
    atcpy.convert(model, tmp_path / "other", oo_level="O1")
    assert (tmp_path / "m.om").read_bytes() == (tmp_path / "other.om").read_bytes()


def test_soc_has_two_names(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    for name in ("--soc", "--soc_version", "--soc-version"):
        ran = invoke("convert", "--model", model, "-o", tmp_path / "m", name, "ascend310p3")
        assert ran.out.splitlines()[-1] == "  soc        Ascend310P3"


def test_of_a_repeated_option_the_last_wins(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", "nope", "--model", model, "-o", tmp_path / "m")
    assert ran.code == 0


def test_a_package_that_is_there_stays_when_asked_or_when_the_conversion_fails(
    invoke: Invoke, model: Path, tmp_path: Path
) -> None:
    target = tmp_path / "m.om"
    target.write_bytes(b"precious")
    ran = invoke("convert", "--model", model, "-o", target, "--no-overwrite")
    assert (ran.code, target.read_bytes()) == (2, b"precious")
    assert "drop --no-overwrite" in ran.err
    (tmp_path / "bad.onnx").write_bytes(b"\x08\x08garbage")
    ran = invoke("convert", "--model", tmp_path / "bad.onnx", "-o", target)
    assert (ran.code, ran.out, target.read_bytes()) == (3, "", b"precious")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.onnx", "m.om"]
    assert invoke("convert", "--model", model, "-o", target).code == 0
    assert target.read_bytes()[:4] == b"IMOD"


def test_an_output_that_is_a_folder_is_refused(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path)
    assert ran.code == 2
    assert f"help: --output={tmp_path}/linear" in ran.err


@pytest.mark.parametrize(("framework", "code", "number"), [("0", "E10055", 4), ("1", "E10055", 4), ("7", "E10007", 2)])
def test_other_frameworks_are_refused(invoke: Invoke, model: Path, framework: str, code: str, number: int) -> None:
    ran = invoke("convert", "--model", model, "--framework", framework)
    assert ran.code == number
    assert ran.err.startswith(f"error[{code}] --framework")


def test_framework_5_is_onnx(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    assert invoke("convert", "--model", model, "--framework=5", "-o", tmp_path / "m").code == 0


def test_graphs_are_dumped_under_ges_names(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "--dump_graph", tmp_path / "dump")
    assert ran.code == 0
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == [
        "00_PreRunBegin.txt", "01_PreRunAfterPrepare.txt", "02_AfterEnginePlacer.txt",
        "03_PreRunAfterOptimizeSubgraph.txt", "04_Build.txt",
    ]  # fmt: skip
    assert "--- partition0_rank1_new_sub_graph1\n" in (tmp_path / "dump" / "02_AfterEnginePlacer.txt").read_text()
    assert "= MatMul(" in (tmp_path / "dump" / "00_PreRunBegin.txt").read_text()
    invoke("convert", "--model", model, "-o", tmp_path / "m", "--dump_graph", tmp_path / "one", "--dump_stages=prepare")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["01_PreRunAfterPrepare.txt"]


def test_verbose_tells_the_stages_on_stderr(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "-v")
    assert ran.err.split() == ["parse", "prepare", "split", "optimize", "compile"]
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "-vv")
    assert re.search(r"^parse: [\d.]+ (s|ms|µs), \d+ nodes$", ran.err, re.M)


def test_text_of_a_model_reaches_no_terminal_raw(invoke: Invoke, tmp_path: Path) -> None:
    evil = "y\x1b]0;owned\x07\u202e"
    node = onnx.helper.make_node("MatMul", ["x", "x"], [evil], name="n\x1b[2J")
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("x", 1, [2, 2])], [value(evil, 1, [2, 2])])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    commands = [
        ["convert", "--model", tmp_path / "m.onnx", "-o", tmp_path / "m"],
        ["inspect", tmp_path / "m.om", "--all"],
        ["inspect", tmp_path / "m.onnx", "--nodes"],
        ["check", tmp_path / "m.onnx"],
        ["run", tmp_path / "m.om", "--fill=ones"],
        ["verify", tmp_path / "m.om"],
    ]
    for command in commands:
        for more in ([], ["--json"]):
            ran = invoke(*command, *more)
            assert ran.code == 0, ran.err
            assert not {"\x1b", "\x07", "\u202e"} & set(ran.out + ran.err)
    assert r"y\x1b]0;owned\x07\u202e" in invoke("run", tmp_path / "m.om", "--fill=ones").out


def test_a_package_can_be_verified_before_it_takes_its_place(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "--verify")
    assert ran.code == 0
    assert ran.out.startswith(f"{tmp_path}/m.om ")
    assert ran.out.endswith("PASS\n")
    assert [path.name for path in tmp_path.iterdir()] == ["m.om"]
    envelope = invoke("convert", "--model", model, "-o", tmp_path / "m", "--verify", "--oracle=ref", "--json").envelope
    assert envelope["result"]["verify"]["passed"] is True
    assert envelope["result"]["output"] == str(tmp_path / "m.om")


def test_a_package_that_differs_is_kept_aside(
    invoke: Invoke, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from atcpy.verify import oracle, verification

    lie = lambda feeds, names: [np.full((2, 4), 99, np.float32)]  # noqa: E731
    liar = oracle.Oracle("liar", lie, lie)
    monkeypatch.setattr(verification, "find_oracle", lambda *_: liar)
    monkeypatch.setattr(verification, "evaluate_in_float64", lambda *_, **__: None)  # it would find the liar out
    (tmp_path / "m.om").write_bytes(b"old")
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m", "--verify")
    assert ran.code == 5
    assert ran.err.startswith("error[V0001] ")
    assert ran.out.startswith(f"{tmp_path}/m.rejected.om ")
    assert (tmp_path / "m.om").read_bytes() == b"old"
    assert (tmp_path / "m.rejected.om").read_bytes()[:4] == b"IMOD"


def test_iterations_of_the_model_are_reported(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    ran = invoke("convert", "--model", model, "-o", tmp_path / "m.om", "--iterations_per_loop", 5, "--stepped", "x")
    assert "\n  iterations 5 of the model in one run, steps of x\n" in ran.out
    assert "\n  inputs     x float32 [5,2,3]\n" in ran.out
    envelope = invoke("convert", "--model", model, "-o", tmp_path / "m", "--iterations_per_loop", 5, "--json").envelope
    assert envelope["result"]["iterations"] == {"count": 5, "states": {}, "stepped": []}


def test_the_model_is_an_argument_or_an_option(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    assert invoke("convert", model, "-o", tmp_path / "a.om", "-q").code == 0
    assert invoke("convert", "--model", model, "-o", tmp_path / "b.om", "-q").code == 0
    assert (tmp_path / "a.om").read_bytes() == (tmp_path / "b.om").read_bytes()
    both = invoke("convert", model, "--model", model)
    assert (both.code, both.err.splitlines()[0][:13]) == (2, "error[E10047]")


def test_folders_of_the_output_are_made(invoke: Invoke, model: Path, tmp_path: Path) -> None:
    assert invoke("convert", model, "-o", tmp_path / "a" / "b" / "c.om", "-q").code == 0
    assert (tmp_path / "a" / "b" / "c.om").exists()
