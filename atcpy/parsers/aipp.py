"""AIPP: pictures of bytes become what the model's inputs take, by nodes in front of the readers of each input.

In ATC's order: channels change places, then crop, colour conversion in int32, mean and factor in float32, padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from atcpy.aipp.config import AIPP, CHANNELS, MAX_SIDE, Aipp, AippConfig, Conversion, Picture
from atcpy.errors import AtcError, AtcWarning, Unsupported, UsageError, Where, did_you_mean, raise_all
from atcpy.ir import DType, Graph, Node, TensorDesc, Value
from atcpy.ir.builder import Builder
from atcpy.ir.shape import Dim, format_shape
from atcpy.sizes import GearKind

_DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.UINT8)
_AXES = {"NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3)}  # of N, H, W and C


def insert_aipp(graph: Graph, config: AippConfig, layout: str, gears: GearKind | None) -> list[AtcWarning]:
    """Put the nodes of each block behind its input, which becomes uint8 and NHWC. `layout` is that of the model's
    inputs. Returns the fields without effect. Raises UsageError (E10052, E10001), Unsupported.
    """
    if layout not in _AXES:
        what = f"--input_format: {layout}: AIPP is for pictures, which are NCHW or NHWC"
        raise UsageError("E10001", what, where=Where(option="input_format"))
    problems: list[AtcError] = []
    pictures: dict[Node, _Image] = {}
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
            pictures[data] = image = _Image(block, data, data.output.desc, layout)
            found = list(image.problems())
        problems += found
    raise_all(problems)
    for image in pictures.values():
        image.insert(graph)
    return [warning for image in pictures.values() for warning in image.warnings()]


def _input_of(block: Aipp, inputs: Sequence[Node]) -> Node | AtcError:
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


def _problems_of_input(block: Aipp, data: Node, layout: str, gears: GearKind | None) -> Iterator[AtcError]:
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
    may_vary = {GearKind.BATCH: {0}, GearKind.IMAGE: {height, width}}.get(gears, set()) if gears is not None else set()
    varying = {axis for axis, dim in enumerate(desc.shape) if not isinstance(dim, int)}
    if varying - may_vary or channels in varying:
        hint = f'fix the sizes: --input_shape="{data.output.name}:1,3,224,224", or list them as gears'
        yield fields.error(f"{target} {format_shape(desc.shape)} is open, and static AIPP has one size", hint=hint)
    elif varying & {height, width} and block.picture is Picture.YUV420SP:
        why = "the height of its input is no gear of the model's"
        what = f"AIPP: YUV420SP_U8 with --dynamic_image_size is not supported: {why}"
        yield Unsupported("E10055", what, where=fields.where("input_format"), hint="RGB888_U8")
    covered = len(block.consumers)
    count = data.output.use_count
    if block.consumers and (block.consumers[-1] >= count or covered < count):
        what = f"input_edge_idx: {', '.join(map(str, block.consumers))} are not the {count} readers of {target}"
        yield fields.error(what, "input_edge_idx", hint="AIPP is for all readers of an input: drop input_edge_idx")


@dataclass(frozen=True, slots=True)
class _Image:
    """A block, the input that it is for, and the type that this has in the model."""

    block: Aipp
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
    def source(self) -> tuple[Dim, Dim]:
        """Height and width of the picture that is fed."""
        return self.block.source_height or self._dim(1), self.block.source_width or self._dim(2)

    @property
    def model_size(self) -> tuple[Dim, Dim]:
        """Height and width that the model takes."""
        return self._dim(1), self._dim(2)

    # --- checks -------------------------------------------------------------------------------

    def problems(self) -> Iterator[AtcError]:
        """What does not fit the model."""
        yield from self._channel_problems()
        if (padding := self.block.padding) and not self.desc.dtype.can_hold(padding.value):
            what = f"padding_value: {padding.value:g} is no number of the type of the input, {self.desc.dtype.long}"
            yield self.block.fields.error(what, "padding_value")
        height, width = self.source
        if isinstance(height, int) and isinstance(width, int):
            yield from self._source_problems(height, width)
            yield from self._size_problems(height, width)

    def _channel_problems(self) -> Iterator[AtcError]:
        block, channels = self.block, self.channels
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
        what = f'{block.picture.value} gives {made} channels, the input "{self.data.output.name}" takes {channels}'
        yield block.fields.error(what, "csc_switch" if block.conversion else "input_format", hint=hint)

    def _source_problems(self, height: int, width: int) -> Iterator[AtcError]:
        for name, size, least in (("src_image_size_h", height, 1), ("src_image_size_w", width, 2)):
            if not least <= size <= MAX_SIDE:
                yield self.block.fields.error(f"{name}: {size} is outside {least}..{MAX_SIDE}", name)
            elif self.block.picture is Picture.YUV420SP and size % 2:
                yield self.block.fields.error(f"{name}: {size} is odd, and YUV420SP_U8 has a U and a V of 2×2", name)

    def _size_problems(self, height: int, width: int) -> Iterator[AtcError]:
        block, size, model = self.block, (height, width), self.model_size
        if crop := block.crop:
            size = (_number(crop.height or model[0]), _number(crop.width or model[1]))
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
                name = "width" if letter == "w" else "height"
                what = f'the {name} of the picture is not that of the input "{self.data.output.name}"'
                fields = (f"crop_size_{letter}", f"src_image_size_{letter}", "padding", "crop")
                yield block.fields.error(f"{what}: {sum_of} ≠ {expected}", *fields)

    def warnings(self) -> list[AtcWarning]:
        """The fields without effect."""
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
        """Put the nodes between the input and its readers."""
        value, uses = self.data.output, self.data.output.uses
        value.desc = TensorDesc.plain(DType.UINT8, self._input_shape())
        self.data.attrs["format"] = "NHWC"
        self.data.attrs[AIPP] = self.block.text
        if uses:
            readers = {use.node for use in uses}
            first = next(node for node in graph.nodes if node in readers)
            pixels = _Pixels(Builder(graph, first, name=f"{value.name}/aipp"), self, value)
            result = pixels.finish()
            result.desc = self.desc
            for use in uses:
                graph.set_input(use.node, use.input_index, result)
        if graph.inferred is not None:
            declared = graph.inferred.declared.pop(value, None)
            if declared is not None and uses:
                graph.inferred.declared[result] = declared

    def _input_shape(self) -> tuple[Dim, ...]:
        height, width = self.source
        if self.block.picture is Picture.YUV420SP:
            height = _number(height) * 3 // 2
        return self._dim(0), height, width, self.block.picture.channels


class _Pixels:
    """Builds the nodes of one block. A value has the axes of the model's layout; `channel` is that of its channels."""

    def __init__(self, builder: Builder, image: _Image, source: Value) -> None:
        self._builder = builder
        self._image = image
        self._block = image.block
        _, self._height, self._width, self._channel = _AXES[image.layout]
        self._source = source

    def finish(self) -> Value:
        """The value that the readers of the input take instead."""
        value = self._cropped(self._channels())
        value = value if self._block.conversion is None else self._converted(value, self._block.conversion)
        return self._padded(self._scaled(value))

    def _channels(self) -> Value:
        """The three channels, or the only one, as bytes in the order that the switches choose."""
        if self._block.picture is Picture.YUV420SP:
            return self._yuv420()
        value = self._source if self._channel == 3 else self._builder.transpose(self._source, (0, 3, 1, 2))
        order = list(range(self._block.picture.colours))
        if self._block.swap_ax:
            order = [channel + 1 for channel in order]
        if self._block.swap_rb:
            return self._builder.op(
                "Gather", value, self._builder.const(order[::-1], label="order"), axis=self._channel
            )
        if len(order) == self._block.picture.channels:
            return value
        return self._builder.slice(value, order[0], order[-1] + 1, self._channel)

    def _yuv420(self) -> Value:
        """Y, U and V of each pixel: those of U and V are repeated 2×2."""
        builder = self._builder
        height, width = map(_number, self._image.source)
        count, flat = height * width, builder.reshape(self._source, (0, height * width * 3 // 2))
        first = self._channel == 1  # the channels come before the rows
        y = builder.reshape(builder.slice(flat, 0, count, 1), (0, 1, height, width) if first else (0, height, width, 1))
        uv = builder.reshape(builder.slice(flat, count, count * 3 // 2, 1), (0, height // 2, width // 2, 2))
        if self._block.swap_rb:
            uv = builder.op("Gather", uv, builder.const([1, 0], label="order"), axis=3)
        if first:
            uv = builder.transpose(uv, (0, 3, 1, 2))
            split, repeats, joined = (0, 2, height // 2, 1, width // 2, 1), (1, 1, 1, 2, 1, 2), (0, 2, height, width)
        else:
            split, repeats, joined = (0, height // 2, 1, width // 2, 1, 2), (1, 1, 2, 1, 2, 1), (0, height, width, 2)
        repeated = builder.op("Expand", builder.reshape(uv, split), builder.const(repeats, label="shape"))
        return builder.op("Concat", y, builder.reshape(repeated, joined), axis=self._channel)

    def _cropped(self, value: Value) -> Value:
        if crop := self._block.crop:
            for axis, start, size in (
                (self._height, crop.top, crop.height or self._image.model_size[0]),
                (self._width, crop.left, crop.width or self._image.model_size[1]),
            ):
                value = self._builder.slice(value, start, start + _number(size), axis)
        return value

    def _converted(self, value: Value, conversion: Conversion) -> Value:
        """The rows of the matrix times the channels, >> 8, in int32. Division rounds towards 0 and >> down: an offset
        that is a multiple of 256 makes what is divided positive; a sum is below 3 · 32768 · 255 < 2²⁵.
        """
        builder, rows = self._builder, conversion.rows[: self._image.channels]
        total = self._per_channel([2**25] * len(rows), DType.INT32)
        for channel, bias in enumerate(conversion.input_bias):
            column = [row[channel] for row in rows]
            if any(column) or channel == 0:  # one gives the result its shape
                plane = builder.cast(builder.slice(value, channel, channel + 1, self._channel), DType.INT32)
                if bias:
                    plane = builder.op("Sub", plane, builder.const(bias, DType.INT32, label="bias"))
                term = builder.op("Mul", plane, self._per_channel(column, DType.INT32))
                total = builder.op("Add", total, term)
        shifted = builder.op("Div", total, builder.const(256, DType.INT32, label="divisor"))
        biases = [bias - 2**17 for bias in conversion.output_bias[: len(rows)]]
        biased = builder.op("Add", shifted, self._per_channel(biases, DType.INT32))
        limits = (builder.const(limit, DType.INT32, label="limit") for limit in (0, 255))
        return builder.op("Clip", biased, *limits)

    def _scaled(self, value: Value) -> Value:
        """Levels as the model takes them: (level - mean) · factor, computed in float32; bytes stay as they are."""
        builder, dtype = self._builder, self._image.desc.dtype
        if dtype is DType.UINT8:
            return builder.cast(value, dtype) if self._block.conversion is not None else value
        value = builder.cast(value, DType.FLOAT32)
        mean, factor = (numbers[: self._image.channels] for numbers in (self._block.mean, self._block.factor))
        if any(mean):
            value = builder.op("Sub", value, self._per_channel(mean, DType.FLOAT32))
        if any(number != 1.0 for number in factor):
            value = builder.op("Mul", value, self._per_channel(factor, DType.FLOAT32))
        return value if dtype is DType.FLOAT32 else builder.cast(value, dtype)

    def _padded(self, value: Value) -> Value:
        padding, dtype = self._block.padding, self._image.desc.dtype
        if padding is None:
            return value
        pads = np.zeros(8, np.int64)
        pads[[self._height, self._width, 4 + self._height, 4 + self._width]] = (
            padding.top,
            padding.left,
            padding.bottom,
            padding.right,
        )
        number = self._builder.const(padding.value, dtype, label="padding")
        return self._builder.op("Pad", value, self._builder.const(pads, label="pads"), number, mode="constant")

    def _per_channel(self, numbers: Sequence[float], dtype: DType) -> Value:
        """A constant with a number for each channel."""
        shape = (len(numbers), 1, 1) if self._channel == 1 else (len(numbers),)
        return self._builder.const(np.reshape(numbers, shape), dtype, label="channels")


def _number(dim: Dim) -> int:
    assert isinstance(dim, int)
    return dim
