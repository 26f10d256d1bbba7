"""What a user of ATC tries in the first hour: one test for each of thirty command lines."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import netron
import numpy as np
import numpy.typing as npt
import pytest

from atcpy import InferenceSession
from tests.cli.atc.conftest import (
    FAILED,
    SOC,
    START,
    SUCCESS,
    assert_failed,
    assert_succeeded,
    converted,
    lines_of,
)
from tests.cli.conftest import Invoke, environment, finish, spawn
from tests.parsers.tensorflow.graphs import TfBuilder

pytestmark = pytest.mark.usefixtures("folder")
NETRON_MODULES = ("om.js", "om-proto.js", "base.js", "protobuf.js", "text.js", "om-metadata.json")


def outputs(invoke: Invoke, folder: Path, **feeds: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """What `atcpy run` writes for these inputs of r.om."""
    words: list[object] = []
    for name, array in feeds.items():
        np.save(folder / f"{name}.npy", array)
        words += ["--input", f"{name}={name}.npy"]
    ran = invoke("run", "r.om", *words, "--npz-out", "outputs.npz")
    assert ran.code == 0, ran.err
    with np.load(folder / "outputs.npz") as found:
        return list(found.values())


def zeros(*shape: int) -> npt.NDArray[np.float32]:
    return np.zeros(shape, np.float32)


def test_01_a_conversion(folder: Path) -> None:
    """A command line with an equals sign in each option prints three lines and writes the package."""
    ran = finish(spawn("atc", "--model=r.onnx", "--framework=5", "--output=r", "--soc_version=Ascend310P3"))
    assert_succeeded(ran)
    assert (folder / "r.om").read_bytes()[:4] == b"IMOD"


def test_02_values_as_separate_words(invoke: Invoke, folder: Path) -> None:
    """The same line with blanks for equals signs writes the same bytes."""
    assert_succeeded(converted(invoke))
    words = "--model r.onnx --framework 5 --output s --soc_version Ascend310P3"
    assert_succeeded(invoke("atc", *words.split()))
    assert (folder / "s.om").read_bytes() == (folder / "r.om").read_bytes()


def test_03_one_dash_and_hyphens(invoke: Invoke, folder: Path) -> None:
    """Names with one dash, with hyphens for underscores, and cut to a prefix are understood."""
    line = ["--model=r.onnx", "--framework=5", "--output=r", "--soc_version=Ascend310"]
    assert_succeeded(invoke("atc", *line))
    for words in (
        "-model=r.onnx --soc-version=Ascend310 -framework=5 --output=s",
        "--model=r.onnx --soc=ascend310 --frame=5 --output=s",
    ):
        assert_succeeded(invoke("atc", *words.split()))
        assert (folder / "s.om").read_bytes() == (folder / "r.om").read_bytes()
        (folder / "s.om").unlink()


def test_04_no_chip(invoke: Invoke, folder: Path) -> None:
    """Without a chip nothing is written, and the option is named."""
    ran = invoke("atc", "--model=r.onnx", "--framework=5", "--output=r")
    assert "--soc_version is required" in assert_failed(ran, "E10054", 2)
    assert not (folder / "r.om").exists()


def test_05_no_such_model(invoke: Invoke) -> None:
    """A path that leads nowhere is repeated as it was typed, beside the nearest file."""
    text = assert_failed(converted(invoke, model="./tow.onnx"), "E10001", 2)
    assert '--model: "./tow.onnx"' in text
    assert '"two.onnx"' in text


def test_06_caffe(invoke: Invoke) -> None:
    """Models of Caffe are refused, and the way by ONNX is named."""
    ran = invoke("atc", "--model=r.onnx", "--framework=0", "--output=r", SOC)
    text = assert_failed(ran, "E10055", 4)
    assert "Caffe is not supported" in text
    assert "convert the model to ONNX first" in text


def test_07_no_such_framework(invoke: Invoke) -> None:
    """A number that stands for no framework is refused with the numbers that do."""
    ran = invoke("atc", "--model=r.onnx", "--framework=7", "--output=r", SOC)
    assert "0, 1, 3, 5" in assert_failed(ran, "E10007", 2)


def test_08_a_misspelt_option(invoke: Invoke) -> None:
    """An option that does not exist is named on stderr, beside the one that was probably meant."""
    ran = invoke("atc", "--modell=r.onnx", "--framework=5", "--output=r", SOC)
    assert (ran.code, lines_of(ran)) == (2, [START, FAILED])
    error, hint = ran.err.splitlines()
    assert error == "ERROR: unknown command line flag 'modell'"
    assert "did you mean" in hint
    assert '"--model"' in hint or '"model"' in hint


def test_09_a_semicolon_without_quotes(folder: Path) -> None:
    """A shell ends the line at a semicolon: the input that is lost by it stays open, and a warning asks for quotes."""
    atcpy = shlex.join([sys.executable, "-m", "atcpy"])
    line = f"{atcpy} atc --model=two.onnx --framework=5 --output=r {SOC} --input_shape=x:1,3,224,224;y:1"
    ran = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=environment(), check=False)
    assert ran.returncode == 127, "y:1 is a command of its own"
    assert ran.stdout.splitlines()[:3] == [START, "...", SUCCESS]
    (warning,) = ran.stdout.splitlines()[3:]
    assert '"y"' in warning
    assert "quotes" in warning
    assert [port.shape[0] for port in InferenceSession("r.om").get_inputs()] == [1, "M"]


def test_09_a_blank_without_quotes(invoke: Invoke) -> None:
    """A word that is left over is refused, and the question is whether the value before it had quotes."""
    ran = converted(invoke, "--input_shape=x:1,3,224,224;", "y:1", model="two.onnx")
    assert (ran.code, lines_of(ran)) == (2, [START, FAILED])
    error, hint = ran.err.splitlines()
    assert error == "ERROR: Non-option parameter: y:1"
    assert "quotes" in hint


def with_batch_gears(invoke: Invoke) -> None:
    options = ("--input_shape=x:-1,3,224,224", "--dynamic_batch_size=1,2,4,8")
    assert_succeeded(converted(invoke, *options))


def test_10_batch_gears(invoke: Invoke) -> None:
    """Listed batch sizes become gears of the package, which `inspect` lists."""
    with_batch_gears(invoke)
    shown = invoke("inspect", "r.om", "--io").out.replace(" ", "")
    for batch in (1, 2, 4, 8):
        assert f"[{batch},3,224,224]" in shown


def test_11_a_batch_that_is_no_gear(invoke: Invoke, folder: Path) -> None:
    """A batch between the gears is refused with the list of the gears; the gears run."""
    with_batch_gears(invoke)
    ran = invoke("run", "r.om", "--shape", "x=3,3,224,224", "--fill", "ones")
    assert ran.code == 2
    assert "the gears are 1; 2; 4; 8" in ran.err
    assert outputs(invoke, folder, x=zeros(4, 3, 224, 224))[0].shape == (4, 4, 224, 224)


def test_12_gears_of_pictures(invoke: Invoke, folder: Path) -> None:
    """Listed heights and widths become gears."""
    assert_succeeded(converted(invoke, "--input_shape=x:1,3,-1,-1", "--dynamic_image_size=416,416;832,832"))
    shown = invoke("inspect", "r.om", "--io").out.replace(" ", "")
    assert "[1,3,416,416]" in shown
    assert "[1,3,832,832]" in shown
    assert outputs(invoke, folder, x=zeros(1, 3, 416, 416))[0].shape == (1, 4, 416, 416)


def test_13_gears_of_dims(invoke: Invoke, folder: Path) -> None:
    """Listed sizes of all open dims become gears, of all inputs together."""
    options = ("--input_format=ND", "--input_shape=ids:1,-1;mask:1,-1", "--dynamic_dims=16,16;32,32")
    assert_succeeded(converted(invoke, *options, model="ids.onnx"))
    shown = invoke("inspect", "r.om", "--io").out.replace(" ", "")
    assert shown.count("[1,16]") >= 2
    assert shown.count("[1,32]") >= 2
    assert outputs(invoke, folder, ids=zeros(1, 32), mask=zeros(1, 32))[0].shape == (1, 32)
    assert invoke("run", "r.om", "--shape", "ids=1,16", "--shape", "mask=1,32", "--fill", "ones").code == 2


def test_14_two_kinds_of_gears(invoke: Invoke) -> None:
    """Only one option may list gears."""
    options = ("--input_shape=x:-1,3,8,8", "--dynamic_batch_size=1,2", "--dynamic_dims=1;2")
    assert_failed(converted(invoke, *options), "E10009", 2)


def test_15_a_range(invoke: Invoke, folder: Path) -> None:
    """A range stays dynamic: each batch within it runs, the next one is refused."""
    assert_succeeded(converted(invoke, "--input_shape=x:1~8,3,224,224"))
    for batch in range(1, 9):
        assert outputs(invoke, folder, x=zeros(batch, 3, 224, 224))[0].shape == (batch, 4, 224, 224)
    ran = invoke("run", "r.om", "--shape", "x=9,3,224,224", "--fill", "ones")
    assert ran.code == 2
    assert "dimension 0 may be 1 to 8" in ran.err


def test_16_aipp_for_rgb(invoke: Invoke, folder: Path) -> None:
    """Pictures of bytes are normalized in the package, as numpy does it before."""
    mean, factor = (124, 116, 104), (0.0171247538, 0.0175070028, 0.0174291939)
    channels = " ".join(f"mean_chn_{i}: {mean[i]} var_reci_chn_{i}: {factor[i]}" for i in range(3))
    (folder / "aipp.cfg").write_text(f"aipp_op {{ aipp_mode: static input_format: RGB888_U8 {channels} }}")
    assert_succeeded(converted(invoke, "--insert_op_conf=aipp.cfg", model="picture.onnx"))
    shown = invoke("inspect", "r.om", "--io").out.split()
    assert shown[shown.index("input") :][1:5] == ["x", "uint8", "[1,14,10,3]", "NHWC"]
    picture = np.random.default_rng(0).integers(0, 256, (1, 14, 10, 3), np.uint8)
    (found,) = outputs(invoke, folder, x=picture)
    expected = ((picture - np.array(mean)) * factor).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)


def test_17_aipp_for_yuv(invoke: Invoke, folder: Path) -> None:
    """NV12 becomes RGB by BT.601 for video levels, equal to the integer formula bit for bit."""
    rows = ((298, 0, 409), (298, -100, -208), (298, 516, 0))
    matrix = " ".join(f"matrix_r{r}c{c}: {rows[r][c]}" for r in range(3) for c in range(3))
    fields = f"csc_switch: true {matrix} input_bias_0: 16 input_bias_1: 128 input_bias_2: 128"
    (folder / "aipp.cfg").write_text(f"aipp_op {{ aipp_mode: static input_format: YUV420SP_U8 {fields} }}")
    assert_succeeded(converted(invoke, "--insert_op_conf=aipp.cfg", model="picture.onnx"))
    nv12 = np.random.default_rng(0).integers(0, 256, (21, 10), np.uint8)
    (found,) = outputs(invoke, folder, x=nv12.reshape(1, 21, 10, 1))
    chroma = nv12[14:].reshape(7, 5, 2).repeat(2, 0).repeat(2, 1)
    yuv = np.dstack([nv12[:14], chroma]).astype(np.int64)
    expected = np.clip((yuv - (16, 128, 128)) @ np.array(rows).T >> 8, 0, 255)
    np.testing.assert_array_equal(found[0].transpose(1, 2, 0), expected)


def test_18_output_type(invoke: Invoke, folder: Path) -> None:
    """Outputs take the type that is asked for."""
    assert_succeeded(converted(invoke, "--output_type=FP16"))
    assert [output.dtype for output in outputs(invoke, folder, x=zeros(1, 3, 8, 8))] == [np.float16]


def test_19_another_output(invoke: Invoke, folder: Path) -> None:
    """A node of the middle becomes the only output: here a Relu before a Sigmoid, which is 0 and never 1/2."""
    assert_succeeded(converted(invoke, "--out_nodes=/layer2/Relu:0"))
    (found,) = outputs(invoke, folder, x=-100 * np.ones((1, 3, 8, 8), np.float32))
    assert found.min() == 0
    assert found.max() > 1


def test_20_float16(invoke: Invoke) -> None:
    """A model in float16 lists what was lowered, and agrees with the original as far as float16 goes."""
    assert_succeeded(converted(invoke, "--precision_mode=force_fp16", "--input_shape=x:1,3,8,8"))
    shown = invoke("inspect", "r.om", "--precision").out
    assert "fp16: 3 nodes lowered" in shown
    assert "  /layer2/Relu\n" in shown
    ran = invoke("verify", "r.om", "--against=r.onnx", "--json")
    result = json.loads(ran.out)["result"]
    assert (ran.code, result["passed"]) == (0, True)
    assert result["outputs"][0]["atol"] > 1e-3, "float32, judged as float16"


def test_21_mixed_precision_with_exceptions(invoke: Invoke, folder: Path) -> None:
    """Nodes and types in a file keep float32 when the others are lowered."""
    (folder / "keep.cfg").write_text("/layer2/Relu\nOpType::Sigmoid\n")
    assert_succeeded(converted(invoke, "--precision_mode=allow_mix_precision", "--keep_dtype=keep.cfg"))
    shown = invoke("inspect", "r.om", "--precision").out
    assert "mixed_float16: 1 node lowered" in shown
    assert shown.index("2 nodes kept") < shown.index("  /layer2/Relu\n")


def test_22_two_names_of_the_mode(invoke: Invoke) -> None:
    """The old and the new option for the precision exclude each other."""
    ran = converted(invoke, "--precision_mode=force_fp16", "--precision_mode_v2=fp16")
    assert_failed(ran, "E10056", 2)


def test_23_passes_switched_off(invoke: Invoke, folder: Path) -> None:
    """A pass that a file switches off has no effect in the statistics, where it had one."""

    def effects() -> list[int]:
        content = json.loads((folder / "fusion_result.json").read_text())
        none = {"effect_times": "0"}
        graphs = [graph["graph_fusion"] for graph in content.values()]
        return [int(graph.get("ConvReluFusionPass", none)["effect_times"]) for graph in graphs]

    assert_succeeded(converted(invoke, "--input_shape=x:1,3,8,8"))
    assert effects() == [1]
    (folder / "off.cfg").write_text("ConvReluFusionPass:off\n")
    assert_succeeded(converted(invoke, "--input_shape=x:1,3,8,8", "--fusion_switch_file=off.cfg"))
    assert not any(effects()[1:])
    assert "Relu" in invoke("inspect", "r.om", "--tasks").out


def test_24_a_pass_that_does_not_exist(invoke: Invoke) -> None:
    """The switch of an unknown pass is a warning with the nearest name."""
    for name, nearest in (("NoSuchPass", "NetOutputPass"), ("ConvReluFusionPas", "ConvReluFusionPass")):
        ran = converted(invoke, f"--optimization_switch={name}:off")
        assert (ran.code, lines_of(ran)[:3]) == (0, [START, "...", SUCCESS])
        (warning,) = lines_of(ran)[3:]
        assert warning.startswith("W0013")
        assert f'"{name}"' in warning
        assert f'did you mean "{nearest}"' in warning


def test_25_all_problems_of_a_model(invoke: Invoke, folder: Path) -> None:
    """The check of a model with three unknown ops writes a report with all of them."""
    ran = invoke("atc", "--mode=3", "--model=bad.onnx", "--framework=5", SOC)
    assert_failed(ran, "E19010", 4)
    found = json.loads((folder / "check_result.json").read_text())
    assert (found["result"], found["total"], found["pass"], found["fail"]) == ("failed", 3, 0, 3)
    assert [op["type"] for op in found["op"]] == ["FindMax", "FindMax", "Tome"]
    assert all(op["domain"] == "my" and op["cause"][0]["message"] for op in found["op"])


def test_26_a_package_as_json(invoke: Invoke, folder: Path) -> None:
    """A package becomes JSON: its graph, shapes and options."""
    assert_succeeded(converted(invoke, "--input_shape=x:1,3,224,224"))
    assert_succeeded(invoke("atc", "--mode=1", "--om=r.om", "--json=r.json"))
    found = json.loads((folder / "r.json").read_text())
    ops = {op["type"]: op for op in found["graph"][0]["op"]}
    assert {"Data", "NetOutput"} <= set(ops)
    assert ops["Data"]["output_desc"][0]["shape"]["dim"] == [1, 3, 224, 224]
    (line,) = (each["value"]["s"] for each in found["attr"] if each["key"] == "atc_cmdline")
    assert "--soc=Ascend310P3" in line
    assert "--input_shape" in line


def test_27_what_a_package_says_of_itself(invoke: Invoke) -> None:
    """The block of a package is shown by a mode of its own, and by an option of the conversion."""
    shown = lines_of(converted(invoke, "--display_model_info=1"))
    block = lines_of(invoke("atc", "--mode=6", "--om=r.om"))
    assert block[1] == "============ Display Model Info start ============"
    assert block[2].startswith("Original Atc command line: ")
    assert [line.split(" info: ")[0].strip() for line in block[3:6]] == ["system", "resource", "om"]
    assert "soc_version[Ascend310P3], framework_type[onnx]." in block[3]
    assert block[6] == "============ Display Model Info end   ============"
    assert shown[1:7] == block[1:7]


@pytest.mark.slow
def test_28_tensorflow_without_tensorflow(invoke: Invoke, folder: Path) -> None:
    """A frozen graph of TensorFlow converts where TensorFlow cannot be imported."""
    graph = TfBuilder()
    graph.add("Relu", graph.input("in", "float32", [None, None, None, 3]), name="out")
    (folder / "f.pb").write_bytes(graph.graph.SerializeToString())
    (folder / "tensorflow.py").write_text("raise ImportError")
    paths = os.pathsep.join([str(folder), environment()["PYTHONPATH"]])
    line = ["--model=f.pb", "--framework=3", "--input_shape=in:1,224,224,3", "--output=r", SOC]
    assert_succeeded(finish(spawn("atc", *line, env={**environment(), "PYTHONPATH": paths})))
    (found,) = outputs(invoke, folder, **{"in": np.full((1, 224, 224, 3), -1, np.float32)})
    np.testing.assert_array_equal(found, zeros(1, 224, 224, 3))


def test_29_netron(invoke: Invoke, folder: Path) -> None:
    """Netron's own reader sees the graph, the names of its nodes, and the weights."""
    if not shutil.which("node"):
        pytest.skip("needs node")
    assert_succeeded(converted(invoke, "--input_shape=x:1,3,224,224"))
    source = Path(netron.__file__).parent
    (folder / "package.json").write_text('{"type": "module"}')  # .js is a module
    for path in (*(source / name for name in NETRON_MODULES), Path(__file__).with_name("open_in_netron.js")):
        shutil.copy(path, folder)
    ran = subprocess.run(["node", "open_in_netron.js", "r.om"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["graph"] == "r"
    assert ["x", "Data"] in found["nodes"]
    assert any(kind == "Conv2D" for _, kind in found["nodes"])
    assert found["weights"]


def test_30_the_log(folder: Path) -> None:
    """The log goes to stderr, so that a file of stdout has the result only."""
    with (folder / "log.txt").open("w") as log:
        line = ("atc", "--model=r.onnx", "--framework=5", "--output=r", SOC, "--log=debug")
        ran = finish(spawn(*line, stdout=log))
    assert (folder / "log.txt").read_text().splitlines() == [START, "...", SUCCESS]
    assert "parse: " in ran.err
    assert ran.code == 0


def test_30_options_without_effect(invoke: Invoke) -> None:
    """Options for the chip are accepted; the log says that they do nothing, and the package records them."""
    ran = converted(invoke, "--log=info", "--virtual_type=1", "--buffer_optimize=off_optimize")
    assert (ran.code, lines_of(ran)) == (0, [START, "...", SUCCESS])
    assert "--virtual_type: no effect on a CPU" in ran.err
    assert "--buffer_optimize: no effect on a CPU" in ran.err
    shown = invoke("inspect", "r.om").out
    assert "--buffer_optimize=off_optimize" in shown
    assert "--virtual_type=1" in shown
