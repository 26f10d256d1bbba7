"""AIPP: pictures of bytes become what the inputs of a model take, by a node `Aipp` in front of the readers of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from atcpy.aipp.config import CHANNELS, MAX_SIDE, Aipp, AippConfig, Conversion, Crop, Padding, Picture
from atcpy.aipp.recorded import AIPP, AIPP_MODEL, ModelInput
from atcpy.errors import AtcError, AtcWarning, Unsupported, UsageError, Where, did_you_mean, raise_all
from atcpy.ir import DType, Graph, Node, TensorDesc
from atcpy.ir.builder import Builder
from atcpy.ir.shape import Dim, format_shape
from atcpy.sizes import GearKind

_DTYPES = (DType.FLOAT32, DType.FLOAT16, DType.UINT8)
_AXES = {"NCHW": (0, 2, 3, 1), "NHWC": (0, 1, 2, 3)}  # of N, H, W and C


def insert_aipp(graph: Graph, config: AippConfig, layout: str, gears: GearKind | None) -> list[AtcWarning]:
    """Put the node of each block behind its input, which becomes uint8 and NHWC. `layout` is that of the model's
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
        """Put a node between the input and its readers."""
        value, uses = self.data.output, self.data.output.uses
        value.desc = TensorDesc.plain(DType.UINT8, self._input_shape())
        self.data.attrs["format"] = "NHWC"
        self.data.attrs[AIPP] = self.block.text
        shape = tuple(dim if isinstance(dim, int) else None for dim in self.desc.shape or ())
        self.data.attrs[AIPP_MODEL] = ModelInput(self.desc.dtype.long, self.layout, shape).text
        if uses:
            readers = {use.node for use in uses}
            first = next(node for node in graph.nodes if node in readers)
            builder = Builder(graph, first, name=f"{value.name}/aipp")
            result = builder.op("Aipp", value, **self._common_attrs(), **self._settings())
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

    def _common_attrs(self) -> dict[str, object]:
        dtype = DType.UINT8 if self.desc.dtype is DType.UINT8 else DType.FLOAT32
        size = tuple(dim if isinstance(dim, int) else 0 for dim in self.model_size)
        planar = int(self.layout == "NCHW")
        return {"planar": planar, "channels": self.channels, "size": size, "to": dtype.onnx}

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
            "padding": float(padding.value), "mean": tuple(map(float, block.mean[:3])),
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
