"""How a node is written at an older opset; the inverse of `parsers/onnx/opsets/opset_<n>.py`.

`@downgrades("Squeeze", 13)` registers the function that turns a Squeeze of opset 13 into one of opset 12. A node passes
the functions of all versions above the target opset, newest first. Where none is registered, and the newer version of
the op only added types, attributes or inputs, a node that does not use them can be written as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx

from atcpy.ir import DType, Node, Shape, Tensor, Value
from atcpy.ir.closure import own_operands
from atcpy.ops.core.reference import type_name

Operand = Value | Tensor | None


class CannotDowngrade(Exception):
    """A node cannot be written at an older opset; says why."""


@dataclass(slots=True)
class OpsetForm:
    """A node while it is downgraded: what a downgrade reads and changes."""

    op_type: str
    attrs: dict[str, object]
    inputs: list[Operand]
    outputs: Sequence[Value]

    def input(self, index: int) -> Operand:
        """Input `index`, or None if it is left out."""
        return self.inputs[index] if index < len(self.inputs) else None

    def shape(self, index: int) -> Shape | None:
        """The shape of an input, if it is known."""
        operand = self.input(index)
        if isinstance(operand, Tensor):
            return operand.shape
        return None if operand is None else operand.desc.shape

    def rank(self, index: int = 0) -> int:
        """The rank of an input. Raises CannotDowngrade if it is not known."""
        shape = self.shape(index)
        if shape is None:
            raise CannotDowngrade("the rank of its input is not known")
        return len(shape)

    def array(self, index: int) -> npt.NDArray[Any] | None:
        """The elements of an input that was an attribute; None if it is left out."""
        operand = self.input(index)
        tensor = operand.tensor if isinstance(operand, Value) else operand
        if tensor is None and operand is not None:
            raise CannotDowngrade(f"input {index} is computed")
        return None if tensor is None else tensor.array

    def ints(self, index: int) -> tuple[int, ...] | None:
        """The same as whole numbers."""
        array = self.array(index)
        return None if array is None else tuple(int(item) for item in array.reshape(-1))

    def keep_inputs(self, count: int) -> None:
        """Keep the first `count` inputs, without those at the end that are left out."""
        del self.inputs[count:]
        while self.inputs and self.inputs[-1] is None:
            self.inputs.pop()

    def ints_to_attr(self, index: int, name: str) -> None:
        """Turn input `index`, the last one, into an attribute: a list of integers."""
        values = self.ints(index)
        if values is not None:
            self.attrs[name] = values
        self.keep_inputs(index)

    def drop(self, name: str, default: object) -> None:
        """Drop an attribute that the older op lacks. Raises CannotDowngrade if it is not the `default`, the older
        behaviour.
        """
        if self.attrs.pop(name, default) != default:
            raise CannotDowngrade(f"{name} is not {default}")

    def drop_inputs(self, *indices: int) -> None:
        """Raise CannotDowngrade for inputs that the older op lacks."""
        for index in indices:
            if self.input(index) is not None:
                raise CannotDowngrade(f"input {index} is given")


_NEWEST = onnx.defs.onnx_opset_version()

Downgrade = Callable[[OpsetForm], None]
_DOWNGRADES: dict[tuple[str, int], Downgrade] = {}


def downgrades(op_types: str, version: int) -> Callable[[Downgrade], Downgrade]:
    """Registers a function that brings nodes of these ops (space-separated) from their form of `version` to the one
    before.
    """

    def register(downgrade: Downgrade) -> Downgrade:
        for op_type in op_types.split():
            assert (op_type, version) not in _DOWNGRADES
            _DOWNGRADES[op_type, version] = downgrade
        return downgrade

    return register


def downgraded_versions() -> frozenset[tuple[str, int]]:
    """The ops and versions with a registered downgrade."""
    return frozenset(_DOWNGRADES)


def form_at(node: Node, opset: int) -> OpsetForm:
    """Write a node of a standard op at an opset. Raises CannotDowngrade."""
    form = _form_of(node)
    for version in _versions_above(form, opset):
        _step(form, version)
    if not onnx.defs.has(form.op_type, opset):
        raise CannotDowngrade(f"{form.op_type} is newer")
    return form


def oldest_opset(node: Node, opset: int) -> tuple[int, str]:
    """The oldest opset from `opset` on at which a node can be written, and why not at the one before."""
    form = _form_of(node)
    for version in _versions_above(form, opset):
        try:
            _step(form, version)
        except CannotDowngrade as why:
            return version, str(why)
    return opset, ""


def _form_of(node: Node) -> OpsetForm:
    inputs: list[Operand] = list(node.inputs)
    if node.has_subgraphs:  # without what the bodies capture
        del inputs[own_operands(node) :]
    return OpsetForm(node.op_type, dict(node.attrs), inputs, node.outputs)


def _versions_above(form: OpsetForm, opset: int) -> Iterator[int]:
    """The versions above an opset at which the op changed, newest first. An op that gets another name on the way
    goes on with that one's.
    """
    version: int | None = _NEWEST + 1
    while version is not None:
        version = next((older for older in _changes(form.op_type) if opset < older < version), None)
        if version is not None:
            yield version


@cache
def _changes(op_type: str) -> tuple[int, ...]:
    """The versions of an op and those with a function, newest first."""
    known = {schema.since_version for schema in _history().get(op_type, ())}
    return tuple(sorted(known | {version for name, version in _DOWNGRADES if name == op_type}, reverse=True))


@cache
def _history() -> dict[str, list[onnx.defs.OpSchema]]:
    found: dict[str, list[onnx.defs.OpSchema]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, []).append(schema)
    return found


def _step(form: OpsetForm, version: int) -> None:
    downgrade = _DOWNGRADES.get((form.op_type, version))
    if downgrade is not None:
        downgrade(form)
        return
    older = _before(form.op_type, version)
    if older is None:
        raise CannotDowngrade(f"{form.op_type} is newer")
    for name in [name for name in form.attrs if name not in older.attributes]:
        default = older.new_defaults.get(name)
        if default is None or default != _as_onnx(form.attrs.pop(name)):
            raise CannotDowngrade(f"{name} is newer")
    if not older.inputs[0] <= len(form.inputs) <= older.inputs[1] or len(form.outputs) > older.outputs:
        raise CannotDowngrade("it had other inputs and outputs")
    for index, operand in enumerate(form.inputs):
        if operand is not None and not older.takes(_dtype(operand), index):
            raise CannotDowngrade(f"it did not take {_dtype(operand).long}")


@dataclass(frozen=True, slots=True)
class _Older:
    """What an op was before a version, of which onnx makes new objects each time that it is asked. `new_defaults` are
    those that attributes have which the version brought.
    """

    attributes: frozenset[str]
    new_defaults: Mapping[str, object]
    inputs: tuple[int, int]
    outputs: int
    types: tuple[frozenset[DType], ...]

    def takes(self, dtype: DType, index: int) -> bool:
        """Whether input `index` may have a type."""
        return dtype in self.types[min(index, len(self.types) - 1)]


@cache
def _before(op_type: str, version: int) -> _Older | None:
    if not onnx.defs.has(op_type, version - 1):
        return None
    old, new = onnx.defs.get_schema(op_type, version - 1), onnx.defs.get_schema(op_type, version)
    known = frozenset(old.attributes)
    return _Older(
        known,
        {
            name: onnx.helper.get_attribute_value(attr.default_value)
            for name, attr in new.attributes.items()
            if name not in known and attr.default_value.type
        },
        (old.min_input, old.max_input),
        old.max_output,
        tuple(
            frozenset(dtype for dtype in DType if dtype is DType.UNDEFINED or type_name(dtype) in param.types)
            for param in old.inputs
        ),
    )


def _as_onnx(value: object) -> object:
    return value.encode() if isinstance(value, str) else list(value) if isinstance(value, tuple) else value


def _dtype(operand: Value | Tensor) -> DType:
    return operand.dtype if isinstance(operand, Tensor) else operand.desc.dtype


def constant(array: npt.ArrayLike, dtype: DType) -> Tensor:
    """A constant operand for the older form."""
    return Tensor.of(np.asarray(array, dtype.numpy), dtype)


@cache
def means_the_same(op_type: str, domain: str, one: int, other: int) -> bool:
    """Whether the op is the same at two opsets of its domain."""
    if one == other or not onnx.defs.has(op_type, one, domain) or not onnx.defs.has(op_type, other, domain):
        return one == other
    return bool(
        onnx.defs.get_schema(op_type, one, domain).since_version
        == onnx.defs.get_schema(op_type, other, domain).since_version
    )
