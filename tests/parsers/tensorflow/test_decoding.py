"""CTC decoding against a plain loop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.parsers.tensorflow.graphs import Array, TfBuilder

RANDOM = np.random.default_rng(5)


def decoded(x: Array, lengths: Array, blank: int, *, merges: bool) -> list[Array]:
    """Greedy decoding by its definition, step by step."""
    rows: list[list[int]] = []
    scores = np.zeros((x.shape[1], 1), x.dtype)
    for image in range(x.shape[1]):
        row, before = list[int](), -1
        for step in range(lengths[image]):
            best = int(x[step, image].argmax())
            scores[image] -= x[step, image, best]
            if best != blank and not (merges and best == before):
                row.append(best)
            before = best
        rows.append(row)
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    return [
        np.array(indices, "int64").reshape(-1, 2),
        np.array([item for row in rows for item in row], "int64"),
        np.array([len(rows), max(map(len, rows))], "int64"),
        scores,
    ]


@pytest.mark.parametrize("shape", [(9, 3, 4), pytest.param((None, None, None), marks=pytest.mark.slow)])
def test_greedy_decoder(shape: Any, tmp_path: Path) -> None:
    x = RANDOM.normal(size=(9, 3, 4)).astype("float32")
    x[2:4, 0, 1] = x[5:7, 1, 3] = 9  # a repeated class, a repeated blank
    lengths = np.array([9, 7, 0], "int32")
    g = TfBuilder()
    inputs = g.input("x", "float32", shape), g.input("n", "int32", shape[1:2])
    variants = [(True, -1), (False, -1), (True, 0), (False, 3)]
    decoders = [
        g.add("CTCGreedyDecoder", *inputs, merge_repeated=merges, blank_index=blank) for merges, blank in variants
    ]
    results = g.run(tmp_path, {"x": x, "n": lengths}, *[f"{name}:{output}" for name in decoders for output in range(4)])
    for index, (merges, blank) in enumerate(variants):
        for result, array in zip(results[4 * index :], decoded(x, lengths, blank % 4, merges=merges), strict=False):
            assert (result.shape, result.dtype) == (array.shape, array.dtype)
            np.testing.assert_allclose(result, array, rtol=1e-6)
