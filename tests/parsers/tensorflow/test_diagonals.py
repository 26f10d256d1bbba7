"""Diagonals and bands of matrices, by TensorFlow's definition."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check, ints
from tests.parsers.tensorflow.graphs import Array, TfBuilder

X = np.arange(1, 41, dtype=np.float32).reshape(2, 4, 5)
ALIGNS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")


def _elements(rows: int, columns: int, low: int, high: int, align: str, longest: int) -> dict[tuple[int, int], int]:
    """Map each matrix position within the band to its index in the packed diagonals."""
    found = {}
    for row, column in np.ndindex(rows, columns):
        number = column - row
        if low <= number <= high:
            length = min(rows + min(number, 0), columns - max(number, 0))
            side = align.split("_")[number < 0]
            index = min(row, column) + (longest - length if side == "RIGHT" else 0)
            found[row, column] = (high - number) * longest + index
    return found


def _part(x: Array, k: object, align: str, filler: float) -> Case:
    """MatrixDiagPartV3."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])  # type: ignore[index]
    rows, columns = x.shape[-2:]
    longest = min(rows + min(high, 0), columns - max(low, 0))
    expected = np.full((*x.shape[:-2], (high - low + 1) * longest), filler, x.dtype)
    for (row, column), index in _elements(rows, columns, low, high, align, longest).items():
        expected[..., index] = x[..., row, column]
    shape = (*x.shape[:-2], *((high - low + 1,) if low < high else ()), longest)
    operands = [x, Const(ints(k) if isinstance(k, int) else ints(*k)), Const(x.dtype.type(filler))]  # type: ignore[misc]
    return Case("MatrixDiagPartV3", operands, expected.reshape(shape), {"align": align})


def _matrix_from_band(
    band: Array, k: object, size: tuple[int, int], align: str, filler: Array | float, op: str
) -> Case:
    """MatrixDiagV3, or MatrixSetDiagV3 if `filler` is a matrix; a `size` of −1 is inferred by the op."""
    low, high = (k, k) if isinstance(k, int) else (k[0], k[-1])  # type: ignore[index]
    longest = band.shape[-1]
    outer = band.shape[:-1] if low == high else band.shape[:-2]
    rows, columns = size
    if (rows, columns) == (-1, -1):
        rows = columns = max(longest - min(high, 0), longest + max(low, 0))
    rows = longest - min(high, 0) if rows == -1 else rows
    columns = longest + max(low, 0) if columns == -1 else columns
    expected = np.full((*outer, rows, columns), filler, band.dtype)
    flat = band.reshape(*outer, -1)
    for (row, column), index in _elements(rows, columns, low, high, align, longest).items():
        expected[..., row, column] = flat[..., index]
    diagonals = Const(ints(k) if isinstance(k, int) else ints(*k))  # type: ignore[misc]
    if isinstance(filler, np.ndarray):
        return Case(op, [filler, band, diagonals], expected, {"align": align})
    operands = [band, diagonals, Const(ints(size[0])), Const(ints(size[1])), Const(band.dtype.type(filler))]
    return Case(op, operands, expected, {"align": align} if op.endswith("V3") else {})


def _set(x: Array, k: object, align: str) -> Case:
    part = _part(x, k, align, 0)
    band = -np.asarray(part.expected)
    return _matrix_from_band(band, k, (x.shape[-2], x.shape[-1]), align, x, "MatrixSetDiagV3")


BANDS = [
    *[
        Case("MatrixBandPart", [X, Either(ints(a)), Either(ints(b))], np.triu(np.tril(X, b), -a))
        for a, b in ((0, 1), (2, 0))
    ],
    Case("MatrixBandPart", [X, Const(ints(-1, dtype="int64")), Either(ints(0, dtype="int64"))], np.tril(X)),
    Case("MatrixBandPart", [X, Either(ints(1)), Either(ints(-1))], np.triu(X, -1)),
    Case("MatrixBandPart", [X > 7, Either(ints(-3)), Either(ints(-1))], X > 7),
    Case("MatrixDiag", [X], X[..., None] * np.eye(5, dtype=np.float32)),
    Case("MatrixDiag", [ints(3, 4)], np.diag(ints(3, 4))),
    Case("MatrixDiag", [X[0, :, 0] > 2], np.diag(X[0, :, 0] > 2)),
    Case("MatrixDiagPart", [X], np.diagonal(X, 0, -2, -1)),
    Case("MatrixSetDiag", [X, -X[:, :, 0]], np.where(np.eye(4, 5, dtype=bool), -X[:, :, :1], X)),
    Case("Diag", [X[0, :2, :3]], np.einsum("ab,ac,bd->abcd", X[0, :2, :3], np.eye(2), np.eye(3)).astype(np.float32)),
    Case(
        "DiagPart",
        [X.reshape(-1)[:36].reshape(2, 3, 2, 3)],
        np.einsum("abab->ab", X.reshape(-1)[:36].reshape(2, 3, 2, 3)),
    ),
]
PARTS = [
    *[_part(X, k, align, -1) for k, align in zip([(-1, 2), (-3, 4), (1, 2), (-2, -1)], ALIGNS, strict=True)],
    *[_part(X.astype(np.int32), k, "RIGHT_LEFT", 7) for k in (0, 3, -2, (2, 2))],
    _part(X.transpose(0, 2, 1).copy(), (-3, 1), "LEFT_RIGHT", 0.5),
    Case("MatrixDiagPartV2", [X, Const(ints(0, 1)), Const(np.float32(9))], _part(X, (0, 1), "LEFT_LEFT", 9).expected),
]
FROM_BANDS = [
    *[_matrix_from_band(X[:, :3], (-1, 1), (-1, -1), align, 0, "MatrixDiagV3") for align in ALIGNS],
    _matrix_from_band(X[:, :3], (-2, 0), (-1, -1), "RIGHT_LEFT", 1.5, "MatrixDiagV3"),
    _matrix_from_band(X[:, :2], (1, 2), (7, -1), "LEFT_RIGHT", -1, "MatrixDiagV3"),
    _matrix_from_band(X[:, 0].astype(np.int64), 2, (-1, 9), "RIGHT_LEFT", 3, "MatrixDiagV3"),
    _matrix_from_band(X[0, 0], -1, (8, 5), "RIGHT_LEFT", 0, "MatrixDiagV3"),
    _matrix_from_band(X[:, :2], (0, 1), (-1, 6), "LEFT_LEFT", 2, "MatrixDiagV2"),
    *[_set(X, k, align) for k, align in zip([(-1, 2), (-3, 4), 1, -2], ALIGNS, strict=True)],
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cases", [BANDS, PARTS, FROM_BANDS], ids=["bands", "parts", "matrices"])
def test_diagonals_agree_with_the_definition(cases: list[Case], mode: str, tmp_path: Path) -> None:
    check(tmp_path, cases, mode)


def test_unsupported_bands_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, one = g.input("x", "float32", (2, 3)), g.const(ints(-1))
    g.add("MatrixDiagV3", x, g.const(ints(0, 2)), one, one, g.const(np.float32(0)), name="few")
    g.add("MatrixDiagV3", x, g.const(ints(0)), g.const(ints(4)), g.const(ints(9)), g.const(np.float32(0)), name="size")
    g.add("MatrixDiagPartV3", x, g.const(ints(2, 1)), g.const(np.float32(0)), name="order")
    g.add("MatrixDiagPartV3", x, g.const(ints(1)), g.const(np.float32(0)), name="align", align="MIDDLE")
    g.add("MatrixDiagPartV3", x, g.input("k", "int32", ()), g.const(np.float32(0)), name="computed")
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "few", "size", "order", "align", "computed")
    assert [problem.code for problem in caught.value.problems] == ["E13014"] * 4 + ["E10055"]
