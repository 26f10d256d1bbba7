"""AIPP: pictures of bytes become what the inputs of a model take, by a node `Aipp` in front of the readers of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from atcpy.aipp.config import (
    AIPP,
    CHANNELS,
    MAX_SIDE,
    Aipp,
    AippConfig,
    Block,
    Conversion,
    Crop,
    DynamicAipp,
    Padding,
    Picture,
)
from atcpy.aipp.fit import channel_problems, size_problems, source_problems
from atcpy.aipp.parameters import MAX_PICTURES, PARAMETERS_NAME, block_bytes
from atcpy.aipp.recorded import AIPP_MODEL, ModelInput
from atcpy.errors import AtcError, AtcWarning, Unsupported, UsageError, Where, did_you_mean, raise_all
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.builder import Builder
from atcpy.ir.shape import Dim, format_shape
from atcpy.sizes import GearKind

_DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.UINT8)
_CHANNELS = (1, 3)  # that the model's pictures may have
_AXES = {"NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3)}  # of N, H, W and C


def insert_aipp(graph: Graph, config: AippConfig, layout: str, gears: GearKind | None) -> list[AtcWarning]:
    """Put the node of each block behind its input, which becomes uint8 and NHWC. `layout` is that of the model's
    inputs. Returns the fields without effect. Raises UsageError (E10052, E10001), Unsupported.
    """
    if layout not in _AXES:
        what = f"--input_format: {layout}: AIPP is for pictures, which are NCHW or NHWC"
        raise UsageError("E10001", what, where=Where(option="input_format"))
    problems: list[AtcError] = []
    pictures: dict[Node, _Input] = {}
    for block in config.blocks:
        data = _input_of(block, graph.inputs)
        if isinstance(data, Node) and data in pictures:
            other = pictures[data].block.fields
            data = block.fields.error(
                f'"{data.output.name}" has a block at line {other.line} already',
                "related_input_name",
                "related_input_rank",
            )
        if isinstance(data, AtcError):
            problems.append(data)
            continue
        found = list(_problems_of_input(block, data, layout, gears))
        if not found:
            image = _input(block, data, layout)
            pictures[data] = image
            found = list(image.problems())
        problems += found
    raise_all(problems)
    for image in pictures.values():
        image.insert(graph)
    return [warning for image in pictures.values() for warning in image.warnings()]


def _input_of(block: Block, inputs: Sequence[Node]) -> Node | AtcError:
    names = [node.output.name for node in inputs]
    if block.name:
        if block.name in names:
            return inputs[names.index(block.name)]
        hint = did_you_mean(block.name, names) or f"the inputs are {', '.join(names)}"
        return block.fields.error(f'related_input_name: no input "{block.name}"', "related_input_name", hint=hint)
    if block.rank < len(inputs):
        return inputs[block.rank]
    what = f"related_input_rank: {block.rank} is outside 0..{len(inputs) - 1}"
    return block.fields.error(what, "related_input_rank", hint=f"the inputs are {', '.join(names)}")


def _problems_of_input(block: Block, data: Node, layout: str, gears: GearKind | None) -> Iterator[AtcError]:
    """Why an input is no picture of a size that is known."""
    fields, desc = block.fields, data.output.desc
    target = f'the input "{data.output.name}"'
    if "default" in data.attrs or "type" in data.attrs:
        yield fields.error(f"{target} is no picture: it has a default, or is no tensor")
        return
    if desc.dtype not in _DTYPES:
        yield fields.error(f"{target} is {desc.dtype.long}; AIPP makes float32, float16 or uint8")
    if desc.shape is None or len(desc.shape) != 4:
        yield fields.error(f"{target} {format_shape(desc.shape)} has not the four dims of {layout}")
        return
    _, height, width, channels = (_AXES[layout][index] for index in range(4))
    if layout == "NCHW" and desc.shape[1] not in _CHANNELS and desc.shape[3] in _CHANNELS:
        hint = (
            "tf2onnx --inputs-as-nchw exports it with its channels in front; of a TensorFlow model: --input_format NHWC"
        )
        yield fields.error(
            f"{target} {format_shape(desc.shape)} has its channels last, which NCHW has in front", hint=hint
        )
        return
    may_vary = {GearKind.BATCH: {0}, GearKind.IMAGE: {height, width}}.get(gears, set()) if gears is not None else set()
    varying = {axis for axis, dim in enumerate(desc.shape) if not isinstance(dim, int)}
    if varying - may_vary or channels in varying:
        hint = f'fix the sizes: --input_shape="{data.output.name}:1,3,224,224", or list them as gears'
        yield fields.error(f"{target} {format_shape(desc.shape)} is open, and AIPP has one size", hint=hint)
    elif varying and isinstance(block, DynamicAipp):
        what = "AIPP: aipp_mode: dynamic with gears is not supported: the bytes of pictures do not tell the gear"
        yield Unsupported("E10055", what, where=fields.where("aipp_mode"), hint="aipp_mode: static")
    elif varying & {height, width} and isinstance(block, Aipp) and block.picture is Picture.YUV420SP:
        why = "the height of its input is no gear of the model's"
        what = f"AIPP: YUV420SP_U8 with --dynamic_image_size is not supported: {why}"
        yield Unsupported("E10055", what, where=fields.where("input_format"), hint="RGB888_U8")
    covered = len(block.consumers)
    count = data.output.use_count
    if block.consumers and (block.consumers[-1] >= count or covered < count):
        what = f"input_edge_idx: {', '.join(map(str, block.consumers))} are not the {count} readers of {target}"
        yield fields.error(what, "input_edge_idx", hint="AIPP is for all readers of an input: drop input_edge_idx")


@dataclass(frozen=True, slots=True)
class _Input(ABC):
    """An input with a block, and the type that it has in the model."""

    block: Block
    data: Node
    desc: TensorDesc
    layout: str

    def _dim(self, index: int) -> Dim:
        """The model's N, H, W or C."""
        assert self.desc.shape is not None
        return self.desc.shape[_AXES[self.layout][index]]

    @property
    def channels(self) -> int:
        """How many channels the model takes."""
        channels = self._dim(3)
        assert isinstance(channels, int)
        return channels

    @property
    def model_size(self) -> tuple[Dim, Dim]:
        """Height and width that the model takes."""
        return self._dim(1), self._dim(2)

    @abstractmethod
    def problems(self) -> Iterator[AtcError]:
        """What does not fit the model."""

    @abstractmethod
    def warnings(self) -> list[AtcWarning]:
        """The fields without effect."""

    @abstractmethod
    def insert(self, graph: Graph) -> None:
        """Put a node between the input and its readers."""

    def _insert(self, graph: Graph, shape: tuple[Dim, ...], parameters: Node | None, **attrs: Any) -> None:
        """Make the input one of bytes. `parameters` is the further operand of the node, `attrs` are its settings."""
        value, uses = self.data.output, self.data.output.uses
        value.desc = TensorDesc.plain(DType.UINT8, shape)
        self.data.attrs["format"] = "ND" if parameters else "NHWC"
        self.data.attrs[AIPP] = self.block.text
        dims = tuple(dim if isinstance(dim, int) else None for dim in self.desc.shape or ())
        name = "" if parameters is None else parameters.output.name
        self.data.attrs[AIPP_MODEL] = ModelInput(self.desc.dtype.long, self.layout, dims, name).text
        if uses:
            readers = {use.node for use in uses}
            first = next(node for node in graph.nodes if node in readers)
            builder = Builder(graph, first, name=f"{value.name}/aipp")
            operands = [value] if parameters is None else [value, parameters.output]
            result = builder.op("Aipp", *operands, **self._attrs_of_model(), **attrs)
            if self.desc.dtype is DType.FLOAT16:
                result.desc = TensorDesc.plain(DType.FLOAT32, self.desc.shape)
                result = builder.cast(result, DType.FLOAT16)
            result.desc = self.desc
            for use in uses:
                graph.set_input(use.node, use.input_index, result)
        if graph.inferred is not None:
            declared = graph.inferred.declared.pop(value, None)
            if declared is not None and uses:
                graph.inferred.declared[result] = declared

    def _attrs_of_model(self) -> dict[str, object]:
        dtype = DType.UINT8 if self.desc.dtype is DType.UINT8 else DType.FLOAT32
        size = tuple(dim if isinstance(dim, int) else 0 for dim in self.model_size)
        planar = int(self.layout == "NCHW")
        return {"planar": planar, "channels": self.channels, "size": size, "to": dtype.onnx}


def _input(block: Aipp | DynamicAipp, data: Node, layout: str) -> _Input:
    if isinstance(block, DynamicAipp):
        return _DynamicInput(block, data, data.output.desc, layout)
    return _StaticInput(block, data, data.output.desc, layout)


@dataclass(frozen=True, slots=True)
class _DynamicInput(_Input):
    """Its settings are a further input."""

    block: DynamicAipp

    def problems(self) -> Iterator[AtcError]:
        pictures, error = _number(self._dim(0)), self.block.fields.error
        if self.channels not in (1, 3):
            yield error(f'the input "{self.data.output.name}" has {self.channels} channels, and AIPP makes 1 or 3')
        if not 0 < pictures <= MAX_PICTURES:
            yield error(f'the input "{self.data.output.name}" takes {pictures} pictures, outside 1..{MAX_PICTURES}')
        most, size = pictures * MAX_SIDE * MAX_SIDE * 4, self.block.max_source_bytes
        if size > max(most, 1):
            yield error(f"max_src_image_size: {size} is outside 1..{most}", "max_src_image_size")

    def warnings(self) -> list[AtcWarning]:
        return list(self.block.warnings)

    def insert(self, graph: Graph) -> None:
        others = [node.output.name for node in graph.inputs]
        count = sum(name.startswith(PARAMETERS_NAME) for name in others)
        pictures = _number(self._dim(0))
        parameters = graph.append(
            "Data",
            (),
            {"index": len(others), "format": "ND"},
            name=PARAMETERS_NAME + (f"_{count}" if count else ""),
            outputs=(PARAMETERS_NAME + (f"_{count}" if count else ""),),
            before=next(iter(graph.nodes)),
        )
        parameters.output.desc = TensorDesc.plain(DType.UINT8, (block_bytes(pictures),))
        shape = (self.block.max_source_bytes,)
        self._insert(graph, shape, parameters, batch=pictures)


@dataclass(frozen=True, slots=True)
class _StaticInput(_Input):
    """Its settings are attributes of the node."""

    block: Aipp

    @property
    def source(self) -> tuple[Dim, Dim]:
        """Height and width of the picture that is fed."""
        return self.block.source_height or self._dim(1), self.block.source_width or self._dim(2)

    # --- checks -------------------------------------------------------------------------------

    def problems(self) -> Iterator[AtcError]:
        name = self.data.output.name
        yield from channel_problems(self.block, name, self.channels)
        if (padding := self.block.padding) and not self.desc.dtype.can_hold(padding.value):
            what = f"padding_value: {padding.value:g} is no number of the type of the input, {self.desc.dtype.long}"
            yield self.block.fields.error(what, "padding_value")
        height, width = self.source
        if isinstance(height, int) and isinstance(width, int):
            yield from source_problems(self.block, height, width)
            model_height, model_width = map(_number, self.model_size)
            yield from size_problems(self.block, name, (height, width), (model_height, model_width))

    def warnings(self) -> list[AtcWarning]:
        block, channels = self.block, self.channels
        stems = ("mean", "min", "var_reci")
        if self.desc.dtype is DType.UINT8:
            names = [f"{stem}_chn_{channel}" for stem in stems for channel in range(CHANNELS)]
            why = f'the input "{self.data.output.name}" takes bytes'
        else:
            names = [f"{stem}_chn_{channel}" for stem in stems for channel in range(channels, CHANNELS)]
            why = f'the input "{self.data.output.name}" takes {channels} channel{"s" * (channels > 1)}'
        return [*block.warnings, *block.fields.no_effect(names, why)]

    # --- nodes --------------------------------------------------------------------------------

    def insert(self, graph: Graph) -> None:
        self._insert(graph, self._input_shape(), None, **self._settings())

    def _settings(self) -> dict[str, object]:
        """The settings of a static block as attributes."""
        block = self.block
        crop = block.crop or Crop(0, 0, block.source_height, block.source_width)
        padding = block.padding or Padding(0, 0, 0, 0, 0.0)
        conversion = {} if block.conversion is None else _conversion_attrs(block.conversion)
        return {
            "format": block.picture.value, "source": (block.source_height, block.source_width),
            "swap_rb": int(block.swap_rb), "swap_ax": int(block.swap_ax),
            "crop": (crop.top, crop.left, crop.height, crop.width), "pads": (padding.top, padding.left),
            "padding": float(padding.value), "mean": tuple(float(block.mean[i] + block.low[i]) for i in range(3)),
            "factor": tuple(map(float, block.factor[:3])), **conversion,
        }  # fmt: skip

    def _input_shape(self) -> tuple[Dim, ...]:
        height, width = self.source
        if self.block.picture is Picture.YUV420SP:
            height = _number(height) * 3 // 2
        return self._dim(0), height, width, self.block.picture.channels


def _conversion_attrs(conversion: Conversion) -> dict[str, object]:
    """The matrix, and what is added to each row's sum before it is shifted by 8 bits: both biases."""
    offsets = (
        256 * bias - sum(number * before for number, before in zip(row, conversion.input_bias, strict=True))
        for row, bias in zip(conversion.rows, conversion.output_bias, strict=True)
    )
    return {"matrix": tuple(number for row in conversion.rows for number in row), "offset": tuple(offsets)}


def _number(dim: Dim) -> int:
    assert isinstance(dim, int)
    return dim
