"""The inverse of matrices by Gauss and Jordan's elimination, a step a column."""

import numpy as np

from atcpy.ir import DType, Value
from atcpy.ops.contrib.expansion import Expansion
from atcpy.ops.contrib.record import contrib

_MAX_COLUMNS = 32


@contrib("Inverse", "X")
def inverse(e: Expansion) -> Value:
    """[X | 1] → [1 | X⁻¹]. The largest number of a column is its pivot."""
    x = e.operand("X")
    if e.rank_of(x) < 2:
        raise e.invalid(f"X has rank {e.rank_of(x)}")
    size = e.shape_of(x)[-1]
    if not isinstance(size, int) or size > _MAX_COLUMNS:
        columns = size if isinstance(size, int) else "unknown"
        raise e.unsupported(f"matrices of {columns} columns", f"give X a known size of up to {_MAX_COLUMNS}")
    unit = e.cast_like(e.const(np.eye(size), DType.INT64), x)
    both = e.op("Expand", unit, e.op("Shape", x))
    rows = e.op("Concat", x, both, axis=-1)
    for column in range(size):
        rows = _eliminate(e, rows, column, size)
    return e.slice(rows, size, 2 * size, -1)


def _eliminate(e: Expansion, rows: Value, column: int, size: int) -> Value:
    """Swap the pivot's row to its position, and make the column that of the unit matrix."""
    own = e.cast_like(e.const(np.eye(size)[:, column : column + 1], DType.INT64), rows)
    used = e.cast_like(e.const(np.arange(size)[:, None] < column, DType.INT64), rows)
    sizes = e.op("Abs", e.slice(rows, column, column + 1, -1))
    at = e.op("ArgMax", e.op("Sub", sizes, e.op("Mul", used, e.op("Add", sizes, e.like(1.0, rows)))), axis=-2)
    pivots = e.cast_like(e.op("Equal", e.const(np.arange(size)[:, None]), at), rows)
    swap = e.op("Sub", own, pivots)
    rank = e.rank_of(e.operand("X"))
    across = e.transpose(swap, (*range(rank - 2), rank - 1, rank - 2))
    rows = e.op("Sub", rows, e.op("Mul", swap, e.op("MatMul", across, rows)))
    row = e.slice(rows, column, column + 1, -2)
    scaled = e.op("Div", row, e.slice(row, column, column + 1, -1))
    factors = e.op("Sub", e.slice(rows, column, column + 1, -1), own)
    return e.op("Sub", rows, e.op("Mul", factors, scaled))
