"""What the fields of an `aipp_op` block may say, whoever says it: a file, a package or the caller of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from atcpy.aipp.config import (
    CHANNELS,
    MAX_SIDE,
    Aipp,
    Conversion,
    Crop,
    DynamicAipp,
    Fields,
    Padding,
    Picture,
    Setting,
    Triple,
)
from atcpy.errors import AtcError, AtcWarning, Unsupported, did_you_mean, raise_all

MAX_HALF = 65504.0  # the largest finite float16
MAX_BITS = 63  # of an integer that is read
Values = Mapping[str, Sequence[Any]]  # of each field that is set, as often as it is; an enum by its name

_MATRIX = tuple(f"matrix_r{row}c{column}" for row in range(3) for column in range(3))
_INPUT_BIAS, _OUTPUT_BIAS = (tuple(f"{side}_bias_{i}" for i in range(3)) for side in ("input", "output"))
_CROP = ("load_start_pos_h", "load_start_pos_w", "crop_size_h", "crop_size_w")
_PADDING = ("top_padding_size", "bottom_padding_size", "left_padding_size", "right_padding_size", "padding_value")
MEAN, MIN, FACTOR = (tuple(f"{stem}_chn_{i}" for i in range(CHANNELS)) for stem in ("mean", "min", "var_reci"))
_SWITCHES = ("csc_switch", "rbuv_swap_switch", "ax_swap_switch", "crop", "padding")

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
    **dict.fromkeys((*_INPUT_BIAS, *_OUTPUT_BIAS, *MEAN, *MIN), (0, 255)),
    **dict.fromkeys(FACTOR, (-MAX_HALF, MAX_HALF)),
}
_FLOATS = {"padding_value", *MIN, *FACTOR}
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


def block_of(values: Values, fields: Fields) -> Aipp:
    """Return the record of settings that `problems` found nothing in."""
    return _Reader(values, fields).block()


def dynamic_block_of(values: Values, fields: Fields) -> DynamicAipp:
    """Return the record of a dynamic block that `dynamic_problems` found nothing in."""
    return _Reader(values, fields).dynamic_block()


def read_settings(settings: object, fields: Fields, *, defaults: Mapping[str, object] | None = None) -> Aipp:
    """Read settings by ATC's names from Python or JSON; `defaults` are those of fields that are not set. Raises
    UsageError (E10052) or Unsupported (E10055), with all that is wrong.
    """
    if not isinstance(settings, Mapping):
        raise fields.error(f"settings are a {type(settings).__name__}, not fields and their values")
    named = {str(name): value for name, value in settings.items()}
    raise_all(list(_type_problems(named, fields)))
    values = {name: [value] for name, value in (dict(defaults or {}) | named).items()}
    raise_all(list(problems(values, fields)))
    return block_of(values, fields)


def _type_problems(settings: Mapping[str, object], fields: Fields) -> Iterator[AtcError]:
    known = ["input_format", *_SWITCHES, *_RANGES]
    for name, value in settings.items():
        if name not in known and name not in _RESERVED:
            yield fields.error(f'"{name}" is no setting of a run', hint=did_you_mean(name, known))
        elif isinstance(value, int) and value.bit_length() > MAX_BITS:
            yield fields.error(f"{name}: a number of {value.bit_length()} bits is outside its range", name)
        elif problem := _type_problem(name, value):
            yield fields.error(f"{name}: {value!r} is {problem}", name)


def _type_problem(name: str, value: object) -> str:
    """Why a value is of the wrong type for a field; nothing if it is not."""
    if name == "input_format":
        return "" if isinstance(value, str) else "not text"
    if name in _SWITCHES:
        return "" if isinstance(value, bool) else "not true or false"
    if not isinstance(value, int | float) or (isinstance(value, bool) and name in _RANGES):
        return "not a number"
    return "not an integer" if isinstance(value, float) and name in _RANGES and name not in _FLOATS else ""


# --------------------------------------------------------------------------------------------------------------------
# Checks


def problems(values: Values, fields: Fields) -> Iterator[AtcError]:
    """What is wrong with the settings of a static block, as far as that goes without the model."""
    yield from _reserved(values, fields)
    yield from _picture_problems(values, fields)
    for name, (lo, hi) in _RANGES.items():
        found = values.get(name, ())
        if len(found) > 1:
            yield fields.error(f"{name} is set {len(found)} times", name)
        yield from (
            fields.error(f"{name}: {value:g} is outside {lo:g}..{hi:g}", name)
            for value in found
            if not lo <= value <= hi
        )
    if 1 in values.get("src_image_size_w", ()):
        yield fields.error(f"src_image_size_w: 1 is outside 2..{MAX_SIDE}, and is not 0", "src_image_size_w")
    if _value(values, "input_format") == Picture.YUV420SP.value:
        even = ["src_image_size_w", "src_image_size_h"]
        even += ["load_start_pos_w", "load_start_pos_h"] if _value(values, "crop") else []
        for name in even:
            if (number := _value(values, name, 0)) % 2:
                yield fields.error(f"{name}: {number} is odd, and YUV420SP_U8 has a U and a V of 2×2", name)


def dynamic_problems(values: Values, fields: Fields) -> Iterator[AtcError]:
    """What is wrong with a dynamic block."""
    yield from _reserved(values, fields)
    if not _value(values, "max_src_image_size", 0):
        hint = "the bytes of all pictures of a run: N·W·H times 1.5 for YUV420SP_U8, 3 for RGB888_U8, 4 for XRGB8888_U8"
        yield fields.error("max_src_image_size is required where aipp_mode is dynamic", "max_src_image_size", hint=hint)


def _reserved(values: Values, fields: Fields) -> Iterator[AtcError]:
    for name, only in _RESERVED.items():
        value = _value(values, name, only)
        if value != only:
            allowed = f"{only:g}" if not isinstance(value, bool) else "false"
            what = f"AIPP: {name} is not supported: ATC reserves it, and takes no value but {allowed}"
            yield Unsupported("E10055", what, where=fields.where(name), hint="drop it")


def _picture_problems(values: Values, fields: Fields) -> Iterator[AtcError]:
    known = [picture.value for picture in Picture]
    name = _value(values, "input_format", "UNDEFINED")
    if name == "UNDEFINED":
        yield fields.error("input_format is required", "input_format", hint="one of " + ", ".join(known))
    elif name not in known:
        hint = did_you_mean(name, known) or "one of " + ", ".join(known)
        what = f"AIPP: input_format: {name} is not supported: no chip takes it"
        yield Unsupported("E10055", what, where=fields.where("input_format"), hint=hint)
    elif name == Picture.YUV400.value and _value(values, "csc_switch"):
        yield fields.error("csc_switch: YUV400_U8 has one channel, and a conversion needs three", "csc_switch")


def _value(values: Values, name: str, default: Any = None) -> Any:
    return next(iter(values.get(name, ())), default)


# --------------------------------------------------------------------------------------------------------------------
# Records


class _Reader:
    """Makes the record of a block, and notes which fields have an effect."""

    def __init__(self, values: Values, fields: Fields) -> None:
        self._values = values
        self._fields = fields
        self._settings: dict[str, Setting] = {}
        self._warnings: list[AtcWarning] = []

    def block(self) -> Aipp:
        picture = Picture(self._setting("input_format"))
        is_yuv = picture is Picture.YUV420SP
        common = self._input()
        self._no_effect(["max_src_image_size"], "aipp_mode is static")
        height, width = self._setting("src_image_size_h", 0), self._setting("src_image_size_w", 0)
        crop, padding, conversion = None, None, None
        if self._setting("crop", False):
            crop = Crop(*(self._setting(name, 0) for name in _CROP))
        else:
            self._no_effect(_CROP, "crop is off")
        if self._setting("padding", False):
            padding = Padding(*(self._setting(name, 0) for name in _PADDING))
        else:
            self._no_effect(_PADDING, "padding is off")
        if self._setting("csc_switch", False):
            conversion = self._conversion(picture, is_yuv=is_yuv)
        else:
            self._no_effect((*_MATRIX, *_INPUT_BIAS, *_OUTPUT_BIAS), "csc_switch is off")
        swap_rb = swap_ax = False
        if picture is Picture.YUV400:
            self._no_effect(["rbuv_swap_switch"], "YUV400_U8 has one channel")
        else:
            swap_rb = self._setting("rbuv_swap_switch", False)
        if picture is Picture.XRGB8888:
            swap_ax = self._setting("ax_swap_switch", False)
        else:
            self._no_effect(["ax_swap_switch"], f"{picture.value} has no X or A")
        means = tuple(self._setting(name, 0) for name in MEAN)
        lows = tuple(self._setting(name, 0.0) for name in MIN)
        factors = tuple(self._setting(name, 1.0) for name in FACTOR)
        return Aipp(
            **common,
            picture=picture,
            source_height=height,
            source_width=width,
            swap_rb=swap_rb,
            swap_ax=swap_ax,
            crop=crop,
            conversion=conversion,
            mean=means,
            low=lows,
            factor=factors,
            padding=padding,
            settings=self._settings,
            fields=self._fields,
            warnings=tuple(self._warnings),
        )

    def dynamic_block(self) -> DynamicAipp:
        common = self._input()
        self._settings["aipp_mode"] = "dynamic"
        names = ("input_format", "src_image_size_h", "src_image_size_w", *_SWITCHES, *_RANGES)
        self._no_effect(list(dict.fromkeys(names)), "aipp_mode is dynamic: each run has its own")
        return DynamicAipp(
            **common,
            max_source_bytes=self._setting("max_src_image_size"),
            settings=self._settings,
            fields=self._fields,
            warnings=tuple(self._warnings),
        )

    def _input(self) -> dict[str, Any]:
        """For which input, and which of its readers."""
        if name := str(_value(self._values, "related_input_name", "")):
            self._settings["related_input_name"] = name
            self._no_effect(["related_input_rank"], "related_input_name beats it")
        else:
            self._setting("related_input_rank", 0)
        consumers = tuple(sorted(set(self._values.get("input_edge_idx", ()))))
        if consumers:
            self._settings["input_edge_idx"] = consumers
        return {"rank": _value(self._values, "related_input_rank", 0), "name": name, "consumers": consumers}

    def _conversion(self, picture: Picture, *, is_yuv: bool) -> Conversion:
        numbers = [self._setting(*pair) for pair in zip(_MATRIX, _TO_BGR if is_yuv else _TO_YUV, strict=True)]
        names = _INPUT_BIAS if is_yuv else _OUTPUT_BIAS
        bias: Triple = tuple(self._setting(*pair) for pair in zip(names, _BIAS, strict=True))
        rows: Any = tuple(tuple(numbers[start : start + 3]) for start in (0, 3, 6))
        why = f"{picture.value} is converted with {'input' if is_yuv else 'output'} biases"
        self._no_effect(_OUTPUT_BIAS if is_yuv else _INPUT_BIAS, why)
        return Conversion(rows, input_bias=bias) if is_yuv else Conversion(rows, output_bias=bias)

    def _setting(self, name: str, default: Any = None) -> Any:
        """Note a field that has an effect, and return its value."""
        self._settings[name] = _value(self._values, name, default)
        return self._settings[name]

    def _no_effect(self, names: Sequence[str], why: str) -> None:
        self._warnings += self._fields.no_effect(names, why)
