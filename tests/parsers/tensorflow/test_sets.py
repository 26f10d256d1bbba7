"""Operations on sets, checked by Python's sets and by what TensorFlow 2.21 computes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid
from atcpy.ops.sets import DOMAIN
from tests.effort import trials
from tests.harness import make_node
from tests.parsers.tensorflow.cases import MODES, Case, check
from tests.parsers.tensorflow.graphs import Array, TfBuilder, Type

OPERATIONS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": set.difference,
    "b-a": lambda a, b: b - a,
    "intersection": set.intersection,
    "union": set.union,
}


def long(*items: Any) -> Array:
    return np.array(items, np.int64)


def rows_of_dense(x: Array) -> dict[tuple[int, ...], set[Any]]:
    return {index: set(x[index].tolist()) for index in np.ndindex(*x.shape[:-1])}


def rows_of_sparse(indices: Array, values: Array, shape: Array) -> dict[tuple[int, ...], set[Any]]:
    rows: dict[tuple[int, ...], set[Any]] = {index: set() for index in np.ndindex(*shape[:-1])}
    for index, value in zip(indices, values.tolist(), strict=True):
        rows[tuple(index[:-1].tolist())].add(value)
    return rows


def sparse_of(rows: dict[tuple[int, ...], set[Any]], sizes: tuple[int, ...], dtype: Any) -> tuple[Array, Array, Array]:
    """Indices, values and shape of the sparse tensor that has these sets, sorted."""
    entries = [(*index, at, value) for index, row in rows.items() for at, value in enumerate(sorted(row))]
    indices = long(*(entry[:-1] for entry in entries)).reshape(len(entries), len(sizes) + 1)
    longest = max(map(len, rows.values()), default=0)
    return indices, np.array([entry[-1] for entry in entries], dtype), long(*sizes, longest)


def combined(operation: str, kinds: str) -> Callable[..., tuple[Array, ...]]:
    def compute(*inputs: Array) -> tuple[Array, ...]:
        counts = [3 if kind == "Sparse" else 1 for kind in kinds.split("To")]
        first, second = inputs[: counts[0]], inputs[counts[0] :]
        a, b = (rows_of_sparse(*x) if len(x) == 3 else rows_of_dense(*x) for x in (first, second))
        sizes = tuple(first[2][:-1].tolist()) if len(first) == 3 else first[0].shape[:-1]
        rows = {index: OPERATIONS[operation](a[index], b[index]) for index in a}
        return sparse_of(rows, sizes, first[1].dtype if len(first) == 3 else first[0].dtype)

    return compute


def random_sparse(rng: np.random.Generator, sizes: tuple[int, ...], dtype: str) -> list[Array]:
    shape = (*sizes, int(rng.integers(1, 6)))
    indices = np.argwhere(rng.random(shape) < rng.random())
    return [indices, rng.integers(0, 7, len(indices)).astype(dtype), long(*shape)]


def random_case(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    kinds = ["DenseToDense", "DenseToSparse", "SparseToSparse"][seed % 3]
    dtype = str(rng.choice(["int8", "int16", "int32", "int64", "uint8", "uint16"]))
    sizes = tuple(rng.integers(1 if seed % 5 else 0, 4, rng.integers(1, 4)).tolist())
    inputs: list[Array] = []
    for kind in kinds.split("To"):
        if kind == "Sparse":
            inputs += random_sparse(rng, sizes, dtype)
        else:
            inputs.append(rng.integers(0, 7, (*sizes, rng.integers(0, 6))).astype(dtype))
    operation = list(OPERATIONS)[seed // 3 % 4]
    attrs = {"set_operation": operation, "T": Type(dtype)}
    return Case(f"{kinds}SetOperation", inputs, combined(operation, kinds), attrs)


@pytest.mark.parametrize("mode", MODES)
def test_operations_are_those_of_python_sets(tmp_path: Path, mode: str) -> None:
    check(tmp_path, [random_case(seed) for seed in range(trials(24))], mode)


def test_what_tensorflow_computes(tmp_path: Path) -> None:
    """Printed by tf.raw_ops of TensorFlow 2.21."""
    dense = np.int32([[1, 9, 1], [3, 4, 4]])
    other = [long([0, 0], [1, 1], [1, 3]), np.int32([9, 7, 3]), long(2, 9)]
    attrs = {"set_operation": "UNION", "T": Type("int32")}
    union = long([0, 0], [0, 1], [1, 0], [1, 1], [1, 2]), np.int32([1, 9, 3, 4, 7]), long(2, 3)
    mixed = [long([0, 0], [1, 3], [1, 1]), np.int32([9, 7, 3]), long(2, 9)]  # only rows are in order
    left = long([0, 0], [1, 0]), np.int32([1, 4]), long(2, 1)
    thin = [long([0, 0], [2, 1], [2, 3]), np.int32([9, 7, 3]), long(3, 9)]
    thick = [long([0, 1], [1, 1], [2, 3]), np.int32([9, 7, 3]), long(3, 4)]
    check(
        tmp_path,
        [
            Case("DenseToSparseSetOperation", [dense, *other], union, attrs),
            Case("DenseToSparseSetOperation", [dense, *mixed], union, {**attrs, "validate_indices": False}),
            Case("DenseToDenseSetOperation", [dense, np.int32([[9], [3]])], left, {**attrs, "set_operation": "a-b"}),
            Case("SparseToSparseSetOperation", [*thin, *thick], (
                long([0, 0], [1, 0], [2, 0], [2, 1]), np.int32([9, 7, 3, 7]), long(3, 2),
            ), attrs),
            Case("SetSize", [thin[0], np.int32([9, 3, 3]), thin[2]], np.int32([1, 0, 1])),
            Case("SetSize", [long([0, 1, 0], [0, 1, 2]), np.int32([4, 5]), long(2, 2, 3)], np.int32([[0, 2], [0, 0]])),
            Case("SetSize", [np.zeros((0, 2), np.int64), np.int32([]), long(0, 9)], np.zeros(0, np.int32)),
        ],
    )  # fmt: skip


def test_texts_are_in_the_order_of_their_bytes(tmp_path: Path) -> None:
    """U+FF5E comes before U+1F600 in UTF-8; a byte that is no text, 0x80, before both."""
    g = TfBuilder()
    words = g.input("words", "string", (1, None))
    g.add("DenseToDenseSetOperation", words, g.input("more", "string", (1, None)), name="y",
          set_operation="union", T=Type("string"))  # fmt: skip
    feeds = {"words": np.array([["\U0001f600", "a"]], object), "more": np.array([["～", "a", "\udc80"]], object)}
    indices, values, shape = g.run(tmp_path, feeds, "y:0", "y:1", "y:2")
    assert (indices[:, 1].tolist(), shape.tolist()) == ([0, 1, 2, 3], [1, 4])
    assert values.tolist() == ["a", "\udc80", "～", "\U0001f600"]


SPARSE = [long([0, 0], [1, 1]), np.int32([9, 7]), long(3, 9)]


@pytest.mark.parametrize(
    ("changes", "validates", "message"),
    [
        ({0: long([0, 0], [0, 0])}, True, r"the indices \[0, 0\] come after \[0, 0\]"),
        ({0: long([0, 2], [0, 1])}, True, r"the indices \[0, 1\] come after \[0, 2\]"),
        ({0: long([1, 0], [0, 1])}, False, r"the indices \[0, 1\] come after \[1, 0\]"),
        ({0: long([0, 0], [3, 1])}, False, r"the indices \[3, 1\] are outside of the shape \[3, 9\]"),
        ({0: long([0, 0], [1, -1])}, False, r"the indices \[1, -1\] are outside"),
        ({1: np.int32([9])}, True, r"indices of shape \[2, 2\] for 1 values of 2 dims"),
        ({5: long(2, 9)}, True, r"\[3\] sets and \[2\] sets"),
        ({0: long([0], [1]), 2: long(3)}, True, "input 0 is of rank 1"),
    ],
)
def test_damaged_sparse_batches_are_refused(
    tmp_path: Path, changes: dict[int, Array], validates: bool, message: str
) -> None:
    g, arrays = TfBuilder(), [*SPARSE, *SPARSE]
    names = [g.input(f"x{index}", str(x.dtype), [None] * x.ndim) for index, x in enumerate(arrays)]
    g.add("SparseToSparseSetOperation", *names, name="y", set_operation="a-b", validate_indices=validates,
          T=Type("int32"))  # fmt: skip
    run = g.converted(tmp_path, "y:1")
    assert run(dict(zip(names, arrays, strict=True)))[0].size == 0
    feeds = dict(zip(names, [changes.get(index, x) for index, x in enumerate(arrays)], strict=True))
    with pytest.raises(ModelInvalid, match=message) as caught:
        run(feeds)
    assert caught.value.code == "D0001"


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([np.zeros(3, np.int32), None, None, np.zeros((1, 3), np.int32)], "input 0 is of rank 1"),
        ([np.zeros((2, 3), np.int32), None, None, np.zeros((1, 2, 3), np.int32)], "ranks 2 and 3"),
        ([np.zeros((2, 3), np.int32), None, None, np.zeros((2, 3), np.int64)], "of int32 and int64 have no element"),
        ([np.zeros((2, 3), np.int32), None, None, np.zeros(4, np.int32), np.zeros((4, 1), np.int64), long(9)],
         "input 3 is of rank 1"),
    ],
)  # fmt: skip
def test_types_that_do_not_fit_are_refused(inputs: list[Array | None], message: str) -> None:
    with pytest.raises(ModelInvalid, match=message):
        make_node("SetOperation", inputs, {"set_operation": "union"}, domain=DOMAIN, outputs=3)


def test_other_operations_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "int32", (1, 2))
    g.add("DenseToDenseSetOperation", x, x, name="y", set_operation="xor", T=Type("int32"))
    with pytest.raises(AtcError, match="set_operation: xor"):
        g.converted(tmp_path, "y:1")
