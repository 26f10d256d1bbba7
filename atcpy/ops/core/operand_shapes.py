"""Shapes that the operands of a node must have, one in terms of the other."""

from __future__ import annotations

import re
from collections.abc import Mapping

from atcpy.errors import ModelInvalid
from atcpy.ir import Node, TensorDesc, Value
from atcpy.ir.shape import Dim, element_count, format_shape, is_static

_SIZE = re.compile(r"(\d*)(\w*)")


def fit_operands(node: Node, shapes: Mapping[int, str]) -> None:
    """Raise ModelInvalid (EZ8888) if an operand has another shape than `shapes` gives for its index. A shape is a list
    of sizes, as `"batch 3hidden 4"`: names, numbers, or products of both. Equal names are equal sizes.
    """
    found: dict[str, Dim] = {}
    operands = {index: value for index in shapes if (value := node.input(index)) is not None}
    for index, value in operands.items():
        _bind(node, index, value.desc, shapes[index].split(), found)
    for index, value in operands.items():
        for axis, (dim, text) in enumerate(zip(value.desc.shape or (), shapes[index].split(), strict=False)):
            expected = _expected(text, found)
            if isinstance(dim, int) and expected is not None and dim != expected:
                raise _misfit(node, index, value.desc, shapes[index], f"dim {axis} must be {expected}")


def _bind(node: Node, index: int, desc: TensorDesc, texts: list[str], found: dict[str, Dim]) -> None:
    if desc.shape is None:
        return
    if len(desc.shape) != len(texts):
        raise _misfit(node, index, desc, " ".join(texts), f"rank {len(texts)} is needed")
    for dim, text in zip(desc.shape, texts, strict=True):
        if not text[0].isdigit() and not isinstance(found.get(text), int):
            found[text] = dim


def _expected(text: str, found: Mapping[str, Dim]) -> int | None:
    """The size that a text such as `3hidden` stands for; None if it is not known."""
    match = _SIZE.fullmatch(text)
    assert match is not None, text
    factor, name = match.groups()
    size = found.get(name) if name else 1
    return int(factor or 1) * size if isinstance(size, int) else None


def _misfit(node: Node, index: int, desc: TensorDesc, shape: str, why: str) -> ModelInvalid:
    what = f"input {index} has the shape {format_shape(desc.shape)}, which is no [{shape.replace(' ', ', ')}]: {why}"
    return ModelInvalid("EZ8888", what, where=node)


def check_single(node: Node, name: str, value: Value | None, *, code: str = "EZ8888") -> None:
    """Raise ModelInvalid if an operand that must be of one element has another size."""
    desc = None if value is None else value.desc
    if desc is not None and is_static(desc.shape) and element_count(desc.shape) != 1:
        what = f"its {name} has the shape {format_shape(desc.shape)}, one element is needed"
        raise ModelInvalid(code, what, where=node)
