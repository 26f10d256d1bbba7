"""Windows over spatial dims: what Conv, pooling and ConvTranspose share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import Node
from atcpy.ir.shape import Dim, Sym

MAX_SPATIAL = 3  # what the kernels of plain tensors count


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window; every tuple has one entry a spatial dim."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_begin: tuple[int, ...]
    pads_end: tuple[int, ...]

    @property
    def is_pointwise(self) -> bool:
        """Does result i see element i alone, along every dim, as far as there are such?"""
        return {*self.kernel, *self.strides} == {1} and not any((*self.pads_begin, *self.pads_end))

    def effective(self, axis: int) -> int:
        """Extent of the dilated kernel along a spatial dim."""
        return (self.kernel[axis] - 1) * self.dilations[axis] + 1


def window_of(node: Node, kernel: tuple[int, ...], spatial: tuple[Dim, ...]) -> Window:
    """Reads kernel, strides, dilations and pads of a node, with `auto_pad` resolved.

    Raises ModelInvalid (E13014) if an attribute has the wrong length or a value below 1 (pads: 0).
    """
    rank = len(kernel)
    strides = positive_ints(node, "strides", rank, 1)
    dilations = positive_ints(node, "dilations", rank, 1)
    auto_pad = node.str_attr("auto_pad", "NOTSET")
    if auto_pad in {"SAME_UPPER", "SAME_LOWER"}:
        begins, ends = [], []
        for axis, size in enumerate(spatial):
            effective = (kernel[axis] - 1) * dilations[axis] + 1
            total = same_padding(size, effective, strides[axis]) or 0  # known where the size is: nobody runs it before
            small = total // 2
            begins.append(small if auto_pad == "SAME_UPPER" else total - small)
            ends.append(total - begins[-1])
        return Window(kernel, strides, dilations, tuple(begins), tuple(ends))
    pads = node.ints_attr("pads", [0] * (2 * rank))
    if auto_pad == "VALID":
        pads = (0,) * (2 * rank)
    if len(pads) != 2 * rank:
        raise ModelInvalid("E13014", where=node, what=f"pads has {len(pads)} values, needs {2 * rank}")
    if any(pad < 0 for pad in pads):
        raise ModelInvalid("E13014", where=node, what=f"pads = {list(pads)} must not be negative")
    return Window(kernel, strides, dilations, pads[:rank], pads[rank:])


def same_padding(size: Dim, effective: int, stride: int) -> int | None:
    """Return the padding of both ends together that SAME asks for; None if that depends on an unknown size."""
    if stride == 1:
        return effective - 1
    return max((-(-size // stride) - 1) * stride + effective - size, 0) if isinstance(size, int) else None


def output_size(node: Node, size: Dim, window: Window, axis: int, *, ceil_mode: bool = False) -> Dim:
    """Positions of the window along a spatial dim."""
    pads = window.pads_begin[axis] + window.pads_end[axis]
    if not isinstance(size, int):
        keeps = window.strides[axis] == 1 and pads == window.effective(axis) - 1
        return size if keeps else Sym(f"{node.name}.{axis}")
    room = size + pads - window.effective(axis)
    if room < 0:
        raise ModelInvalid(
            "EZ8888",
            where=node,
            what=f"the window of {window.effective(axis)} is larger than the padded size "
            f"{room + window.effective(axis)} of spatial dim {axis}",
        )
    stride = window.strides[axis]
    if not ceil_mode:
        return room // stride + 1
    count = -(-room // stride) + 1
    # A window that would start in the end padding does not count (ONNX, since opset 22's wording).
    return count - 1 if (count - 1) * stride >= size + window.pads_begin[axis] else count


def positive_ints(node: Node, name: str, rank: int, default: int) -> tuple[int, ...]:
    """An attribute with one number above 0 for each spatial dim."""
    values = node.ints_attr(name, [default] * rank)
    if len(values) != rank:
        raise ModelInvalid("E13014", where=node, what=f"{name} has {len(values)} values, needs {rank}")
    if any(value < 1 for value in values):
        raise ModelInvalid("E13014", where=node, what=f"{name} = {list(values)} must be positive")
    return values


def leading(values: Sequence[int], fill: int) -> list[int]:
    """As many values as the kernels of plain tensors count, the last ones those given."""
    return [fill] * (MAX_SPATIAL - len(values)) + list(values)
