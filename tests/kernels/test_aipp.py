"""The kernel of AIPP: every row against a numpy model, at sizes around the span of pixels that it computes at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from atcpy.ir import DType, Node
from atcpy.ir.tensor import Array
from atcpy.kernels import _kernels
from tests.aipp import model
from tests.harness import load_task, make_node, run_op
from tests.isa import LOOP_ISAS

CONVERSION = {"csc_switch": True, "matrix_r0c0": 298, "matrix_r1c1": -208, "matrix_r2c2": 516}
SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {"input_format": "RGB888_U8"},
    "swapped": {"input_format": "RGB888_U8", "rbuv_swap_switch": True, "mean_chn_0": 124, "var_reci_chn_1": 0.5},
    "x_first": {"input_format": "XRGB8888_U8", "ax_swap_switch": True, **CONVERSION},
    "gray": {"input_format": "YUV400_U8", "mean_chn_0": 9},
    "nv21": {"input_format": "YUV420SP_U8", "rbuv_swap_switch": True, **CONVERSION},
}


def node_of(config: dict[str, Any], source: Array, size: tuple[int, int], *, planar: bool, dtype: DType) -> Node:
    """A node for the configuration, with a crop of two rows and columns and padding all around."""
    to_rgb = config["input_format"] == "YUV420SP_U8"
    attrs: dict[str, object] = {
        "planar": int(planar), "channels": 1 if config["input_format"] == "YUV400_U8" else 3,
        "size": (size[0] + 3, size[1] + 3), "to": dtype.onnx, "format": config["input_format"],
        "source": (size[0] + 2, size[1] + 2), "swap_rb": int(config.get("rbuv_swap_switch", False)),
        "swap_ax": int(config.get("ax_swap_switch", False)), "crop": (2, 2, *size), "pads": (1, 2), "padding": 7.0,
        "mean": tuple(float(config.get(f"mean_chn_{i}", 0)) for i in range(3)),
        "factor": tuple(float(config.get(f"var_reci_chn_{i}", 1)) for i in range(3)),
    }  # fmt: skip
    if "csc_switch" in config:
        default = model.DEFAULT_YUV if to_rgb else model.DEFAULT_RGB
        rows = [[config.get(f"matrix_r{r}c{c}", default[r][c]) for c in range(3)] for r in range(3)]
        bias = (16, 128, 128)
        attrs["matrix"] = tuple(number for row in rows for number in row)
        attrs["offset"] = tuple(-int(np.dot(r, bias)) if to_rgb else 256 * b for r, b in zip(rows, bias, strict=True))
    return make_node("Aipp", [source], attrs)


def expected(config: dict[str, Any], source: Array, channels: int, size: tuple[int, int], *, is_float: bool) -> Array:
    config = config | {"crop": True, "load_start_pos_h": 2, "load_start_pos_w": 2, "padding_value": 7, "padding": True}
    config |= {"crop_size_h": size[0], "crop_size_w": size[1]}
    config |= {"top_padding_size": 1, "bottom_padding_size": 2, "left_padding_size": 2, "right_padding_size": 1}
    levels = model.levels(config, source, channels, *size)
    return model.padded(config, model.normalized(config, levels) if is_float else levels)


@pytest.mark.parametrize("isa", LOOP_ISAS)
@pytest.mark.parametrize("kind", SETTINGS)
def test_rows_agree_with_the_model(isa: str, kind: str) -> None:
    config, rows = SETTINGS[kind], list[str]()
    for size in ((2, 2), (2, 30), (4, 510), (2, 512), (2, 514), (2, 1026)):
        whole = (size[0] + 2, size[1] + 2)
        source = np.random.default_rng(size[1]).integers(0, 256, model.input_shape(config, 2, *whole), np.uint8)
        for planar in (True, False):
            for dtype in (DType.FLOAT32, DType.UINT8):
                node = node_of(config, source, size, planar=planar, dtype=dtype)
                (result,) = run_op(node, [source], isa=isa, threads=2, rows=rows)
                result = result.transpose(0, 2, 3, 1) if planar else result
                right = expected(config, source, result.shape[-1], size, is_float=dtype is DType.FLOAT32)
                np.testing.assert_array_equal(result, right)
    assert set(rows) == {f"aipp_to_f32_{isa}", f"aipp_to_u8_{isa}"}


# --- what the checker refuses: the arguments of two gray pictures of 4×6, cut to 2×4 and padded to 3×5

GRAY: dict[str, Any] = {
    "pictures": 2, "channels": 1, "height": 3, "width": 5, "planar": 1, "bytes": 48, "format": "YUV400_U8",
    "src_height": 4, "src_width": 6, "crop_top": 2, "crop_left": 2, "crop_height": 2, "crop_width": 4, "pad_top": 1,
    "pad_left": 1,
}  # fmt: skip
NV12 = GRAY | {"format": "YUV420SP_U8", "src_height": 4, "src_width": 4, "crop_width": 2}
RGB = GRAY | {"format": "RGB888_U8", "channels": 3, "src_height": 2, "src_width": 4, "crop_top": 0, "crop_left": 0}


def load(params: dict[str, Any], source: int = 48, result: int | None = None, dtype: Any = np.float32) -> None:
    elements = 2 * 3 * 5 * params["channels"] if result is None else result
    load_task("aipp", params, [np.zeros(source, np.uint8)], np.zeros(elements, dtype))


@pytest.mark.parametrize("params", [GRAY, NV12, RGB], ids=["gray", "nv12", "rgb"])
def test_arguments_that_fit(params: dict[str, Any]) -> None:
    load(params)
    load(params | {"padding": 255.0}, dtype=np.uint8)
    for name in ("swap_rb", "swap_ax"):
        load(params | {name: 1})
    load(params | {"matrix": [32767] * 9, "offset": [1 << 26] * 3})
    load(params | {"matrix": [-32768] * 9, "offset": [-(1 << 26)] * 3})


@pytest.mark.parametrize(
    ("params", "change", "reason"),
    [
        (GRAY, {"pictures": 0}, "out of range"),
        (GRAY, {"pictures": 3}, "larger than stated"),
        (GRAY, {"channels": 2}, "out of range"),
        (GRAY, {"channels": 3}, "one channel"),
        (GRAY, {"convert": 1}, "one channel"),
        (RGB, {"convert": 2}, "out of range"),
        (RGB, {"planar": 2}, "out of range"),
        (RGB, {"swap_rb": -1}, "out of range"),
        (RGB, {"swap_ax": 2}, "out of range"),
        (RGB, {"bytes": 47}, "larger than stated"),
        (GRAY, {"bytes": 49}, "too small"),
        (GRAY, {"src_height": 5}, "larger than stated"),
        (GRAY, {"src_width": 2**46}, "larger than stated"),
        (GRAY, {"crop_top": 3}, "leaves the picture"),
        (GRAY, {"crop_left": 3}, "leaves the picture"),
        (GRAY, {"crop_top": -1}, "out of range"),
        (GRAY, {"crop_height": 0}, "out of range"),
        (GRAY, {"crop_width": 2**62}, "out of range"),
        (GRAY, {"pad_top": 2}, "leaves the result"),
        (GRAY, {"pad_left": 2}, "leaves the result"),
        (GRAY, {"pad_left": -1}, "out of range"),
        (GRAY, {"width": 2**40}, "too small"),
        (GRAY, {"padding": float("nan")}, "padding"),
        (GRAY, {"padding": 1e300}, "padding"),
        (GRAY, {"padding": -1e300}, "padding"),
        (NV12, {"crop_left": 1}, "2×2"),
        (NV12, {"crop_top": 1}, "2×2"),
        (NV12, {"src_width": 5}, "2×2"),
        (NV12, {"src_height": 3}, "2×2"),
        (RGB, {"matrix": [32768, *[0] * 8]}, "matrix"),
        (RGB, {"matrix": [*[0] * 8, -32769]}, "matrix"),
        (RGB, {"offset": [0, 0, (1 << 26) + 1]}, "offset"),
        (RGB, {"offset": [-(1 << 26) - 1, 0, 0]}, "offset"),
    ],
)
def test_arguments_that_do_not_fit(params: dict[str, Any], change: dict[str, Any], reason: str) -> None:
    with pytest.raises(_kernels.Refused, match=reason):
        load(params | change, result=2 * 3 * 5 * params["channels"])


def test_operands_that_do_not_fit() -> None:
    with pytest.raises(_kernels.Refused, match="too small"):
        load(GRAY, source=47)
    with pytest.raises(_kernels.Refused, match="too small"):
        load(GRAY, result=29)
    with pytest.raises(_kernels.Refused, match="unknown type"):
        load(GRAY, dtype=np.float64)
    for padding in (-1.0, 256.0):
        with pytest.raises(_kernels.Refused, match="padding"):
            load(GRAY | {"padding": padding}, dtype=np.uint8)
    picture, result = np.zeros(48, np.uint8), np.zeros(30, np.float32)
    with pytest.raises(_kernels.Refused, match="number of operands"):
        load_task("aipp", GRAY, [picture, picture, picture], result)
    with pytest.raises(_kernels.Refused, match="number of operands"):
        load_task("aipp", GRAY, [], result)
    with pytest.raises(_kernels.Refused, match="number of operands"):
        load_task("aipp", GRAY, [picture], result, result)


def test_parameters_may_be_left_out_or_need_room() -> None:
    picture, result, block = np.zeros(48, np.uint8), np.zeros(30, np.float32), np.zeros(64 + 2 * 96, np.uint8)
    load_task("aipp", GRAY, [picture, None], result)
    with pytest.raises(_kernels.Refused, match="leaves the picture"):
        load_task("aipp", GRAY | {"crop_top": 3}, [picture, None], result)
    load_task("aipp", GRAY | {"crop_top": 3}, [picture, block], result)
    with pytest.raises(_kernels.Refused, match="too small"):
        load_task("aipp", GRAY, [picture, block[1:].copy()], result)
    with pytest.raises(_kernels.Refused, match="wrong type"):
        load_task("aipp", GRAY, [picture, block.view(np.int8)], result)
