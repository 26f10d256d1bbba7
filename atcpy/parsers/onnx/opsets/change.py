"""The kinds of changes that an op can go through from one opset to the next, each in both directions.

A step down says only what the schemas of both versions do not: whatever is left after it that the older op lacks
(attributes that differ from their default, inputs, outputs, element types) makes the downgrade fail by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import numpy.typing as npt

from atcpy.ir import DType
from atcpy.parsers.onnx.opsets.form import CannotDowngrade, OpsetForm

if TYPE_CHECKING:
    from atcpy.parsers.onnx.upgrade import Upgrade


@dataclass(frozen=True, slots=True)
class Step:
    """One aspect of a change: how to bring a node to the newer form, and how back. None: the form stays."""

    up: Callable[[Upgrade], None] | None = None
    down: Callable[[OpsetForm], None] | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """How ops changed at a version. They are separated by spaces; those of another domain than the standard's are named
    after it, as in `ai.onnx.ml::LabelEncoder`. `renamed` is the name from the version on, if it is another.
    """

    version: int
    ops: str
    steps: tuple[Step, ...]
    renamed: str

    @property
    def has_step_up(self) -> bool:
        """Whether nodes of older opsets must be changed."""
        return bool(self.renamed) or any(step.up for step in self.steps)


def change(version: int, ops: str, *steps: Step, renamed: str = "") -> Change:
    """Declare a change."""
    return Change(version, ops, steps, renamed)


def attr_to_input(
    attr: str,
    index: int,
    dtype: DType | None = DType.INT64,
    shape: tuple[int, ...] = (-1,),
    *,
    default: object = None,
    neutral: object = None,
) -> Step:
    """The attribute became input `index`, of this element type (None: that of input 0) and shape. The attribute is a
    list if the shape is (-1,), else a number. `default` is what the older op took where it was left out, if that is
    not what the newer one takes; `neutral` is the value that says the same as leaving it out.
    """

    def up(up: Upgrade) -> None:
        value = up.attrs.pop(attr, default)
        if value is None or value == neutral:
            return
        if dtype is None:
            new = up.like(cast("float", value), up.node.operand(0), label=attr)
        else:
            new = up.const(np.reshape(cast("npt.ArrayLike", value), shape), dtype, label=attr)
        up.set_input(index, new)

    def down(form: OpsetForm) -> None:
        array = form.take_array(index)
        if array is not None:
            items = array.reshape(-1)
            numbers = [int(item) if dtype is DType.INT64 else float(item) for item in items]
            value = tuple(numbers) if shape == (-1,) else numbers[0]
            if value != neutral:
                form.attrs[attr] = value

    return Step(up, down)


def new_input(index: int, default: int) -> Step:
    """The input is new; without it the op is what it was, as it is if all elements have the default."""

    def down(form: OpsetForm) -> None:
        array = form.take_array(index)
        if array is not None and (array != default).any():
            raise CannotDowngrade(f"input {index} is not {default}")

    return Step(down=down)


def new_default(attr: str, older: object) -> Step:
    """A node without the attribute meant `older`; now it is required or has another default."""

    def up(up: Upgrade) -> None:
        up.attrs.setdefault(attr, older)

    def down(form: OpsetForm) -> None:
        if (newer := form.default(attr)) is not None:
            form.attrs.setdefault(attr, newer)

    return Step(up, down)


def new_attr(attr: str, older: object) -> Step:
    """The attribute is new, and its default is not `older`, what the op did before."""

    def up(up: Upgrade) -> None:
        up.attrs[attr] = older

    def down(form: OpsetForm) -> None:
        if form.attrs.pop(attr, form.default(attr)) != older:
            raise CannotDowngrade(f"{attr} is not {older}")

    return Step(up, down)


def removed_attr(attr: str, meaning: int | None = None) -> Step:
    """The attribute has no meaning any more. An older node needs it with the value `meaning`, if one is given."""

    def up(up: Upgrade) -> None:
        up.attrs.pop(attr, None)

    def down(form: OpsetForm) -> None:
        if meaning is not None:
            form.attrs[attr] = meaning

    return Step(up, down)


def renamed_attr(older: str, newer: str) -> Step:
    """The attribute has another name."""

    def up(up: Upgrade) -> None:
        if older in up.attrs:
            up.attrs[newer] = up.attrs.pop(older)

    def down(form: OpsetForm) -> None:
        if newer in form.attrs:
            form.attrs[older] = form.attrs.pop(newer)

    return Step(up, down)


def respelled(attr: str, names: Mapping[str, str]) -> Step:
    """Values of the attribute have other names, the default among them."""
    older_names = {newer: older for older, newer in names.items()}

    def up(up: Upgrade) -> None:
        if isinstance(value := up.attrs.get(attr), str):
            up.attrs[attr] = names.get(value, value)

    def down(form: OpsetForm) -> None:
        if isinstance(value := form.attrs.get(attr), str):
            form.attrs[attr] = older_names.get(value, value)

    return Step(up, down)


def negative_axis(default: int | None = None) -> Step:
    """The axis may count from the back. `default` is the one that the newer op takes, if that is negative."""

    def down(form: OpsetForm) -> None:
        axis = form.attrs.get("axis", default)
        if isinstance(axis, int):
            form.attrs["axis"] = axis + form.rank() if axis < 0 else axis

    return Step(down=down)


def irreversible(why: str) -> Step:
    """No node can be written at the older version."""

    def down(form: OpsetForm) -> None:
        raise CannotDowngrade(why)

    return Step(down=down)
