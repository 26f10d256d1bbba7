"""Compute a transposed convolution whose windows tile the result as a product with each pixel.

ConvTranspose(x, [C, M, b, b], bias) {strides=[b, b]}
    →  DepthToSpace(Conv(x, [M·b·b, C, 1, 1], bias, each b·b times), b) {CRD}

The kernel computes a block of channels for each of the b·b pixels of a window. With few channels most of it is padding;
here the pixels are channels, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from atcpy.ir import Engine, Match, Node, Reject, Rewriter, Value
from atcpy.ir.pattern import const, op, var
from atcpy.passes.fusion import Fusion
from atcpy.passes.phase import Phase
from atcpy.passes.split.assign_engines import choose_engine

MAX_CHANNELS = 4  # four pixels of so many fill a block of channels


class TiledConvTranspose(Fusion, switch="TiledConvTransposePass", phase=Phase.STRENGTH):
    """Replace a transposed convolution to few channels, whose windows do not overlap, by Conv and DepthToSpace."""

    pattern = op("ConvTranspose", var("x"), const("w"), const("b", optional=True), name="conv")

    def meet_requirements(self, m: Match) -> Iterator[Reject]:
        conv, shape = m.node("conv"), m["w"].desc.static_shape
        engine, reasons = choose_engine(conv)
        if engine is not Engine.AICORE:
            yield from reasons
            return
        if not _is_tiled(conv, shape[2:]):
            yield Reject("not-tiled", conv.name)
        if shape[1] > MAX_CHANNELS or conv.int_attr("group", 1) > 1:
            yield Reject("enough-channels", conv.name, f"{shape[1]} in each group")

    def replacement(self, m: Match, rw: Rewriter) -> Value:
        c, channels, block, _ = m["w"].desc.static_shape
        weights = m["w"].array.transpose(1, 2, 3, 0).reshape(channels * block * block, c, 1, 1)
        bias = m.get("b")
        inputs = [m["x"], rw.const(weights, like=m["w"])]
        if bias is not None:
            inputs.append(rw.const(np.repeat(bias.array, block * block), like=bias))
        result = rw.op("DepthToSpace", rw.op("Conv", *inputs), blocksize=block, mode="CRD")
        result.producer.sources = ()  # it moves what Conv computes: a node of the model stands in one place
        return result


def _is_tiled(conv: Node, kernel: tuple[int, ...]) -> bool:
    """Whether windows are squares side by side, none of which is cut off or reaches beyond its own pixels."""
    is_written = not conv.ints_attr("output_shape") and conv.str_attr("auto_pad", "NOTSET") in {"NOTSET", "VALID"}
    return (
        is_written
        and kernel[0] == kernel[1] > 1
        and conv.ints_attr("strides") == kernel
        and not any(conv.ints_attr("pads"))
        and not any(conv.ints_attr("output_padding"))
        and all(step == 1 for step in conv.ints_attr("dilations"))
    )
