import json
import os
import resource
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

import atcpy
from atcpy.cli.arrays import read_image, read_input, safe_names
from atcpy.errors import AtcWarning, UsageError
from atcpy.ir import DType
from atcpy.kernels.isa import ISAS
from atcpy.kernels.table import kernel_table
from atcpy.threads import cpu_quota
from atcpy.verify.inputs import Port
from tests.models_in_text import model as parse
from tests.sandboxes import need_sandbox

from .conftest import Invoke

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
Y = X @ np.array([[1, 0, 0, 2], [0, 1, 0, 3], [0, 0, 1, 4]], np.float32)


@pytest.mark.parametrize("form", ["x={folder}/x.npy", "{folder}/x.npy", "x={folder}/x.npz", "x={folder}/one.npz"])
def test_inputs_from_files(invoke: Invoke, package: Path, tmp_path: Path, form: str) -> None:
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", x=X, other=X + 1)
    np.savez(tmp_path / "one.npz", anything=X)
    ran = invoke("run", package, "--input", form.format(folder=tmp_path), "--npz-out", tmp_path / "out.npz")
    assert ran.code == 0
    assert ran.out.startswith("y  float32 [2,4]  min 1  max 47  mean 11   [1, 2, 3, 20, 4, …]\n")
    assert np.array_equal(np.load(tmp_path / "out.npz")["y"], Y)


def test_inputs_from_one_npz(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=X)
    [output] = invoke("run", package, "--npz", tmp_path / "in.npz", "--json").envelope["result"]["outputs"]
    assert output == {
        "name": "y", "dtype": "float32", "shape": [2, 4], "min": 1.0, "max": 47.0, "mean": 11, "nan": 0, "inf": 0,
        "path": None,
    }  # fmt: skip


# Where the member of an archive says how it is packed, and that it is encrypted: local header, then central directory.
_FLAGS, _METHOD = (6, 8), (8, 10)


@pytest.mark.parametrize(
    "damage", ["encrypted", "method 99", "elements", "half", "huge shape", "negative shape", "no end"]
)
def test_damaged_archives_are_refused(invoke: Invoke, package: Path, tmp_path: Path, damage: str) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=X)
    raw = bytearray((tmp_path / "x.npz").read_bytes())
    central = raw.index(b"PK\x01\x02")
    match damage:
        case "encrypted":
            raw[_FLAGS[0]], raw[central + _FLAGS[1]] = 1, 1
        case "method 99":
            raw[_METHOD[0]], raw[central + _METHOD[1]] = 99, 99
        case "elements":
            raw[60:80] = b"\xff" * 20
        case "half":
            del raw[len(raw) // 2 :]
        case _:
            shape = {"huge shape": b"(2,99999999999999999999999999)", "negative shape": b"(-2,-3)"}.get(damage, b"(2,")
            header = b"{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + b"}\n"
            with zipfile.ZipFile(tmp_path / "y.npz", "w") as archive:
                archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
            raw[:] = (tmp_path / "y.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(raw)
    ran = invoke("run", package, "--npz", tmp_path / "x.npz")
    assert (ran.code, ran.err.split("]")[0]) == (2, "error[E13005"), ran.err


def test_made_inputs_are_the_same_each_time(invoke: Invoke, package: Path) -> None:
    ones = invoke("run", package, "--input", "ones").out.splitlines()[0]
    assert ones.endswith("[1, 1, 1, 9, 1, …]")
    first, again, other = (invoke("run", package, "--fill", f"random:{s}").out.splitlines()[0] for s in (1, 1, 2))
    assert first == again != other
    assert invoke("run", package, "--input", "x=random:1").out.splitlines()[0] == first


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], "E1", '"x"'),
        (["--input", "z=ones"], "E10404", 'no input "z"'),
        (["--input", "x=nope.npy"], "E10410", "nope.npy does not exist"),
        (["--input", "x={folder}/text.npy"], "E13005", "is not an array file of numpy"),
        (["--input", "x={folder}/object.npy"], "E13005", "pickled"),
        (["--input", "x={folder}/wide.npy"], "E1", "float32"),
        (["--input", "x={folder}/long.npy"], "E1", "[2, 4]"),
        (["--fill", "threes"], "E10001", "ones, zeros or random:SEED"),
        (["--fill", "ones", "--outputs", "q"], "E1", '"q"'),
        (["--fill", "ones", "--labels", "{folder}/text.npy.missing"], "E10410", "does not exist"),
    ],
)
def test_wrong_inputs_are_refused(
    invoke: Invoke, package: Path, tmp_path: Path, arguments: list[str], code: str, message: str
) -> None:
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "object.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "wide.npy", X.astype(np.float64))
    np.save(tmp_path / "long.npy", np.zeros((2, 4), np.float32))
    ran = invoke("run", package, *(argument.format(folder=tmp_path) for argument in arguments))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"error[{code}")
    assert message in ran.err


def test_outputs_go_into_files_with_safe_names(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    ran = invoke("run", package, "--input", tmp_path / "x.npy", "--output-dir", tmp_path / "out", "--outputs", "y")
    assert ran.code == 0
    assert json.loads((tmp_path / "out" / "outputs.json").read_text()) == {"y": "y.npy"}
    assert np.array_equal(np.load(tmp_path / "out" / "y.npy"), Y)


def test_names_of_outputs_stay_inside_their_folder() -> None:
    names = ["../../evil", "/a/b", ".hidden", "Out", "out", "é", "", "x" * 300, "x" * 300 + "y"]
    stems = list(safe_names(names).values())
    assert stems[:7] == ["%2E.%2F..%2Fevil", "%2Fa%2Fb", "%2Ehidden", "Out", "out.2", "%C3%A9", "output"]
    assert all(len(stem) < 150 for stem in stems)
    assert len({stem.lower() for stem in stems}) == len(names)


def test_an_output_may_have_any_name(invoke: Invoke, tmp_path: Path) -> None:
    node = onnx.helper.make_node("MatMul", ["file", "file"], ["../file"])
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph([node], "g", [value("file", 1, [1, 1])], [value("../file", 1, [1, 1])])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert invoke("convert", "--model", tmp_path / "m.onnx", "-o", tmp_path / "m", "-q").code == 0
    where = ["--output-dir", tmp_path / "out", "--npz-out", tmp_path / "out.npz"]
    assert invoke("run", tmp_path / "m.om", "--fill=ones", *where).code == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["%2E.%2Ffile.npy", "outputs.json"]
    assert np.load(tmp_path / "out.npz")["../file"] == 1


def test_labels_and_the_best_classes(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "labels.txt").write_text("ant\nbee\ncat\ndog\n")
    arguments = ["run", package, "--input", tmp_path / "x.npy", "--labels", tmp_path / "labels.txt", "--top-k", 2]
    assert invoke(*arguments).out.splitlines()[1:3] == ["  1  dog  20", "  2  cat  3"]
    [output] = invoke(*arguments, "--json").envelope["result"]["outputs"]
    assert output["top"] == [{"label": "dog", "index": 3, "score": 20.0}, {"label": "cat", "index": 2, "score": 3.0}]


def test_nan_is_found_when_asked(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.full((2, 3), np.nan, np.float32))
    ran = invoke("run", package, "--input", tmp_path / "x.npy")
    assert (ran.code, "nan 8" in ran.out) == (0, True)
    ran = invoke("run", package, "--input", tmp_path / "x.npy", "--check-finite")
    assert ran.code == 5
    assert ran.err.startswith('error[V0002] output "y" has 8 NaN and 0 infinities')
    envelope = invoke("run", package, "--input", tmp_path / "x.npy", "--json").envelope
    assert envelope["result"]["outputs"][0]["max"] is None


# --- pictures


def picture(folder: Path, mode: str = "RGB") -> str:
    levels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    Image.fromarray(levels).convert(mode).save(folder / "p.png")
    return str(folder / "p.png")


def test_a_picture_becomes_channels_first(tmp_path: Path) -> None:
    port = Port("x", DType.FLOAT32, (1, 3, 2, 3))
    array = read_image(port, picture(tmp_path), mean="1,2,3", std="2", layout="NCHW")
    levels = np.arange(18, dtype=np.float32).reshape(2, 3, 3)
    assert array.dtype == np.float32
    assert np.array_equal(array[0], ((levels - [1, 2, 3]) / 2).transpose(2, 0, 1))


def test_a_picture_stays_channels_last_and_bytes(tmp_path: Path) -> None:
    port = Port("x", DType.UINT8, (1, 2, 3, 3))
    array = read_image(port, picture(tmp_path), mean=None, std=None, layout="NHWC")
    assert array.dtype == np.uint8
    assert np.array_equal(array[0], np.arange(18).reshape(2, 3, 3))


def test_a_picture_is_fitted_to_the_input(tmp_path: Path) -> None:
    port = Port("x", DType.FLOAT32, (1, 1, 5, 7))
    assert read_image(port, picture(tmp_path), mean=None, std=None, layout="NCHW").shape == (1, 1, 5, 7)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((1, 5, 2, 3), {}, "is no picture in NCHW"),
        ((2, 3), {}, "is no picture in NCHW"),
        ((1, 3, 2, 3), {"layout": "CHW"}, "not NCHW or NHWC"),
        ((1, 3, 2, 3), {"mean": "1,2"}, "2 numbers for 3 channels"),
        ((1, 3, 2, 3), {"mean": "a"}, "not a list of numbers"),
        ((1, 3, 2, 3), {"std": "0"}, "outside its range"),
    ],
)
def test_wrong_pictures_are_refused(
    tmp_path: Path, shape: tuple[int, ...], options: dict[str, str], message: str
) -> None:
    settings = {"mean": None, "std": None, "layout": "NCHW", **options}
    with pytest.raises(UsageError, match=message):
        read_image(Port("x", DType.FLOAT32, shape), picture(tmp_path), **settings)  # type: ignore[arg-type]


def test_a_file_that_is_no_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_text("no picture")
    (tmp_path / "cut.png").write_bytes(Path(picture(tmp_path)).read_bytes()[:60] if False else b"\x89PNG\r\n\x1a\n")
    port = Port("x", DType.FLOAT32, (1, 3, 2, 3))
    for name in ("cut.png", "missing.png"):
        with pytest.raises(UsageError):
            read_image(port, str(tmp_path / name), mean=None, std=None, layout="NCHW")


def test_the_memory_limit_counts_for_the_largest_sizes(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "setrlimit", lambda *limit: None)  # it would stay for this process
    text = "g (float[n,8] x) => (float[n,n] y) { t = Transpose(x) p = MatMul(x, t) s = Softmax(p) y = MatMul(s, p) }"
    onnx.save(parse(text), tmp_path / "m.onnx")
    convert = ["convert", "--model", tmp_path / "m.onnx", "--output", tmp_path / "m", "--input_shape", "x:1~128,8"]
    needed = "error[R0001] the arena for the largest sizes needs 131072 bytes, the limit is 130048"
    refused = invoke(*convert, "--memory-limit", "127K")
    assert (refused.code, refused.err.splitlines()[0]) == (6, needed)
    assert invoke(*convert, "--memory-limit", "128K").code == 0
    small = ["run", tmp_path / "m.om", "--shape", "x=2,8", "--fill", "ones"]
    refused = invoke(*small, "--memory-limit", "127K")
    assert (refused.code, refused.err.splitlines()[0]) == (6, needed)
    refused = invoke(*small, "--memory-limit", "128K")  # the kernels need scratch besides
    assert (refused.code, "a run with inputs of these sizes needs" in refused.err) == (6, True)
    assert invoke(*small, "--memory-limit", "1M").code == 0


# --- pictures for inputs with AIPP

BYTES = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,CHANNELS,2,3] x) => (float[1,CHANNELS,2,3] y) {
    y = Identity(x)
}"""


def with_aipp(folder: Path, settings: str, channels: int = 3) -> Path:
    """A package that gives the bytes of pictures as numbers."""
    (folder / "aipp.cfg").write_text(f"aipp_op {{ aipp_mode: static {settings} }}")
    text = BYTES.replace("CHANNELS", str(channels))
    atcpy.convert(onnx.parser.parse_model(text), folder / "bytes.om", insert_op_conf=folder / "aipp.cfg")
    return folder / "bytes.om"


@pytest.mark.parametrize(
    "settings",
    [
        "input_format: RGB888_U8",
        "input_format: RGB888_U8 rbuv_swap_switch: true",
        "input_format: XRGB8888_U8",
        "input_format: XRGB8888_U8 ax_swap_switch: true",
        "input_format: XRGB8888_U8 ax_swap_switch: true rbuv_swap_switch: true",
    ],
)
def test_a_picture_is_fed_as_aipp_takes_it(invoke: Invoke, tmp_path: Path, settings: str) -> None:
    package = with_aipp(tmp_path, settings)
    ran = invoke("run", package, "--image", picture(tmp_path), "--npz_out", tmp_path / "y.npz")
    assert ran.code == 0, ran.err
    result = np.load(tmp_path / "y.npz")["y"]
    assert np.array_equal(result[0].transpose(1, 2, 0), np.arange(18).reshape(2, 3, 3))


def test_a_gray_picture_is_fed_as_aipp_takes_it(invoke: Invoke, tmp_path: Path) -> None:
    package = with_aipp(tmp_path, "input_format: YUV400_U8", 1)
    assert invoke("run", package, "--image", picture(tmp_path), "--npz_out", tmp_path / "y.npz").code == 0
    gray = np.asarray(Image.open(tmp_path / "p.png").convert("L"))
    assert np.array_equal(np.load(tmp_path / "y.npz")["y"][0, 0], gray)


def test_a_picture_that_does_not_fit_aipp_is_said(invoke: Invoke, tmp_path: Path) -> None:
    package = with_aipp(tmp_path, "input_format: YUV400_U8", 1)
    ran = invoke("run", package, "--image", picture(tmp_path), "--json")
    assert [(each["code"], "colours" in each["message"]) for each in ran.envelope["warnings"]] == [("W0071", True)]


def test_what_is_no_picture_for_aipp(invoke: Invoke, tmp_path: Path) -> None:
    package = with_aipp(tmp_path, "input_format: RGB888_U8")
    ran = invoke("run", package, "--image", picture(tmp_path), "--mean", "3")
    assert (ran.code, "E10001" in ran.err) == (2, True)
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,2,4] x) => (float[1,3,2,4] y) { y = Identity(x) }"""
    (tmp_path / "aipp.cfg").write_text("aipp_op { aipp_mode: static input_format: YUV420SP_U8 }")
    atcpy.convert(onnx.parser.parse_model(text), package, insert_op_conf=tmp_path / "aipp.cfg")
    ran = invoke("run", package, "--image", picture(tmp_path))
    assert (ran.code, "E10405" in ran.err) == (2, True)


# --- what does not fit is said


def test_an_input_without_a_header(invoke: Invoke, package: Path, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(X.tobytes())
    ran = invoke("run", package, "--input", f"x={tmp_path}/x.bin", "--npz-out", tmp_path / "out.npz")
    assert (ran.code, ran.err) == (0, "")
    assert np.array_equal(np.load(tmp_path / "out.npz")["y"], Y)


@pytest.mark.parametrize("count", [0, 23, 25])
def test_an_input_without_a_header_has_the_bytes_of_its_shape(
    invoke: Invoke, package: Path, tmp_path: Path, count: int
) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(count))
    ran = invoke("run", package, "--input", tmp_path / "x.bin")
    assert (ran.code, ran.err.split("]")[0]) == (2, "error[E10405")
    assert f'x.bin has {count} bytes, input "x" [2, 3] float32 needs 24' in ran.err


@pytest.mark.parametrize(
    ("port", "code"),
    [
        (Port("x", DType.FLOAT32, ("n", 3)), 'E10405.*--shape "x=1,3"'),
        (Port("x", DType.STRING, (1,)), "E13005.*string"),
        (Port("x", DType.INT4, (2,)), "E13005.*int4"),
    ],
)
def test_an_input_that_bytes_do_not_tell_is_refused(tmp_path: Path, port: Port, code: str) -> None:
    (tmp_path / "x.bin").write_bytes(bytes(12))
    with pytest.raises(UsageError, match="(?s)" + code):
        read_input(port, str(tmp_path / "x.bin"))


def test_truth_values_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(bytes([0, 1, 2]))
    assert read_input(Port("x", DType.BOOL, (3,)), str(tmp_path / "x.bin")).tolist() == [False, True, True]


@pytest.mark.parametrize("count", [3, 5])
def test_labels_of_another_length_are_said(invoke: Invoke, package: Path, tmp_path: Path, count: int) -> None:
    (tmp_path / "labels.txt").write_text("ant\n" * count)
    ran = invoke("run", package, "--fill=ones", "--labels", tmp_path / "labels.txt")
    assert ran.code == 0
    assert f"labels.txt has {count} lines, and no output as many classes: y [2, 4]" in ran.err
    assert ran.err.startswith("warning[W0070]")
    assert invoke("run", package, "--fill=ones", "--labels", tmp_path / "labels.txt", "--werror").code == 2


@pytest.mark.parametrize(
    ("shape", "mode", "options", "codes"),
    [
        ((1, 3, 2, 3), "RGB", {"mean": "0"}, []),
        ((1, 3, 4, 6), "RGB", {"std": "1"}, []),
        ((1, 3, 2, 3), "RGB", {}, ["W0072"]),
        ((1, 3, 3, 3), "RGB", {"std": "1"}, ["W0071"]),
        ((1, 1, 2, 3), "RGB", {"std": "1"}, ["W0071"]),
        ((1, 1, 2, 3), "L", {"std": "1"}, []),
        ((1, 1, 7, 3), "RGB", {}, ["W0071", "W0071", "W0072"]),
    ],
)
def test_what_a_picture_loses_is_said(
    tmp_path: Path, shape: tuple[int, ...], mode: str, options: dict[str, str], codes: list[str]
) -> None:
    said: list[AtcWarning] = []
    settings: dict[str, Any] = {"mean": None, "std": None, "layout": "NCHW", "warn": said.append, **options}
    read_image(Port("x", DType.FLOAT32, shape), picture(tmp_path, mode), **settings)
    assert [warning.code for warning in said] == codes


def test_bytes_are_not_scaled(tmp_path: Path) -> None:
    said: list[AtcWarning] = []
    port = Port("x", DType.UINT8, (1, 3, 2, 3))
    read_image(port, picture(tmp_path), mean=None, std=None, layout="NCHW", warn=said.append)
    assert said == []


@pytest.mark.parametrize("way", [(), pytest.param(("--sandbox",), marks=pytest.mark.slow)])
def test_warnings_of_a_picture_reach_the_user(invoke: Invoke, tmp_path: Path, way: tuple[str, ...]) -> None:
    if way:
        need_sandbox()
    onnx.save(parse("g (float[1,1,3,3] x) => (float[1,1,3,3] y) { y = Relu(x) }"), tmp_path / "m.onnx")
    assert invoke("convert", tmp_path / "m.onnx", "-o", tmp_path / "m", "-q").code == 0
    ran = invoke("run", tmp_path / "m.om", "--image", picture(tmp_path), *way, "--json")
    codes = [warning["code"] for warning in ran.envelope["warnings"]]
    assert codes == ["W0071", "W0071", "W0072"]


def test_more_threads_than_cores_are_said(invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cores = min(len(os.sched_getaffinity(0)), cpu_quota() or 1024)
    assert invoke("run", package, "--fill=ones", "--threads", cores).err == ""
    ran = invoke("run", package, "--fill=ones", "--threads", cores + 1)
    assert (ran.code, ran.err.split("]")[0]) == (0, "warning[W0051")
    assert f"{cores + 1} threads on {cores} cores" in ran.err
    monkeypatch.setattr("atcpy.cli.invocation.cpu_quota", lambda: 1)
    assert "2 threads on 1 cores" in invoke("run", package, "--fill=ones", "--threads", 2).err


def test_an_unknown_instruction_set_is_refused(invoke: Invoke, package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATCPY_ISA", "avx3")
    ran = invoke("run", package, "--fill=ones")
    assert (ran.code, ran.err.splitlines()[0]) == (
        2, 'error[E13024] ATCPY_ISA="avx3": there is no such instruction set',
    )  # fmt: skip
    assert "avx2" in ran.err
    assert {row.isa for row in kernel_table()} <= set(ISAS)
    for name in ISAS:
        monkeypatch.setenv("ATCPY_ISA", name)
        assert invoke("run", package, "--fill=ones").code == 0


def test_help_of_a_command(invoke: Invoke) -> None:
    assert invoke("help", "run").out == invoke("run", "--help").out
    assert invoke("help").out == invoke("--help").out
    assert 'no command "rum"' in invoke("help", "rum").err
