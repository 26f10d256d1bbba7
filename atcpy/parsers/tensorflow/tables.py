"""Lookup tables: their content comes from the nodes that initialise or restore them, or from a file of the model.

LookupTableImport or InitializeTable(table, keys, values)    InitializeTableFromTextFile(table, file name)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np

from atcpy.errors import ModelInvalid, Unsupported, Where
from atcpy.ir import DType, Tensor
from atcpy.ir.tensor import Array
from atcpy.parsers.tensorflow.bundle import map_part
from atcpy.parsers.tensorflow.functions import Library, function_of, inline_calls
from atcpy.parsers.tensorflow.graph import Ref, TfGraph, TfNode, constant_of
from atcpy.parsers.tensorflow.reader import TfFile
from atcpy.parsers.tensorflow.tensors import find_dtype
from atcpy.parsers.tensorflow.variables import Variables, find_origin

TABLES: Final = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})
_INITIALISERS: Final = frozenset({"LookupTableImport", "LookupTableImportV2", "InitializeTable", "InitializeTableV2"})
_OF_FILES: Final = frozenset({"InitializeTableFromTextFile", "InitializeTableFromTextFileV2"})
_WHOLE_LINE: Final = -2  # a column that is the line itself
_LINE_NUMBER: Final = -1


@dataclass(frozen=True, slots=True)
class Table:
    """The keys of a table and their values, as lists."""

    keys: Tensor
    values: Tensor


class Tables:
    """Finds the content of tables."""

    def __init__(self, file: TfFile, nodes: Mapping[str, TfNode], library: Library, variables: Variables) -> None:
        self._file = file
        self._nodes = nodes
        self._library = library
        self._variables = variables

    def find(self, table: TfNode, where: Where) -> Table:
        """The content of the table that `table` is. Raises Unsupported if the model has none, or computes it."""
        source = self._initialisers.get(_identity(table))
        if source is None:
            what = f'nothing in the model initialises the table "{table.name}"'
            hint = "give the SavedModel, which has the initialiser, or look up before the model"
            raise Unsupported("E10055", what, where=where, hint=hint)
        if source.op in _OF_FILES:
            return self._read_file(table, source, where)
        keys, values = (self._content(source, ref, where) for ref in source.inputs[1:3])
        if keys.array.ndim != 1 or keys.shape != values.shape:
            what = f'the table "{table.name}" has keys {list(keys.shape)} and values {list(values.shape)}'
            raise Unsupported("E10055", what, where=where, hint="a table is a list of keys and as many values")
        return Table(keys, values)

    def _content(self, source: TfNode, ref: Ref, where: Where) -> Tensor:
        ref = find_origin(ref, self._all_nodes)
        array = constant_of(self._all_nodes, ref)
        if array is not None:
            return Tensor.of(array, DType.from_numpy(array.dtype))
        restored = self._variables.find_restored(self._all_nodes, ref, where)
        if restored is None:
            what = f'"{source.name}" fills a table with what "{ref.node}" computes'
            raise Unsupported("E10055", what, where=where, hint="give constant keys and values to the table")
        return restored

    @cached_property
    def _all_nodes(self) -> Mapping[str, TfNode]:
        """The nodes of the main graph, and those of the functions that get a table."""
        calls = {
            node.name: node
            for node in self._nodes.values()
            if function_of(node, self._library) is not None
            and any(ref.node in self._nodes and self._nodes[ref.node].op in TABLES for ref in node.inputs)
        }
        return {**self._nodes, **inline_calls(TfGraph(calls, [], []), self._library).nodes}

    @cached_property
    def _initialisers(self) -> dict[str, TfNode]:
        """The node that says the content of each table: one that restores it wins."""
        nodes = self._all_nodes
        found: dict[str, TfNode] = {}
        for node in nodes.values():
            if node.op not in _INITIALISERS | _OF_FILES or len(node.inputs) < (2 if node.op in _OF_FILES else 3):
                continue
            table = nodes.get(find_origin(node.inputs[0], nodes).node)
            if table is not None and table.op in TABLES:
                source = nodes.get(find_origin(node.inputs[1], nodes).node)
                if _identity(table) not in found or (source is not None and source.op == "RestoreV2"):
                    found[_identity(table)] = node
        return found

    def _read_file(self, table: TfNode, source: TfNode, where: Where) -> Table:
        """Each line of a text file is a key and its value: the line, its number, or one of its columns."""
        name_ref = find_origin(source.inputs[1], self._all_nodes)
        name = self._file.assets.get(name_ref.node)
        root = self._file.root
        if name is None or root is None:
            what = f'the table "{table.name}" is read from a file that is no asset of a SavedModel'
            raise Unsupported("E10055", what, where=where, hint="export it as a SavedModel, which holds the file")
        path = root / "assets" / name
        try:
            content = bytes(map_part(root, str(path), allow_hardlinks=self._file.allow_hardlinks))
        except FileNotFoundError:
            what = f'assets/{name} is missing, which the table "{table.name}" is in'
            raise ModelInvalid("E13015", what, where=where, hint="copy the folder assets, too") from None
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        lines = [line.removesuffix("\r") for line in (lines[:-1] if lines[-1] == "" else lines)]
        offset, size = (_int(source, name, default) for name, default in (("offset", 0), ("vocab_size", -1)))
        lines = lines[offset:] if size < 0 else lines[offset : offset + size]
        where = where.filled(file=str(path))
        return Table(
            _column(lines, source, "key_index", table.attrs.get("key_dtype"), where),
            _column(lines, source, "value_index", table.attrs.get("value_dtype"), where),
        )


def _column(lines: list[str], source: TfNode, attr: str, number: object, where: Where) -> Tensor:
    index = _int(source, attr, _WHOLE_LINE)
    delimiter = source.attrs.get("delimiter", b"\t")
    separator = delimiter.decode("utf-8", "replace") if isinstance(delimiter, bytes) else "\t"
    dtype = find_dtype(number) if isinstance(number, int) else None
    if dtype is None:
        raise ModelInvalid("E13014", f"the table has no {attr.removesuffix('_index')}_dtype", where=where)
    if index < _WHOLE_LINE:
        raise ModelInvalid("E13014", f"the table's {attr} is {index}", where=where)
    array: Array = np.empty(len(lines), dtype.numpy)
    try:
        items: list[Any]
        if index == _LINE_NUMBER:
            items = list(range(len(lines)))
        else:
            items = lines if index == _WHOLE_LINE else [line.split(separator)[index] for line in lines]
            if dtype is not DType.STRING:
                items = [float(item) if dtype.is_float else int(item) for item in items]
        array[:] = items
    except (IndexError, ValueError, OverflowError) as error:
        what = f"the file of a table has a line without {dtype.long} in column {index}"
        raise ModelInvalid("E13014", what, where=where) from error
    return Tensor.of(array, dtype)


def _int(node: TfNode, name: str, default: int) -> int:
    value = node.attrs.get(name, default)
    return value if isinstance(value, int) else default


def _identity(table: TfNode) -> str:
    """What the nodes of one table have in common."""
    shared = table.attrs.get("shared_name")
    return shared.decode("utf-8", "replace") if isinstance(shared, bytes) and shared else table.name
