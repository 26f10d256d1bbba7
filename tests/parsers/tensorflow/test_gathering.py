"""Gather and scatter ops against numpy."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError, ModelInvalid
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check, ints
from tests.parsers.tensorflow.graphs import Array, TfBuilder

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 4, 5, 2)).astype(np.float32)


def _gather(x: Array, indices: Array, axis: int, batch: int = 0) -> Case:
    front = x.shape[:batch]
    picked = [np.take(x[at], indices[at], axis - batch if axis >= 0 else axis) for at in np.ndindex(front)]
    expected = np.reshape(picked, (*front, *picked[0].shape))
    attrs: dict[str, object] = {"batch_dims": batch}
    return Case("GatherV2", [x, Either(indices), Const(ints(axis))], expected.astype(x.dtype), attrs)


GATHERS = [
    _gather(X, ints(0, 2, 1), 0),
    _gather(X, ints(3), 1),
    _gather(X, np.array([[4, 0], [1, 1], [2, 2]], np.int64), -2),
    _gather(X, np.zeros((0, 2), np.int32), 3),
    _gather(X.astype(np.float64), ints(1), 3),
    _gather(X, RNG.integers(0, 4, (3, 6)).astype(np.int32), 1, 1),
    _gather(X, RNG.integers(0, 2, (3, 2, 2)).astype(np.int32), 3, 1),
    _gather(X, RNG.integers(0, 5, (3, 4)), 2, 2),
    _gather(X, RNG.integers(0, 2, (3, 4, 3)), 3, 2),
    _gather(X, RNG.integers(0, 5, (3, 7)).astype(np.int32), 2, 1),
    Case(
        "GatherV2",
        [X, Either(ints(0, 1, 2).reshape(3, 1)), Const(ints(-2))],
        X[range(3), :, range(3)][:, :, None],
        {"batch_dims": -1},
    ),
    Case("Gather", [X > 0, Either(ints(2, 0))], X[[2, 0]] > 0),
    Case("GatherNd", [X, Either(np.array([[2, 3], [0, 0]]))], X[[2, 0], [3, 0]]),
    Case("GatherNd", [X, Either(ints(1, 2, 3, 0))], np.asarray(X[1, 2, 3, 0])),
    Case("GatherNd", [X.astype(np.int8), Either(np.array([[[1], [2]]], np.int32))], X.astype(np.int8)[[[1, 2]]]),
    Case("GatherNd", [X, Either(np.zeros((2, 0), np.int32))], np.stack([X, X])),
    Case(
        "GatherNd",
        [X, Either(np.array([[2, 3], [0, 4], [-1, 0]]))],
        np.stack([X[2, 3], 0 * X[0, 0], 0 * X[0, 0]]),
        {"bad_indices_policy": "IGNORE"},
    ),
]


def _scattered(indices: Array, updates: Array, shape: Array) -> Array:
    result = np.zeros(shape, updates.dtype)
    np.add.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


INDICES = np.array([[1], [0], [1]], np.int32)
ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)
PAIRS = np.array([[[1, 1], [0, 3]], [[1, 1], [1, 0]]])
BASE = RNG.standard_normal((2, 4)).astype(np.float32)
COUNTS = np.arange(8, dtype=np.int32).reshape(2, 4)


def _changed(op: str, base: Array, indices: Array, updates: Array, function: np.ufunc | None) -> Case:
    expected, at = base.copy(), tuple(np.moveaxis(indices, -1, 0))
    if function is None:
        expected[at] = updates
    else:
        function.at(expected, at, updates)
    return Case(op, [base, Either(indices), updates], expected)


SCATTERS = [
    Case("ScatterNd", [Either(INDICES), ROWS, Either(ints(2, 4))], _scattered),
    Case("ScatterNd", [Either(PAIRS), ROWS[:2, :2], Either(ints(2, 4, dtype="int64"))], _scattered),
    Case("ScatterNd", [Const(INDICES), COUNTS[0, :3], Either(ints(5).reshape(1))], _scattered),
    Case(
        "ScatterNd",
        [Const(INDICES), np.array([True, False, True]), Const(ints(2).reshape(1))],
        np.array([False, True]),
    ),
    Case(
        "ScatterNd",
        [Either(INDICES - 1), ROWS, Const(ints(2, 4))],
        np.stack([ROWS[0] + ROWS[2], 0 * ROWS[0]]),
        {"bad_indices_policy": "IGNORE"},
    ),
    _changed("TensorScatterUpdate", BASE, PAIRS[0], BASE[0, :2], None),
    _changed("TensorScatterAdd", BASE, INDICES, ROWS, np.add),
    _changed("TensorScatterSub", BASE, PAIRS, ROWS[:2, :2], np.subtract),
    _changed("TensorScatterSub", COUNTS, INDICES, COUNTS[[0, 0, 1]], np.subtract),
    _changed("TensorScatterMax", BASE, INDICES, ROWS - 5, np.maximum),
    _changed("TensorScatterMin", COUNTS, INDICES, 7 - COUNTS[[0, 0, 1]], np.minimum),
    _changed("TensorScatterAdd", COUNTS.astype(np.int64), INDICES, COUNTS[[0, 0, 1]].astype(np.int64), np.add),
    Case(
        "SparseToDense",
        [Either(np.array([[0, 1], [2, 0]])), Either(ints(3, 2, dtype="int64")), ROWS[0, 1:3], Const(np.float32(-1))],
        np.array([[-1, 1], [-1, -1], [2, -1]], np.float32),
    ),
    Case(
        "SparseToDense",
        [Either(ints(0, 3)), Const(ints(4).reshape(1)), Const(ints(7)), Const(ints(0))],
        ints(7, 0, 0, 7),
    ),
    *[
        Case(
            "SparseTensorDenseMatMul",
            [Either(np.array([[0, 1], [2, 3], [2, 0]])), np.float32([1, 2, -3]), Const([3, 4], "int64"), dense],
            np.float32([[[0, 1, 0, 0], [0, 0, 0, 0], [-3, 0, 0, 2]], [[0, 0, -3], [1, 0, 0], [0, 0, 0], [0, 0, 2]]][a])
            @ (dense.T if b else dense),
            {"adjoint_a": bool(a), "adjoint_b": bool(b)},
            tolerance=1e-5,
        )
        for a, b, dense in [
            (0, 0, np.arange(8, dtype=np.float32).reshape(4, 2)),
            (0, 1, np.arange(8, dtype=np.float32).reshape(2, 4)),
            (1, 0, np.arange(6, dtype=np.float32).reshape(3, 2)),
            (1, 1, np.arange(6, dtype=np.float32).reshape(2, 3)),
        ]
    ],
    Case("SparseToDense", [Either(ints(1)), Const(ints(3).reshape(1)), Const(ints(5)), Const(ints(9))], ints(9, 5, 9)),
]


def _one_hot(indices: Array, depth: int, on: object, off: object, axis: int, dtype: str) -> Case:
    hits = np.expand_dims(indices.astype(np.int64), axis) == np.arange(depth).reshape(
        [-1 if at == axis % (indices.ndim + 1) else 1 for at in range(indices.ndim + 1)]
    )
    values = np.array(on, dtype), np.array(off, dtype)
    operands = [Either(indices), Either(ints(depth)), Const(values[0]), Const(values[1])]
    return Case("OneHot", operands, np.where(hits, *values), {"axis": axis})


WITH_NEGATIVE = np.array([[0, 5, -1], [-4, 3, 2]], np.int32)
CHOSEN = np.where(RNG.standard_normal((3, 4, 2)) > 0, 1.5, 0).astype(np.float32)
CHOSEN[0, 0] = (np.nan, -0.0)


def _stitched(op: str, *pairs: tuple[Array, Array]) -> Case:
    size = max(int(indices.max(initial=-1)) for indices, _ in pairs) + 1
    expected = np.zeros((size, *pairs[0][1].shape[pairs[0][0].ndim :]), pairs[0][1].dtype)
    for indices, values in pairs:
        expected[indices.reshape(-1)] = values.reshape(-1, *expected.shape[1:])
    operands = [*[Either(indices) for indices, _ in pairs], *[values for _, values in pairs]]
    return Case(op, operands, expected, {"N": len(pairs)})


PARTS = np.array([[2, 0, 2], [0, 0, 5]], np.int32)
OTHERS = [
    _stitched("DynamicStitch", (ints(2, 0), X[0, :2]), (np.array([[1, 4], [3, 0]], np.int32), X[:2, :2])),
    _stitched("DynamicStitch", (ints(1), X[0, 0]), (np.zeros((0,), np.int32), X[0, :0]), (ints(0), X[1, 0])),
    _stitched("ParallelDynamicStitch", (ints(1, 0), COUNTS)),
    Case(
        "DynamicPartition", [X[:2, :3], Either(PARTS)], [X[:2, :3][k == PARTS] for k in range(3)], {"num_partitions": 3}
    ),
    Case("DynamicPartition", [COUNTS[0], ints(1, 0, 1, 1)], [ints(1).reshape(1), ints(0, 2, 3)], {"num_partitions": 2}),
    Case(
        "UnravelIndex",
        [Either(ints(22, 7, 0)), Either(ints(4, 3, 2))],
        np.array([[3, 1, 0], [2, 0, 0], [0, 1, 0]], np.int32),
    ),
    Case("UnravelIndex", [Either(ints(5, dtype="int64")), Const(ints(2, 3, dtype="int64"))], ints(1, 2, dtype="int64")),
    Case("InplaceUpdate", [X, Either(ints(2, 0)), -X[:2]], np.stack([-X[1], X[1], -X[0]])),
    Case("InplaceSub", [COUNTS, Const(ints(1).reshape(1)), COUNTS[:1]], np.stack([COUNTS[0], COUNTS[1] - COUNTS[0]])),
    _one_hot(WITH_NEGATIVE, 4, 1.5, -2, -1, "float32"),
    _one_hot(WITH_NEGATIVE, 4, 3, 1, 0, "int32"),
    _one_hot(WITH_NEGATIVE.astype(np.int64), 6, True, False, 1, "bool"),
    _one_hot(WITH_NEGATIVE.astype(np.int8), 200, 3, 1, 1, "int64"),
    _one_hot(np.array([0, 200], np.uint8), 201, 1, 0, -1, "int8"),
    _one_hot(ints(2), 3, 1, 0, -1, "float64"),
    _one_hot(ints(1, 0), 0, 1, 0, -1, "float32"),
    Case("InvertPermutation", [Either(ints(2, 0, 3, 1))], ints(1, 3, 0, 2)),
    Case("InvertPermutation", [Either(ints(1, 0, dtype="int64"))], ints(1, 0, dtype="int64")),
    Case("Where", [CHOSEN], np.argwhere(CHOSEN)),
    Case("Where", [CHOSEN > 1], np.argwhere(CHOSEN > 1)),
    Case("Where", [np.zeros(4, np.int32)], np.zeros((0, 1), np.int64)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cases", [GATHERS, SCATTERS, OTHERS], ids=["gathers", "scatters", "others"])
def test_results_agree_with_numpy(cases: list[Case], mode: str, tmp_path: Path) -> None:
    check(tmp_path, cases, mode)


def test_wrong_axes_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, indices = g.input("x", "float32", (2, 3)), g.const(ints(0, 1))
    g.add("GatherV2", x, indices, g.const(ints(2)), name="far", batch_dims=0)
    g.add("GatherV2", x, indices, g.const(ints(0)), name="behind", batch_dims=1)
    g.add("GatherV2", x, indices, g.input("axis", "int32", ()), name="computed", batch_dims=0)
    g.add("Where", g.input("scalar", "bool", ()), name="scalar_where")
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "far", "behind", "computed", "scalar_where")
    assert [problem.code for problem in caught.value.problems] == ["E13014", "E13014", "E10055", "E10055"]


def test_indices_without_dims_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, index = g.input("x", "float32", (4,)), g.const(np.int32(1))
    g.add("TensorScatterMin", x, index, g.const(np.float32(1)), name="y")
    with pytest.raises(ModelInvalid, match=r"EZ8888: .* has 0 dims, there is no axis -1") as caught:
        g.run(tmp_path, {}, "y")
    assert caught.value.where.node == "y"
