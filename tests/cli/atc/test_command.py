"""Modes, lines and statuses of `atcpy atc`, and options that exclude or need each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from atcpy import InferenceSession
from tests.cli.atc.conftest import SOC, START, assert_failed, converted, lines_of
from tests.cli.conftest import Invoke

pytestmark = pytest.mark.usefixtures("folder")


def test_shapes_in_brackets(invoke: Invoke) -> None:
    assert converted(invoke, "--input_shape=x:[1~8,3,8,8]").code == 0
    ran = converted(invoke, "--input_shape=x:[1~8,3,8,8")
    assert "--input_shape: " in assert_failed(ran, "E10002", 2)


def test_dumps_of_ge_as_json(invoke: Invoke, folder: Path) -> None:
    (folder / "ge_proto_1.txt").write_text('name: "g"\ngraph { name: "g" op { name: "a" type: "Data" } }\n')
    assert invoke("atc", "--mode=5", "--om=ge_proto_1.txt", "--json=g.json").code == 0
    assert json.loads((folder / "g.json").read_text())["graph"][0]["op"] == [{"name": "a", "type": "Data"}]
    (folder / "bad.txt").write_text("name: {")
    assert_failed(invoke("atc", "--mode=5", "--om=bad.txt", "--json=g.json"), "E13018", 2)
    assert_failed(invoke("atc", "--mode=5", "--om=r.onnx", "--json=g.json"), "E10001", 2)


@pytest.mark.parametrize("mode", ["7", "30"])
def test_modes_that_are_refused(invoke: Invoke, mode: str) -> None:
    assert_failed(invoke("atc", f"--mode={mode}"), "E10055", 4)


def test_help(invoke: Invoke) -> None:
    for word in ("--help", "-h", "--h"):
        ran = invoke("atc", word)
        assert (ran.code, lines_of(ran)[0]) == (0, START)
        assert "  --soc_version VALUE" in lines_of(ran)


def test_the_status_of_atc_itself(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATCPY_ATC_STATUS", "255")
    assert invoke("atc", "--mode=7").code == 255
    assert invoke("atc", "--help").code == 0


def test_missing_directories_of_the_output_are_made(invoke: Invoke, folder: Path) -> None:
    assert invoke("atc", "--model=r.onnx", "--framework=5", "--output=a/b/r", SOC).code == 0
    assert (folder / "a/b/r.om").exists()


def test_all_that_is_wrong_with_a_model_is_said(invoke: Invoke) -> None:
    ran = converted(invoke, model="bad.onnx")
    assert [line[:7] for line in lines_of(ran) if line.startswith("E19010")] == ["E19010:"] * 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--optypelist_for_implmode=Gelu"], "E10001"),
        (["--enable_compress_weight=true", "--compress_weight_conf=w.json"], "E10047"),
        (["--input_shape_range=x:[1~8,3,8,8]", "--dynamic_batch_size=1,2", "--input_shape=x:-1,3,8,8"], "E10009"),
        (["--deterministic_level=1"], "E10001"),
        (["--deterministic=1", "--deterministic_level=0"], "E10001"),
        (["--input_format=NHWC"], "E10001"),
        (["--input_format=NDHWC"], "E10001"),
    ],
)
def test_options_that_exclude_or_need_each_other(invoke: Invoke, options: list[str], code: str) -> None:
    assert_failed(converted(invoke, *options), code, 2)


def test_options_that_may_be_together(invoke: Invoke) -> None:
    assert converted(invoke, "--optypelist_for_implmode=Gelu", "--op_select_implmode=high_performance").code == 0
    assert converted(invoke, "--enable_compress_weight=false", "--compress_weight_conf=w.json").code == 0
    assert converted(invoke, "--enable_compress_weight=true").code == 0
    assert converted(invoke, "--deterministic=1").code == 0
    assert converted(invoke, "--deterministic=0", "--deterministic_level=0").code == 0
    assert converted(invoke, "--deterministic=1", "--deterministic_level=2").code == 0
    assert converted(invoke, "--input_format=NCDHW").code == 0


@pytest.mark.parametrize(
    ("options", "code", "status"),
    [
        (["--input_fp16_nodes=x", "--is_input_adjust_hw_layout=true"], "E10055", 4),
        (["--input_fp16_nodes=x", "--is_input_adjust_hw_layout=true,false"], "E10001", 2),
        (["--is_input_adjust_hw_layout=yes"], "E10001", 2),
        (["--out_nodes=y", "--is_output_adjust_hw_layout=true"], "E10055", 4),
    ],
)
def test_layouts_of_the_hardware_are_refused(invoke: Invoke, options: list[str], code: str, status: int) -> None:
    assert_failed(converted(invoke, *options), code, status)


@pytest.mark.parametrize(
    ("options", "warned"),
    [
        (["--input_fp16_nodes=x", "--is_input_adjust_hw_layout=false"], []),
        (["--is_input_adjust_hw_layout=true"], ["without --input_fp16_nodes"]),
        (["--is_output_adjust_hw_layout=true"], ["without --out_nodes"]),
        (["--out_nodes=y", "--output_type=FP16", "--is_output_adjust_hw_layout=true"], ["beside --output_type"]),
    ],
)
def test_layouts_of_the_hardware_without_an_effect(invoke: Invoke, options: list[str], warned: list[str]) -> None:
    ran = converted(invoke, *options)
    assert ran.code == 0
    found = [line for line in lines_of(ran)[3:] if line.startswith("W0012")]
    assert [line.partition(" has no effect ")[2] for line in found] == warned


def test_pictures_are_not_fed_as_float16(invoke: Invoke, folder: Path) -> None:
    (folder / "aipp.cfg").write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 }")
    ran = converted(invoke, "--insert_op_conf=aipp.cfg", "--input_fp16_nodes=x", model="picture.onnx")
    assert_failed(ran, "E10034", 2)


@pytest.mark.parametrize(
    ("fields", "code", "text"),
    [
        ("mean_chn_0: 1\nmean_chn_0: 2", "E13018", "aipp.cfg:5:"),
        ("crop: true\nload_start_pos_w: 1", "E10052", "1 + 10 > 10"),
        ("crop: true\nload_start_pos_w: 1", "E10052", "Where: aipp.cfg:5"),
    ],
)
def test_mistakes_in_a_configuration_of_aipp_name_their_lines(
    invoke: Invoke, folder: Path, fields: str, code: str, text: str
) -> None:
    (folder / "aipp.cfg").write_text(f"aipp_op {{\naipp_mode: static\ninput_format: RGB888_U8\n{fields}\n}}")
    assert text in assert_failed(converted(invoke, "--insert_op_conf=aipp.cfg", model="picture.onnx"), code, 2)


def test_errors_name_options_as_atc_does(invoke: Invoke) -> None:
    wrong = converted(invoke, "--soc_version=Ascend310P9")
    assert '--soc_version: "Ascend310P9"' in assert_failed(wrong, "E10001", 2)
    folder = assert_failed(converted(invoke, "--output=out/"), "E10022", 2)
    assert "Solution: --output=out/r\n" in folder + "\n"


def test_errors_name_characters_of_values(invoke: Invoke) -> None:
    text = assert_failed(converted(invoke, "--input_shape=x:1,a,8,8"), "E10002", 2)
    assert "Where: --input_shape, character 5\n" in text + "\n"
    text = assert_failed(converted(invoke, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=4"), "E10035", 2)
    assert "--dynamic_batch_size: 1 gear; 2 to 100 are possible" in text


def test_errors_have_the_time_as_atc_has_it(invoke: Invoke) -> None:
    line = lines_of(converted(invoke, "--output_type=FP15"))[3]
    assert re.match(r"E10001: \[PID: \d+\] \d{4}-\d\d-\d\d-\d\d:\d\d:\d\d\.\d{3}\.\d{3} --output_type", line)


@pytest.mark.parametrize(("level", "shown"), [("info", True), ("debug", True), ("warning", False), ("null", False)])
def test_the_log_names_the_stages(invoke: Invoke, level: str, shown: bool) -> None:
    lines = converted(invoke, f"--log={level}").err.splitlines()
    assert ({"parse", "compile"} <= {*lines}) is shown


def test_the_framework_is_required(invoke: Invoke) -> None:
    assert "5 for ONNX" in assert_failed(invoke("atc", "--model=r.onnx", "--output=r", SOC), "E10007", 2)


def test_a_range_in_the_deprecated_option(invoke: Invoke) -> None:
    ran = converted(invoke, "--input_shape_range=x:[1~8,3,8,8]")
    assert (ran.code, lines_of(ran)[3].split(":")[0]) == (0, "W0030")
    assert InferenceSession("r.om").get_inputs()[0].ranges[0] == (1, 8)


def test_inputs_left_open(invoke: Invoke) -> None:
    def warnings(*options: str) -> list[str]:
        ran = converted(invoke, *options, model="two.onnx")
        assert ran.code == 0
        return lines_of(ran)[3:]

    (line,) = warnings("--input_shape=y:8")
    assert line.startswith('W0032: --input_shape leaves "x" open')
    assert warnings() == []
    assert warnings("--input_shape=x:1,3,8,8;y:1") == warnings("--input_shape=x:1,3,8,8;y:1~8") == []
    assert warnings("--input_shape=x:-1,3,8,8;y:1", "--dynamic_batch_size=1,2") == []


def test_a_report_of_a_model_without_problems(invoke: Invoke, folder: Path) -> None:
    ran = invoke("atc", "--mode=3", "--model=r.onnx", "--framework=5", SOC, "--check_report=out/report.json")
    assert (ran.code, json.loads((folder / "out/report.json").read_text())["result"]) == (0, "success")


def test_a_model_as_json(invoke: Invoke, folder: Path) -> None:
    assert invoke("atc", "--mode=1", "--om=r.onnx", "--framework=5", "--json=m.json").code == 0
    content = json.loads((folder / "m.json").read_text())
    assert {"Conv2D", "Relu", "Sigmoid"} <= {op["type"] for op in content["graph"][0]["op"]}


def test_types_and_modes_that_atc_has_not(invoke: Invoke) -> None:
    assert_failed(converted(invoke, "--output_type=FP15"), "E10001", 2)
    assert_failed(converted(invoke, "--precision_mode_v2=mixed_hif8"), "E10055", 4)


def test_a_node_to_keep_that_is_not_there(invoke: Invoke, folder: Path) -> None:
    (folder / "keep.cfg").write_text("/layer2/Relv\n")
    wrong = converted(invoke, "--precision_mode=allow_mix_precision", "--keep_dtype=keep.cfg")
    assert '"/layer2/Relu"' in assert_failed(wrong, "E10016", 2)


def test_runs_of_a_package_that_checks_its_nodes_name_the_first_that_overflows(invoke: Invoke, folder: Path) -> None:
    assert converted(invoke, "--status_check=1", "--input_shape=ids:1,2;mask:1,2", model="ids.onnx").code == 0
    for value, code in ((1e38, 3), (1.0, 0)):
        np.savez(folder / "in.npz", ids=np.full((1, 2), value, np.float32), mask=np.full((1, 2), value, np.float32))
        ran = invoke("run", "r.om", "--npz", "in.npz")
        assert (ran.code, "D0001" in ran.err and "2 infinities in y" in ran.err) == (code, code == 3)
    assert_failed(converted(invoke, "--status_check=1", model="ids.onnx"), "E10055", 4)


def test_results_that_do_not_depend_on_the_batch_are_refused(invoke: Invoke) -> None:
    ran = converted(invoke, "--deterministic=1", "--deterministic_level=3")
    assert "--deterministic_level: 3 is not supported" in assert_failed(ran, "E10055", 4)


def test_weights_of_caffe_are_ignored_for_other_models(invoke: Invoke) -> None:
    ran = converted(invoke, "--weight=w.caffemodel")
    assert (ran.code, lines_of(ran)[3:]) == (0, ["W0012: --weight is ignored: the model holds its weights"])
    caffe = invoke("atc", "--model=r.onnx", "--framework=0", "--weight=w.caffemodel", "--output=r", SOC)
    assert_failed(caffe, "E10055", 4)


@pytest.mark.parametrize(
    "words", [["--mode=1", "--json=x.json"], ["--mode=1", "--om=r.onnx", "--framework=5"], ["--mode=6"]]
)
def test_files_of_the_other_modes_are_required(invoke: Invoke, words: list[str]) -> None:
    missing = "om" if "--om=r.onnx" not in words else "json"
    assert f"--{missing} needs a value" in assert_failed(invoke("atc", *words), "E10004", 2)


def test_the_info_block_takes_no_framework(invoke: Invoke) -> None:
    converted(invoke)
    assert_failed(invoke("atc", "--mode=6", "--om=r.om", "--framework=5"), "E10057", 2)


def test_defaults_are_not_recorded(invoke: Invoke) -> None:
    converted(invoke, "--buffer_optimize=l2_optimize")
    assert "--buffer_optimize" not in invoke("inspect", "r.om").out
