"""Pictures for an input with AIPP: the bytes that a package takes, and by numpy what its model takes instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atcpy.aipp.config import DYNAMIC, Aipp, Conversion, Fields, Picture
from atcpy.aipp.fit import channel_problems, size_problems, source_problems
from atcpy.aipp.parameters import parameters_of
from atcpy.aipp.recorded import ModelInput
from atcpy.aipp.settings import read_settings
from atcpy.errors import UsageError, raise_all

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class PictureInput:
    """An input of a package that takes pictures: what the package records of it."""

    name: str
    recorded: Mapping[str, Any]  # the settings, by ATC's names
    model: ModelInput
    max_bytes: int  # of a dynamic input; 0 of a static one

    @property
    def is_dynamic(self) -> bool:
        """Whether its settings come with each run."""
        return self.recorded.get("aipp_mode") == DYNAMIC

    def static_settings(self) -> Aipp:
        """Return the settings of a static input."""
        known = {name: value for name, value in self.recorded.items() if not name.startswith(("related", "input_edge"))}
        return read_settings(known, Fields(value=self.name))

    def run_settings(self, settings: object, pictures: Array) -> list[Aipp]:
        """Return the settings of each picture of a run: `settings` are one mapping for all of them, or one each. Sizes
        of the source that they leave out are those of `pictures`, [N, H, W, C]. Raises UsageError (E10052) or
        Unsupported (E10055).
        """
        fields = Fields(value=self.name)
        count, size = self.model.pictures, self.model.size
        assert count is not None and size[0] is not None and size[1] is not None
        each = settings if isinstance(settings, list | tuple) else [settings] * count
        if len(each) != count:
            raise fields.error(f'{len(each)} settings for the {count} pictures of the input "{self.name}"')
        if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[0] != count:
            what = f"pictures {list(pictures.shape)} {pictures.dtype} are not [{count}, H, W, C] uint8"
            raise fields.error(f'{what} for the input "{self.name}"')
        height, width = pictures.shape[1:3]
        blocks = [read_settings(one, fields) for one in each]
        is_yuv = blocks[0].picture is Picture.YUV420SP
        blocks = [_sized(block, height * 2 // 3 if is_yuv else height, width) for block in blocks]
        model = size[0], size[1]
        for block in blocks:
            problems = [
                *channel_problems(block, self.name, self.model.channels),
                *source_problems(block, block.source_height, block.source_width),
                *size_problems(block, self.name, (block.source_height, block.source_width), model),
            ]
            raise_all(problems)
        expected = (count, *source_shape(blocks[0]))
        if pictures.shape != expected:
            what = f'pictures {list(pictures.shape)} are not {list(expected)}, as the settings of "{self.name}" say'
            raise fields.error(what, "src_image_size_h", "src_image_size_w")
        if pictures.nbytes > self.max_bytes:
            what = f"{pictures.nbytes} bytes of pictures are more than max_src_image_size: {self.max_bytes}"
            raise fields.error(what, hint="convert it with a larger max_src_image_size")
        return blocks

    def first_settings(self, settings: object) -> Aipp:
        """Return the settings of the first picture of a run; where they leave its size out, it is that of the model."""
        one = settings[0] if isinstance(settings, list | tuple) and settings else settings
        block = read_settings(one, Fields(value=self.name))
        height, width = self.model.size
        assert height is not None and width is not None
        return _sized(block, height, width)

    def run_feeds(self, blocks: Sequence[Aipp], pictures: Array) -> dict[str, Array]:
        """Return the two inputs of a dynamic package: the bytes of the pictures, and the parameters."""
        height, width = self.model.size
        assert height is not None and width is not None
        parameters = parameters_of(blocks, (height, width))
        room = np.zeros(self.max_bytes, np.uint8)
        room[: pictures.size] = pictures.reshape(-1)
        return {self.name: room, self.model.parameters: parameters.to_array()}

    def model_array(self, blocks: Sequence[Aipp], pictures: Array) -> Array:
        """Return what the model takes for pictures with these settings, one each, in its type and layout. Dynamic
        settings are rounded as the parameters are.
        """
        rounded = [_rounded(block) if self.is_dynamic else block for block in blocks]
        each = [_converted(block, picture, self.model) for block, picture in zip(rounded, pictures, strict=True)]
        stacked = np.stack(each)
        return np.ascontiguousarray(stacked.transpose(0, 3, 1, 2) if self.model.layout == "NCHW" else stacked)


def _sized(block: Aipp, height: int, width: int) -> Aipp:
    """With the sizes of the source that are not set."""
    height, width = block.source_height or height, block.source_width or width
    settings = {**block.settings, "src_image_size_h": height, "src_image_size_w": width}
    return replace(block, source_height=height, source_width=width, settings=settings)


def source_shape(block: Aipp) -> tuple[int, int, int]:
    """Return height, width and channels of the bytes of a picture."""
    rows = block.source_height * 3 // 2 if block.picture is Picture.YUV420SP else block.source_height
    return rows, block.source_width, block.picture.channels


def _rounded(block: Aipp) -> Aipp:
    """With what Ascend keeps in float16 as it keeps it."""
    low, factor = (tuple(map(float, np.array(numbers, np.float16))) for numbers in (block.low, block.factor))
    return replace(block, low=low, factor=factor)


def _converted(block: Aipp, source: Array, model: ModelInput) -> Array:
    """One picture, [H, W, C], by the formulas of ATC's manual: in int64, then in float32."""
    levels = _channels(block, source).astype(np.int64)
    if (crop := block.crop) is not None:
        height, width = crop.height or model.size[0], crop.width or model.size[1]
        assert height is not None and width is not None
        levels = levels[crop.top : crop.top + height, crop.left : crop.left + width]
    if block.conversion is not None:
        levels = _converted_colours(block.conversion, levels)
    levels = levels[..., : model.channels]
    picture: Array = levels.astype(np.uint8)
    if model.dtype != "uint8":
        channels = range(model.channels)
        mean = np.array([block.mean[i] + block.low[i] for i in channels], np.float32)
        picture = (levels.astype(np.float32) - mean) * np.array([block.factor[i] for i in channels], np.float32)
    picture = picture.astype(model.dtype)
    if (pad := block.padding) is not None:
        around = ((pad.top, pad.bottom), (pad.left, pad.right), (0, 0))
        picture = np.pad(picture, around, constant_values=pad.value)
    return picture


def _channels(block: Aipp, source: Array) -> Array:
    """The channels in the order that the switches choose."""
    if block.picture is Picture.YUV400:
        return source
    if block.picture is not Picture.YUV420SP:
        pixels = source[..., 1:4] if block.swap_ax else source[..., :3]
        return pixels[..., ::-1] if block.swap_rb else pixels
    rows, width, _ = source.shape
    height = rows * 2 // 3
    chroma = source[height:].reshape(height // 2, width // 2, 2)[..., :: -1 if block.swap_rb else 1]
    return np.concatenate([source[:height], chroma.repeat(2, axis=0).repeat(2, axis=1)], axis=2)


def _converted_colours(conversion: Conversion, levels: Array) -> Array:
    sums = (levels - np.array(conversion.input_bias)) @ np.array(conversion.rows).T
    clamped: Array = np.clip((sums >> 8) + np.array(conversion.output_bias), 0, 255)
    return clamped


def default_settings(picture_input: PictureInput) -> dict[str, Any]:
    """Return settings for a dynamic input of which nothing is known: RGB of the size of the model, or gray for one
    channel. Raises UsageError (E10052) if such pictures have more bytes than it takes.
    """
    model = picture_input.model
    height, width = model.size
    assert height is not None and width is not None and model.pictures is not None
    shape = [model.pictures, height, width, model.channels]
    if prod(shape) > picture_input.max_bytes:
        what = f"AIPP: pictures {shape} are more than max_src_image_size: {picture_input.max_bytes}"
        raise UsageError("E10052", what, hint="--aipp with settings of smaller ones")
    return {"input_format": (Picture.YUV400 if model.channels == 1 else Picture.RGB888).value}
