"""AIPP in front of trained models, on a photograph: the package equals the formulas of the tests, then the model.

cat.jpg: Chelsea, a photograph by Stefan van der Walt, CC0; a sample picture of scikit-image, made smaller.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import Image

import atcpy
from atcpy import InferenceSession
from atcpy.errors import UsageError
from tests.aipp import model
from tests.e2e.test_real_models import MODELS, needs_models

PHOTOGRAPH = Path(__file__).with_name("cat.jpg")
pytestmark = [needs_models, pytest.mark.slow]

RGB, XRGB, YUV, GRAY = ({"input_format": name} for name in ("RGB888_U8", "XRGB8888_U8", "YUV420SP_U8", "YUV400_U8"))
IMAGENET = {
    "mean_chn_0": 124, "mean_chn_1": 116, "mean_chn_2": 104,
    "var_reci_chn_0": 0.0171, "var_reci_chn_1": 0.0175, "var_reci_chn_2": 0.0174,
}  # fmt: skip
CENTRED = {f"{name}_chn_{i}": value for i in range(3) for name, value in (("mean", 127), ("var_reci", 0.0078125))}
# To R, G, B, as a JPEG has it.
FULL_RANGE = {
    "csc_switch": True, "input_bias_0": 0,
    "matrix_r0c0": 256, "matrix_r0c1": 0, "matrix_r0c2": 359, "matrix_r1c0": 256, "matrix_r1c1": -88,
    "matrix_r1c2": -183, "matrix_r2c0": 256, "matrix_r2c1": 454, "matrix_r2c2": 0,
}  # fmt: skip
TO_GRAY = {
    "csc_switch": True, "matrix_r0c0": 76, "matrix_r0c1": 150, "matrix_r0c2": 30,
    **{f"matrix_r{r}c{c}": 0 for r in (1, 2) for c in range(3)}, **{f"output_bias_{i}": 0 for i in range(3)},
}  # fmt: skip


def source_size(width: int, height: int) -> dict[str, int]:
    return {"src_image_size_w": width, "src_image_size_h": height}


def crop(left: int, top: int, **size: int) -> dict[str, Any]:
    return {"crop": True, "load_start_pos_w": left, "load_start_pos_h": top, **size}


# name: model, the shape that it is converted for, settings
CASES: Mapping[str, tuple[str, tuple[int, ...], model.Config]] = {
    "rgb": ("ultraface_rfb_320", (1, 3, 240, 320), RGB | CENTRED),
    "bgr": ("yolox_nano", (1, 3, 416, 416), RGB | {"rbuv_swap_switch": True}),
    "rgb to yuv": ("ultraface_rfb_320", (1, 3, 240, 320), RGB | {"csc_switch": True} | CENTRED),
    "rgb, cropped at the last pixel, batch 2": (
        "yunet_n_dynamic", (2, 3, 96, 160), RGB | source_size(163, 101) | crop(3, 5)),
    "nv12, cropped": (
        "squeezenet_fp16", (1, 3, 224, 224), YUV | FULL_RANGE | IMAGENET | source_size(256, 256) | crop(16, 16)),
    "nv21, padded": (
        "face_landmark_mesh", (1, 3, 192, 192),
        YUV | FULL_RANGE | {"rbuv_swap_switch": True} | CENTRED | source_size(162, 150)
        | {"padding": True, "left_padding_size": 15, "right_padding_size": 15, "top_padding_size": 10,
           "bottom_padding_size": 32, "padding_value": -1}),
    "nv12 by default": ("antispoof_dynquant", (2, 3, 128, 128), YUV | {"csc_switch": True}),
    "xrgb, both switches": (
        "face_landmark_mesh", (1, 3, 192, 192), XRGB | {"ax_swap_switch": True, "rbuv_swap_switch": True} | CENTRED),
    "xrgb, padded": (
        "ppocr_v2_cls", (2, 3, 48, 192),
        XRGB | source_size(161, 47) | CENTRED
        | {"padding": True, "top_padding_size": 1, "right_padding_size": 31, "padding_value": 0.5}),
    "gray, cropped at the last pixel": (
        "superres_10", (1, 1, 224, 224),
        GRAY | {"var_reci_chn_0": 0.00390625} | source_size(320, 240) | crop(96, 16)),
    "rgb to gray": ("mnist-8", (1, 1, 28, 28), RGB | TO_GRAY | {"var_reci_chn_0": 0.00390625}),
}  # fmt: skip


def photograph(config: model.Config, batch: int, height: int, width: int) -> np.ndarray[Any, Any]:
    """The photograph as a camera gives it, with a black and a white pixel; every second one of a batch is mirrored."""
    shape = model.input_shape(config, batch, height, width)
    rows = shape[1] * 2 // 3 if config["input_format"] == "YUV420SP_U8" else shape[1]
    with Image.open(PHOTOGRAPH) as image:
        rgb = np.asarray(image.convert("RGB").resize((shape[2], rows))).copy()
        gray = np.asarray(image.convert("L").resize((shape[2], rows)))[..., np.newaxis]
    rgb[0, 0], rgb[-1, -1] = 0, 255
    yuv = np.asarray(Image.fromarray(rgb).convert("YCbCr"))
    match config["input_format"]:
        case "YUV420SP_U8":
            chroma = yuv[::2, ::2, 1:].reshape(rows // 2, shape[2])
            picture = np.concatenate([yuv[..., 0], chroma])[..., np.newaxis]
        case "YUV400_U8":
            picture = gray
        case "XRGB8888_U8":
            picture = np.concatenate([np.full_like(gray, 255), rgb], axis=-1)
        case _:
            picture = rgb
    return np.stack([picture[:, :: -1 if number % 2 else 1] for number in range(batch)]).reshape(shape)


def as_float32(config: model.Config) -> dict[str, Any]:
    """The settings with the factors that float32 has, as the package has them."""
    return {name: float(np.float32(value)) if "var_reci" in name else value for name, value in config.items()}


@cache
def port(name: str) -> tuple[str, np.dtype[Any]]:
    proto = onnx.load(MODELS / f"{name}.onnx", load_external_data=False)
    constants = {tensor.name for tensor in proto.graph.initializer}
    info = next(info for info in proto.graph.input if info.name not in constants)
    return info.name, onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)


def plain(name: str, folder: Path, shape: tuple[int, ...]) -> InferenceSession:
    """The package of the model without AIPP."""
    options = f"{port(name)[0]}:{','.join(map(str, shape))}"
    atcpy.convert(MODELS / f"{name}.onnx", folder / "plain.om", input_shape=options)
    return InferenceSession(folder / "plain.om", threads=1)


def with_aipp(name: str, folder: Path, shape: tuple[int, ...], text: str) -> InferenceSession:
    (folder / "aipp.cfg").write_text(text)
    atcpy.convert(
        MODELS / f"{name}.onnx",
        folder / "m.om",
        insert_op_conf=folder / "aipp.cfg",
        input_shape=f"{port(name)[0]}:{','.join(map(str, shape))}",
    )
    return InferenceSession(folder / "m.om", threads=1)


def prepared(name: str, shape: tuple[int, ...], config: model.Config, source: model.Array) -> model.Array:
    """What the formulas make of the pictures, as the model takes them."""
    result = model.aipp(as_float32(config), source, *shape[1:]).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(result.astype(port(name)[1]))


@pytest.mark.parametrize("case", CASES)
def test_a_photograph_through_a_trained_model(case: str, tmp_path: Path) -> None:
    name, shape, config = CASES[case]
    batch, _, height, width = shape
    source = photograph(config, batch, height, width)
    feeds = {port(name)[0]: prepared(name, shape, config, source)}
    with with_aipp(name, tmp_path, shape, model.textproto(config)) as session, plain(name, tmp_path, shape) as other:
        results, expected = session.run(None, {port(name)[0]: source}), other.run(None, feeds)
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference)


@pytest.mark.parametrize("name", ["blazeface_front_128", "selfie_seg_landscape"])
def test_channels_that_are_last_are_named(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has its channels last"):
        with_aipp(name, tmp_path, (1, 128, 128, 3) if name.startswith("b") else (1, 144, 256, 3), model.textproto(RGB))


@pytest.mark.parametrize("kind", ["RGB888_U8", "YUV420SP_U8", "XRGB8888_U8"])
def test_settings_of_a_run_do_the_same(kind: str, tmp_path: Path) -> None:
    name, shape = "yunet_n_dynamic", (2, 3, 96, 160)
    csc = FULL_RANGE if kind == "YUV420SP_U8" else {}
    common = {"input_format": kind, **csc, "crop": True, "crop_size_w": 150, "padding": True}
    each = [
        common | {"load_start_pos_w": 2, "crop_size_h": 90, "top_padding_size": 6, "left_padding_size": 10} | CENTRED,
        common | {"load_start_pos_h": 4, "crop_size_h": 96, "right_padding_size": 10},
    ]
    source = photograph({**common, **source_size(176, 100)}, 2, 0, 0)
    parts = [prepared(name, shape, config, source[i : i + 1]) for i, config in enumerate(each)]
    text = f"aipp_op {{ aipp_mode: dynamic max_src_image_size: {source.size} }}"
    with with_aipp(name, tmp_path, shape, text) as session, plain(name, tmp_path, shape) as other:
        results = session.run(None, {"input": source}, aipp={"input": each})
        expected = other.run(None, {"input": np.concatenate(parts)})
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, reference)
