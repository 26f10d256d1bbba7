"""Convolutions in one node with the padding, and the new size, that come before."""

from __future__ import annotations

from dataclasses import replace

from atcpy.ir import Value
from atcpy.parsers.tensorflow.op import MappingFunction, OpBuilder, maps
from atcpy.parsers.tensorflow.ops.arrays import mirror_pad
from atcpy.parsers.tensorflow.ops.spatial.conv import conv
from atcpy.parsers.tensorflow.ops.spatial.image import resize


@maps("FusedPadConv2D", "FusedResizeAndPadConv2D")
def padded_conv(b: OpBuilder) -> Value:
    """Resize (linear) where it has a size, Pad as MirrorPad, Conv"""
    x, *between, paddings, kernel = b.inputs
    for size in between:
        corners = {"align_corners": b.bool_attr("resize_align_corners")}
        x = _as(b, "ResizeBilinear", resize, x, size, **corners)
    x = _as(b, "MirrorPad", mirror_pad, x, paddings, mode=b.attr("mode"))
    return _as(b, "Conv2D", conv, x, kernel, data_format=b"NHWC")


def _as(b: OpBuilder, kind: str, function: MappingFunction, *inputs: Value, **attrs: object) -> Value:
    """What the node would be as one of another op."""
    node = replace(b.node, op=kind, attrs={**b.node.attrs, **attrs})
    value = function(b.changed(node=node, inputs=list(inputs)))
    assert isinstance(value, Value)
    return value
