"""Lookups in tables of constants. A handle is the constant number of its table."""

from __future__ import annotations

from atcpy.ir import DType, Tensor, Value
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.tables import TABLES, Table


@maps(*sorted(TABLES), note="A table of constants, from what initialises it")
def table(b: OpBuilder) -> Value:
    """Read the table, and number it."""
    b.bodies.tables.append(b.bodies.find_table(b.node, b.where))
    return b.const(len(b.bodies.tables) - 1)


def _table(b: OpBuilder) -> Table:
    number = b.number(0, "table")
    if not 0 <= number < len(b.bodies.tables):
        raise b.invalid(f"{number} is no table")
    return b.bodies.tables[number]


@maps("LookupTableFind", "LookupTableFindV2")
def find(b: OpBuilder) -> Value:
    """LabelEncoder; compared with all keys if these are numbers and few, else by the host"""
    found, keys = _table(b), b.input(1)
    if keys.desc.dtype is not found.keys.dtype:
        raise b.invalid(f"a table of {found.keys.dtype.long} looks up {keys.desc.dtype.long}")
    default = b.array(2)
    if default.size != 1 or b.dtype(2) is not found.values.dtype:
        raise b.unsupported(f"a default of shape {list(default.shape)}", "one default for all keys")
    return b.op(
        "ai.onnx.ml::LabelEncoder",
        keys,
        keys_tensor=found.keys,
        values_tensor=found.values,
        default_tensor=Tensor.of(default.reshape(1), found.values.dtype),
    )


@maps("LookupTableSize", "LookupTableSizeV2")
def size(b: OpBuilder) -> Value:
    """A constant"""
    return b.const(len(_table(b).keys.array), DType.INT64)


@maps("LookupTableExport", "LookupTableExportV2")
def export(b: OpBuilder) -> list[Value]:
    """Constants: the keys and the values"""
    found = _table(b)
    return [b.const(found.keys.array, found.keys.dtype), b.const(found.values.array, found.values.dtype)]
