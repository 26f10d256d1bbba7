"""SpaceToBatch and BatchToSpace against numpy."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check, ints
from tests.parsers.tensorflow.graphs import Array, TfBuilder

X = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)


def _to_batch(x: Array, blocks: tuple[int, ...], pads: list[list[int]]) -> Array:
    """SpaceToBatchND by its definition: one batch part per position in a block, the last dim fastest."""
    padded = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (x.ndim - 1 - len(blocks))])
    parts = [padded[(slice(None), *map(slice, at, [None] * len(at), blocks))] for at in np.ndindex(blocks)]
    return np.concatenate(parts)


def _s2b(x: Array, blocks: tuple[int, ...], pads: list[list[int]], dtype: str = "int32") -> Case:
    operands = [x, Const(np.array(blocks, dtype)), Either(np.array(pads, dtype).reshape(len(blocks), 2))]
    return Case("SpaceToBatchND", operands, _to_batch(x, blocks, pads))


def _b2s(x: Array, blocks: tuple[int, ...], crops: list[list[int]]) -> Case:
    """BatchToSpaceND, the inverse; x is the expected result before the crop."""
    crop = tuple(slice(a, size - b) for (a, b), size in zip(crops, x.shape[1:], strict=False))
    operands = [_to_batch(x, blocks, [[0, 0]] * len(blocks)), Const(ints(*blocks).reshape(-1))]
    return Case("BatchToSpaceND", [*operands, Either(np.array(crops, np.int32))], x[(slice(None), *crop)])


CASES = [
    _s2b(X, (2, 3), [[0, 0], [0, 0]]),
    _s2b(X, (2, 2), [[1, 1], [0, 2]]),
    _s2b(X, (3,), [[1, 1]], "int64"),
    _s2b(X, (1, 2, 3), [[0, 1], [2, 0], [0, 0]]),
    _s2b(X[..., 0].astype(np.int32), (4, 2), [[0, 0], [2, 0]]),
    _s2b(X, (1, 1), [[0, 1], [2, 0]]),
    _b2s(X, (1, 1), [[0, 1], [2, 0]]),
    _b2s(X, (2, 3), [[0, 0], [0, 0]]),
    _b2s(X, (2, 2), [[1, 0], [0, 3]]),
    _b2s(X, (4,), [[2, 1]]),
    _b2s(X > 60, (2, 1, 3), [[0, 1], [1, 1], [1, 0]]),
    Case(
        "SpaceToBatch",
        [X, Either(np.array([[1, 1], [0, 0]], np.int32))],
        _to_batch(X, (2, 2), [[1, 1], [0, 0]]),
        {"block_size": 2},
    ),
    Case(
        "BatchToSpace",
        [_to_batch(X, (2, 2), [[0, 0], [0, 0]]), Either(np.array([[1, 0], [0, 0]], np.int32))],
        X[:, 1:],
        {"block_size": 2},
    ),
]


@pytest.mark.parametrize("mode", MODES)
def test_results_agree_with_the_definition(mode: str, tmp_path: Path) -> None:
    check(tmp_path, CASES, mode)


def test_inconsistent_blocks_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, none = g.input("x", "float32", (2, 3, 4)), g.const(np.zeros((1, 2), np.int32))
    g.add("SpaceToBatchND", x, g.const(ints(2).reshape(1)), none, name="odd")
    g.add("BatchToSpaceND", x, g.const(ints(3).reshape(1)), none, name="batch")
    g.add("SpaceToBatchND", x, g.const(ints(0).reshape(1)), none, name="zero")
    g.add("SpaceToBatchND", x, g.const(ints(1, 2)), none, name="borders")
    g.add("SpaceToBatchND", x, g.input("blocks", "int32", (1,)), none, name="computed")
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "odd", "batch", "zero", "borders", "computed")
    assert [problem.code for problem in caught.value.problems] == ["E13014"] * 4 + ["E10055"]
