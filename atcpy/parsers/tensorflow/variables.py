"""The variables of a graph: their content comes from the checkpoint that belongs to it.

Names do not say where a variable is: the nodes that would restore it do.

    tensor_names[i], shape_and_slices[i] → RestoreV2 → Identity → Assign or AssignVariableOp → the variable

An object-based checkpoint of TensorFlow 2 has keys that are paths of objects, and a graph of these objects, which says
the full name that each variable had. That is how TensorFlow finds variables of a graph in it, and so do we.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Final

from atcpy.errors import ModelInvalid, Unsupported, Where, did_you_mean
from atcpy.ir import Tensor
from atcpy.parsers.tensorflow.bundle import INDEX, Checkpoint, Slice
from atcpy.parsers.tensorflow.functions import Library, function_of, inline_calls
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, constant_of, main_ref
from atcpy.parsers.tensorflow.objects import Objects, read_objects
from atcpy.parsers.tensorflow.reader import TfFile
from atcpy.parsers.tensorflow.schema.tensorflow_pb2 import (
    TensorShapeProto,
    VariableDef,
)
from atcpy.parsers.tensorflow.tensors import find_dtype, read_shape

VARIABLES: Final = frozenset({"VariableV2", "Variable", "VarHandleOp"})
_PASSES_ON: Final = frozenset({"Identity", "IdentityN", "Snapshot", "Enter"})
_MAX_CHAIN: Final = 100  # of nodes that pass a value on


class Variables:
    """Finds the content of variables; a graph alone has none."""

    def __init__(self, file: TfFile, nodes: Mapping[str, TfNode], library: Library) -> None:
        self._file = file
        self._nodes = nodes
        self._library = library

    def find(self, node: TfNode, where: Where) -> Tensor:
        """The content of the variable that `node` is. Raises Unsupported if the graph came without a checkpoint,
        ModelInvalid if that does not have it or has it with another type.
        """
        if not self._has_checkpoint:
            what = "the graph is not frozen: it has variables, whose content lies in a checkpoint"
            hint = "give the folder of the SavedModel or of the checkpoint, or freeze it: atcpy freeze --checkpoint"
            raise Unsupported("E10055", what, where=where, hint=hint)
        if not isinstance(node.attrs.get("dtype"), int):
            raise ModelInvalid("E13014", f'the variable "{node.name}" has no dtype', where=where)
        key, box = self._location_of(node, where)
        tensor = self._checkpoint.tensor(key, box, where)
        number = node.attrs.get("dtype")
        dtype = find_dtype(number) if isinstance(number, int) else None
        proto = node.attrs.get("shape")
        shape = read_shape(proto) if isinstance(proto, TensorShapeProto) else None
        if (dtype is not None and dtype is not tensor.dtype) or not _fits(shape, tensor.shape):
            sizes = list(tensor.shape if shape is None else shape)
            what = f'the variable "{node.name}" is {(dtype or tensor.dtype).long}{sizes}, '
            what += f'"{key}" in the checkpoint is {tensor.dtype.long}{list(tensor.shape)}'
            hint = "is it the checkpoint of this graph?"
            raise ModelInvalid("E13014", what, where=where.filled(file=self._checkpoint.file), hint=hint)
        return tensor

    def find_restored(self, nodes: Mapping[str, TfNode], ref: Ref, where: Where) -> Tensor | None:
        """Return the content of the checkpoint that an output of a RestoreV2 is; None if it is no such output."""
        node = nodes.get(ref.node)
        if node is None or node.op != "RestoreV2" or len(node.inputs) < 3 or not self._has_checkpoint:
            return None
        if self._file.separate is not None and self._objects is not None:
            return None
        keys = _texts(node.inputs[1].node, nodes, {})
        return self._checkpoint.tensor(keys[ref.output], None, where) if ref.output < len(keys) else None

    def open(self) -> None:
        """Opens the checkpoint, if the graph has one: what is wrong with it is reported once, not for each variable."""
        if self._has_checkpoint:
            assert self._checkpoint is not None

    @property
    def _has_checkpoint(self) -> bool:
        return self._file.prefix is not None or self._file.separate is not None

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        prefix = self._file.separate or self._file.prefix
        assert prefix is not None
        with suppress(FileNotFoundError):
            return self._open(prefix)
        name = f"{prefix.name}{INDEX}"
        what = f"{name} is missing, which says where the variables of the graph are"
        raise ModelInvalid("E13015", what, where=Where(file=f"{prefix}{INDEX}"), hint=f"copy {name} and its data files")

    def _open(self, prefix: Path) -> Checkpoint:
        root = None if prefix == self._file.separate else self._file.root
        return Checkpoint(prefix, root, allow_hardlinks=self._file.allow_hardlinks)

    @cached_property
    def _objects(self) -> Objects | None:
        return read_objects(self._checkpoint)

    @cached_property
    def _own_full_names(self) -> Mapping[str, str]:
        """The full names of the keys under which the graph's own checkpoint has the variables of a separate one."""
        if self._file.separate is None or self._file.prefix is None:
            return {}
        with suppress(FileNotFoundError):
            objects = read_objects(self._open(self._file.prefix))
            return {} if objects is None else objects.full_names
        return {}

    def _location_of(self, node: TfNode, where: Where) -> tuple[str, Slice | None]:
        """The key and slice by the nodes that restore the variable, else by its names; in an object-based checkpoint
        by its full name, too.
        """
        shared = node.attrs.get("shared_name")
        names = [shared.decode("utf-8", "replace") if isinstance(shared, bytes) else "", node.name]
        restored = [(key, _read_slice(text, where)) for key, text in self._restored.get(node.name, ())]
        by_name: list[tuple[str, Slice | None]] = [(name, None) for name in names if name]
        entries = restored or [*by_name, *self._collected.get(node.name, ())]
        if self._file.separate is None or self._objects is None:
            found = next((entry for entry in entries if entry[0] in self._checkpoint), None)
            if found is not None or self._objects is None:
                return found or entries[0]
        saved = [(self._own_full_names[key], box) for key, box in restored if key in self._own_full_names]
        variable = (saved or by_name)[0][0]
        return self._location_by_full_name(self._objects, variable, saved or [*restored, *by_name], where)

    def _location_by_full_name(
        self, objects: Objects, variable: str, entries: Sequence[tuple[str, Slice | None]], where: Where
    ) -> tuple[str, Slice | None]:
        """The key and slice of the first name that is a full name. Raises ModelInvalid if none is, which says the name
        of the variable, or if one is that of several variables.
        """
        for name, box in entries:
            keys = sorted(objects.keys.get(name, ()))
            if len(keys) > 1:
                what = f'{len(keys)} variables of the checkpoint have the full name "{name}": {", ".join(keys)}'
                raise ModelInvalid("E13014", what, where=where, hint="export a SavedModel with these weights")
            if keys:
                return keys[0], box
        what = f'the checkpoint is object-based, and no variable in it has the full name "{variable}"'
        hint = did_you_mean(variable, objects.keys) or "is it a checkpoint of this model?"
        raise ModelInvalid("E12009", what, where=where.filled(file=self._checkpoint.file), hint=hint)

    @cached_property
    def _restored(self) -> dict[str, list[tuple[str, str]]]:
        """Key and slice of each variable, out of the nodes that restore it."""
        nodes = self._nodes
        call = nodes.get(main_ref(self._file.restore_op).node)
        if call is not None and function_of(call, self._library) is not None:
            nodes = {**nodes, **inline_calls(TfGraph({call.name: call}, [], []), self._library).nodes}
        found: dict[str, list[tuple[str, str]]] = {}
        texts: dict[str, Sequence[str]] = {}
        for node in nodes.values():
            if node.op in ("Assign", "AssignVariableOp") and len(node.inputs) > 1:
                source = find_origin(node.inputs[1], nodes)
                restore = nodes.get(source.node)
                if restore is None or restore.op != "RestoreV2" or len(restore.inputs) < 3:
                    continue
                keys, slices = (_texts(ref.node, nodes, texts) for ref in restore.inputs[1:3])
                if source.output < min(len(keys), len(slices)):
                    target = find_origin(node.inputs[0], nodes).node
                    found.setdefault(target, []).append((keys[source.output], slices[source.output]))
        return found

    @cached_property
    def _collected(self) -> dict[str, list[tuple[str, Slice]]]:
        """What the collection of variables says of parts of some, by their names."""
        found: dict[str, list[tuple[str, Slice]]] = {}
        for variable in self._file.variables:
            if variable.HasField("save_slice_info_def"):
                found.setdefault(main_ref(variable.variable_name).node, []).append(_full_variable(variable))
        return found


def find_origin(ref: Ref, nodes: Mapping[str, TfNode]) -> Ref:
    """Return what a chain of nodes that only pass a value on begins with."""
    for _ in range(_MAX_CHAIN):
        node = nodes.get(ref.node)
        if node is None or node.op not in _PASSES_ON or ref.output >= len(node.inputs):
            return ref
        ref = node.inputs[ref.output]
    return ref


def _texts(name: str, nodes: Mapping[str, TfNode], known: dict[str, Sequence[str]]) -> Sequence[str]:
    """The texts of a constant; none if it is no constant."""
    if name not in known:
        array = constant_of(nodes, Ref(name, 0))
        known[name] = [str(item) for item in array.reshape(-1)] if array is not None else []
    return known[name]


def _full_variable(variable: VariableDef) -> tuple[str, Slice]:
    part = variable.save_slice_info_def
    return part.full_name, Slice(tuple(part.var_offset), tuple(part.var_shape))


def _read_slice(text: str, where: Where) -> Slice | None:
    """`8 10 4,4:0,10`: the full shape, then start and length along each dim, or `-` for all of it."""
    if not text:
        return None
    *dims, spec = text.split()
    try:
        pairs = [
            (0, int(dim)) if item == "-" else (int(item.partition(",")[0]), int(item.partition(",")[2]))
            for dim, item in zip(dims, spec.split(":"), strict=True)
        ]
    except ValueError as error:
        raise ModelInvalid("E13014", f'"{text}" is no slice of a variable', where=where) from error
    return Slice(tuple(start for start, _ in pairs), tuple(size for _, size in pairs))


def _fits(declared: tuple[int, ...] | None, shape: tuple[int, ...]) -> bool:
    if declared is None:
        return True
    return len(declared) == len(shape) and all(size in (-1, own) for size, own in zip(declared, shape, strict=True))
