"""RaggedTensorToTensor: rows of different lengths are padded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.graphs import TfBuilder

VALUES = np.arange(12, dtype="float32").reshape(6, 2) + 1
SPLITS = np.array([0, 2, 2, 5, 6], "int64")


def padded(shape: tuple[int, int]) -> np.ndarray:
    rows, width = (size if size >= 0 else max_size for size, max_size in zip(shape, (4, 3), strict=True))
    result = np.full((rows, width, 2), -1, "float32")
    for row in range(min(rows, 4)):
        own = VALUES[SPLITS[row] : SPLITS[row + 1]][:width]
        result[row, : len(own)] = own
    return result


@pytest.mark.parametrize("is_known", [True, False])
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
