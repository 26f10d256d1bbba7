"""The precision of a conversion: the records, and the readers of the texts and files that ATC has for it.

Element types are named as ONNX users read them, `float16`; ops by their name in ONNX or in GE.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from atcpy.config_files import config_lines, members_of, parse_config, read_text_file
from atcpy.errors import Unsupported, UsageError, Where, did_you_mean

TYPE_PREFIX = "OpType::"


class PrecisionMode(Enum):
    """What becomes of the float32 nodes of a model; the values are the names that users read."""

    ORIGIN = "origin"
    FP16 = "fp16"
    FP32 = "force_fp32"
    CUBE_FP16IN_FP32OUT = "cube_fp16in_fp32out"
    ALLOW_FP16 = "allow_fp32_to_fp16"
    ALLOW_BF16 = "allow_fp32_to_bf16"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"

    @property
    def dtype(self) -> str:
        """The element type that the mode brings values to; empty for one that changes no node."""
        return _TYPES.get(self, "")

    @property
    def keeps_all(self) -> bool:
        """Whether the mode changes no node; every op has float32 here, and needs no bfloat16."""
        return not self.dtype

    @property
    def is_mixed(self) -> bool:
        """Whether the mode goes by lists of ops."""
        return self in (PrecisionMode.MIXED_FLOAT16, PrecisionMode.MIXED_BFLOAT16)


_TYPES: Mapping[PrecisionMode, str] = {
    PrecisionMode.FP16: "float16",
    PrecisionMode.FP32: "float32",
    PrecisionMode.CUBE_FP16IN_FP32OUT: "float16",
    PrecisionMode.ALLOW_FP16: "float16",
    PrecisionMode.MIXED_FLOAT16: "float16",
    PrecisionMode.MIXED_BFLOAT16: "bfloat16",
}
# ATC's names. Of two names of one mode the package records the last.
PRECISION_MODES: Mapping[str, PrecisionMode] = {
    "must_keep_origin_dtype": PrecisionMode.ORIGIN,
    "force_fp16": PrecisionMode.FP16,
    "force_fp32": PrecisionMode.FP32,
    "cube_fp16in_fp32out": PrecisionMode.CUBE_FP16IN_FP32OUT,
    "allow_fp32_to_fp16": PrecisionMode.ALLOW_FP16,
    "allow_fp32_to_bf16": PrecisionMode.ALLOW_BF16,
    "allow_mix_precision": PrecisionMode.MIXED_FLOAT16,
    "allow_mix_precision_fp16": PrecisionMode.MIXED_FLOAT16,
    "allow_mix_precision_bf16": PrecisionMode.MIXED_BFLOAT16,
}
PRECISION_MODES_V2: Mapping[str, PrecisionMode] = {
    "origin": PrecisionMode.ORIGIN,
    "fp16": PrecisionMode.FP16,
    "cube_fp16in_fp32out": PrecisionMode.CUBE_FP16IN_FP32OUT,
    "mixed_float16": PrecisionMode.MIXED_FLOAT16,
    "mixed_bfloat16": PrecisionMode.MIXED_BFLOAT16,
}
HIFLOAT8_MODES = ("cube_hif8", "mixed_hif8")
# ATC's names of element types.
OUTPUT_TYPES: Mapping[str, str] = {
    "FP32": "float32", "FP16": "float16", "DOUBLE": "float64",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64",
    "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip
_OUTPUT_TYPES_OF_950 = ("HIF8", "FP8E5M2", "FP8E4M3FN")
_FLOAT_TYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of the user: its lines without comments, and its digest, which is what the package records of it."""

    lines: tuple[str, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class CustomDtypes:
    """The element types of the inputs and outputs of a node, or of all nodes of a type."""

    entry: str  # the node, or OpType::T
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CustomDtypesFile:
    """A file of --customize_dtypes."""

    dtypes: tuple[CustomDtypes, ...]
    sha256: str


@dataclass(frozen=True, slots=True)
class MixList:
    """What the user changes in the lists of the mixed modes: types of ops."""

    add_black: frozenset[str] = frozenset()
    remove_black: frozenset[str] = frozenset()
    add_white: frozenset[str] = frozenset()
    remove_white: frozenset[str] = frozenset()
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class OutputType:
    """The element type of an output, by its entry of --out_nodes; of all outputs where that is empty."""

    entry: str
    dtype: str


@dataclass(frozen=True, kw_only=True)
class PrecisionOptions:
    """In which types nodes compute and callers feed and fetch. `keep` are nodes, patterns and types of ops that keep
    their types; `output_types` go by the index of the output, or are one for all.
    """

    mode: PrecisionMode = PrecisionMode.ORIGIN
    keep: tuple[str, ...] = ()
    customized: tuple[CustomDtypes, ...] = ()
    lists: MixList = MixList()
    clip_weights: bool = True
    output_types: tuple[OutputType, ...] = ()
    out_nodes: tuple[str, ...] = ()  # the outputs that `output_types` names, in order
    fp16_inputs: tuple[str, ...] = ()

    @property
    def changes_nothing(self) -> bool:
        """Whether all types stay as they are in the model."""
        return self.mode.keeps_all and not (self.customized or self.output_types or self.fp16_inputs)


def refuse_hifloat8(option: str, value: object) -> None:
    """Raise Unsupported for a mode of 8-bit floats that only one family of chips has."""
    if value in HIFLOAT8_MODES:
        what = f"--{option}={value} is not supported: no CPU has kernels for HiFloat8"
        hint = "mixed_float16 and mixed_bfloat16 are the mixed modes"
        raise Unsupported("E10055", what, where=Where(option=option), hint=hint)


def read_keep_file(option: str, path: str) -> TextFile:
    """A file of one entry a line: `NodeName` or `OpType::Relu`."""
    text, digest = read_text_file(path)
    for number, line in config_lines(text):
        check_type_name(option, line, Where(file=path, line=number))
    return keep_file_of(text, digest)


def keep_file_of(text: str, digest: str) -> TextFile:
    """A file of `--keep_dtype` with this text."""
    return TextFile(tuple(dict.fromkeys(line for _, line in config_lines(text))), digest)


def keep_file_text(names: Iterable[str]) -> str:
    """A file that `read_keep_file` reads, of these nodes. A character that has a meaning there is written as `?`, which
    fits any.
    """
    return "".join(f"{_entry_of(name)}\n" for name in names)


def _entry_of(name: str) -> str:
    entry = re.sub(r"[#\s\ufeff\ud800-\udfff]", "?", name)
    return "?" + entry[1:] if entry.startswith(TYPE_PREFIX) else entry


_OP_PRECISIONS = (
    "high_precision",
    "high_performance",
    "super_performance",
    "enable_float_32_execution",
    "enable_hi_float_32_execution",
    "support_out_of_bound_index",
    "norm_class",
    "keep_fp16",
)
_OP_PRECISION_SECTIONS = ("[ByOpType]", "[ByNodeName]")


def read_op_precision_file(option: str, path: str) -> TextFile:
    """A file of --op_precision_mode: lines `Gelu=high_precision` below [ByOpType], and of nodes below [ByNodeName]."""
    text, digest = read_text_file(path)
    section = ""
    for number, line in config_lines(text):
        where = Where(file=path, line=number)
        if line.startswith("["):
            if line not in _OP_PRECISION_SECTIONS:
                what = f'{path}:{number}: "{line}" is neither {" nor ".join(_OP_PRECISION_SECTIONS)}'
                raise UsageError("E20003", what, where=where, hint=did_you_mean(line, _OP_PRECISION_SECTIONS))
            section = line
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not section or not equals or not name:
            example = "NAME=high_precision below [ByOpType] or [ByNodeName]"
            raise UsageError("E20003", f'{path}:{number}: "{line}" is not {example}', where=where)
        if section == _OP_PRECISION_SECTIONS[0]:
            check_type_name(option, TYPE_PREFIX + name, where)
        if value not in _OP_PRECISIONS:
            what = f'{path}:{number}: "{value}" is not one of {", ".join(_OP_PRECISIONS)}'
            raise UsageError("E20003", what, where=where, hint=did_you_mean(value, _OP_PRECISIONS))
    return TextFile(tuple(line for _, line in config_lines(text)), digest)


def check_type_name(option: str, entry: str, where: Where) -> None:
    """Raise UsageError (E10003) for `OpType::relu`, whose name is no name of an op."""
    name = entry.removeprefix(TYPE_PREFIX)
    if entry.startswith(TYPE_PREFIX) and not re.fullmatch(r"[A-Z]\w*", name):
        hint = f"{TYPE_PREFIX}{name[:1].upper()}{name[1:]}" if name[:1].isalpha() else f"{TYPE_PREFIX}Relu"
        raise UsageError("E10003", f'--{option}: "{entry}" is not the name of an op', where=where, hint=hint)


def read_customized(option: str, path: str) -> CustomDtypesFile:
    """A file of lines `node::InputDtype:float16,float16,OutputDtype:float32`, or `OpType::T:InputDtype:…`."""
    text, digest = read_text_file(path)
    return CustomDtypesFile(tuple(_custom_line(option, path, *item) for item in config_lines(text)), digest)


def _custom_line(option: str, path: str, number: int, line: str) -> CustomDtypes:
    where = Where(file=path, line=number)
    match = re.fullmatch(r"(.+?)::?InputDtype:([\w,\s]*?),?\s*OutputDtype:([\w,\s]*)", line)
    if match is None:
        what = f'{path}:{number}: "{line}" is not NODE::InputDtype:float16,OutputDtype:float32'
        raise UsageError("E20003", what, where=where)
    entry = match[1].strip()
    check_type_name(option, entry, where)
    sides = [tuple(name.strip().lower() for name in side.split(",") if name.strip()) for side in (match[2], match[3])]
    for name in (*sides[0], *sides[1]):
        if name not in _FLOAT_TYPES and not re.fullmatch(r"u?int(8|16|32|64)|bool|double|float64", name):
            what = f'{path}:{number}: "{name}" is no element type that a node can have'
            raise UsageError("E20003", what, where=where, hint=did_you_mean(name, _FLOAT_TYPES))
    return CustomDtypes(entry, *sides)


def read_mix_list(option: str, path: str) -> MixList:
    """A JSON file `{"black-list": {"to-add": […], "to-remove": […]}, "white-list": {…}}`."""
    text, digest = read_text_file(path)
    root = members_of(path, "the file", parse_config(path, text), ("black-list", "white-list", "gray-list"))
    changes: dict[tuple[str, str], frozenset[str]] = {}
    for name, part in root.items():
        for change, ops in members_of(path, name, part, ("to-add", "to-remove")).items():
            if not isinstance(ops, list) or not all(isinstance(op, str) for op in ops):
                what = f"{path}: {name}: {change} is not a list of names of ops"
                raise UsageError("E20003", what, where=Where(file=path))
            changes[name, change] = frozenset(ops)
    none: frozenset[str] = frozenset()
    black, white = (changes.get((name, "to-add"), none) for name in ("black-list", "white-list"))
    grey = changes.get(("gray-list", "to-add"), none)  # what is on neither list is grey
    if both := sorted((black & white) | (black & grey) | (white & grey)):
        what = f'{path}: "{both[0]}" is added to two lists'
        raise UsageError("E20003", what, where=Where(file=path))
    return MixList(
        black,
        changes.get(("black-list", "to-remove"), none) | grey,
        white,
        changes.get(("white-list", "to-remove"), none) | grey,
        digest,
    )


def read_output_types(option: str, value: object) -> tuple[OutputType, ...]:
    """`FP16` for all outputs, or `node:0:FP16;other:1:FP32` by the entries of --out_nodes; or a mapping of those."""
    if isinstance(value, tuple) and all(isinstance(item, OutputType) for item in value):
        return value
    if isinstance(value, Mapping):
        items = [(str(entry), str(name)) for entry, name in value.items()]
    else:
        parts = [part.strip() for part in str(value).split(";") if part.strip()]
        items = [(entry.strip(), name.strip()) for entry, _, name in (part.rpartition(":") for part in parts)]
    if not items:
        raise UsageError("E10004", f"--{option} needs a value", where=Where(option=option))
    if len(items) > 1 and any(not entry for entry, _ in items):
        what = f'--{option}: "{value}" is neither one type for all outputs nor a type for each that it names'
        raise UsageError("E10001", what, where=Where(option=option), hint='"node:0:FP16;other:0:FP32"')
    return tuple(OutputType(entry, _output_type(option, name)) for entry, name in items)


def _output_type(option: str, name: str) -> str:
    if name in _OUTPUT_TYPES_OF_950:
        what = f"--{option}={name} is not supported: outputs of 8-bit floats are for chips of the 950 family"
        raise Unsupported("E10055", what, where=Where(option=option))
    if name not in OUTPUT_TYPES:
        what = f'--{option}: "{name}" is not one of {", ".join(OUTPUT_TYPES)}'
        raise UsageError("E10001", what, where=Where(option=option), hint=did_you_mean(name, OUTPUT_TYPES))
    return OUTPUT_TYPES[name]


def output_types_text(types: tuple[OutputType, ...]) -> str:
    """The canonical text of --output_type."""
    names = {dtype: name for name, dtype in OUTPUT_TYPES.items()}
    return ";".join(f"{item.entry}:{names[item.dtype]}" if item.entry else names[item.dtype] for item in types)
