"""What a user of ATC tries in the first hour, line by line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from atcpy import InferenceSession
from atcpy.errors import UsageError
from tests.cli.conftest import Invoke, Ran

START = "ATC start working now, please wait for a moment."
SUCCESS = "ATC run success, welcome to the next use."
FAILED = "ATC run failed, Please check the detail log, Try 'atc --help' for more information"
CNN = """<ir_version: 8, opset_import: ["" : 17]> g (float[N,3,H,W] x) => (float[N,4,H,W] y)
<float[4,3,3,3] w = {WEIGHTS}> {
    c = Conv<pads = [1, 1, 1, 1]>(x, w)
    [act] r = Relu(c)
    y = Sigmoid(r)
}"""
IDS = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,L] ids, float[1,L] mask) => (float[1,L] y) {
    y = Mul(ids, mask)
}"""
AS_FED = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,14,9] x) => (float[1,3,14,9] y) { y = Identity(x) }"""
SOC = "--soc_version=Ascend310P3"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with the models r.onnx and ids.onnx."""
    monkeypatch.chdir(tmp_path)
    weights = ",".join(str(n % 7 / 8 - 0.4) for n in range(108))
    onnx.save(parser.parse_model(CNN.replace("{WEIGHTS}", f"{{{weights}}}")), "r.onnx")
    onnx.save(parser.parse_model(IDS), "ids.onnx")
    return tmp_path


def converted(invoke: Invoke, *more: str, model: str = "r.onnx") -> Ran:
    return invoke("atc", f"--model={model}", "--framework=5", "--output=r", SOC, *more)


def lines_of(ran: Ran) -> list[str]:
    return ran.out.splitlines()


def assert_failed(ran: Ran, code: str, status: int) -> str:
    """The line of the error."""
    lines = lines_of(ran)
    assert (ran.code, lines[0], lines[1], lines[2]) == (status, START, "...", FAILED)
    assert lines[3].startswith(code + ": [PID: ")
    return "\n".join(lines[3:])


def test_01_the_three_lines_and_the_package(invoke: Invoke, folder: Path) -> None:
    ran = converted(invoke)
    assert (ran.code, lines_of(ran), ran.err) == (0, [START, "...", SUCCESS], "")
    assert (folder / "r.om").exists()


def test_02_03_other_spellings_give_the_same_package(invoke: Invoke, folder: Path) -> None:
    converted(invoke)
    first = (folder / "r.om").read_bytes()
    for words in (
        ["--model", "r.onnx", "--framework", "5", "--output", "s", "--soc_version", "Ascend310P3"],
        ["-model=r.onnx", "--soc-version=Ascend310P3", "-framework=5", "--output=s"],
        ["--soc=ascend310p3", "--frame=5", "--output=s", "--model=r.onnx"],
    ):
        assert invoke("atc", *words).code == 0
        assert (folder / "s.om").read_bytes() == first
        (folder / "s.om").unlink()


def test_04_the_chip_is_required(invoke: Invoke, folder: Path) -> None:
    ran = invoke("atc", "--model=r.onnx", "--framework=5", "--output=r")
    assert "--soc_version is required" in assert_failed(ran, "E10054", 2)
    assert not (folder / "r.om").exists()


def test_05_a_model_that_is_not_there(invoke: Invoke) -> None:
    ran = converted(invoke, model="s.onnx")
    text = assert_failed(ran, "E10001", 2)
    assert '--model: "s.onnx"' in text
    assert "r.onnx" in text


def test_06_07_frameworks(invoke: Invoke) -> None:
    caffe = invoke("atc", "--model=r.onnx", "--framework=0", "--output=r", SOC)
    assert "convert the model to ONNX first" in assert_failed(caffe, "E10055", 4)
    unknown = invoke("atc", "--model=r.onnx", "--framework=7", "--output=r", SOC)
    assert "0, 1, 3, 5" in assert_failed(unknown, "E10007", 2)
    missing = invoke("atc", "--model=r.onnx", "--output=r", SOC)
    assert "5 for ONNX" in assert_failed(missing, "E10007", 2)


def test_08_a_flag_that_is_not_one(invoke: Invoke) -> None:
    ran = invoke("atc", "--modell=r.onnx")
    assert (ran.code, lines_of(ran)) == (2, [START, FAILED])
    assert ran.err.startswith("ERROR: unknown command line flag 'modell'\n  help: did you mean")


def test_09_a_shape_that_the_shell_cut(invoke: Invoke) -> None:
    ran = converted(invoke, "--input_shape=ids:1,16", model="ids.onnx")
    assert ran.code == 0  # the rest of the line is another command; the mask stays open
    ran = converted(invoke, "--input_shape=ids:1,16", "mask:1,16", model="ids.onnx")
    assert ran.code == 2
    assert ran.err.startswith("ERROR: Non-option parameter: mask:1,16\n")
    assert "quotes" in ran.err


def test_10_11_batch_gears(invoke: Invoke) -> None:
    assert converted(invoke, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2,4,8").code == 0
    shown = invoke("inspect", "r.om", "--io").out
    session = InferenceSession("r.om")
    assert [port.gears for port in session.get_inputs()] == [tuple((n, 3, 8, 8) for n in (1, 2, 4, 8))]
    assert "[8,3,8,8]" in shown.replace(" ", "")
    with pytest.raises(UsageError, match=r"1.*2.*4.*8"):
        session.run(None, {"x": np.zeros((3, 3, 8, 8), np.float32)})


def test_12_13_gears_of_pictures_and_of_dims(invoke: Invoke) -> None:
    assert converted(invoke, "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=16,16;32,32").code == 0
    assert [port.gears for port in InferenceSession("r.om").get_inputs()] == [((1, 3, 16, 16), (1, 3, 32, 32))]
    options = ("--input_format=ND", "--input_shape=ids:1,-1;mask:1,-1", "--dynamic_dims=16,16;32,32")
    assert converted(invoke, *options, model="ids.onnx").code == 0
    assert [port.gears for port in InferenceSession("r.om").get_inputs()] == [((1, 16), (1, 32))] * 2


def test_14_two_kinds_of_gears(invoke: Invoke) -> None:
    ran = converted(invoke, "--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2", "--dynamic_dims=1;2")
    assert_failed(ran, "E10009", 2)


def test_15_a_range(invoke: Invoke) -> None:
    assert converted(invoke, "--input_shape=x:1~8,3,8,8").code == 0
    session = InferenceSession("r.om")
    for batch in (1, 5, 8):
        assert session.run(None, {"x": np.zeros((batch, 3, 8, 8), np.float32)})[0].shape == (batch, 4, 8, 8)
    with pytest.raises(UsageError):
        session.run(None, {"x": np.zeros((9, 3, 8, 8), np.float32)})
    ran = converted(invoke, "--input_shape_range=x:[1~8,3,8,8]")
    assert (ran.code, lines_of(ran)[3].split(":")[0]) == (0, "W0030")
    assert InferenceSession("r.om").get_inputs()[0].ranges[0] == (1, 8)


def test_shapes_in_brackets(invoke: Invoke) -> None:
    assert converted(invoke, "--input_shape=x:[1~8,3,8,8]").code == 0
    ran = converted(invoke, "--input_shape=x:[1~8,3,8,8")
    assert "--input_shape: " in assert_failed(ran, "E10002", 2)


def test_16_aipp_normalizes_pictures(invoke: Invoke, folder: Path) -> None:
    onnx.save(parser.parse_model(AS_FED), "p.onnx")
    mean, factor = (124, 116, 104), (0.0171247538, 0.0175070028, 0.0174291939)
    channels = (f"mean_chn_{i}: {mean[i]} var_reci_chn_{i}: {factor[i]}" for i in range(3))
    lines = ["aipp_op {", "aipp_mode: static", "input_format: RGB888_U8", *channels, "}"]
    (folder / "aipp.cfg").write_text("\n".join(lines))
    assert converted(invoke, "--insert_op_conf=aipp.cfg", model="p.onnx").code == 0
    shown = invoke("inspect", "r.om", "--io").out.split()
    assert shown[shown.index("input") :][1:5] == ["x", "uint8", "[1,14,9,3]", "NHWC"]
    picture = np.random.default_rng(0).integers(0, 256, (1, 14, 9, 3), np.uint8)
    (result,) = InferenceSession("r.om").run(None, {"x": picture})
    expected = ((picture - np.array(mean)) * factor).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(result, expected, atol=1e-3)
    (folder / "aipp.cfg").write_text("\n".join([*lines[:-1], "mean_chn_0: 1", "}"]))
    assert "aipp.cfg:7:" in assert_failed(converted(invoke, "--insert_op_conf=aipp.cfg", model="p.onnx"), "E13018", 2)
    (folder / "aipp.cfg").write_text("\n".join([*lines[:-1], "crop: true", "load_start_pos_w: 1", "}"]))
    ran = converted(invoke, "--insert_op_conf=aipp.cfg", model="p.onnx")
    text = assert_failed(ran, "E10052", 2)
    assert "1 + 9 > 9" in text
    assert "Where: aipp.cfg:8" in text


def test_17_aipp_converts_nv12_bit_for_bit(invoke: Invoke, folder: Path) -> None:
    onnx.save(parser.parse_model(AS_FED.replace("14,9", "14,10")), "p.onnx")
    rows = ((298, 0, 409), (298, -100, -208), (298, 516, 0))
    numbers = " ".join(f"matrix_r{r}c{c}: {rows[r][c]}" for r in range(3) for c in range(3))
    text = "aipp_op { aipp_mode: static input_format: YUV420SP_U8 csc_switch: true " + numbers
    (folder / "aipp.cfg").write_text(text + " input_bias_0: 16 input_bias_1: 128 input_bias_2: 128 }")
    assert converted(invoke, "--insert_op_conf=aipp.cfg", model="p.onnx").code == 0
    assert InferenceSession("r.om").get_inputs()[0].shape == (1, 21, 10, 1)
    nv12 = np.random.default_rng(0).integers(0, 256, 210, np.uint8)
    (result,) = InferenceSession("r.om").run(None, {"x": nv12.reshape(1, 21, 10, 1)})
    chroma = nv12[140:].reshape(7, 5, 2).repeat(2, 0).repeat(2, 1)
    yuv = np.dstack([nv12[:140].reshape(14, 10), chroma]).astype(np.int64)
    expected = np.clip((yuv - (16, 128, 128)) @ np.array(rows).T >> 8, 0, 255)
    np.testing.assert_array_equal(result[0].transpose(1, 2, 0), expected)


def test_18_output_type(invoke: Invoke) -> None:
    assert converted(invoke, "--output_type=FP16").code == 0
    assert InferenceSession("r.om").get_outputs()[0].type == "tensor(float16)"
    assert_failed(converted(invoke, "--output_type=FP15"), "E10001", 2)


def test_20_force_fp16(invoke: Invoke) -> None:
    assert converted(invoke, "--precision_mode=force_fp16", "--input_shape=x:1,3,8,8").code == 0
    shown = invoke("inspect", "r.om", "--precision").out
    assert "fp16: 3 nodes lowered" in shown
    assert "  act\n" in shown
    ran = invoke("verify", "r.om", "--against=r.onnx", "--json")
    result = json.loads(ran.out)["result"]
    assert (ran.code, result["passed"]) == (0, True)
    assert result["outputs"][0]["atol"] > 1e-3  # float32, judged as float16


def test_21_ops_that_are_kept(invoke: Invoke, folder: Path) -> None:
    (folder / "keep.cfg").write_text("act\nOpType::Sigmoid\n")
    assert converted(invoke, "--precision_mode=allow_mix_precision", "--keep_dtype=keep.cfg").code == 0
    shown = invoke("inspect", "r.om", "--precision").out
    assert "mixed_float16: 1 node lowered" in shown
    assert shown.index("2 nodes kept") < shown.index("  act\n")
    (folder / "keep.cfg").write_text("acd\n")
    wrong = converted(invoke, "--precision_mode=allow_mix_precision", "--keep_dtype=keep.cfg")
    assert '"act"' in assert_failed(wrong, "E10016", 2)


def test_22_two_names_of_the_mode(invoke: Invoke) -> None:
    ran = converted(invoke, "--precision_mode=force_fp16", "--precision_mode_v2=fp16")
    assert_failed(ran, "E10056", 2)
    assert_failed(converted(invoke, "--precision_mode_v2=mixed_hif8"), "E10055", 4)


def test_19_outputs_by_node(invoke: Invoke) -> None:
    assert converted(invoke, "--out_nodes=act:0", "--input_shape=x:1,3,8,8").code == 0
    assert len(InferenceSession("r.om").get_outputs()) == 1
    assert InferenceSession("r.om").run(None, {"x": -np.ones((1, 3, 8, 8), np.float32)})[0].min() == 0


def test_23_24_fusion_switches(invoke: Invoke, folder: Path) -> None:
    def fusions(graphs: int) -> dict[str, dict[str, str]]:
        content = json.loads((folder / "fusion_result.json").read_text())
        return list(content.values())[graphs]["graph_fusion"] if len(content) > graphs else {}

    shape = "--input_shape=x:1,3,8,8"
    assert converted(invoke, shape).code == 0
    name = "ConvReluFusionPass"
    assert int(fusions(0)[name]["effect_times"]) > 0
    (folder / "off.cfg").write_text(f"{name}:off\n")
    assert converted(invoke, shape, "--fusion_switch_file=off.cfg").code == 0
    assert name not in fusions(1)
    ran = converted(invoke, shape, "--optimization_switch=ConvReluFusionPas:off")
    assert ran.code == 0
    assert lines_of(ran)[3].startswith("W0013")
    assert name in lines_of(ran)[3]


def test_25_check(invoke: Invoke, folder: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y)
              { a = my.FindMax(x)  b = my.FindMax(a)  y = my.Tome(b) }"""
    onnx.save(parser.parse_model(text), "bad.onnx")
    ran = invoke("atc", "--mode=3", "--model=bad.onnx", "--framework=5", SOC)
    assert_failed(ran, "E19010", 4)
    result = json.loads((folder / "check_result.json").read_text())
    assert (result["result"], result["total"], result["fail"]) == ("failed", 3, 3)
    assert [op["type"] for op in result["op"]] == ["FindMax", "FindMax", "Tome"]
    assert all(op["domain"] == "my" and op["cause"][0]["message"] for op in result["op"])
    ran = invoke("atc", "--mode=3", "--model=r.onnx", "--framework=5", SOC, "--check_report=out/report.json")
    assert (ran.code, json.loads((folder / "out/report.json").read_text())["result"]) == (0, "success")


def test_26_a_package_as_json(invoke: Invoke, folder: Path) -> None:
    converted(invoke, "--input_shape=x:1,3,8,8")
    assert invoke("atc", "--mode=1", "--om=r.om", "--json=r.json").code == 0
    content = json.loads((folder / "r.json").read_text())
    assert {"Data", "NetOutput"} <= {op["type"] for op in content["graph"][0]["op"]}
    (line,) = (each["value"]["s"] for each in content["attr"] if each["key"] == "atc_cmdline")
    assert "--soc=Ascend310P3" in line
    assert invoke("atc", "--mode=1", "--om=r.onnx", "--framework=5", "--json=m.json").code == 0
    content = json.loads((folder / "m.json").read_text())
    assert {"Conv2D", "Relu", "Sigmoid"} <= {op["type"] for op in content["graph"][0]["op"]}


def test_dumps_of_ge_as_json(invoke: Invoke, folder: Path) -> None:
    (folder / "ge_proto_1.txt").write_text('name: "g"\ngraph { name: "g" op { name: "a" type: "Data" } }\n')
    assert invoke("atc", "--mode=5", "--om=ge_proto_1.txt", "--json=g.json").code == 0
    assert json.loads((folder / "g.json").read_text())["graph"][0]["op"] == [{"name": "a", "type": "Data"}]
    (folder / "bad.txt").write_text("name: {")
    assert_failed(invoke("atc", "--mode=5", "--om=bad.txt", "--json=g.json"), "E13018", 2)
    assert_failed(invoke("atc", "--mode=5", "--om=r.onnx", "--json=g.json"), "E10001", 2)


def test_27_what_a_package_says_of_itself(invoke: Invoke) -> None:
    shown = lines_of(converted(invoke, "--display_model_info=1"))
    block = lines_of(invoke("atc", "--mode=6", "--om=r.om"))
    assert block[1] == "============ Display Model Info start ============"
    assert shown[1 : len(block) - 2] == block[1:-2]
    assert "--soc=Ascend310P3" in block[2]
    assert_failed(invoke("atc", "--mode=6", "--om=r.om", "--framework=5"), "E10057", 2)


def test_30_the_log_and_options_without_effect(invoke: Invoke) -> None:
    ran = converted(invoke, "--log=debug", "--virtual_type=1", "--buffer_optimize=off_optimize")
    assert (ran.code, lines_of(ran)) == (0, [START, "...", SUCCESS])
    assert "--buffer_optimize: no effect on a CPU" in ran.err
    assert "parse: " in ran.err
    shown = invoke("inspect", "r.om").out
    assert "--buffer_optimize=off_optimize" in shown
    assert "--virtual_type=1" in shown
    converted(invoke, "--buffer_optimize=l2_optimize")
    assert "--buffer_optimize" not in invoke("inspect", "r.om").out


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
    text = """<ir_version: 8, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y)
              { a = my.FindMax(x)  y = my.Tome(a) }"""
    onnx.save(parser.parse_model(text), "bad.onnx")
    ran = converted(invoke, model="bad.onnx")
    assert [line[:7] for line in lines_of(ran) if line.startswith("E19010")] == ["E19010:"] * 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--optypelist_for_implmode=Gelu"], "E10001"),
        (["--enable_compress_weight=true", "--compress_weight_conf=w.json"], "E10047"),
    ],
)
def test_options_that_exclude_or_need_each_other(invoke: Invoke, options: list[str], code: str) -> None:
    assert_failed(converted(invoke, *options), code, 2)


def test_options_that_may_be_together(invoke: Invoke) -> None:
    assert converted(invoke, "--optypelist_for_implmode=Gelu", "--op_select_implmode=high_performance").code == 0
    assert converted(invoke, "--enable_compress_weight=false", "--compress_weight_conf=w.json").code == 0
    assert converted(invoke, "--enable_compress_weight=true").code == 0


def test_pictures_are_not_fed_as_float16(invoke: Invoke, folder: Path) -> None:
    onnx.save(parser.parse_model(AS_FED), "p.onnx")
    (folder / "aipp.cfg").write_text("aipp_op { aipp_mode: static input_format: RGB888_U8 }")
    ran = converted(invoke, "--insert_op_conf=aipp.cfg", "--input_fp16_nodes=x", model="p.onnx")
    assert_failed(ran, "E10034", 2)
