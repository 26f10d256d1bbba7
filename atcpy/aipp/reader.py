"""Reads the file of --insert_op_conf: textproto of `aipp_op` blocks, checked as far as that goes without the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf import text_format

from atcpy.aipp.config import (
    CHANNELS,
    MAX_SIDE,
    Aipp,
    AippConfig,
    Conversion,
    Crop,
    Fields,
    Padding,
    Picture,
    Setting,
    Triple,
)
from atcpy.aipp.schema.insert_op_pb2 import AippOpParams, InsertNewOps
from atcpy.errors import AtcError, AtcWarning, Unsupported, UsageError, Where, did_you_mean, raise_all, raise_os_error
from atcpy.files import read_file

MAX_HALF = 65504.0  # the largest finite float16

_MATRIX = tuple(f"matrix_r{row}c{column}" for row in range(3) for column in range(3))
_INPUT_BIAS, _OUTPUT_BIAS = (tuple(f"{side}_bias_{i}" for i in range(3)) for side in ("input", "output"))
_CROP = ("load_start_pos_h", "load_start_pos_w", "crop_size_h", "crop_size_w")
_PADDING = ("top_padding_size", "bottom_padding_size", "left_padding_size", "right_padding_size", "padding_value")
_MEAN, _MIN, _FACTOR = (tuple(f"{stem}_chn_{i}" for i in range(CHANNELS)) for stem in ("mean", "min", "var_reci"))

_TO_BGR = (298, 516, 0, 298, -100, -208, 298, 0, 409)
_TO_YUV = (66, 129, 25, -38, -74, 112, 112, -94, -18)
_BIAS = (16, 128, 128)

# The smallest and the largest value of each field.
_RANGES: dict[str, tuple[float, float]] = {
    "src_image_size_w": (0, MAX_SIDE),
    "src_image_size_h": (0, MAX_SIDE),
    "load_start_pos_w": (0, MAX_SIDE - 1),
    "load_start_pos_h": (0, MAX_SIDE - 1),
    "crop_size_w": (0, MAX_SIDE),
    "crop_size_h": (0, MAX_SIDE),
    **dict.fromkeys(_PADDING[:4], (0, 32)),
    "padding_value": (-MAX_HALF, MAX_HALF),
    **dict.fromkeys(_MATRIX, (-32768, 32767)),
    **dict.fromkeys((*_INPUT_BIAS, *_OUTPUT_BIAS, *_MEAN, *_MIN), (0, 255)),
    **dict.fromkeys(_FACTOR, (-MAX_HALF, MAX_HALF)),
}
# What ATC keeps for later, and the only value that it takes.
_RESERVED: dict[str, float] = {
    "support_rotation": 0,
    "rotation_angle": 0,
    "cpadding_value": 0,
    "resize": 0,
    "resize_output_w": 0,
    "resize_output_h": 0,
    "single_line_mode": 0,
    "raw_rgbir_to_f16_n": 8,
}


def read_aipp(path: str) -> AippConfig:
    """Read a configuration. Raises UsageError (E13018, E10052) or Unsupported (E10055), with all that is wrong with its
    values.
    """
    try:
        text = read_file(path).decode("utf-8-sig")
    except OSError as error:
        raise_os_error(error, path)
    except UnicodeDecodeError as error:
        raise UsageError("E13005", f"{path} is not UTF-8 text", where=Where(file=path, offset=error.start)) from error
    message = _parse(path, text)
    places = list(_blocks(path, text))
    if not message.aipp_op:
        raise UsageError("E10052", f"AIPP: {path} has no aipp_op block", where=Where(file=path))
    blocks = list(zip(message.aipp_op, places, strict=True))
    raise_all([problem for block, fields in blocks for problem in _problems(block, fields)])
    return AippConfig(tuple(_record(block, fields) for block, fields in blocks))


# --------------------------------------------------------------------------------------------------------------------
# Text


def _parse(path: str, text: str) -> InsertNewOps:
    try:
        return text_format.Parse(text, InsertNewOps())
    except text_format.ParseError as error:
        line, column = error.GetLine(), error.GetColumn()
        problem = re.sub(r"^\d+:\d+ : ('.*?': (?=[A-Z]))?", "", str(error), flags=re.DOTALL).replace("atcpy.aipp.", "")
        hint = ""
        if unknown := re.search(r'"(\w+)" has no field named "(\w+)"', problem):
            owner = AippOpParams if unknown[1] == "AippOpParams" else InsertNewOps
            hint = did_you_mean(unknown[2], [known.name for known in owner.DESCRIPTOR.fields])
        elif unknown := re.search(r'"AippOpParams\.(\w+)" has no value named (\w+)', problem):
            hint = did_you_mean(unknown[2], AippOpParams.DESCRIPTOR.enum_types_by_name[unknown[1]].values_by_name)
        where = Where(file=path, line=line, column=column)
        raise UsageError("E13018", f"{path}:{line}:{column}: {problem}", where=where, hint=hint) from error


_COMMENT_OR_STRING = re.compile(r"""#[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""")
_BLOCK = re.compile(r"[{<]([^{}<>]*)[}>]")  # no field of a block is a message
_FIELD = re.compile(r"\b([a-z]\w*)\s*:")


def _blocks(path: str, text: str) -> Iterator[Fields]:
    """Find where the blocks of a text that was parsed begin, and the first line of each field."""
    code = _COMMENT_OR_STRING.sub(lambda match: " " * len(match[0]), text)
    for block in _BLOCK.finditer(code):
        lines: dict[str, int] = {}
        for match in _FIELD.finditer(code, *block.span(1)):
            lines.setdefault(match[1], code.count("\n", 0, match.start()) + 1)
        yield Fields(path, code.count("\n", 0, block.start()) + 1, lines)


# --------------------------------------------------------------------------------------------------------------------
# Checks


def _problems(block: AippOpParams, fields: Fields) -> Iterator[AtcError]:
    if block.aipp_mode == AippOpParams.dynamic:
        hint = "aipp_mode: static, with the values of all runs"
        where = fields.where("aipp_mode")
        yield Unsupported("E10055", "AIPP: aipp_mode: dynamic is not supported in this release", where=where, hint=hint)
        return
    if block.aipp_mode != AippOpParams.static:
        yield fields.error("aipp_mode is required", "aipp_mode", hint="aipp_mode: static")
        return
    yield from _reserved(block, fields)
    yield from _picture_problems(block, fields)
    for name, (lo, hi) in _RANGES.items():
        values = _values(block, name)
        if len(values) > 1:
            yield fields.error(f"{name} is set {len(values)} times", name)
        yield from (
            fields.error(f"{name}: {value:g} is outside {lo:g}..{hi:g}", name)
            for value in values
            if not lo <= value <= hi
        )
    if block.src_image_size_w == 1:
        yield fields.error(f"src_image_size_w: 1 is outside 2..{MAX_SIDE}, and is not 0", "src_image_size_w")
    if block.input_format == AippOpParams.YUV420SP_U8:
        even = ("src_image_size_w", "src_image_size_h", *(("load_start_pos_w", "load_start_pos_h") * block.crop))
        for name in even:
            if getattr(block, name) % 2:
                yield fields.error(
                    f"{name}: {getattr(block, name)} is odd, and YUV420SP_U8 has a U and a V of 2×2", name
                )


def _reserved(block: AippOpParams, fields: Fields) -> Iterator[AtcError]:
    for name, only in _RESERVED.items():
        if block.HasField(name) and getattr(block, name) != only:
            value = f"{only:g}" if not isinstance(getattr(block, name), bool) else "false"
            what = f"AIPP: {name} is not supported: ATC reserves it, and takes no value but {value}"
            yield Unsupported("E10055", what, where=fields.where(name), hint="drop it")


def _picture_problems(block: AippOpParams, fields: Fields) -> Iterator[AtcError]:
    known = [picture.value for picture in Picture]
    if block.input_format == AippOpParams.UNDEFINED:
        yield fields.error("input_format is required", "input_format", hint="one of " + ", ".join(known))
        return
    name = AippOpParams.InputFormat.Name(block.input_format)
    if name not in known:
        hint = "one of " + ", ".join(known)
        what = f"AIPP: input_format: {name} is not supported: no chip takes it for static AIPP"
        yield Unsupported("E10055", what, where=fields.where("input_format"), hint=hint)
    elif name == Picture.YUV400.value and block.csc_switch:
        yield fields.error("csc_switch: YUV400_U8 has one channel, and a conversion needs three", "csc_switch")


def _values(block: AippOpParams, name: str) -> Sequence[float]:
    """The values of a field: none if it is not set."""
    if AippOpParams.DESCRIPTOR.fields_by_name[name].is_repeated:
        return list(getattr(block, name))
    return [getattr(block, name)] if block.HasField(name) else []


# --------------------------------------------------------------------------------------------------------------------
# Records


def _record(block: AippOpParams, fields: Fields) -> Aipp:
    """The record of a block that was checked."""
    picture = Picture(AippOpParams.InputFormat.Name(block.input_format))
    is_yuv = picture is Picture.YUV420SP
    settings: dict[str, Setting] = {"input_format": picture.value}
    warnings: list[AtcWarning] = []

    def setting(name: str, default: Any = 0) -> Any:
        """Note a field that has an effect."""
        settings[name] = next(iter(_values(block, name)), default)
        return settings[name]

    if name := str(block.related_input_name):
        settings["related_input_name"] = name
        warnings += fields.no_effect(["related_input_rank"], "related_input_name beats it")
    else:
        setting("related_input_rank")
    if block.input_edge_idx:
        settings["input_edge_idx"] = sorted(set(block.input_edge_idx))
    warnings += fields.no_effect(["max_src_image_size"], "aipp_mode is static")
    height, width = setting("src_image_size_h"), setting("src_image_size_w")

    crop, padding, conversion = None, None, None
    if setting("crop", False):
        crop = Crop(*map(setting, _CROP))
    else:
        warnings += fields.no_effect(_CROP, "crop is off")
    if setting("padding", False):
        padding = Padding(*map(setting, _PADDING))
    else:
        warnings += fields.no_effect(_PADDING, "padding is off")
    if setting("csc_switch", False):
        numbers = list(map(setting, _MATRIX, _TO_BGR if is_yuv else _TO_YUV))
        bias: Triple = tuple(map(setting, _INPUT_BIAS if is_yuv else _OUTPUT_BIAS, _BIAS))
        rows: Any = tuple(tuple(numbers[start : start + 3]) for start in (0, 3, 6))
        conversion = Conversion(rows, input_bias=bias) if is_yuv else Conversion(rows, output_bias=bias)
        why = f"{picture.value} is converted with {'input' if is_yuv else 'output'} biases"
        warnings += fields.no_effect(_OUTPUT_BIAS if is_yuv else _INPUT_BIAS, why)
    else:
        warnings += fields.no_effect((*_MATRIX, *_INPUT_BIAS, *_OUTPUT_BIAS), "csc_switch is off")
    swap_rb = swap_ax = False
    if picture is Picture.YUV400:
        warnings += fields.no_effect(["rbuv_swap_switch"], "YUV400_U8 has one channel")
    else:
        swap_rb = setting("rbuv_swap_switch", False)
    if picture is Picture.XRGB8888:
        swap_ax = setting("ax_swap_switch", False)
    else:
        warnings += fields.no_effect(["ax_swap_switch"], f"{picture.value} has no X or A")
    mean = tuple(setting(m) + setting(low, 0.0) for m, low in zip(_MEAN, _MIN, strict=True))
    return Aipp(
        rank=block.related_input_rank,
        name=name,
        consumers=tuple(sorted(set(block.input_edge_idx))),
        picture=picture,
        source_height=height,
        source_width=width,
        swap_rb=swap_rb,
        swap_ax=swap_ax,
        crop=crop,
        conversion=conversion,
        mean=mean,
        factor=tuple(setting(name, 1.0) for name in _FACTOR),
        padding=padding,
        settings=settings,
        fields=fields,
        warnings=tuple(warnings),
    )
