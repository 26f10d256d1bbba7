"""Options of ATC that change nothing on a CPU: their values, and the files that they name, are checked and recorded."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import helper, save

from atcpy.atc_flags import FLAG_BY_NAME
from atcpy.errors import AtcError, UsageError
from tests.cli.conftest import Invoke

SOC = "--soc_version=Ascend310P3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the model m.onnx."""
    monkeypatch.chdir(tmp_path)
    ports = [helper.make_tensor_value_info(name, 1, [2, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Gelu", ["x"], ["y"], "n")], "g", ports[:1], ports[1:])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), "m.onnx")
    return tmp_path


MODES = """# by type, and by node, which counts more
[ByOpType]
Gelu=high_precision
Conv2D = enable_float_32_execution
[ByNodeName]
n=support_out_of_bound_index
"""


def test_the_digest_of_the_modes_of_operators_is_recorded(invoke: Invoke, folder: Path) -> None:
    command = ("atc", "--model=m.onnx", "--framework=5", "--output=m", SOC)
    (folder / "op_precision.ini").write_text(MODES)
    ran = invoke(*command, "--op_precision_mode=op_precision.ini")
    assert ran.code == 0, ran.out
    assert "--op_precision_mode=sha256:" in invoke("atc", "--mode=6", "--om=m.om").out


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Gelu=high_precision\n", 1),  # in no section
        ("[ByOpType]\nGelu\n", 2),
        ("[ByOpType]\n=high_precision\n", 2),
        ("[ByOpType]\n\nGelu=high\n", 3),
        ("[ByType]\nGelu=high_precision\n", 1),
    ],
)
def test_files_of_modes_that_are_wrong(folder: Path, text: str, line: int) -> None:
    (folder / "op.ini").write_text(text)
    with pytest.raises(UsageError) as caught:
        FLAG_BY_NAME["op_precision_mode"].read("op.ini")
    assert (caught.value.code, caught.value.where.line) == ("E20003", line)


def test_modes_are_of_types_and_files_that_exist(folder: Path) -> None:
    (folder / "op.ini").write_text("[ByOpType]\ngelu=high_precision\n")
    with pytest.raises(UsageError) as caught:
        FLAG_BY_NAME["op_precision_mode"].read("op.ini")
    assert caught.value.code == "E10003"
    with pytest.raises(UsageError) as caught:
        FLAG_BY_NAME["op_precision_mode"].read("missing.ini")
    assert caught.value.code == "E10410"


@pytest.mark.parametrize(
    ("name", "right", "wrong", "code"),
    [
        ("input_hint_shape", ["0:[1]", "0:[1,3,8,8];1:[2]"], ["x:[1]", "0:1,3", "0:[]", "0:[-1]"], "E10001"),
        ("aicore_num", ["24|48", "8|"], ["24", "|48", "0|1"], "E10001"),
        ("multi_stream_parallel_mode", ["cv", "LoadBalance:64", "MainStream:1"], ["LoadBalance:65", "cv:2"], "E10001"),
        ("h2d_overlapped_with_compute", ["0", "44,64"], ["44;64", "on"], "E10001"),
        ("static_model_ops_lower_limit", ["-1", "0", "40"], ["-2", "four"], "E10001"),
        ("enable_scope_fusion_passes", ["ScopeAPass", "ScopeAPass,ScopeBPass"], ["a b", "a,"], "E10001"),
    ],
)
def test_forms_of_values(name: str, right: list[str], wrong: list[str], code: str) -> None:
    assert [FLAG_BY_NAME[name].read(text) for text in right] == right
    for text in wrong:
        with pytest.raises(AtcError) as caught:
            FLAG_BY_NAME[name].read(text)
        assert caught.value.code == code


@pytest.mark.parametrize(
    ("options", "other"),
    [
        (["--input_hint_shape=0:[2,3]"], "--dynamic_batch_size=1,2"),
        (["--multi_stream_parallel_mode=cv"], "--enable_single_stream=true"),
    ],
)
def test_recorded_options_exclude_others(invoke: Invoke, options: list[str], other: str) -> None:
    command = ("atc", "--model=m.onnx", "--framework=5", "--output=m", SOC)
    assert invoke(*command, *options).code == 0
    ran = invoke(*command, *options, other)
    assert (ran.code, "E10001" in ran.out) == (2, True), ran.out
