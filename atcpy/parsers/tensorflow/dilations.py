"""Dilated convolutions that a graph writes as plain ones on blocks of space that are moved into the batch.

    SpaceToBatchND → Conv2D → BatchToSpaceND     becomes     Conv2D with dilations

Padding and cropping become the padding of the convolution where both are constants. Else the two ops stay with blocks
of size 1: they pad and crop, and move nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from atcpy.ir.tensor import Array
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, constant_of
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import DataType, TensorProto

_CONVOLUTIONS = frozenset({"Conv2D", "Conv3D", "DepthwiseConv2dNative"})
_UNIT_BLOCKS = "atcpy/blocks_of_one"  # in front of the names of constants


def with_dilations(graph: TfGraph) -> TfGraph:
    """Return the graph with dilated convolutions; the nodes that they replace are still in it."""
    nodes = dict(graph.nodes)
    for node in graph.nodes.values():
        if node.op == "BatchToSpaceND" and len(node.inputs) == 3:
            found = _find(graph.nodes, node)
            if found is not None:
                nodes.update({node.name: node for node in found.replacement()})
    return TfGraph(nodes, graph.inputs, graph.outputs)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """A convolution between the two ops; of one dim, it stands between an ExpandDims and a Squeeze."""

    apart: TfNode
    conv: TfNode
    together: TfNode
    axis: int | None  # the dim that is only there for the convolution
    expand: TfNode | None
    squeeze: TfNode | None
    blocks: tuple[int, ...]
    borders: Array | None  # [dims, 2], for each dim that has blocks; None if they are not constant

    def replacement(self) -> list[TfNode]:
        """The nodes that replace the pattern. The last has the name of its BatchToSpaceND."""
        name, x = self.together.name, self.apart.inputs[0]
        nodes: list[TfNode] = []
        if self.borders is None:
            ones = _constant(f"{_UNIT_BLOCKS}/{len(self.blocks)}", np.ones(len(self.blocks), np.int32))
            padded = TfNode(f"{name}/padded", "SpaceToBatchND", (x, Ref(ones.name, 0), self.apart.inputs[2]), {})
            nodes += [ones, padded]
            x = Ref(padded.name, 0)
        if self.expand is not None:
            nodes.append(TfNode(f"{name}/expanded", self.expand.op, (x, self.expand.inputs[1]), self.expand.attrs))
            x = Ref(nodes[-1].name, 0)
        nodes.append(TfNode(f"{name}/convolution", self.conv.op, (x, self.conv.inputs[1]), self._attrs()))
        if self.squeeze is not None:
            last = Ref(nodes[-1].name, 0)
            nodes.append(TfNode(f"{name}/squeezed", self.squeeze.op, (last,), self.squeeze.attrs))
        if self.borders is None:
            last = Ref(nodes[-1].name, 0)
            nodes.append(TfNode(name, "BatchToSpaceND", (last, Ref(ones.name, 0), self.together.inputs[2]), {}))
        nodes[-1].name, nodes[-1].called = name, self.together.called
        return nodes

    def _attrs(self) -> dict[str, object]:
        """The attributes of the dilated convolution."""
        dilations, pads = _for_dims(self.conv, self.blocks, self.borders, self.axis)
        attrs = {**self.conv.attrs, "dilations": dilations}
        return attrs if self.borders is None else {**attrs, "padding": b"EXPLICIT", "explicit_paddings": pads}


def _find(nodes: dict[str, TfNode], together: TfNode) -> _Blocks | None:
    """The pattern that ends with a BatchToSpaceND; None if it is another one."""
    squeeze = expand = axis = None
    conv = nodes.get(together.inputs[0].node)
    if conv is not None and conv.op == "Squeeze" and conv.inputs:
        squeeze, conv = conv, nodes.get(conv.inputs[0].node)
    if conv is None or conv.op not in _CONVOLUTIONS or len(conv.inputs) != 2 or not _is_plain(conv):
        return None
    apart = nodes.get(conv.inputs[0].node)
    if squeeze is not None:
        expand = apart
        if expand is None or expand.op != "ExpandDims" or len(expand.inputs) != 2:
            return None
        axis = _axis(nodes, expand, squeeze, _rank(conv))
        apart = nodes.get(expand.inputs[0].node)
        if axis is None:
            return None
    if apart is None or apart.op != "SpaceToBatchND" or len(apart.inputs) != 3:
        return None
    blocks, others, pads, crops = (
        constant_of(nodes, ref) for ref in (apart.inputs[1], together.inputs[1], apart.inputs[2], together.inputs[2])
    )
    if blocks is None or others is None or not np.array_equal(blocks, others) or blocks.min(initial=1) < 1:
        return None
    borders = None if pads is None or crops is None or pads.shape != crops.shape else pads - crops
    if borders is not None and (borders.shape != (blocks.size, 2) or borders.min(initial=0) < 0):
        borders = None
    found = _Blocks(
        apart, conv, together, axis, expand, squeeze, tuple(int(size) for size in blocks.reshape(-1)), borders
    )
    return found if _is_spatial(found) else None


def _rank(conv: TfNode) -> int:
    strides = conv.attrs.get("strides")
    return len(strides) if isinstance(strides, tuple) else 0


def _is_plain(conv: TfNode) -> bool:
    """Whether a convolution has no strides, dilations or padding."""
    steps = (conv.attrs.get("strides"), conv.attrs.get("dilations") or (1,))
    return conv.attrs.get("padding") == b"VALID" and all(isinstance(item, tuple) and set(item) == {1} for item in steps)


def _axis(nodes: dict[str, TfNode], expand: TfNode, squeeze: TfNode, rank: int) -> int | None:
    """The dim that ExpandDims inserts, if it is the one that Squeeze drops."""
    inserted, dropped = constant_of(nodes, expand.inputs[1]), squeeze.attrs.get("squeeze_dims")
    if inserted is None or inserted.size != 1 or not isinstance(dropped, tuple) or len(dropped) != 1:
        return None
    axis = int(inserted.reshape(-1)[0]) % rank
    return axis if dropped[0] % rank == axis else None


def _is_spatial(found: _Blocks) -> bool:
    """True if the channels are not in blocks, nor have borders."""
    rank = _rank(found.conv)
    if len(found.blocks) + (found.axis is not None) >= rank:
        return False
    dilations, pads = _for_dims(found.conv, found.blocks, found.borders, found.axis)
    data_format = found.conv.attrs.get("data_format")
    channels = 1 if isinstance(data_format, bytes) and data_format.startswith(b"NC") else rank - 1
    return dilations[channels] == 1 and pads[2 * channels] == pads[2 * channels + 1] == 0


def _for_dims(
    conv: TfNode, blocks: tuple[int, ...], borders: Array | None, axis: int | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Dilations and borders for each dim of the convolution."""
    dilations = [1, *blocks]
    pads = [(0, 0), *([(0, 0)] * len(blocks) if borders is None else [(int(a), int(b)) for a, b in borders])]
    if axis is not None:
        while len(dilations) < axis:
            dilations.append(1)
            pads.append((0, 0))
        dilations.insert(axis, 1)
        pads.insert(axis, (0, 0))
    rest = _rank(conv) - len(dilations)
    return (*dilations, *[1] * rest), tuple(side for pair in (*pads, *[(0, 0)] * rest) for side in pair)


def _constant(name: str, array: Array) -> TfNode:
    proto = TensorProto(dtype=DataType.DT_INT32, tensor_content=array.tobytes())
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    return TfNode(name, "Const", (), {"value": proto, "dtype": int(DataType.DT_INT32)})
