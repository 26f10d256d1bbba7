"""Diagonals and bands of matrices.

Diagonal d holds the elements whose column is d more than their row. A band of them stands in a matrix of its own, the
highest first, each padded to the longest: at its end, or at its beginning, as `align` says for those above and below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from atcpy.errors import ModelInvalid
from atcpy.ir import Value
from atcpy.parsers.tensorflow.integers import (
    Integers,
    all_of,
    count_up,
    integers,
    known_number,
    product,
    reshape_to,
    size_of,
    sizes_of,
)
from atcpy.parsers.tensorflow.op import Op, maps

_ALIGNMENTS = frozenset({"LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"})


@maps("MatrixBandPart", "BatchMatrixBandPart")
def band_part(op: Op) -> Value:
    """Trilu, twice"""
    x, lower, upper = op.input(0), all_of(op, 1), all_of(op, 2)
    far = 2**31  # farther from the middle than any diagonal
    if lower.number is None or lower.number >= 0:
        x = op.add("Trilu", x, (lower < 0).choose(-far, integers(op, 0) - lower).shaped().value, upper=1)
    if upper.number is None or upper.number >= 0:
        x = op.add("Trilu", x, (upper < 0).choose(far, upper).shaped().value, upper=0)
    return x


@dataclass(frozen=True, slots=True)
class _Band:
    """Diagonals low … high, of matrices of so many rows and columns; the longest has `longest` elements."""

    op: Op
    low: int
    high: int
    rows: Integers
    columns: Integers
    longest: Integers
    is_vector: bool  # one diagonal, without a dim for its number

    def _shift(self, diagonal: Integers) -> Integers:
        """How far from the left a diagonal begins among the others."""
        op = self.op
        align = op.text_attr("align") if op.node.op.endswith("V3") else "LEFT_LEFT"
        if align not in _ALIGNMENTS:
            raise ModelInvalid("E13014", f"align: {align}", where=op.where)
        above, below = (side == "RIGHT" for side in align.split("_"))
        gap = self.longest - self.length(diagonal)
        zero = integers(op, 0)
        return (diagonal >= 0).choose(gap if above else zero, gap if below else zero)

    def length(self, diagonal: Integers) -> Integers:
        """How many elements a diagonal has."""
        return (self.rows + diagonal.at_most(0)).at_most(self.columns - diagonal.at_least(0))

    def of_matrix(self) -> tuple[Integers, Integers]:
        """For each place of a matrix the number among the elements of the band, and whether it is in the band."""
        row, column = count_up(self.op, self.rows).shaped(-1, 1), count_up(self.op, self.columns).shaped(1, -1)
        diagonal = column - row
        inside = (diagonal >= self.low) & (diagonal < self.high + 1)
        near = diagonal.at_least(self.low).at_most(self.high)
        place = row.at_most(column) + self._shift(near)
        number = (integers(self.op, self.high) - near) * self.longest + place
        return inside.choose(number, 0), inside

    def of_band(self) -> tuple[Integers, Integers]:
        """For each place of the band the number among the elements of a matrix, and whether it is on a diagonal."""
        diagonal = (
            integers(self.op, self.high) - count_up(self.op, integers(self.op, self.high - self.low + 1))
        ).shaped(-1, 1)
        place = count_up(self.op, self.longest).shaped(1, -1) - self._shift(diagonal)
        inside = (place >= 0) & (place < self.length(diagonal))
        row = place + (integers(self.op, 0) - diagonal).at_least(0)
        number = row * self.columns + place + diagonal.at_least(0)
        return inside.choose(number, 0), inside


def _diagonals(op: Op, place: int) -> tuple[int, int]:
    """The lowest and the highest diagonal that the input asks for."""
    numbers = op.ints(place)
    if len(numbers) not in (1, 2) or numbers[0] > numbers[-1]:
        raise ModelInvalid("E13014", f"the diagonals {numbers}", where=op.where)
    return numbers[0], numbers[-1]


def _pick(op: Op, x: Value, dims: int, places: Integers, inside: Integers, otherwise: Value) -> Value:
    """From the last dims of x those at these places; `otherwise` where there is none."""
    outer = sizes_of(op, x)[: op.shape_of(x).__len__() - dims]
    flat = x if dims == 1 else reshape_to(op, x, [*outer, product(op, sizes_of(op, x)[len(outer) :])])
    picked = op.add("Gather", flat, places.value, axis=len(outer))
    return picked if inside.number is not None and inside.number else op.add("Where", inside.value, picked, otherwise)


@maps("MatrixDiag", "BatchMatrixDiag", "MatrixDiagV2", "MatrixDiagV3")
def matrix_diag(op: Op) -> Value:
    """Gather and Where; any band, any align"""
    x, low, high = op.input(0), 0, 0
    longest = size_of(op, x, -1)
    rows = columns = longest
    filler = op.like(0, x)
    if op.node.op[-2] == "V":
        low, high = _diagonals(op, 1)
        least = longest - min(high, 0), longest + max(low, 0)
        given = known_number(op, 2, "num_rows"), known_number(op, 3, "num_cols")
        rows, columns = (
            integers(op, [number]) if number >= 0 else size for number, size in zip(given, least, strict=True)
        )
        if given[0] < 0 and given[1] < 0:
            rows = columns = least[0].at_least(least[1])
        _check_size(op, (rows, columns), least)
        filler = op.input(4)
    is_vector = low == high
    band = _Band(op, low, high, rows, columns, longest, is_vector)
    _check(band, x)
    return _pick(op, x, 1 if is_vector else 2, *band.of_matrix(), filler)


def _check_size(op: Op, size: Sequence[Integers], least: Sequence[Integers]) -> None:
    """Raises where the longest diagonal does not end at a border of the matrix."""
    beyond = [(given - needed).number for given, needed in zip(size, least, strict=True)]
    known = [gap for gap in beyond if gap is not None]
    if len(known) == 2 and min(known) != 0:
        what = f"{size[0].number} rows, {size[1].number} columns; {least[0].number} and {least[1].number} are needed"
        raise ModelInvalid("E13014", what, where=op.where)


def _check(band: _Band, x: Value) -> None:
    """Raises where the diagonals have other sizes than the band has."""
    op, shape = band.op, band.op.shape_of(x)
    needed = None if band.is_vector else band.high - band.low + 1
    if needed is not None and (
        len(shape) < 2 or shape[-2] not in (needed, *[d for d in shape if not isinstance(d, int)])
    ):
        raise ModelInvalid("E13014", f"{needed} diagonals, in a shape of {shape}", where=op.where)


@maps("MatrixDiagPart", "BatchMatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part(op: Op) -> Value:
    """Gather and Where; any band, any align"""
    x, low, high = op.input(0), 0, 0
    filler = op.like(0, x)
    if op.node.op[-2] == "V":
        low, high = _diagonals(op, 1)
        filler = op.input(2)
    rows, columns = size_of(op, x, -2), size_of(op, x, -1)
    longest = (rows + min(high, 0)).at_most(columns - max(low, 0))
    band = _Band(op, low, high, rows, columns, longest, low == high)
    places, inside = band.of_band()
    if band.is_vector:
        places, inside = places.shaped(-1), inside.shaped(-1)
    return _pick(op, x, 2, places, inside, filler)


@maps("MatrixSetDiag", "BatchMatrixSetDiag", "MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag(op: Op) -> Value:
    """Gather and Where; any band, any align"""
    x, values = op.input(0), op.input(1)
    low, high = _diagonals(op, 2) if op.node.op[-2] == "V" else (0, 0)
    rows, columns = size_of(op, x, -2), size_of(op, x, -1)
    band = _Band(op, low, high, rows, columns, size_of(op, values, -1), low == high)
    _check(band, values)
    return _pick(op, values, 1 if band.is_vector else 2, *band.of_matrix(), x)


@maps("Diag")
def diag(op: Op) -> Value:
    """A tensor of twice the dims, x on its diagonal"""
    x, sizes = op.input(0), sizes_of(op, op.input(0))
    count = product(op, sizes)
    band = _Band(op, 0, 0, count, count, count, True)
    made = _pick(op, op.reshape(x, (-1,)), 1, *band.of_matrix(), op.like(0, x))
    return reshape_to(op, made, [*sizes, *sizes])


@maps("DiagPart")
def diag_part(op: Op) -> Value:
    """The diagonal of a tensor whose dims come twice"""
    x = op.input(0)
    sizes = sizes_of(op, x)[: op.rank(0) // 2]
    count = product(op, sizes)
    places = count_up(op, count) * (count + 1)
    return reshape_to(op, op.add("Gather", op.reshape(x, (-1,)), places.value, axis=0), sizes)
