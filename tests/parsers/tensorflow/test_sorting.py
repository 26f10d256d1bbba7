"""Sorting, counting and segment ops against numpy, by TensorFlow's definitions."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import Case, Const, check
from tests.parsers.tensorflow.graphs import Type

F = np.float32


def test_sorting_and_counting(tmp_path: Path) -> None:
    scores = F([[0.1, 0.5, 0.5, 0.2], [3, 1, 2, 0], [np.nan, 1, 2, 3], [np.inf, 0, 1, 2]])
    targets = np.int32([2, 2, 3, 9])
    numbers = np.int32([3, 1, 3, 9, 1, 0])
    rows = np.int32([[3, 1, 3], [9, 1, 0]])
    unsorted = np.int64([7, 3, 7, -1, 3])
    weights = F([0.5, 1, 2, 3, 4, 5])
    index64 = {"index_type": Type("int64")}
    edges = {"boundaries": [0.0, 1.0, 2.5]}
    ranges = F([[1, 2, 2, 3], [0, 0, 5, 6]])
    cases = [
        Case("TopKV2", [scores[:2], Const(2, "int32")], (F([[0.5, 0.5], [3, 2]]), np.int32([[1, 2], [0, 2]]))),
        Case(
            "TopKV2",
            [scores[:2], np.int32(3)],
            (F([[0.5, 0.5, 0.2], [3, 2, 1]]), np.array([[1, 2, 3], [0, 2, 1]])),
            index64,
        ),
        Case(
            "TopKV2",
            [np.int32([5, 9, 9, 1]), Const(4, "int32")],
            (np.int32([9, 9, 5, 1]), np.int32([1, 2, 0, 3])),
            {"sorted": False},
        ),
        Case(
            "TopK",
            [
                scores[:2],
            ],
            (F([[0.5], [3]]), np.int32([[1], [0]])),
            {"k": 1},
        ),
        Case("InTopKV2", [scores, targets, Const(1, "int32")], np.array([True, False, False, False])),
        Case("NthElement", [scores, Const(1, "int32")], np.sort(scores)[:, 1], is_dynamic=True),
        Case("NthElement", [scores, np.int32(0)], scores.max(1), {"reverse": True}),
        Case("InTopK", [scores, targets], np.array([True, True, False, False]), {"k": 2}),
        Case("InTopKV2", [scores[:2], np.int64([0, 3]), np.int64(3)], np.array([False, False]), is_dynamic=True),
        Case("Unique", [unsorted], (np.array([7, 3, -1]), np.int32([0, 1, 0, 2, 1]))),
        Case(
            "UniqueWithCounts",
            [unsorted],
            (np.array([7, 3, -1]), np.array([0, 1, 0, 2, 1]), np.array([2, 2, 1])),
            {"out_idx": Type("int64")},
        ),
        Case(
            "UniqueV2",
            [np.int32([[2, 1], [1, 1], [2, 1]]), Const([0], "int64")],
            (np.int32([[2, 1], [1, 1]]), np.int32([0, 1, 0])),
        ),
        Case(
            "UniqueV2",
            [unsorted.astype("f"), Const([], "int64")],
            (F([7, 3, -1]), np.int32([0, 1, 0, 2, 1])),
            is_dynamic=True,
        ),
        Case(
            "UniqueWithCountsV2",
            [unsorted, Const([0], "int64")],
            (np.array([7, 3, -1]), np.int32([0, 1, 0, 2, 1]), np.int32([2, 2, 1])),
        ),
        Case("ListDiff", [unsorted, np.int64([3, 5])], (np.array([7, 7, -1]), np.int32([0, 2, 3]))),
        Case("Bucketize", [F([-1, 0, 0.5, 1, 2.4, 2.5, 9, np.nan])], np.int32([0, 1, 1, 2, 2, 3, 3, 3]), edges),
        Case("Bucketize", [np.int32([[-1, 0], [1, 3]])], np.int32([[0, 1], [2, 3]]), edges),
        Case(
            "HistogramFixedWidth",
            [F([[-1, 0, 1.5], [2, 5, 15]]), F([0, 5]), Const(5, "int32")],
            np.int32([2, 1, 1, 0, 2]),
            {"dtype": Type("int32")},
        ),
        Case(
            "UnravelIndex",
            [np.int32([7, 0, 23]), Const([2, 3, 4], "int32")],
            np.int32([[0, 0, 1], [1, 0, 2], [3, 0, 3]]),
        ),
        Case("UnravelIndex", [np.int64(7), np.int64([2, 4])], np.array([1, 3])),
        Case("LowerBound", [ranges, F([[2, 9, 0], [0, 5.5, -1]])], np.int32([[1, 4, 0], [0, 3, 0]])),
        Case(
            "UpperBound",
            [ranges, F([[2, 9, 0], [0, 5.5, -1]])],
            np.array([[3, 4, 0], [2, 3, 0]]),
            {"out_type": Type("int64")},
        ),
        Case("Bincount", [numbers, Const(5, "int32"), Const([], "int32")], np.int32([1, 2, 0, 2, 0])),
        Case("Bincount", [rows, np.int32(4), Const([], "float32")], F([1, 2, 0, 2])),
        Case("Bincount", [numbers, Const(10, "int32"), weights], F([5, 5, 0, 2.5, 0, 0, 0, 0, 0, 3])),
        Case("DenseBincount", [numbers, Const(4, "int32"), Const([], "int64")], np.array([1, 2, 0, 2])),
        Case(
            "DenseBincount",
            [rows, Const(4, "int32"), Const([], "float32")],
            F([[0, 1, 0, 2], [1, 1, 0, 0]]),
            is_dynamic=True,
        ),
        Case("DenseBincount", [rows, np.int32(4), weights.reshape(2, 3)], F([[0, 1, 0, 2.5], [5, 4, 0, 0]])),
        Case(
            "DenseBincount",
            [rows, Const(4, "int32"), Const([], "float32")],
            F([[0, 1, 0, 1], [1, 1, 0, 0]]),
            {"binary_output": True},
        ),
    ]
    check(tmp_path, cases)


def test_segments(tmp_path: Path) -> None:
    rows = F([[1, 2], [3, -4], [5, 6], [-7, 8]])
    ids = np.int32([0, 0, 2, 2])
    expected = {
        "Sum": [[4, -2], [0, 0], [-2, 14]],
        "Mean": [[2, -1], [0, 0], [-1, 7]],
        "Prod": [[3, -8], [1, 1], [-35, 48]],
        "Max": [[3, 2], [0, 0], [5, 8]],
        "Min": [[1, -4], [0, 0], [-7, 6]],
    }
    cases = []
    for kind, result in expected.items():
        cases += [
            Case(f"Segment{kind}", [rows, Const(ids)], F(result)),
            Case(f"Segment{kind}", [rows, ids], F(result), is_dynamic=True),
            Case(f"Segment{kind}", [rows.astype("i4"), ids.astype("i8")], np.int32(result)),
            Case(f"Segment{kind}", [rows[:0], ids[:0]], np.zeros((0, 2), F)),
        ]
    low, high = np.finfo(F).min, np.finfo(F).max
    unsorted = {
        "Sum": [[0, 0], [8, 2], [1, 2]],
        "Prod": [[1, 1], [15, -24], [1, 2]],
        "Max": [[low, low], [5, 6], [1, 2]],
        "Min": [[high, high], [3, -4], [1, 2]],
    }
    for kind, result in unsorted.items():
        op = f"UnsortedSegment{kind}"
        cases += [
            Case(op, [rows, Const([2, 1, 1, -1], "int32"), Const(3, "int32")], F(result)),
            Case(op, [rows, np.int64([2, 1, 1, -1]), np.int32(3)], F(result), is_dynamic=True),
            Case(
                op,
                [rows, np.int32([[2, 2], [1, 1], [1, 1], [-1, -1]]), Const(3, "int32")],
                {"Sum": F([0, 10, 3]), "Prod": F([1, -360, 2]), "Max": F([low, 6, 2]), "Min": F([high, -4, 1])}[kind],
            ),
        ]
    cases.append(
        Case("UnsortedSegmentMax", [np.int32([1, 2]), np.int32([1, 1]), Const(2, "int32")], np.int32([-(2**31), 2]))
    )
    picked, owner = np.int32([3, 0, 1]), np.int32([0, 0, 2])
    cases += [
        Case("SparseSegmentSum", [rows, picked, owner], F([[-6, 10], [0, 0], [3, -4]])),
        Case("SparseSegmentMean", [rows, Const(picked), Const(owner)], F([[-3, 5], [0, 0], [3, -4]])),
        Case("SparseSegmentSqrtN", [rows, picked, owner], F([[-6, 10], [0, 0], [3 * 2**0.5, -4 * 2**0.5]]) / F(2**0.5)),
        Case(
            "SparseSegmentSumWithNumSegments",
            [rows, picked, owner, Const(4, "int32")],
            F([[-6, 10], [0, 0], [3, -4], [0, 0]]),
        ),
        Case("SparseSegmentMeanWithNumSegments", [rows, picked, owner, np.int32(3)], F([[-3, 5], [0, 0], [3, -4]])),
    ]
    check(tmp_path, cases)
    with pytest.raises(AtcError, match="do not increase"):
        check(tmp_path, [Case("SegmentSum", [rows, Const([1, 0, 2, 2], "int32")], rows)])
