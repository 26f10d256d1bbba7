"""Convolutions and pooling: ops that know which dim is that of the channels.

TensorFlow has them last (NHWC) unless `data_format` says otherwise. Those of ONNX have them second: the values get a
Transpose in front and one behind, which the optimizer cancels between two such ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import DType, Value
from atcpy.ir.shape import Dim
from atcpy.ops.core.spatial import same_padding
from atcpy.ops.lowerings.transposed_conv import cut_conv_transpose
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.elementwise import activated


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of the dims of an op's data."""

    rank: int
    is_first: bool  # the channels come second, as in ONNX

    def enter(self, b: OpBuilder, value: Value) -> Value:
        """The value with its channels second. Raises ModelInvalid if it has another rank."""
        rank = len(b.shape_of(value))
        if rank != self.rank:
            raise ModelInvalid("EZ8888", f'"{value.name}" has {rank} dims, not {self.rank}', where=b.where)
        return value if self.is_first else b.transpose(value, (0, self.rank - 1, *range(1, self.rank - 1)))

    def leave(self, b: OpBuilder, value: Value) -> Value:
        """A result in the order of the op."""
        return value if self.is_first else b.transpose(value, (0, *range(2, self.rank), 1))

    def spatial(self, per_dim: Sequence[int]) -> tuple[int, ...]:
        """The entries of a list with one for each dim that are those of the spatial dims."""
        return tuple(per_dim[2:] if self.is_first else per_dim[1:-1])

    def spatial_dims(self, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
        """The spatial ones of sizes, which may be all that there are."""
        if len(sizes) < self.rank:
            return tuple(sizes)
        return tuple(sizes[2:] if self.is_first else sizes[1:-1])

    def others(self, per_dim: Sequence[int]) -> tuple[int, ...]:
        """The entries for batch and channels."""
        return (per_dim[0], per_dim[1] if self.is_first else per_dim[-1])


def layout_of(b: OpBuilder, rank: int) -> Layout:
    """The layout that `data_format` names. Unsupported for those that are neither channels first nor last."""
    name = b.text_attr("data_format")
    if name not in {"NHWC", "NCHW", "NDHWC", "NCDHW"}:
        raise b.unsupported(f"data_format {name}")
    return Layout(rank, name.startswith("NC"))


@dataclass(frozen=True, slots=True)
class Steps:
    """How a window moves: one entry for each spatial dim. `pads` are the begins and then the ends that the node
    states, or None where its padding is SAME.
    """

    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...] | None

    def same_pads(self, sizes: Sequence[Dim], kernel: Sequence[int]) -> tuple[int, ...] | None:
        """What SAME pads; None if the sizes are needed for it and not known."""
        windows = zip(sizes, kernel, self.strides, self.dilations, strict=True)
        totals = [same_padding(size, (taps - 1) * step + 1, stride) for size, taps, stride, step in windows]
        known = [total for total in totals if total is not None]
        return (*[total // 2 for total in known], *[-(-total // 2) for total in known]) if known == totals else None

    def without(self, dim: int) -> Steps:
        """The same for what has one spatial dim less."""
        pads = None if self.pads is None else _without(_without(self.pads, dim + len(self.strides)), dim)
        return Steps(_without(self.strides, dim), _without(self.dilations, dim), pads)

    def attrs(self, sizes: Sequence[Dim], kernel: Sequence[int]) -> dict[str, object]:
        """The attributes of ONNX for a window of that size over dims of these sizes."""
        pads = self.same_pads(sizes, kernel) if self.pads is None else self.pads
        where: dict[str, object] = {"auto_pad": "SAME_UPPER"} if pads is None else {"pads": pads}
        return {"strides": self.strides, "dilations": self.dilations, **where}


def _without(items: Sequence[int], index: int) -> tuple[int, ...]:
    return (*items[:index], *items[index + 1 :])


def steps_of(b: OpBuilder, layout: Layout, strides: Sequence[int] = (), *, dilations: str = "dilations") -> Steps:
    """Return how the window of an op moves; `strides` replaces the attribute, `dilations` names that of dilations."""
    strides = strides or b.ints_attr("strides")
    rates = b.ints_attr(dilations) if b.attr(dilations) else (1,) * layout.rank
    if len(strides) != layout.rank or len(rates) != layout.rank or min(*strides, *rates) < 1:
        raise b.invalid(f"strides {strides}, {dilations} {rates}: {layout.rank} each")
    if any(step != 1 for step in (*layout.others(strides), *layout.others(rates))):
        raise b.unsupported("steps over the batch or the channels")
    pads: tuple[int, ...] | None = None
    match b.text_attr("padding"):
        case "SAME":
            pass
        case "VALID":
            pads = (0,) * (2 * (layout.rank - 2))
        case "EXPLICIT":
            every = b.ints_attr("explicit_paddings")
            if len(every) != 2 * layout.rank or min(every) < 0:
                raise b.invalid(f"explicit_paddings: {every}")
            if any((*layout.others(every[0::2]), *layout.others(every[1::2]))):
                raise b.unsupported("padding of the batch or the channels")
            pads = (*layout.spatial(every[0::2]), *layout.spatial(every[1::2]))
        case other:
            raise b.invalid(f"padding: {other}")
    return Steps(layout.spatial(strides), layout.spatial(rates), pads)


def whole_shape(b: OpBuilder, index: int, rank: int) -> tuple[int, ...]:
    """The shape of a filter. Raises Unsupported unless it has that rank and its sizes are numbers."""
    shape = b.shape(index)
    sizes = tuple(dim for dim in shape if isinstance(dim, int))
    if len(shape) != rank or len(sizes) != rank:
        raise b.unsupported(f"a filter of shape {shape}")
    return sizes


# --- convolutions ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    """What a window over two spatial dims moves over where one of them is there for the op only: `dim` of the spatial
    ones, which is dim `axis` of the data.
    """

    layout: Layout
    data: Value
    dim: int
    axis: int

    def leave(self, b: OpBuilder, value: Value) -> Value:
        """A result in the order of the op, with that dim again."""
        return b.unsqueeze(self.layout.leave(b, value), self.axis)


def _line(b: OpBuilder, layout: Layout, kernel: Sequence[int], steps: Steps) -> _Line | None:
    """The line that the data are, behind an ExpandDims."""
    unsqueeze = b.input(0).producer
    if layout.rank != 4 or unsqueeze.op_type != "Unsqueeze" or unsqueeze.operand(1).tensor is None:
        return None
    axes = [int(axis) % 4 for axis in unsqueeze.operand(1).array.reshape(-1)]
    dim = axes[0] - (2 if layout.is_first else 1)
    if len(axes) > 1 or dim not in (0, 1) or kernel[dim] != 1 or any((steps.pads or (0,) * 4)[dim::2]):
        return None
    return _Line(Layout(3, layout.is_first), unsqueeze.operand(0), dim, axes[0])


def _convolution(b: OpBuilder, layout: Layout, kernel: Value, group: int) -> Value:
    """Conv with weights OIHW, the data and the result being in the order of the op."""
    taps = [dim for dim in b.shape_of(kernel)[2:] if isinstance(dim, int)]
    steps = steps_of(b, layout)
    line = _line(b, layout, taps, steps)
    if line is None:
        return layout.leave(b, _convolved(b, layout, layout.enter(b, b.input(0)), kernel, group))
    x = line.layout.enter(b, line.data)
    attrs = steps.without(line.dim).attrs(b.shape_of(x)[2:], _without(taps, line.dim))
    return line.leave(b, b.op("Conv", x, b.squeeze(kernel, line.dim + 2), group=group, **attrs))


def _convolved(b: OpBuilder, layout: Layout, x: Value, kernel: Value, group: int) -> Value:
    """Conv with weights OIHW; channels second."""
    taps = [dim for dim in b.shape_of(kernel)[2:] if isinstance(dim, int)]
    return b.op("Conv", x, kernel, group=group, **steps_of(b, layout).attrs(b.shape_of(x)[2:], taps))


def _filter(b: OpBuilder, layout: Layout) -> tuple[Value, int]:
    """The filter of input 1 (HWIO) as OIHW, and the number of groups."""
    w = whole_shape(b, 1, layout.rank)
    if b.rank(0) != layout.rank:
        layout.enter(b, b.input(0))  # which refuses it
    of_x, per_group = b.dim_of(b.input(0), 1 if layout.is_first else -1), w[-2]
    group = of_x // per_group if isinstance(of_x, int) and per_group and of_x % per_group == 0 else 1
    return b.transpose(b.input(1), (layout.rank - 1, layout.rank - 2, *range(layout.rank - 2))), group


@maps("Conv2D", "Conv3D")
def conv(b: OpBuilder) -> Value:
    """Conv; the filter HWIO becomes OIHW, groups come from its size"""
    layout = layout_of(b, 4 if b.node.op == "Conv2D" else 5)
    return _convolution(b, layout, *_filter(b, layout))


def _depthwise_filter(b: OpBuilder) -> tuple[Value, int]:
    height, width, channels, multiplier = whole_shape(b, 1, 4)
    flat = b.reshape(b.input(1), (height, width, 1, channels * multiplier))
    return b.transpose(flat, (3, 2, 0, 1)), channels


@maps("DepthwiseConv2dNative")
def depthwise(b: OpBuilder) -> Value:
    """Conv with a group for each channel"""
    return _convolution(b, layout_of(b, 4), *_depthwise_filter(b))


@maps("_FusedConv2D", "_FusedDepthwiseConv2dNative")
def fused_conv(b: OpBuilder) -> Value:
    """Conv and what follows: BiasAdd or FusedBatchNorm, then an activation"""
    layout = layout_of(b, 4)
    weights = _filter(b, layout) if b.node.op == "_FusedConv2D" else _depthwise_filter(b)
    y = _convolved(b, layout, layout.enter(b, b.input(0)), *weights)
    steps = b.attr("fused_ops")
    for step in steps if isinstance(steps, tuple) else ():
        match step:
            case b"BiasAdd":
                y = b.op("Add", y, b.reshape(b.input(2), (-1, 1, 1)))
            case b"FusedBatchNorm":
                y = b.op("BatchNormalization", y, *b.inputs[2:6], epsilon=b.float_attr("epsilon"))
            case other:
                y = activated(b, y, other)
    return layout.leave(b, y)


# --- transposed convolutions -------------------------------------------------------------------------


@maps("Conv2DBackpropInput", "Conv3DBackpropInputV2")
def transposed_conv(b: OpBuilder) -> Value:
    """ConvTranspose; the sizes asked for may be computed"""
    layout = layout_of(b, 4 if b.node.op == "Conv2DBackpropInput" else 5)
    w = whole_shape(b, 1, layout.rank)
    asked = b.known(b.input(0)) or ()
    channels = asked[layout.others(range(layout.rank))[1]] if len(asked) == layout.rank else w[-2]
    group = channels // w[-2] if isinstance(channels, int) and w[-2] and channels % w[-2] == 0 else 1
    kernel = b.transpose(b.input(1), (layout.rank - 1, layout.rank - 2, *range(layout.rank - 2)))
    return _scattered(b, layout, kernel, group)


@maps("DepthwiseConv2dNativeBackpropInput")
def transposed_depthwise(b: OpBuilder) -> Value:
    """ConvTranspose with a group for each channel"""
    height, width, channels, multiplier = whole_shape(b, 1, 4)
    flat = b.reshape(b.input(1), (height, width, channels * multiplier, 1))
    return _scattered(b, layout_of(b, 4), b.transpose(flat, (2, 3, 0, 1)), channels)


def _scattered(b: OpBuilder, layout: Layout, kernel: Value, group: int) -> Value:
    """ConvTranspose of input 2, the filter being IOHW, to the sizes of input 0."""
    steps, spatial = steps_of(b, layout), range(layout.rank - 2)
    x = layout.enter(b, b.input(2))
    taps = [dim for dim in b.shape_of(kernel)[2:] if isinstance(dim, int)]
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(taps, steps.dilations, strict=True)]
    asked = b.known(b.input(0))
    if b.rank(0) != 1:
        raise b.invalid(f"input_sizes has {b.rank(0)} dims")
    if asked is not None and len(asked) not in {layout.rank, layout.rank - 2}:
        raise b.invalid(f"input_sizes has {len(asked)} of {layout.rank} numbers")
    sizes = () if asked is None else layout.spatial_dims(asked)
    attrs: dict[str, object] = {"strides": steps.strides, "dilations": steps.dilations, "group": group}
    ins, outs = [[dim for dim in dims if isinstance(dim, int)] for dims in (b.shape_of(x)[2:], sizes)]
    if len(ins) == len(outs) == len(spatial):
        whole = [(ins[i] - 1) * steps.strides[i] + reach[i] for i in spatial]
        pads = steps.pads
        if pads is None:
            totals = [max(whole[i] - outs[i], 0) for i in spatial]
            pads = (*[total // 2 for total in totals], *[total - total // 2 for total in totals])
        beyond = tuple(outs[i] - whole[i] + pads[i] + pads[i + len(spatial)] for i in spatial)
        if any(not 0 <= beyond[i] < max(steps.strides[i], 2) for i in spatial):
            what = f"a convolution of dims {outs} does not give {ins}, as the input has"
            raise b.invalid(what)
        return layout.leave(b, b.op("ConvTranspose", x, kernel, pads=pads, output_padding=beyond, **attrs))
    sizes_input = b.int64_input(0)
    length = b.dim_of(b.input(0), 0)
    if length != len(spatial):
        first = layout.spatial(range(layout.rank))[0]
        sizes_input = b.op("Slice", sizes_input, b.const([first]), b.const([first + len(spatial)]))
    if steps.pads is None:
        before = b.op("Mul", b.op("Sub", b.op("Shape", x, start=2), b.const(1)), b.const(steps.strides))
        total = b.op("Sub", b.op("Add", before, b.const(reach)), sizes_input)
        start = b.op("Div", b.op("Max", total, b.const(0)), b.const(2))
    else:
        start = b.const(steps.pads[: len(spatial)])
    strides, dilations = steps.strides, steps.dilations
    y = cut_conv_transpose(b, x, kernel, start, sizes_input, strides=strides, dilations=dilations, group=group)
    return layout.leave(b, y)


# --- pooling -----------------------------------------------------------------------------------------

_EXACT = {  # where integers are pooled that the op of the standard does not take
    DType.INT16: DType.FLOAT32,
    DType.UINT16: DType.FLOAT32,
    DType.INT32: DType.FLOAT64,
    DType.BFLOAT16: DType.FLOAT32,
}


def window_of(b: OpBuilder, sizes: Sequence[int], layout: Layout) -> tuple[int, ...]:
    """The spatial sizes of a window. Unsupported if it covers several pictures or channels."""
    if len(sizes) != layout.rank or min(sizes, default=0) < 1:
        raise b.invalid(f"ksize {tuple(sizes)}: {layout.rank} numbers above 0")
    if layout.others(sizes) != (1, 1):
        raise b.unsupported("a window over the batch or the channels")
    return layout.spatial(sizes)


@maps("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolV2")
def pool(b: OpBuilder) -> Value:
    """MaxPool, AveragePool; the average does not count pads"""
    has_inputs = b.node.op == "MaxPoolV2"
    layout = layout_of(b, 5 if b.node.op.endswith("3D") else 4)
    kernel = window_of(b, b.ints(1) if has_inputs else b.ints_attr("ksize"), layout)
    steps = steps_of(b, layout, b.ints(2) if has_inputs else ())
    dtype = b.dtype(0)
    op_type = "MaxPool" if b.node.op.startswith("Max") else "AveragePool"
    return b.cast(pooled(b, op_type, layout, kernel, steps, _EXACT.get(dtype, dtype)), dtype)


def pooled(b: OpBuilder, op_type: str, layout: Layout, kernel: tuple[int, ...], steps: Steps, dtype: DType) -> Value:
    """Pool input 0, converted to an element type."""
    line = _line(b, layout, kernel, steps)
    if line is not None:
        kernel, steps = _without(kernel, line.dim), steps.without(line.dim)
    x = b.cast(layout.enter(b, b.input(0)) if line is None else line.layout.enter(b, line.data), dtype)
    attrs = {"kernel_shape": kernel, **steps.attrs(b.shape_of(x)[2:], kernel)}
    if op_type == "AveragePool":
        attrs["count_include_pad"] = 0
    return (layout if line is None else line).leave(b, b.op(op_type, x, **attrs))


@maps("MaxPoolWithArgmax")
def pool_with_indices(b: OpBuilder) -> list[Value]:
    """MaxPool; indices count elements as TensorFlow does, channels last"""
    layout = Layout(4, is_first=False)
    kernel, steps = window_of(b, b.ints_attr("ksize"), layout), steps_of(b, layout)
    x = layout.enter(b, b.input(0))
    dtype = x.desc.dtype
    attrs = steps.attrs(b.shape_of(x)[2:], kernel)
    pooled, flat = b.ops("MaxPool", b.cast(x, _EXACT.get(dtype, dtype)), outputs=2, kernel_shape=kernel, **attrs)
    sizes = b.op("Shape", x)
    images, channels, *sides = b.ops("Split", sizes, outputs=4, num_outputs=4)
    area = b.op("Mul", *sides)
    at = b.op("Mul", b.op("Mod", flat, area), channels)
    one = b.const(1)
    of_channel = b.op("Range", b.const(0), b.squeeze(channels, 0), one)
    at = b.op("Add", at, b.unsqueeze(of_channel, 1, 2))
    if b.bool_attr("include_batch_in_index"):
        of_image = b.op("Range", b.const(0), b.squeeze(images, 0), one)
        before = b.op("Mul", of_image, b.op("Mul", area, channels))
        at = b.op("Add", at, b.unsqueeze(before, 1, 2, 3))
    indices = b.cast(layout.leave(b, at), b.dtype_attr("Targmax"))
    return [layout.leave(b, b.cast(pooled, dtype)), indices]


# --- blocks of pixels ------------------------------------------------------------------------


@maps("DepthToSpace", "SpaceToDepth")
def depth_and_space(b: OpBuilder) -> Value:
    """DepthToSpace (DCR), SpaceToDepth"""
    layout = layout_of(b, 4)
    x, size = layout.enter(b, b.input(0)), b.int_attr("block_size")
    if b.node.op == "DepthToSpace":
        return layout.leave(b, b.op("DepthToSpace", x, blocksize=size, mode="DCR"))
    return layout.leave(b, b.op("SpaceToDepth", x, blocksize=size))
