"""Rows of different lengths: padded by RaggedTensorToTensor, gathered by RaggedGather."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid
from tests.parsers.tensorflow.graphs import TfBuilder, Type

VALUES = np.arange(12, dtype="float32").reshape(6, 2) + 1
SPLITS = np.array([0, 2, 2, 5, 6], "int64")


def padded(shape: tuple[int, int]) -> np.ndarray:
    rows, width = (size if size >= 0 else max_size for size, max_size in zip(shape, (4, 3), strict=True))
    result = np.full((rows, width, 2), -1, "float32")
    for row in range(min(rows, 4)):
        own = VALUES[SPLITS[row] : SPLITS[row + 1]][:width]
        result[row, : len(own)] = own
    return result


@pytest.mark.parametrize("is_known", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_rows_are_padded(is_known: bool, tmp_path: Path) -> None:
    g = TfBuilder()
    values = g.input("values", "float32", (6, 2) if is_known else (None, 2))
    splits, default = g.input("splits", "int64", (5,) if is_known else (None,)), g.const(-1.0, "float32")
    shapes = [(-1, -1), (-1, 5), (-1, 2), (6, -1), (3, 1)]
    kinds = {"row_partition_types": ["ROW_SPLITS"], "num_row_partition_tensors": 1}
    shape_operands = [g.const(-1, "int64"), *[g.const([*shape, -1], "int64") for shape in shapes[1:]]]
    names = [g.add("RaggedTensorToTensor", item, values, default, splits, **kinds) for item in shape_operands]
    for shape, result in zip(shapes, g.run(tmp_path, {"values": VALUES, "splits": SPLITS}, *names), strict=True):
        np.testing.assert_array_equal(result, padded(shape))


def test_empty_ragged_tensors_and_unsupported_partitions(tmp_path: Path) -> None:
    g = TfBuilder()
    values, splits = g.input("values", "float32", (None, 2)), g.input("splits", "int64", (None,))
    ends = g.const(-1, "int64"), values, g.const(0.0, "float32"), splits
    name = g.add("RaggedTensorToTensor", *ends, row_partition_types=["ROW_SPLITS"], num_row_partition_tensors=1)
    (result,) = g.run(tmp_path, {"values": VALUES[:0], "splits": SPLITS[:1]}, name)
    assert result.shape == (0, 0, 2)
    name = g.add("RaggedTensorToTensor", *ends, row_partition_types=["VALUE_ROWIDS"], num_row_partition_tensors=1)
    with pytest.raises(AtcError, match="rows that are given by VALUE_ROWIDS"):
        g.converted(tmp_path, name)


OUTER = np.array([0, 1, 1, 4], "int64")  # three lists of rows: those of SPLITS


def nested(indices: list[int]) -> tuple[list[list[int]], np.ndarray]:
    """Both levels of splits, and the elements, of lists of rows: by Python's lists."""
    rows = [VALUES[begin:end].tolist() for begin, end in pairwise(SPLITS)]
    lists = [rows[begin:end] for begin, end in pairwise(OUTER)]
    found = [lists[index] for index in indices]
    inner = [row for each in found for row in each]
    splits = [np.cumsum([0, *map(len, level)]).tolist() for level in (found, inner)]
    return splits, np.array([item for row in inner for item in row], "float32").reshape(-1, 2)


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_are_gathered(is_known: bool, tmp_path: Path) -> None:
    g = TfBuilder()
    values = g.input("values", "float32", (6, 2) if is_known else (None, 2))
    splits = g.input("splits", "int32", (5,) if is_known else (None,))
    outer = g.input("outer", "int32", (4,) if is_known else (None,))
    picks = [[2, 0, 2], [1], [1, 0], []]
    one = {"PARAMS_RAGGED_RANK": 1, "OUTPUT_RAGGED_RANK": 1, "Tsplits": Type("int32")}
    two = {"PARAMS_RAGGED_RANK": 2, "OUTPUT_RAGGED_RANK": 2, "Tsplits": Type("int32")}
    outputs = []
    for index, pick in enumerate(picks):
        indices = g.const(np.array(pick, "int32"))
        g.add("RaggedGather", outer, splits, values, indices, name=f"y{index}", **two)
        outputs += [f"y{index}:{i}" for i in range(3)]
    square = g.const(np.array([[3, 1], [0, 2], [2, 3]], "int32"))
    g.add("RaggedGather", splits, values, square, name="z", **one)
    outputs += [f"z:{i}" for i in range(3)]
    feeds = {"values": VALUES, "splits": SPLITS.astype("int32"), "outer": OUTER.astype("int32")}
    results = iter(g.run(tmp_path, feeds, *outputs))
    for pick in picks:
        splits_of_pick, elements = nested(pick)
        for level in splits_of_pick:
            split = next(results)
            assert split.dtype == np.int32 and split.tolist() == level
        np.testing.assert_array_equal(next(results), elements)
    assert next(results).tolist() == [0, 2, 4, 6]
    assert next(results).tolist() == [0, 1, 1, 3, 6, 9, 10]
    rows = [VALUES[5:6], VALUES[0:2], VALUES[2:5], VALUES[2:5], VALUES[5:6]]
    np.testing.assert_array_equal(next(results), np.concatenate(rows))


@pytest.mark.parametrize("index", [-1, 4])
def test_a_row_that_is_not_there(index: int, tmp_path: Path) -> None:
    g = TfBuilder()
    indices = g.input("indices", "int64", (None,))
    ranks = {"PARAMS_RAGGED_RANK": 1, "OUTPUT_RAGGED_RANK": 1}
    g.add("RaggedGather", g.const(SPLITS), g.const(VALUES), indices, name="y", **ranks)
    run = g.converted(tmp_path, "y:1")
    assert np.array_equal(run({"indices": np.array([3, 1])})[0], VALUES[5:6])
    with pytest.raises(ModelInvalid, match="outside an axis of size 5"):
        run({"indices": np.array([0, index])})


def test_a_single_row_is_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    inputs = [g.const(SPLITS), g.const(VALUES), g.input("index", "int64", ())]
    g.add("RaggedGather", *inputs, name="y", PARAMS_RAGGED_RANK=1, OUTPUT_RAGGED_RANK=0)
    with pytest.raises(AtcError, match=r"(?s)a single row.*a list of one index"):
        g.converted(tmp_path, "y")
