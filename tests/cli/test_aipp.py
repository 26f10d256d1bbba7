"""Packages with AIPP on the command line: verify, bench, and run with settings from a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

import atcpy
from tests.aipp import model

from .conftest import Invoke

STATIC = "aipp_mode: static input_format: RGB888_U8 mean_chn_0: 100 var_reci_chn_0: 0.0171"
DYNAMIC = "aipp_mode: dynamic max_src_image_size: 400"


def write_model(folder: Path, *, batch: object = 1, dtype: str = "float", weight: float = 0.25) -> Path:
    """A convolution of pictures of 4×6."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({dtype}[{batch},3,4,6] x) => (float[{batch},1,4,6] y) <float[1,3,1,1] w = {{1, -2, {weight}}}> {{
            f = Cast<to = 1>(x)  y = Conv(f, w)
        }}"""
    onnx.save(onnx.parser.parse_model(text), folder / "m.onnx")
    return folder / "m.onnx"


def convert(folder: Path, source: Path, *blocks: str, **options: Any) -> Path:
    (folder / "aipp.cfg").write_text("\n".join(f"aipp_op {{ {block} }}" for block in blocks))
    atcpy.convert(source, folder / "m.om", insert_op_conf=folder / "aipp.cfg", **options)
    return folder / "m.om"


YUV = "input_format: YUV420SP_U8 csc_switch: true src_image_size_w: 8 src_image_size_h: 6 crop: true "
STATIC_BLOCKS = {
    "rgb": STATIC,
    "swapped": STATIC + " rbuv_swap_switch: true csc_switch: true min_chn_1: 0.5",
    "argb": "aipp_mode: static input_format: XRGB8888_U8 ax_swap_switch: true src_image_size_w: 5 padding: true "
    "right_padding_size: 1 padding_value: 3",
    "nv12": "aipp_mode: static " + YUV + "load_start_pos_w: 2",
}


@pytest.mark.parametrize("block", STATIC_BLOCKS)
def test_verify_gives_the_oracle_what_numpy_makes_of_the_pictures(invoke: Invoke, tmp_path: Path, block: str) -> None:
    package = convert(tmp_path, write_model(tmp_path), STATIC_BLOCKS[block])
    ran = invoke("verify", package)
    assert ran.code == 0, ran.out + ran.err
    assert ran.out.endswith("PASS\n")


@pytest.mark.parametrize("dtype", ["float16", "uint8"])
def test_verify_of_models_of_other_types(invoke: Invoke, tmp_path: Path, dtype: str) -> None:
    package = convert(tmp_path, write_model(tmp_path, dtype=dtype), STATIC)
    assert invoke("verify", package).code == 0


def test_verify_finds_another_model_and_other_settings(invoke: Invoke, tmp_path: Path) -> None:
    source = write_model(tmp_path)
    package = convert(tmp_path, source, STATIC)
    pictures = np.random.default_rng(0).integers(0, 256, (1, 4, 6, 3), np.uint8)
    np.savez(tmp_path / "x.npz", x=pictures)
    assert invoke("verify", package, "--input-data", tmp_path / "x.npz").code == 0
    write_model(tmp_path, weight=0.5)
    assert invoke("verify", package, "--against", source).code == 5


def test_verify_of_gears(invoke: Invoke, tmp_path: Path) -> None:
    source = write_model(tmp_path, batch="N")
    package = convert(tmp_path, source, STATIC, input_shape="x:-1,3,4,6", dynamic_batch_size="1,2")
    ran = invoke("verify", package)
    assert ran.code == 0, ran.out + ran.err
    assert "x:1,4,6,3" in ran.out and "x:2,4,6,3" in ran.out


def test_verify_of_dynamic_pictures(invoke: Invoke, tmp_path: Path) -> None:
    package = convert(tmp_path, write_model(tmp_path, batch=2), DYNAMIC)
    assert invoke("verify", package).code == 0
    settings = {"input_format": "YUV420SP_U8", "csc_switch": True, "src_image_size_w": 10, "src_image_size_h": 8,
                "crop": True, "load_start_pos_h": 2, "var_reci_chn_1": 0.0171, "min_chn_2": 0.3}  # fmt: skip
    (tmp_path / "s.json").write_text(json.dumps(settings))
    ran = invoke("verify", package, "--aipp", tmp_path / "s.json")
    assert ran.code == 0, ran.out + ran.err
    (tmp_path / "s.json").write_text(json.dumps([settings, {**settings, "mean_chn_0": 30, "crop": False}]))
    ran = invoke("verify", package, "--aipp", f"x={tmp_path / 's.json'}")
    assert (ran.code, "10 ≠ 6" in ran.err) == (2, True)
    report = atcpy.verify(package, aipp={"x": [settings, {**settings, "mean_chn_0": 30}]})
    assert report.passed


def test_verify_of_dynamic_pictures_that_are_too_large(invoke: Invoke, tmp_path: Path) -> None:
    package = convert(tmp_path, write_model(tmp_path), "aipp_mode: dynamic max_src_image_size: 71")
    ran = invoke("verify", package)
    assert (ran.code, "max_src_image_size: 71" in ran.err, "--aipp" in ran.err) == (2, True, True)
    package = convert(tmp_path, write_model(tmp_path), "aipp_mode: dynamic max_src_image_size: 72")
    assert invoke("verify", package).code == 0


@pytest.mark.slow
@pytest.mark.parametrize("block", [STATIC, DYNAMIC])
def test_bench_against_the_model(invoke: Invoke, tmp_path: Path, block: str) -> None:
    source = write_model(tmp_path)
    atcpy.convert(source, tmp_path / "plain.om")
    package = convert(tmp_path, source, block)
    for a, b in ((package, "ort"), (package, tmp_path / "plain.om"), (tmp_path / "plain.om", package)):
        ran = invoke("bench", a, "--vs", b, "--min-time", "0.01", "--json")
        assert ran.code == 0, ran.err
        assert len(ran.envelope["result"]["sides"]) == 2


def picture(folder: Path, height: int = 4, width: int = 6) -> np.ndarray[Any, Any]:
    levels = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(levels).save(folder / "p.png")
    return levels


def run_identity(invoke: Invoke, folder: Path, settings: object, *words: object) -> np.ndarray[Any, Any]:
    """The result of a package that returns its input, in NHWC."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,4,6] x) => (float[1,3,4,6] y) { y = Identity(x) }'
    onnx.save(onnx.parser.parse_model(text), folder / "i.onnx")
    package = convert(folder, folder / "i.onnx", DYNAMIC)
    (folder / "s.json").write_text(json.dumps(settings))
    ran = invoke("run", package, "--aipp", folder / "s.json", *words, "--npz_out", folder / "y.npz")
    assert ran.code == 0, ran.err
    result: np.ndarray[Any, Any] = np.load(folder / "y.npz")["y"].transpose(0, 2, 3, 1)
    return result


@pytest.mark.parametrize(
    "settings",
    [
        {"input_format": "RGB888_U8", "mean_chn_1": 7},
        {"input_format": "RGB888_U8", "rbuv_swap_switch": True, "csc_switch": True},
        {"input_format": "XRGB8888_U8", "ax_swap_switch": True},
        {"input_format": "XRGB8888_U8", "ax_swap_switch": True, "rbuv_swap_switch": True},
        {
            "input_format": "RGB888_U8",
            "src_image_size_w": 8,
            "src_image_size_h": 5,
            "crop": True,
            "load_start_pos_w": 1,
        },
    ],
)
def test_run_of_a_picture_with_settings(invoke: Invoke, tmp_path: Path, settings: dict[str, Any]) -> None:
    size = settings.get("src_image_size_h", 4), settings.get("src_image_size_w", 6)
    levels = picture(tmp_path, *size)[np.newaxis]
    result = run_identity(invoke, tmp_path, settings, "--image", f"x={tmp_path / 'p.png'}")
    plain = {
        **settings,
        "input_format": "RGB888_U8",
        "rbuv_swap_switch": False,
    }  # fed in the order that is swapped back
    np.testing.assert_array_equal(result, model.aipp(plain, levels, 3, 4, 6))


def test_run_of_an_array_with_settings(invoke: Invoke, tmp_path: Path) -> None:
    settings = {"input_format": "YUV420SP_U8", "csc_switch": True}
    source = np.random.default_rng(2).integers(0, 256, (1, 6, 6, 1), np.uint8)
    np.save(tmp_path / "x.npy", source)
    result = run_identity(invoke, tmp_path, settings, "--input", f"x={tmp_path / 'x.npy'}")
    np.testing.assert_array_equal(result, model.aipp(settings, source, 3, 4, 6))


def test_files_of_settings_that_do_not_fit(invoke: Invoke, tmp_path: Path) -> None:
    source = write_model(tmp_path)
    package = convert(tmp_path, source, DYNAMIC)
    picture(tmp_path)
    file = tmp_path / "s.json"
    ran = invoke("run", package, "--image", f"x={tmp_path / 'p.png'}")
    assert (ran.code, "E10001" in ran.err, "--aipp x=" in ran.err) == (2, True, True)
    ran = invoke("run", package, "--aipp", file, "--fill", "ones")
    assert (ran.code, "E10410" in ran.err) == (2, True)
    for content, code in (
        ("{", "E13005"), ("[" * 100_000, "E13005"), ("[]", "E10052"), ("3", "E10052"), ('{"csc": 1}', "E10052"),
        ('{"input_format": "RGB888_U8", "mean_chn_0": 256}', "E10052"),
    ):  # fmt: skip
        file.write_text(content)
        ran = invoke("run", package, "--aipp", file, "--fill", "ones")
        assert (ran.code, code in ran.err) == (2, True), (content[:9], ran.err)
    file.write_bytes(b"\xff{}")
    assert "E13005" in invoke("run", package, "--aipp", file, "--fill", "ones").err
    file.write_text('{"input_format": "RGB888_U8"}')
    assert invoke("run", package, "--aipp", file, "--fill", "ones").code == 0
    ran = invoke("run", package, "--aipp", file, "--aipp", f"x={file}", "--fill", "ones")
    assert (ran.code, "E10056" in ran.err) == (2, True)
    ran = invoke("run", package, "--aipp", f"y={file}", "--fill", "ones")
    assert (ran.code, "E10404" in ran.err) == (2, True)
    static = convert(tmp_path, source, STATIC)
    ran = invoke("run", static, "--aipp", file, "--fill", "ones")
    assert (ran.code, "E10404" in ran.err) == (2, True)
