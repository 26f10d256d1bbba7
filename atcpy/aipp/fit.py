"""Whether the settings of a block fit the source pictures and the input of the model."""

from __future__ import annotations

from collections.abc import Iterator

from atcpy.aipp.config import MAX_SIDE, Aipp, Picture
from atcpy.errors import UsageError


def channel_problems(block: Aipp, name: str, channels: int) -> Iterator[UsageError]:
    """Why the channels that it makes are not those of the input `name`."""
    made = 3 if block.conversion is not None else block.picture.colours
    if channels == made:
        return
    hint = ""
    if block.conversion is not None and channels == 1:
        if not any(map(any, block.conversion.rows[1:])):
            return
        hint = "for gray, the second and the third row of the matrix are 0"
    elif channels == 1:
        hint = "a conversion makes gray: csc_switch, matrix_r0c0: 76, matrix_r0c1: 150, matrix_r0c2: 30, the rest 0"
    what = f'{block.picture.value} gives {made} channels, the input "{name}" takes {channels}'
    yield block.fields.error(what, "csc_switch" if block.conversion else "input_format", hint=hint)


def source_problems(block: Aipp, height: int, width: int) -> Iterator[UsageError]:
    """Why the source pictures cannot have this size."""
    for name, size, least in (("src_image_size_h", height, 1), ("src_image_size_w", width, 2)):
        if not least <= size <= MAX_SIDE:
            yield block.fields.error(f"{name}: {size} is outside {least}..{MAX_SIDE}", name)
        elif block.picture is Picture.YUV420SP and size % 2:
            yield block.fields.error(f"{name}: {size} is odd, and YUV420SP_U8 has a U and a V of 2×2", name)


def size_problems(block: Aipp, name: str, source: tuple[int, int], model: tuple[int, int]) -> Iterator[UsageError]:
    """Why a source of this height and width does not become what the input `name` takes."""
    height, width = size = source
    if crop := block.crop:
        size = crop.height or model[0], crop.width or model[1]
        for letter, start, part, whole in (("w", crop.left, size[1], width), ("h", crop.top, size[0], height)):
            if start + part > whole:
                what = f"crop {size[1]}×{size[0]} at ({crop.left},{crop.top}) leaves the {width}×{height} source"
                names = (f"crop_size_{letter}", f"load_start_pos_{letter}", "crop")
                yield block.fields.error(f"{what}: {start} + {part} > {whole}", *names)
    top = bottom = left = right = 0
    if padding := block.padding:
        top, bottom, left, right = padding.top, padding.bottom, padding.left, padding.right
    for letter, before, part, after, expected in (
        ("w", left, size[1], right, model[1]),
        ("h", top, size[0], bottom, model[0]),
    ):
        if before + part + after != expected:
            sum_of = f"{before} + {part} + {after}" if padding else f"{part}"
            side = "width" if letter == "w" else "height"
            what = f'the {side} of the picture is not that of the input "{name}"'
            fields = (f"crop_size_{letter}", f"src_image_size_{letter}", "padding", "crop")
            yield block.fields.error(f"{what}: {sum_of} ≠ {expected}", *fields)
