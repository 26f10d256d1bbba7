"""Convolutions, pooling and normalisation: ops that know which dim is that of the channels.

TensorFlow has them last (NHWC) unless `data_format` says otherwise. Those of ONNX have them second: the values get a
Transpose in front and one behind, which the optimizer cancels between two such ops.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import Op, maps


@dataclass(frozen=True, slots=True)
class Layout:
    """The order of the dims of an op's data."""

    rank: int
    is_first: bool  # the channels come second, as in ONNX

    def enter(self, op: Op, value: Value) -> Value:
        """The value with its channels second."""
        return value if self.is_first else op.transpose(value, (0, self.rank - 1, *range(1, self.rank - 1)))

    def leave(self, op: Op, value: Value) -> Value:
        """A result in the order of the op."""
        return value if self.is_first else op.transpose(value, (0, *range(2, self.rank), 1))

    def spatial(self, per_dim: Sequence[int]) -> tuple[int, ...]:
        """The entries of a list with one for each dim that are those of the spatial dims."""
        return tuple(per_dim[2:] if self.is_first else per_dim[1:-1])

    def others(self, per_dim: Sequence[int]) -> tuple[int, ...]:
        """The entries for batch and channels."""
        return (per_dim[0], per_dim[1] if self.is_first else per_dim[-1])


def layout_of(op: Op, rank: int) -> Layout:
    """The layout that `data_format` names."""
    return Layout(rank, op.text_attr("data_format").startswith("NC"))


def windows(op: Op, layout: Layout, sizes: Sequence[int]) -> dict[str, object]:
    """Strides, dilations and pads of an op with a window, as attributes of ONNX. `sizes` are those of the window."""
    strides, dilations = op.ints_attr("strides"), op.attr("dilations") or (1,) * layout.rank
    assert isinstance(dilations, tuple)
    if len(strides) != layout.rank or len(dilations) != layout.rank:
        raise ModelInvalid("E13014", f"strides {strides}, dilations {dilations}: {layout.rank} each", where=op.where)
    if any(step != 1 for step in (*layout.others(strides), *layout.others(dilations))):
        raise op.refuse("steps over the batch or the channels")
    attrs: dict[str, object] = {"strides": layout.spatial(strides), "dilations": layout.spatial(dilations)}
    match op.text_attr("padding"):
        case "SAME":
            attrs["auto_pad"] = "SAME_UPPER"
        case "VALID":
            attrs["pads"] = (0,) * (2 * (layout.rank - 2))
        case "EXPLICIT":
            pads = op.ints_attr("explicit_paddings")
            if len(pads) != 2 * layout.rank:
                raise ModelInvalid("E13014", f"explicit_paddings: {len(pads)} numbers", where=op.where)
            attrs["pads"] = (*layout.spatial(pads[0::2]), *layout.spatial(pads[1::2]))
        case other:
            raise ModelInvalid("E13014", f"padding: {other}", where=op.where)
    return attrs


@maps("Conv2D", "Conv3D")
def conv(op: Op) -> Value:
    """Conv; the filter HWIO becomes OIHW, groups come from its size"""
    w = op.input(1)
    rank, w_shape = len(op.shape(1)), op.shape(1)
    layout = layout_of(op, rank)
    x = layout.enter(op, op.input(0))
    channels, per_group = op.shape_of(x)[1], w_shape[-2]
    attrs = windows(op, layout, ())
    if isinstance(channels, int) and isinstance(per_group, int) and per_group and channels % per_group == 0:
        attrs["group"] = channels // per_group
    kernel = op.transpose(w, (rank - 1, rank - 2, *range(rank - 2)))
    return layout.leave(op, op.add("Conv", x, kernel, **attrs))


@maps("DepthwiseConv2dNative")
def depthwise(op: Op) -> Value:
    """Conv with a group for each channel"""
    w_shape = op.shape(1)
    if len(w_shape) != 4 or not all(isinstance(dim, int) for dim in w_shape):
        raise op.refuse(f"a filter of shape {w_shape}")
    height, width, channels, multiplier = (dim for dim in w_shape if isinstance(dim, int))
    layout = layout_of(op, 4)
    x = layout.enter(op, op.input(0))
    flat = op.reshape(op.input(1), (height, width, 1, channels * multiplier))
    kernel = op.transpose(flat, (3, 2, 0, 1))
    return layout.leave(op, op.add("Conv", x, kernel, **windows(op, layout, ()), group=channels))


@maps("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D")
def pool(op: Op) -> Value:
    """MaxPool, AveragePool; the average does not count pads"""
    sizes = op.ints_attr("ksize")
    layout = layout_of(op, len(sizes))
    if layout.others(sizes) != (1, 1):
        raise op.refuse("a window over the batch or the channels")
    attrs = windows(op, layout, sizes)
    if op.node.op.startswith("Max"):
        kind = "MaxPool"
    else:
        kind = "AveragePool"
        attrs["count_include_pad"] = 0
    pooled = op.add(kind, layout.enter(op, op.input(0)), kernel_shape=layout.spatial(sizes), **attrs)
    return layout.leave(op, pooled)


@maps("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def batch_norm(op: Op) -> list[Value | None]:
    """BatchNormalization; while training, by the statistics of the batch"""
    rank = op.rank(0)
    layout = layout_of(op, rank)
    x = layout.enter(op, op.input(0))
    scale, offset, mean, variance = (op.input(place) for place in range(1, 5))
    epsilon = op.float_attr("epsilon")
    if not op.bool_attr("is_training"):
        y = op.add("BatchNormalization", x, scale, offset, mean, variance, epsilon=epsilon)
        return [layout.leave(op, y), mean, variance]
    axes = op.const([0, *range(2, rank)])
    moments = [op.add("ReduceMean", x, axes, keepdims=0)]
    centred = op.add("Sub", x, op.add("ReduceMean", x, axes, keepdims=1))
    moments.append(op.add("ReduceMean", op.add("Mul", centred, centred), axes, keepdims=0))
    y = op.add("BatchNormalization", x, scale, offset, *moments, epsilon=epsilon)
    return [layout.leave(op, y), *moments]


@maps("LRN")
def local_response(op: Op) -> Value:
    """LRN over the channels"""
    size = 2 * op.int_attr("depth_radius") + 1
    layout = Layout(op.rank(0), is_first=False)
    attrs = {"size": size, "alpha": op.float_attr("alpha") * size}
    y = op.add("LRN", layout.enter(op, op.input(0)), bias=op.float_attr("bias"), beta=op.float_attr("beta"), **attrs)
    return layout.leave(op, y)


@maps("DepthToSpace", "SpaceToDepth")
def depth_and_space(op: Op) -> Value:
    """DepthToSpace (DCR), SpaceToDepth"""
    layout = layout_of(op, 4)
    x, size = layout.enter(op, op.input(0)), op.int_attr("block_size")
    if op.node.op == "DepthToSpace":
        return layout.leave(op, op.add("DepthToSpace", x, blocksize=size, mode="DCR"))
    return layout.leave(op, op.add("SpaceToDepth", x, blocksize=size))
