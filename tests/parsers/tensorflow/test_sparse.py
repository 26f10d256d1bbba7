"""Sparse tensors and ragged rows on the way to embeddings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import Case, Either, check, ints
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

MODES = ("known", "sizes unknown", "computed")


def long(*items: Any) -> Array:
    return np.array(items, np.int64)


def reshaped(indices: Array, shape: Array, new: Array) -> tuple[Array, Array]:
    dense = np.arange(np.prod(shape)).reshape(shape)
    positions = dense[tuple(indices.T)]
    sizes = dense.reshape(new).shape
    return np.stack(np.unravel_index(positions, sizes), 1).astype(np.int64), np.array(sizes, np.int64)


def filled(indices: Array, values: Array, shape: Array, default: Array) -> tuple[Array, ...]:
    """By the definition of the op: row by row."""
    out_indices, out_values, reverse = [], [], np.zeros(len(values), np.int64)
    is_empty = np.array([row not in indices[:, 0] for row in range(shape[0])])
    for row in range(shape[0]):
        entries = np.flatnonzero(indices[:, 0] == row)
        reverse[entries] = len(out_indices) + np.arange(len(entries))
        out_indices += [*indices[entries]] or [np.array([row] + [0] * (len(shape) - 1))]
        out_values += [*values[entries]] or [default]
    return np.array(out_indices, np.int64), np.array(out_values, values.dtype), is_empty, reverse


INDICES = long([0, 2], [1, 0], [1, 3], [4, 1])
UNORDERED = long([4, 1], [1, 3], [0, 2], [1, 0])
VALUES = np.array([1.5, -2, 3, 4], np.float32)


@pytest.mark.parametrize("mode", MODES)
def test_shapes_and_empty_rows(tmp_path: Path, mode: str) -> None:
    shape = long(5, 4)
    cases = [
        Case("SparseReshape", [INDICES, Either(shape), Either(long(*new))], reshaped)
        for new in ([20], [2, 10], [-1, 4], [2, -1, 5], [5, 2, 2])
    ]
    cases += [
        Case("SparseFillEmptyRows", [indices, VALUES, Either(shape), Either(np.float32(9))], filled)
        for indices in (INDICES, UNORDERED)
    ]
    full = long([0, 0], [1, 1])
    cases += [
        Case("SparseFillEmptyRows", [full, long(7, 8), Either(long(2, 2)), Either(np.int64(-1))], filled),
        Case("SparseFillEmptyRows", [long([2, 1, 1]), long(7), Either(long(4, 2, 2)), Either(np.int64(-1))], filled),
    ]
    check(tmp_path, cases, mode)


def test_no_entries_at_all(tmp_path: Path) -> None:
    none: list[Any] = [np.zeros((0, 2), np.int64), np.zeros(0, np.float32), Either(long(3, 2)), Either(np.float32(9))]
    check(tmp_path, [Case("SparseFillEmptyRows", none, filled)], "sizes unknown")


@pytest.mark.slow
def test_a_safe_lookup_of_embeddings(tmp_path: Path) -> None:
    """As safe_embedding_lookup_sparse of TensorFlow: fill empty rows, look up, average, and clear the filled rows."""
    table = np.random.default_rng(3).normal(size=(6, 3)).astype(np.float32)
    g = TfBuilder()
    indices, ids = g.input("indices", "int64", (None, 2)), g.input("ids", "int64", (None,))
    shape = g.input("shape", "int64", (2,))
    g.add("SparseFillEmptyRows", indices, ids, shape, g.const(np.int64(0)), name="filled")
    ends = [g.const(ints(*items)) for items in ((0, 0), (0, 1), (1, 1))]
    column = g.add("StridedSlice", "filled", *ends, begin_mask=1, end_mask=1, shrink_axis_mask=2)
    segments = g.add("Cast", column, SrcT=Type("int64"), DstT=Type("int32"))
    g.add("Unique", "filled:1", name="unique", T=Type("int64"))
    rows = g.add("GatherV2", g.const(table), "unique", g.const(np.int32(0)))
    means = g.add("SparseSegmentMean", rows, "unique:1", segments, name="means")
    empty = g.add("Reshape", "filled:2", g.const(ints(-1, 1)))
    g.add("SelectV2", empty, g.add("ZerosLike", means), means, name="y")
    run = g.converted(tmp_path, "y")
    (y,) = run({"indices": INDICES, "ids": long(5, 1, 3, 5), "shape": long(6, 4)})
    zero = np.zeros(3, np.float32)
    np.testing.assert_allclose(y, [table[5], (table[1] + table[3]) / 2, zero, zero, table[5], zero], 1e-6)


def test_what_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("SparseReshape", g.const(INDICES), g.const(long(5, 4)), g.const(long(3, 7)), name="y")
    with pytest.raises(AtcError, match="20 elements do not have the new shape, which has 21"):
        g.converted(tmp_path, "y")
    g = TfBuilder()
    entries = g.const(long([7, 0])), g.const(long(1))
    g.add("SparseFillEmptyRows", *entries, g.input("shape", "int64", (2,)), g.const(np.int64(0)), name="y")
    with pytest.raises(AtcError, match="index 7"):
        g.run(tmp_path, {"shape": long(3, 2)}, "y")
