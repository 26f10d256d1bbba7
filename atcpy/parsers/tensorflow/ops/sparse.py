"""Sparse tensors, as far as lookups of embeddings need them: the indices [n, rank] and values [n] of a shape [rank]."""

from __future__ import annotations

from atcpy.ir import DType, Value
from atcpy.ir.arithmetic import IndexExpr, join, product
from atcpy.ir.builder import INT64_MAX
from atcpy.parsers.tensorflow.op import OpBuilder, maps
from atcpy.parsers.tensorflow.ops.segments import scatter_rows


@maps("SparseReshape")
def reshape(b: OpBuilder) -> list[Value]:
    """Positions by the strides of the old shape, taken apart by those of the new one"""
    old, new = b.index_items(1), b.index_items(2)
    total, asked = product(b, old), product(b, new)  # asked is negative if one size is left
    left = total // (asked * -1).max(1)
    sizes = [(size < 0).choose(left, size) for size in new]
    if total.number is not None and (number := product(b, sizes).number) not in (None, total.number):
        raise b.invalid(f"{total.number} elements do not have the new shape, which has {number}")
    position = b.op("MatMul", b.int64_input(0), b.unsqueeze(join(b, _strides(b, old)).value, 1))
    strides = join(b, _strides(b, sizes)).value
    # What lies beyond the first axis stays there, so that who reads it says so.
    ends = join(b, [IndexExpr.of(b, [INT64_MAX]), *sizes[1:]]).value
    return [b.op("Mod", b.op("Div", position, strides), ends), join(b, sizes).value]


def _strides(b: OpBuilder, sizes: list[IndexExpr]) -> list[IndexExpr]:
    return [product(b, sizes[axis + 1 :]).max(1) for axis in range(len(sizes))]


@maps("SparseFillEmptyRows")
def fill_empty_rows(b: OpBuilder) -> list[Value]:
    """The entries, and a default for each row that has none, in the order of rows"""
    indices, values, shape = b.input(0), b.input(1), b.int64_input(2)
    rows = b.slice(shape, 0, 1, 0)
    row_of = b.squeeze(b.slice(indices, 0, 1, 1), 1)
    count = b.op("Shape", row_of)
    ones = b.op("Expand", b.const(1, DType.INT32), count)
    sizes = scatter_rows(b, b.const(0, DType.INT32), rows, row_of, ones, "add")
    is_empty = b.op("Equal", sizes, b.const(0, DType.INT32))
    empty = b.squeeze(b.op("NonZero", is_empty), 0)
    is_row = b.op("Equal", b.iota(b.squeeze(b.op("Shape", shape), 0)), b.const(0))
    added = b.op("Mul", b.unsqueeze(empty, 1), b.cast(is_row, DType.INT64))  # the first element of the row
    default = b.op("Expand", b.reshape(b.input(3), [1]), b.op("Shape", empty))
    # Sort by row; entries of a row keep their order, since their positions count as well.
    all_rows = b.op("Concat", row_of, empty, axis=0)
    total = b.op("Shape", all_rows)
    positions = b.iota(b.squeeze(total, 0))
    order_by = b.op("Add", b.op("Mul", all_rows, total), positions)
    _, order = b.ops("TopK", order_by, total, outputs=2, axis=0, largest=0, sorted=1)
    place_of = b.op("ScatterElements", positions, order, positions, axis=0)
    return [
        b.op("Gather", b.op("Concat", indices, added, axis=0), order, axis=0),
        b.op("Gather", b.op("Concat", values, default, axis=0), order, axis=0),
        is_empty,
        b.slice(place_of, 0, count, 0),
    ]
