"""Slices, splits and reversals against numpy."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check, ints
from tests.parsers.tensorflow.graphs import Array, TfBuilder

X = np.arange(2 * 5 * 7, dtype=np.float32).reshape(2, 5, 7)
MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
NEW = np.newaxis


def _strided(x: Array, *key: object, dtype: str = "int32") -> Case:
    """The StridedSlice of Python's `x[key]`."""
    bounds: list[list[int]] = [[], [], []]
    masks = dict.fromkeys(MASKS, 0)
    for index, item in enumerate(key):
        triple = (0, 0, 1)
        if item is Ellipsis:
            masks["ellipsis_mask"] |= 1 << index
        elif item is None:
            masks["new_axis_mask"] |= 1 << index
        elif isinstance(item, int):
            masks["shrink_axis_mask"] |= 1 << index
            triple = (item, item + 1, 1)
        else:
            assert isinstance(item, slice)
            masks["begin_mask"] |= (item.start is None) << index
            masks["end_mask"] |= (item.stop is None) << index
            triple = (item.start or 0, item.stop or 0, item.step or 1)
        for numbers, number in zip(bounds, triple, strict=True):
            numbers.append(number)
    operands = [Either(np.array(numbers, dtype)) for numbers in bounds]
    return Case("StridedSlice", [x, *operands], np.asarray(x[tuple(key)]), dict(masks))


STRIDED = [
    _strided(X),
    _strided(X, 1),
    _strided(X, -1),
    _strided(X, slice(None), 2, -3),
    _strided(X, 0, -1, 6),
    _strided(X, slice(0, 1), slice(1, 4), slice(2, -1), dtype="int64"),
    _strided(X, slice(None), slice(None, None, -1)),
    _strided(X, ..., slice(5, 1, -2)),
    _strided(X, ..., slice(-1, -100, -3)),
    _strided(X, ..., slice(-100, 100, 3)),
    _strided(X, ..., slice(-100, None, -1)),  # a start before the first element: empty
    _strided(X, ..., slice(None, -100, -2)),
    _strided(X, ..., slice(100, None, -2)),
    _strided(X, slice(1, 1)),
    _strided(X, slice(None), slice(3, 1)),
    _strided(X, slice(None), slice(None), slice(None, None, 2)),
    _strided(X, NEW, ..., NEW),
    _strided(X, ..., 3, NEW),
    _strided(X, 1, NEW, slice(1, -1), NEW, ...),
    _strided(X, NEW, slice(None), ..., NEW, slice(1, None, 3), NEW),
    _strided(X, slice(None), NEW, 2),
    _strided(X[:, :0], slice(None), slice(None, None, -1), 1),
    _strided(X > 4, ..., slice(None, None, -2)),
    _strided(X.astype(np.int8), 0, ..., 1),
    _strided(X.astype(np.int64).reshape(-1), slice(3, 60, 7)),
    # a bound with its mask bit set is ignored, also for shrunk dims
    Case(
        "StridedSlice",
        [X, Either(ints(1, 3, 2)), Either(ints(9, 0, 4)), Either(ints(1, 1, 1))],
        X[:, 3, 2:],
        {"begin_mask": 3, "end_mask": 7, "shrink_axis_mask": 2},
    ),
    # of several mask bits, the ellipsis takes precedence, then the new axis, then the shrunk one
    Case(
        "StridedSlice",
        [X, Either(ints(1, 3, 2)), Either(ints(9, 0, 4)), Either(ints(1, 1, 1))],
        X[..., NEW, 2],
        {"ellipsis_mask": 1, "new_axis_mask": 3, "shrink_axis_mask": 7},
    ),
]


def _updated(x: Array, value: Array, *key: object) -> Case:
    """The TensorStridedSliceUpdate of Python's `x[key] = value`."""
    taken, expected = _strided(x, *key), x.copy()
    expected[tuple(key)] = value  # type: ignore[index]
    return Case("TensorStridedSliceUpdate", [*taken.inputs, value], expected, taken.attrs)


def _slice(x: Array, begin: list[int], size: list[int], dtype: str = "int32") -> Case:
    key = tuple(slice(a, None if n == -1 else a + n) for a, n in zip(begin, size, strict=True))
    return Case("Slice", [x, Either(np.array(begin, dtype)), Either(np.array(size, dtype))], x[key])


def _rolled(shift: object, axis: object) -> Case:
    def as_tuple(item: object) -> object:
        return tuple(item) if isinstance(item, list) else item

    expected = np.roll(X, as_tuple(shift), as_tuple(axis))  # type: ignore[arg-type]
    return Case("Roll", [X, Either(np.array(shift, np.int32)), Const(np.array(axis, np.int32))], expected)


def _reversed(x: Array, lengths: list[int], seq_dim: int, batch_dim: int, dtype: str = "int64") -> Case:
    expected = x.copy()
    for index, length in enumerate(lengths):
        part = np.moveaxis(expected, (batch_dim, seq_dim), (0, 1))[index]
        part[:length] = part[:length][::-1].copy()
    attrs: dict[str, object] = {"seq_dim": seq_dim, "batch_dim": batch_dim}
    return Case("ReverseSequence", [x, Either(np.array(lengths, dtype))], expected, attrs)


OTHERS = [
    _updated(X, -X[:, 1:4, ::-2], slice(None), slice(1, 4), slice(None, None, -2)),
    _updated(X, X[0, 0] * 2, 1, ..., NEW, slice(None)),
    _updated(X, X[0, :3, 0], slice(None), slice(2, 5), 3),
    _slice(X, [0, 1, 2], [2, -1, 3]),
    _slice(X, [0, 0, 0], [-1, -1, -1]),
    _slice(X, [1, 4, 6], [1, 1, 1], "int64"),
    _slice(X, [1, 5, 0], [-1, -1, 7]),
    _slice(X, [0, 2, 0], [2, 0, 7]),
    Case("Split", [Const(ints(2)), X[..., :6]], np.split(X[..., :6], 3, 2), {"num_split": 3}),
    Case("Split", [Const(ints(-3)), X], np.split(X, 2, 0), {"num_split": 2}),
    Case("Split", [Const(ints(1)), X], [X], {"num_split": 1}),
    Case("SplitV", [X, Either(ints(1, -1, 3)), Const(ints(1))], np.split(X, [1, 2], 1), {"num_split": 3}),
    Case("SplitV", [X, Either(ints(0, 7, dtype="int64")), Const(ints(-1))], [X[..., :0], X], {"num_split": 2}),
    Case("SplitV", [X, Either(ints(-1, 2)), Const(ints(-1))], np.split(X, [5], 2), {"num_split": 2}),
    Case("Unpack", [X], list(X), {"num": 2}),
    Case("Unpack", [X], [X[..., k] for k in range(7)], {"num": 7, "axis": -1}),
    Case("Unpack", [X[:, :1]], [X[:, 0]], {"num": 1, "axis": 1}),
    Case("ReverseV2", [X, Const(ints(0, -1))], X[::-1, :, ::-1]),
    Case("ReverseV2", [X, Const(np.zeros(0, np.int32))], X),
    Case("Reverse", [X, Const(np.array([False, True, False]))], X[:, ::-1]),
    _reversed(X, [3, 5], 1, 0),
    _reversed(X, [1, 0, 7, 2, 6], 2, 1, "int32"),
    _reversed(X, [2, 0, 1, 2, 2, 1, 0], 0, 2),
    _reversed(X.astype(np.int16), [4, 1], 2, 0),
    _rolled(2, 1),
    _rolled([1, -3, 16], [0, 2, 2]),
    _rolled(-8, -1),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cases", [STRIDED, OTHERS], ids=["strided", "others"])
def test_results_agree_with_numpy(cases: list[Case], mode: str, tmp_path: Path) -> None:
    check(tmp_path, cases, mode)


@pytest.mark.parametrize(
    ("attrs", "begin", "end", "strides", "what"),
    [
        ({"ellipsis_mask": 3}, [0, 0], [0, 0], [1, 1], "more than one bit"),
        ({}, [0], [1], [0], "strides has a 0"),
        ({"shrink_axis_mask": 1}, [2], [3], [1], "index 2 of a dim of 2"),
        ({"shrink_axis_mask": 1}, [1], [3], [-1], "a stride of -1 where a dim is dropped"),
        ({}, [0], [1, 2], [1], "1, 2 and 1 numbers"),
        ({}, [0] * 4, [1] * 4, [1] * 4, "parts of 4 dims, of 3"),
    ],
)
def test_invalid_slices_are_refused(
    attrs: dict[str, object], begin: list[int], end: list[int], strides: list[int], what: str, tmp_path: Path
) -> None:
    g = TfBuilder()
    bounds = [g.const(np.array(numbers, np.int32)) for numbers in (begin, end, strides)]
    g.add("StridedSlice", g.input("x", "float32", X.shape), *bounds, name="y", **attrs)
    with pytest.raises(AtcError, match=what):
        g.run(tmp_path, {}, "y")


@pytest.mark.parametrize("op", ["Split", "Unpack"])
def test_too_many_split_parts_are_refused(op: str, tmp_path: Path) -> None:
    g = TfBuilder()
    x = g.input("x", "float32", (None, 3))
    inputs = [g.const(ints(0)), x] if op == "Split" else [x]
    g.add(op, *inputs, name="y", num_split=2**31 - 1, num=2**31 - 1, axis=0)
    with pytest.raises(AtcError, match="2147483647 parts"):
        g.run(tmp_path, {}, "y")


def test_slice_bounds_of_unknown_length_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    bounds = [g.input(name, "int32", (None,)) for name in "abc"]
    g.add("StridedSlice", g.input("x", "float32", X.shape), *bounds, name="y")
    with pytest.raises(AtcError, match="how many numbers input 1"):
        g.run(tmp_path, {}, "y")


def test_indexing_by_a_loop_counter_becomes_a_gather(tmp_path: Path) -> None:
    """The StridedSlice of `x[:, i]`: elements packed by Pack are tracked individually."""
    g = TfBuilder()
    i, zero = g.input("i", "int32", ()), g.const(ints(0))
    begin = g.add("Pack", zero, i, axis=0)
    end = g.add("Pack", zero, g.add("Add", i, g.const(ints(1))), axis=0)
    attrs = {"begin_mask": 1, "end_mask": 1, "shrink_axis_mask": 2}
    g.add("StridedSlice", g.input("x", "float32", X.shape), begin, end, g.const(ints(1, 1)), name="y", **attrs)
    (y,) = g.run(tmp_path, {"x": X, "i": ints(3)}, "y")
    np.testing.assert_array_equal(y, X[:, 3])
