"""Aipp: pictures of bytes become what a model takes, in one launch of `aipp`; GE's op of that name.

Input 0 is the pictures. Input 1, if there is one, holds the parameters of a run (dynamic AIPP, atcpy.aipp.parameters).
Without it the attributes have them; a size of 0 is that of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from atcpy.ir import DType, Engine, Node, TensorDesc
from atcpy.ir.shape import Dim
from atcpy.ops.core.opdef import KernelCall, Known, OpDef, ParamValue, always, register_operator

NAME = "Aipp"


def infer_aipp(node: Node, known: Known) -> Sequence[TensorDesc]:
    """[N, C, H, W], or [N, H, W, C]: N, and H and W where they are 0, are those of the pictures."""
    source = node.operand(0).desc.shape
    assert source is not None
    batch, height, width = node.int_attr("batch", 0), *node.ints_attr("size")
    sides: tuple[Dim, Dim] = (height or source[1], width or source[2])
    pictures, channels = batch or source[0], node.int_attr("channels", 3)
    shape = (pictures, channels, *sides) if node.int_attr("planar", 1) else (pictures, *sides, channels)
    return [TensorDesc.plain(DType.from_onnx(node.int_attr("to", DType.FLOAT32.onnx)), shape)]


def lower_aipp(node: Node) -> Iterable[KernelCall]:
    """One launch over the rows of all pictures."""
    shape = node.output.desc.static_shape
    planar = node.int_attr("planar", 1)
    height, width = shape[2:] if planar else shape[1:3]
    params: dict[str, ParamValue] = {
        "pictures": shape[0], "channels": node.int_attr("channels", 3), "height": height, "width": width,
        "planar": planar, "bytes": node.operand(0).desc.elements, "padding": node.float_attr("padding", 0.0),
    }  # fmt: skip
    if node.input_count == 1:
        params |= _settings(node, height, width)
    yield KernelCall("aipp", tuple(node.operands), (node.output,), params)


def _settings(node: Node, height: int, width: int) -> dict[str, ParamValue]:
    source_height, source_width = node.ints_attr("source")
    top, left, crop_height, crop_width = node.ints_attr("crop")
    pad_top, pad_left = node.ints_attr("pads")
    matrix, offset = node.ints_attr("matrix"), node.ints_attr("offset")
    settings: dict[str, ParamValue] = {
        "format": node.str_attr("format", ""), "src_height": source_height or height,
        "src_width": source_width or width, "swap_rb": node.int_attr("swap_rb", 0),
        "swap_ax": node.int_attr("swap_ax", 0), "crop_top": top, "crop_left": left,
        "crop_height": crop_height or height, "crop_width": crop_width or width, "pad_top": pad_top,
        "pad_left": pad_left, "convert": int(bool(matrix)), "matrix": matrix, "offset": offset,
    }  # fmt: skip
    for name in ("mean", "factor"):
        settings |= {f"{name}_{channel}": number for channel, number in enumerate(_floats(node, name))}
    return settings


def _floats(node: Node, name: str) -> tuple[float, ...]:
    numbers = node.attrs[name]
    assert isinstance(numbers, tuple)
    return numbers


register_operator(OpDef(name=NAME, infer=infer_aipp, engines={Engine.VECTOR: always}, lower=lower_aipp))
