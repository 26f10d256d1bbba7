"""Repeated rows and columns, as in Keras' UpSampling2D, become one Resize; similar repetitions do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import atcpy
from tests.parsers.tensorflow.graphs import TfBuilder

X = np.arange(2 * 3 * 4 * 5, dtype="float32").reshape(2, 3, 4, 5)


def repeat(g: TfBuilder, x: str, axis: int, count: int, more: int = 1) -> str:
    """Add the nodes of tf.repeat, with `more` additional copies of the batch."""
    copies = [more, *[1] * axis, count, *[1] * (3 - axis)]
    tiled = g.add("Tile", g.add("ExpandDims", x, g.const(axis + 1, "int32")), g.const(copies, "int32"))
    factors = [more if dim == 0 else count if dim == axis else 1 for dim in range(4)]
    return g.add("Reshape", tiled, g.add("Mul", g.add("Shape", x), g.const(factors, "int32")))


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_repeated_rows_and_columns_become_a_resize(is_known: bool, dtype: str, tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", dtype, X.shape if is_known else (None, None, None, 5))
    y = repeat(g, repeat(g, x, 1, 2), 2, 3)
    (result,) = g.run(tmp_path, {"x": X.astype(dtype)}, y)
    np.testing.assert_array_equal(result, X.repeat(2, 1).repeat(3, 2))
    if is_known:
        kinds = {task.op_type for task in atcpy.InferenceSession(str(tmp_path / "model.om")).tasks}
        assert ("Resize" in kinds) == (dtype == "float32")


def test_other_repetitions_are_not_rewritten(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", X.shape)
    names = [
        repeat(g, repeat(g, x, 2, 2), 1, 3),
        repeat(g, x, 2, 2),
        repeat(g, repeat(g, x, 1, 2, more=2), 2, 3),
        repeat(g, repeat(g, x, 1, 2), 2, 3, more=2),
        repeat(g, repeat(g, x, 1, 2), 3, 2),
    ]
    twice = np.concatenate([X, X])
    expected = [
        X.repeat(3, 1).repeat(2, 2), X.repeat(2, 2), twice.repeat(2, 1).repeat(3, 2), twice.repeat(2, 1).repeat(3, 2),
        X.repeat(2, 1).repeat(2, 3),
    ]  # fmt: skip
    for result, array in zip(g.run(tmp_path, {"x": X}, *names), expected, strict=True):
        np.testing.assert_array_equal(result, array)
    kinds = {task.op_type for task in atcpy.InferenceSession(str(tmp_path / "model.om")).tasks}
    assert "Resize" not in kinds
