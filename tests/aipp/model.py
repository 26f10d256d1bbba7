"""A plain numpy model of AIPP: the formulas of ATC's manual, pixel by pixel, in 64-bit integers and float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Config = Mapping[str, Any]

DEFAULT_YUV = ((298, 516, 0), (298, -100, -208), (298, 0, 409))
DEFAULT_RGB = ((66, 129, 25), (-38, -74, 112), (112, -94, -18))


def textproto(*configs: Config) -> str:
    """The configurations as a file."""
    blocks = []
    for config in configs:
        fields = {"aipp_mode": "static"} | dict(config)
        lines = [f"  {name}: {_text(name, value)}" for name, value in fields.items()]
        blocks.append("\n".join(["aipp_op {", *lines, "}"]))
    return "\n".join(blocks) + "\n"


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if name == "related_input_name" else str(value)


def input_shape(config: Config, batch: int, height: int, width: int) -> tuple[int, ...]:
    """The shape of the bytes for a model of pictures of that size."""
    height = config.get("src_image_size_h") or height
    width = config.get("src_image_size_w") or width
    match config["input_format"]:
        case "YUV420SP_U8":
            return batch, height * 3 // 2, width, 1
        case "YUV400_U8":
            return batch, height, width, 1
        case "RGB888_U8":
            return batch, height, width, 3
    return batch, height, width, 4


def aipp(config: Config, source: Array, channels: int, height: int, width: int) -> Array:
    """What the model takes for the bytes, in float64 and NHWC; of a model that takes bytes, `levels`."""
    return padded(config, normalized(config, levels(config, source, channels, height, width)))


def levels(config: Config, source: Array, channels: int, height: int, width: int) -> Array:
    """The integers before mean and factor."""
    pixels = _pixels(config, source).astype(np.int64)
    if config.get("crop"):
        top, left = config.get("load_start_pos_h", 0), config.get("load_start_pos_w", 0)
        height, width = config.get("crop_size_h") or height, config.get("crop_size_w") or width
        pixels = pixels[:, top : top + height, left : left + width]
    if config.get("csc_switch"):
        pixels = _converted(config, pixels)
    return pixels[..., :channels]


def _pixels(config: Config, source: Array) -> Array:
    swap = config.get("rbuv_swap_switch", False)
    if config["input_format"] == "YUV420SP_U8":
        batch, rows, width, _ = source.shape
        height = rows * 2 // 3
        pixels = np.zeros((batch, height, width, 3), np.uint8)
        for n in range(batch):
            data = source[n].ravel()
            for row in range(height):
                for column in range(width):
                    chroma = height * width + (row // 2) * width + (column // 2) * 2
                    u, v = data[chroma], data[chroma + 1]
                    pixels[n, row, column] = (data[row * width + column], *((v, u) if swap else (u, v)))
        return pixels
    if config["input_format"] == "XRGB8888_U8":
        source = source[..., 1:] if config.get("ax_swap_switch") else source[..., :3]
    return source[..., ::-1] if swap and source.shape[-1] == 3 else source


def _converted(config: Config, pixels: Array) -> Array:
    is_yuv = config["input_format"] == "YUV420SP_U8"
    default = DEFAULT_YUV if is_yuv else DEFAULT_RGB
    rows = [[config.get(f"matrix_r{r}c{c}", default[r][c]) for c in range(3)] for r in range(3)]
    side = "input" if is_yuv else "output"
    bias = [config.get(f"{side}_bias_{i}", (16, 128, 128)[i]) for i in range(3)]
    shifted = (pixels - (bias if is_yuv else 0)) @ np.array(rows).T >> 8
    return np.clip(shifted + (0 if is_yuv else bias), 0, 255)


def normalized(config: Config, pixels: Array) -> Array:
    """(level - mean - min) · var_reci of each channel."""
    numbers = {
        stem: np.array([config.get(f"{stem}_chn_{i}", default) for i in range(pixels.shape[-1])], np.float64)
        for stem, default in (("mean", 0), ("min", 0), ("var_reci", 1))
    }
    return np.asarray((pixels - numbers["mean"] - numbers["min"]) * numbers["var_reci"])


def padded(config: Config, pixels: Array) -> Array:
    """With rows and columns around it."""
    if not config.get("padding"):
        return pixels
    top, bottom, left, right = (config.get(f"{side}_padding_size", 0) for side in ("top", "bottom", "left", "right"))
    around = ((0, 0), (top, bottom), (left, right), (0, 0))
    return np.pad(pixels, around, constant_values=config.get("padding_value", 0))
