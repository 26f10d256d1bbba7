"""AIPP against a numpy model of its formulas: bit for bit where they are integer, else to 1e-3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import parser

import atcpy
from atcpy import InferenceSession
from tests.aipp import model
from tests.effort import THOROUGH, trials

FORMATS = ("YUV420SP_U8", "XRGB8888_U8", "RGB888_U8", "YUV400_U8")
# (to RGB) or (to YUV): rows and bias of ATC's manual, and the same with rows 0 and 2, or 1 and 2, exchanged.
YUV_TO_RGB = {
    "BT.601 narrow": ((298, 0, 409), (298, -100, -208), (298, 516, 0), 16),
    "BT.601 wide, JPEG": ((256, 0, 359), (256, -88, -183), (256, 454, 0), 0),
    "BT.709 narrow": ((298, 0, 459), (298, -55, -136), (298, 541, 0), 16),
    "BT.709 wide": ((256, 0, 403), (256, -48, -120), (256, 475, 0), 0),
}
RGB_TO_YUV = {
    "BT.601 narrow": ((66, 129, 25), (-38, -74, 112), (112, -94, -18), 16),
    "BT.601 wide, JPEG": ((77, 150, 29), (-43, -85, 128), (128, -107, -21), 0),
    "BT.709 narrow": ((47, 157, 16), (-26, -87, 112), (112, -102, -10), 16),
    "BT.709 wide": ((55, 183, 19), (-29, -99, 128), (128, -116, -12), 0),
}


def identity(channels: int, height: object, width: object, *, dtype: str = "float", batch: object = "N") -> Any:
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g ({dtype}[{batch},{channels},{height},{width}] x) => ({dtype}[{batch},{channels},{height},{width}] y) {{
            y = Identity(x)
        }}"""
    return parser.parse_model(text)


def ran(
    tmp_path: Path, config: model.Config, channels: int, size: tuple[int, int], *, batch: int = 1, dtype: str = "float"
) -> tuple[model.Array, model.Array]:
    """What the package gives for random bytes, in NHWC, and the bytes."""
    (tmp_path / "aipp.cfg").write_text(model.textproto(config))
    height, width = size
    graph = identity(channels, height, width, dtype=dtype)
    atcpy.convert(
        graph,
        tmp_path / "m.om",
        insert_op_conf=tmp_path / "aipp.cfg",
        input_shape=f"x:{batch},{channels},{height},{width}",
    )
    session = InferenceSession(tmp_path / "m.om")
    shape = model.input_shape(config, batch, height, width)
    assert (session.get_inputs()[0].shape, session.get_inputs()[0].type) == (shape, "tensor(uint8)")
    source = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    return session.run(None, {"x": source})[0].transpose(0, 2, 3, 1), source


def matrix(rows: Any) -> dict[str, int]:
    return {f"matrix_r{r}c{c}": rows[r][c] for r in range(3) for c in range(3)}


def converting(kind: str, rows: Any, bias: int) -> dict[str, Any]:
    side = "input" if kind == "YUV420SP_U8" else "output"
    biases = {f"{side}_bias_0": bias, f"{side}_bias_1": 128, f"{side}_bias_2": 128}
    return {"input_format": kind, "csc_switch": True, **matrix(rows), **biases}


CONVERSIONS = [
    pytest.param(converting(kind, [rows[i] for i in order], rows[3]), id=f"{kind} {name} {order}")
    for kind, table, swapped in (
        ("YUV420SP_U8", YUV_TO_RGB, (2, 1, 0)),
        ("RGB888_U8", RGB_TO_YUV, (0, 2, 1)),
        ("XRGB8888_U8", RGB_TO_YUV, (0, 2, 1)),
    )
    for name, rows in table.items()
    for order in ((0, 1, 2), swapped)
]


@pytest.mark.parametrize("config", CONVERSIONS)
def test_conversions_of_the_manual(tmp_path: Path, config: model.Config) -> None:
    result, source = ran(tmp_path, config, 3, (6, 10))
    np.testing.assert_array_equal(result, model.levels(config, source, 3, 6, 10))


@pytest.mark.parametrize("kind", FORMATS[:3])
def test_conversions_by_default(tmp_path: Path, kind: str) -> None:
    config = {"input_format": kind, "csc_switch": True}
    result, source = ran(tmp_path, config, 3, (6, 10), batch=2)
    np.testing.assert_array_equal(result, model.levels(config, source, 3, 6, 10))


@pytest.mark.parametrize(("kind", "row"), [("YUV420SP_U8", (256, 0, 0)), ("RGB888_U8", (76, 150, 30))])
def test_conversions_to_gray(tmp_path: Path, kind: str, row: tuple[int, ...]) -> None:
    side = "input" if kind == "YUV420SP_U8" else "output"
    config = {"input_format": kind, "csc_switch": True, **matrix([row, (0, 0, 0), (0, 0, 0)])}
    config |= {f"{side}_bias_{i}": 0 for i in range(3)}
    result, source = ran(tmp_path, config, 1, (6, 10))
    np.testing.assert_array_equal(result, model.levels(config, source, 1, 6, 10))
    if kind == "YUV420SP_U8":
        np.testing.assert_array_equal(result, source[:, :6])


@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_matrices_do_not_overflow(tmp_path: Path, sign: int) -> None:
    largest = 32767 if sign > 0 else -32768
    config = converting("RGB888_U8", [(largest, largest, largest), (largest, -largest - 1, 0), (0, 0, 1)], 0)
    result, source = ran(tmp_path, config, 3, (7, 5))
    np.testing.assert_array_equal(result, model.levels(config, source, 3, 7, 5))


def test_models_that_take_bytes_skip_mean_and_factor(tmp_path: Path) -> None:
    config = {"input_format": "YUV420SP_U8", "csc_switch": True, "mean_chn_0": 9, "var_reci_chn_1": 0.5}
    config |= {"padding": True, "left_padding_size": 1, "padding_value": 255, "src_image_size_w": 4}
    result, source = ran(tmp_path, config, 3, (4, 5), dtype="uint8")
    assert result.dtype == np.uint8
    np.testing.assert_array_equal(result, model.padded(config, model.levels(config, source, 3, 4, 4)))


def test_float16_is_rounded_once(tmp_path: Path) -> None:
    config = {"input_format": "RGB888_U8", "mean_chn_0": 3, "min_chn_1": 0.5, "var_reci_chn_0": 0.0171}
    result, source = ran(tmp_path, config, 3, (4, 6), dtype="float16")
    expected = model.aipp(config, source, 3, 4, 6)
    np.testing.assert_array_max_ulp(result, expected.astype(np.float16), 1)


def test_an_x_is_first_or_last(tmp_path: Path) -> None:
    for ax, rb, order in ((False, False, "012"), (True, False, "123"), (False, True, "210"), (True, True, "321")):
        config = {"input_format": "XRGB8888_U8", "ax_swap_switch": ax, "rbuv_swap_switch": rb}
        result, source = ran(tmp_path, config, 3, (3, 5))
        np.testing.assert_array_equal(result, source[..., [int(channel) for channel in order]])


@st.composite
def configurations(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[int, int]]:
    """A configuration that fits a model of some size, and that size."""
    config: dict[str, Any] = {"input_format": draw(st.sampled_from(FORMATS))}
    is_yuv = config["input_format"] == "YUV420SP_U8"
    step = 2 if is_yuv else 1
    source_h, source_w = (draw(st.integers(1, 7)) * step for _ in range(2))
    source_w = max(source_w, 2)
    config |= {"src_image_size_h": source_h, "src_image_size_w": source_w}
    height, width = source_h, source_w
    if draw(st.booleans()):
        top, left = (draw(st.integers(0, (size - 1) // step)) * step for size in (source_h, source_w))
        height, width = draw(st.integers(1, source_h - top)), draw(st.integers(1, source_w - left))
        config |= {"crop": True, "load_start_pos_h": top, "load_start_pos_w": left}
        config |= {"crop_size_h": height, "crop_size_w": width}
    if draw(st.booleans()):
        config["padding"] = True
        for side in ("top", "bottom", "left", "right"):
            config[f"{side}_padding_size"] = draw(st.integers(0, 4))
        config["padding_value"] = draw(st.sampled_from([0, 114, -1.5]))
        height += config["top_padding_size"] + config["bottom_padding_size"]
        width += config["left_padding_size"] + config["right_padding_size"]
    if config["input_format"] != "YUV400_U8":
        config["rbuv_swap_switch"] = draw(st.booleans())
        if draw(st.booleans()):
            number, byte = st.integers(-32768, 32767) | st.integers(-600, 600), st.integers(0, 255)
            config["csc_switch"] = True
            config |= {f"matrix_r{r}c{c}": draw(number) for r in range(3) for c in range(3)}
            side = "input" if is_yuv else "output"
            config |= {f"{side}_bias_{i}": draw(byte) for i in range(3)}
    if config["input_format"] == "XRGB8888_U8":
        config["ax_swap_switch"] = draw(st.booleans())
    if draw(st.booleans()):
        config |= {f"mean_chn_{i}": draw(st.integers(0, 255)) for i in range(3)}
        config |= {f"min_chn_{i}": draw(st.sampled_from([0, 0.5, 123.675])) for i in range(3)}
        config |= {f"var_reci_chn_{i}": draw(st.sampled_from([1, 0.0171, -0.004, 1 / 255])) for i in range(3)}
    return config, (height, width)


@settings(THOROUGH, max_examples=trials(60))
@given(case=configurations(), batch=st.integers(1, 2))
def test_random_configurations(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[dict[str, Any], tuple[int, int]], batch: int
) -> None:
    config, size = case
    channels = 1 if config["input_format"] == "YUV400_U8" else 3
    result, source = ran(tmp_path_factory.mktemp("aipp"), config, channels, size, batch=batch)
    expected = model.aipp(config, source, channels, *size)
    if any(name.startswith(("mean", "padding_value")) for name in config):
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-3)
    else:
        np.testing.assert_array_equal(result, expected)
