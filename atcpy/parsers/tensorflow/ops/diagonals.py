"""Diagonals and bands of matrices.

Diagonal d holds the elements whose column is d more than their row. A band of them stands in a matrix of its own, the
highest first, each padded to the longest: at its end, or at its beginning, as `align` says for those above and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.ir import Value
from atcpy.ir.arithmetic import IndexExpr, index_range, product, reshape_to, size_of, sizes_of
from atcpy.parsers.tensorflow.op import OpBuilder, maps

_ALIGNMENTS = frozenset({"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"})


@maps("MatrixBandPart", "BatchMatrixBandPart")
def band_part(b: OpBuilder) -> Value:
    """Trilu, twice"""
    x, lower, upper = b.input(0), b.index_input(1), b.index_input(2)
    far = 2**31  # farther from the middle than any diagonal
    if lower.number is None or lower.number >= 0:
        x = b.op("Trilu", x, (lower < 0).choose(-far, IndexExpr.of(b, 0) - lower).reshape().value, upper=1)
    if upper.number is None or upper.number >= 0:
        x = b.op("Trilu", x, (upper < 0).choose(far, upper).reshape().value, upper=0)
    return x


@dataclass(frozen=True, slots=True)
class _Band:
    """Diagonals low … high, of matrices of so many rows and columns; the longest has `longest` elements."""

    b: OpBuilder
    low: int
    high: int
    rows: IndexExpr
    columns: IndexExpr
    longest: IndexExpr

    @property
    def is_vector(self) -> bool:
        """Whether it is one diagonal, without a dim for its number."""
        return self.low == self.high

    def _shift(self, diagonal: IndexExpr) -> IndexExpr:
        """How far from the left a diagonal begins among the others."""
        b = self.b
        align = b.text_attr("align") if b.node.op.endswith("V3") else "LEFT_LEFT"
        if align not in _ALIGNMENTS:
            raise b.invalid(f"align: {align}")
        above, below = (side == "RIGHT" for side in align.split("_"))
        gap = self.longest - self.length(diagonal)
        zero = IndexExpr.of(b, 0)
        return (diagonal >= 0).choose(gap if above else zero, gap if below else zero)

    def length(self, diagonal: IndexExpr) -> IndexExpr:
        """How many elements a diagonal has."""
        return (self.rows + diagonal.min(0)).min(self.columns - diagonal.max(0))

    def of_matrix(self) -> tuple[IndexExpr, IndexExpr]:
        """For each element of a matrix its index among the elements of the band, and whether it is in the band."""
        row, column = index_range(self.b, self.rows).reshape(-1, 1), index_range(self.b, self.columns).reshape(1, -1)
        diagonal = column - row
        inside = (diagonal >= self.low) & (diagonal < self.high + 1)
        near = diagonal.max(self.low).min(self.high)
        offset = row.min(column) + self._shift(near)
        number = (IndexExpr.of(self.b, self.high) - near) * self.longest + offset
        return inside.choose(number, 0), inside

    def of_band(self) -> tuple[IndexExpr, IndexExpr]:
        """For each element of the band its index among the elements of a matrix, and whether it is on a diagonal."""
        diagonal = (
            IndexExpr.of(self.b, self.high) - index_range(self.b, IndexExpr.of(self.b, self.high - self.low + 1))
        ).reshape(-1, 1)
        offset = index_range(self.b, self.longest).reshape(1, -1) - self._shift(diagonal)
        inside = (offset >= 0) & (offset < self.length(diagonal))
        row = offset + (IndexExpr.of(self.b, 0) - diagonal).max(0)
        number = row * self.columns + offset + diagonal.max(0)
        return inside.choose(number, 0), inside


def _diagonals(b: OpBuilder, index: int) -> tuple[int, int]:
    """The lowest and the highest diagonal that an input asks for; without versions, the main one."""
    if b.node.op[-2] != "V":
        return 0, 0
    numbers = b.ints(index)
    if len(numbers) not in (1, 2) or numbers[0] > numbers[-1]:
        raise b.invalid(f"the diagonals {numbers}")
    return numbers[0], numbers[-1]


def _pick(b: OpBuilder, x: Value, dims: int, indices: IndexExpr, inside: IndexExpr, otherwise: Value) -> Value:
    """Take elements of the last dims of x by their flat indices; `otherwise` where there is none."""
    sizes = sizes_of(b, x)
    outer = sizes[: len(sizes) - dims]
    flat = x if dims == 1 else reshape_to(b, x, [*outer, product(b, sizes[len(outer) :])])
    picked = b.op("Gather", flat, indices.value, axis=len(outer))
    return picked if inside.number is not None and inside.number else b.op("Where", inside.value, picked, otherwise)


@maps("MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(b: OpBuilder) -> Value:
    """Gather and Where; any band, any align"""
    x, low, high = b.input(0), 0, 0
    longest = size_of(b, x, -1)
    rows = columns = longest
    filler = b.like(0, x)
    if b.node.op[-2] == "V":
        low, high = _diagonals(b, 1)
        required = longest - min(high, 0), longest + max(low, 0)
        sizes = b.number(2, "num_rows"), b.number(3, "num_cols")
        rows, columns = (
            IndexExpr.of(b, [number]) if number >= 0 else size for number, size in zip(sizes, required, strict=True)
        )
        if sizes[0] < 0 and sizes[1] < 0:
            rows = columns = required[0].max(required[1])
        _check_size(b, (rows, columns), required)
        filler = b.input(4)
    band = _Band(b, low, high, rows, columns, longest)
    _check(band, x)
    return _pick(b, x, 1 if band.is_vector else 2, *band.of_matrix(), filler)


def _check_size(b: OpBuilder, size: Sequence[IndexExpr], required: Sequence[IndexExpr]) -> None:
    """Raises where the longest diagonal does not end at a border of the matrix."""
    beyond = [(own - needed).number for own, needed in zip(size, required, strict=True)]
    known = [gap for gap in beyond if gap is not None]
    if len(known) == 2 and min(known) != 0:
        raise b.invalid(
            f"{size[0].number} rows, {size[1].number} columns; {required[0].number} and {required[1].number} are needed"
        )


def _check(band: _Band, x: Value) -> None:
    """Raises where the diagonals have other sizes than the band has."""
    b, shape = band.b, band.b.shape_of(x)
    needed = band.high - band.low + 1
    if not band.is_vector and (len(shape) < 2 or (isinstance(shape[-2], int) and shape[-2] != needed)):
        raise b.invalid(f"{needed} diagonals, in a shape of {shape}")


@maps("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(b: OpBuilder) -> Value:
    """Gather and Where; any band, any align"""
    x, (low, high) = b.input(0), _diagonals(b, 1)
    filler = b.input(2) if b.node.op[-2] == "V" else b.like(0, x)
    rows, columns = size_of(b, x, -2), size_of(b, x, -1)
    longest = (rows + min(high, 0)).min(columns - max(low, 0))
    band = _Band(b, low, high, rows, columns, longest)
    indices, inside = band.of_band()
    if band.is_vector:
        indices, inside = indices.reshape(-1), inside.reshape(-1)
    return _pick(b, x, 2, indices, inside, filler)


@maps("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(b: OpBuilder) -> Value:
    """Gather and Where; any band, any align"""
    x, values = b.input(0), b.input(1)
    low, high = _diagonals(b, 2)
    rows, columns = size_of(b, x, -2), size_of(b, x, -1)
    band = _Band(b, low, high, rows, columns, size_of(b, values, -1))
    _check(band, values)
    return _pick(b, values, 1 if band.is_vector else 2, *band.of_matrix(), x)


@maps("Diag")
def diag(b: OpBuilder) -> Value:
    """A tensor of twice the dims, x on its diagonal"""
    x, sizes = b.input(0), sizes_of(b, b.input(0))
    count = product(b, sizes)
    band = _Band(b, 0, 0, count, count, count)
    matrix = _pick(b, b.reshape(x, (-1,)), 1, *band.of_matrix(), b.like(0, x))
    return reshape_to(b, matrix, [*sizes, *sizes])


@maps("DiagPart")
def diag_part(b: OpBuilder) -> Value:
    """The diagonal of a tensor whose dims come twice"""
    x = b.input(0)
    sizes = sizes_of(b, x)[: b.rank(0) // 2]
    count = product(b, sizes)
    indices = index_range(b, count) * (count + 1)
    return reshape_to(b, b.op("Gather", b.reshape(x, (-1,)), indices.value, axis=0), sizes)
