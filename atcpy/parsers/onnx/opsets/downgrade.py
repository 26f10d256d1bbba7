"""How a node is written at an older opset: it takes the steps down of `changes.py`, newest version first.

What a step leaves, and a node at a version without one, must fit the schema of the older version: attributes that this
lacks have their default, inputs, outputs and element types are possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import onnx

from atcpy.ir import DType, Node, Tensor, Value
from atcpy.ir.closure import own_operands
from atcpy.ops.core.reference import type_name
from atcpy.parsers.onnx.opsets.change import Change
from atcpy.parsers.onnx.opsets.changes import CHANGES
from atcpy.parsers.onnx.opsets.form import CannotDowngrade, Operand, OpsetForm

_NEWEST = onnx.defs.onnx_opset_version()


def form_at(node: Node, opset: int) -> OpsetForm:
    """Write a node of a standard op at an opset. Raises CannotDowngrade."""
    form = _form_of(node)
    for version in _versions_above(form, opset):
        _step_down(form, version)
    if not onnx.defs.has(form.op_type, opset):
        raise CannotDowngrade(f"{form.op_type} is newer")
    return form


def oldest_opset(node: Node, opset: int) -> tuple[int, str]:
    """Return the oldest opset from `opset` on at which a node can be written, and why not at the one before."""
    form = _form_of(node)
    for version in _versions_above(form, opset):
        try:
            _step_down(form, version)
        except CannotDowngrade as why:
            return version, str(why)
    return opset, ""


@cache
def means_the_same(op_type: str, one: int, other: int) -> bool:
    """Return whether an op of the standard is the same at two opsets."""
    if one == other or not onnx.defs.has(op_type, one) or not onnx.defs.has(op_type, other):
        return one == other
    versions = {onnx.defs.get_schema(op_type, opset).since_version for opset in (one, other)}
    return len(versions) == 1


def _form_of(node: Node) -> OpsetForm:
    inputs: list[Operand] = list(node.inputs)
    if node.has_subgraphs:  # without what the bodies capture
        del inputs[own_operands(node) :]
    return OpsetForm(node.op_type, dict(node.attrs), inputs, node.outputs)


def _versions_above(form: OpsetForm, opset: int) -> Iterator[int]:
    """Yield the versions above an opset at which the op changed, newest first. An op that gets another name on the way
    goes on with that one's.
    """
    version: int | None = _NEWEST + 1
    while version is not None:
        version = next((older for older in _versions().get(form.op_type, ()) if opset < older < version), None)
        if version is not None:
            yield version


@cache
def _versions() -> dict[str, list[int]]:
    """The versions of each op, newest first."""
    found: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            found.setdefault(schema.name, set()).add(schema.since_version)
    return {name: sorted(versions, reverse=True) for name, versions in found.items()}


@cache
def _changes(op_type: str, version: int) -> tuple[Change, ...]:
    return tuple(
        change for change in CHANGES if change.version == version and op_type in (change.renamed or change.ops).split()
    )


def _step_down(form: OpsetForm, version: int) -> None:
    form.version = version
    for change in _changes(form.op_type, version):
        for step in change.steps:
            if step.down is not None:
                step.down(form)
        if change.renamed:
            form.op_type = change.ops
    while form.inputs and form.inputs[-1] is None:
        form.inputs.pop()
    _check_fits(form, version)


def _check_fits(form: OpsetForm, version: int) -> None:
    older = _before(form.op_type, version)
    if older is None:
        raise CannotDowngrade(f"{form.op_type} is newer")
    for name in [name for name in form.attrs if name not in older.attributes]:
        if form.attrs.pop(name) != form.default(name):
            raise CannotDowngrade(f"{name} is newer")
    if not older.inputs[0] <= len(form.inputs) <= older.inputs[1] or len(form.outputs) > older.outputs:
        raise CannotDowngrade("it had other inputs and outputs")
    for index, operand in enumerate(form.inputs):
        if operand is not None and not older.takes(_dtype(operand), index):
            raise CannotDowngrade(f"it did not take {_dtype(operand).long}")


@dataclass(frozen=True, slots=True)
class _Older:
    """What an op was before a version, of which onnx makes new objects each time that it is asked."""

    attributes: frozenset[str]
    inputs: tuple[int, int]
    outputs: int
    types: tuple[frozenset[DType], ...]

    def takes(self, dtype: DType, index: int) -> bool:
        """Return whether input `index` may have a type."""
        return dtype in self.types[min(index, len(self.types) - 1)]


@cache
def _before(op_type: str, version: int) -> _Older | None:
    if not onnx.defs.has(op_type, version - 1):
        return None
    old = onnx.defs.get_schema(op_type, version - 1)
    return _Older(
        frozenset(old.attributes),
        (old.min_input, old.max_input),
        old.max_output,
        tuple(
            frozenset(dtype for dtype in DType if dtype is DType.UNDEFINED or type_name(dtype) in param.types)
            for param in old.inputs
        ),
    )


def _dtype(operand: Value | Tensor) -> DType:
    return operand.dtype if isinstance(operand, Tensor) else operand.desc.dtype
