"""Shape ops and ops that rearrange elements, against numpy."""

from pathlib import Path

import numpy as np
import pytest

import atcpy
from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import MODES, Case, Const, Either, check, ints
from tests.parsers.tensorflow.graphs import TfBuilder, Type, shape_proto

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
EMPTY = np.zeros((0, 3), np.float32)
BORDERS = np.array([[1, 0], [2, 1], [0, 3]], np.int32)
PERM = ints(2, 0, 1)
SHAPES = [
    Case("Reshape", [X, Either(ints(4, -1, dtype="int64"))], X.reshape(4, 6)),
    Case("Reshape", [EMPTY, Either(ints(3, 0, 7))], EMPTY.reshape(3, 0, 7)),
    Case("Reshape", [X[:1, :1, :1], Either(np.zeros(0, np.int32))], np.array(0, np.float32)),
    Case("EnsureShape", [X], X, {"shape": shape_proto((2, None, 4))}),
    Case("EnsureShape", [EMPTY], EMPTY, {"shape": shape_proto(None)}),
    Case("Squeeze", [X[:1, :, :1]], X[0, :, :1], {"squeeze_dims": [-3]}),
    Case("Squeeze", [X[:1, :, :1]], X[0, :, 0], modes=("known",)),
    Case("ExpandDims", [X, Const(ints(-2))], X[:, :, None]),
    Case("ExpandDims", [X, Const(ints(0))], X[None]),
    Case("Shape", [X], ints(2, 3, 4), {"out_type": Type("int32")}),
    Case(
        "ShapeN",
        [X, EMPTY],
        [ints(2, 3, 4, dtype="int64"), ints(0, 3, dtype="int64")],
        {"out_type": Type("int64"), "N": 2},
    ),
    Case("Size", [X], ints(24), {"out_type": Type("int32")}),
    Case("Size", [EMPTY], ints(0, dtype="int64"), {"out_type": Type("int64")}),
    Case("Rank", [X], ints(3)),
    Case("BroadcastArgs", [Either(ints(2, 1, 4)), Either(ints(3, 1))], ints(2, 3, 4)),
    Case(
        "BroadcastArgs",
        [Either(ints(5, 0, dtype="int64")), Either(ints(1, dtype="int64").reshape(1))],
        ints(5, 0, dtype="int64"),
    ),
    Case("BroadcastTo", [X[:, :1], Either(ints(5, 2, 3, 4))], np.broadcast_to(X[:, :1], (5, 2, 3, 4))),
    Case("BroadcastTo", [X[:1, 0] > 5, Either(ints(0, 4, dtype="int64"))], np.zeros((0, 4), bool)),
]
TO_FIRST = {"src_format": "NHWC", "dst_format": "NCHW"}
ORDERS = [
    Case("DataFormatDimMap", [Either(ints(1, -1, 0, 2))], ints(2, 1, 0, 3), TO_FIRST),
    Case("DataFormatVecPermute", [Either(ints(7, 8, 9, 3))], ints(7, 3, 8, 9), TO_FIRST),
    Case("DataFormatVecPermute", [X[0, :2]], X[0, :2], TO_FIRST, modes=("known",)),
    Case(
        "DataFormatVecPermute",
        [Either(X.reshape(-1)[:8].reshape(4, 2))],
        X.reshape(-1)[[0, 1, 6, 7, 2, 3, 4, 5]].reshape(4, 2),
        TO_FIRST,
    ),
    Case("Transpose", [X, Either(PERM)], X.transpose(PERM)),
    Case("Transpose", [EMPTY, Either(ints(1, 0, dtype="int64"))], EMPTY.T),
    Case("Transpose", [X[0, 0], Either(np.zeros(1, np.int32))], X[0, 0]),
    Case("ConjugateTranspose", [X.astype(np.int32), Const(PERM)], X.transpose(PERM).astype(np.int32)),
    Case("Pack", [X, -X], np.stack([X, -X], 2), {"axis": -2, "N": 2}),
    Case("Pack", [ints(3), Const(ints(4)), ints(5)], ints(3, 4, 5), {"axis": 0, "N": 3}),
    Case("Pack", [EMPTY], EMPTY[None], {"axis": 0, "N": 1}),
    Case("ConcatV2", [X, X[:, :1], X[:, :0], Const(ints(-2))], np.concatenate([X, X[:, :1]], 1), {"N": 3}),
    Case("Concat", [Const(ints(1)), X, X], np.concatenate([X, X], 1), {"N": 2}),
    Case("Tile", [X, Either(ints(1, 2, 3))], np.tile(X, (1, 2, 3))),
    Case("Tile", [X > 3, Either(ints(2, 0, 1, dtype="int64"))], np.zeros((4, 0, 4), bool)),
    Case("IdentityN", [X, EMPTY], [X, EMPTY]),
    Case("Bitcast", [X], X.view(np.int32), {"type": Type("int32")}),
    Case("DeepCopy", [X], X),
]
BORDERED = [
    Case("Pad", [X, Either(BORDERS)], np.pad(X, BORDERS)),
    Case("Pad", [EMPTY, Either(BORDERS[:2].astype(np.int64))], np.pad(EMPTY, BORDERS[:2])),
    Case("PadV2", [X, Either(BORDERS), Const(np.float32(-np.inf))], np.pad(X, BORDERS, constant_values=-np.inf)),
    Case(
        "PadV2",
        [X.astype(np.int16), Const(BORDERS), Const(np.int16(7))],
        np.pad(X.astype(np.int16), BORDERS, constant_values=7),
    ),
    Case("Pad", [X > 4, Const(BORDERS)], np.pad(X > 4, BORDERS)),
    Case("MirrorPad", [X, Either(BORDERS)], np.pad(X, BORDERS, "reflect"), {"mode": "REFLECT"}),
    Case("MirrorPad", [X, Either(BORDERS)], np.pad(X, BORDERS, "symmetric"), {"mode": "SYMMETRIC"}),
    Case(
        "MirrorPad",
        [X, Either(BORDERS * 0 + [2, 1])],
        np.pad(X, BORDERS * 0 + [2, 1], "symmetric"),
        {"mode": "SYMMETRIC"},
    ),
]


def _added(start: float, delta: float, count: int, dtype: str) -> np.ndarray:
    numbers = [np.dtype(dtype).type(start)]
    while len(numbers) < count:
        numbers.append(numbers[-1] + np.dtype(dtype).type(delta))
    return np.array(numbers[:count], dtype)


def _range(start: float, limit: float, delta: float, count: int, dtype: str) -> Case:
    bounds = [Either(np.array(bound, dtype)) for bound in (start, limit, delta)]
    return Case("Range", bounds, _added(start, delta, count, dtype))


def _spaced(start: float, stop: float, count: int, dtype: str = "float32") -> Case:
    bounds = [Either(np.array(start, dtype)), Either(np.array(stop, dtype)), Either(ints(count))]
    return Case("LinSpace", bounds, np.linspace(start, stop, count, dtype=dtype))


NUMBERS = [
    Case("Fill", [Either(ints(2, 3)), Const(np.float32(2.5))], np.full((2, 3), 2.5, np.float32)),
    Case("Fill", [Either(ints(0, 3, dtype="int64")), ints(4)], np.zeros((0, 3), np.int32)),
    Case("Fill", [Const(np.zeros(0, np.int32)), np.array(True)], np.array(True)),
    Case("Empty", [Either(ints(2, 2))], np.zeros((2, 2), np.float32), {"dtype": Type("float32"), "init": True}),
    _range(2, 11, 3, 3, "int32"),
    _range(5, -6, -2, 6, "int64"),
    _range(3, 3, 1, 0, "int32"),
    _range(0, 1, 0.25, 4, "float32"),
    _range(0, 1.1, 0.25, 5, "float32"),
    _range(1, -1, -0.5, 4, "float64"),
    _range(4, 9, 2, 3, "int16"),
    _spaced(1, 4, 7),
    _spaced(-3, 0.7, 1),
    _spaced(5, -5, 11, "float64"),
    _spaced(0.1, 0.7, 13),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cases", [SHAPES, ORDERS, BORDERED, NUMBERS], ids=["shapes", "orders", "bordered", "numbers"])
def test_results_agree_with_numpy(cases: list[Case], mode: str, tmp_path: Path) -> None:
    check(tmp_path, cases, mode)


def test_a_constant_float_range_accumulates_as_in_tensorflow(tmp_path: Path) -> None:
    check(tmp_path, [_range(0, 1000, 0.1, 10000, "float32")], "known")


def test_ensure_shape_makes_the_shape_static(tmp_path: Path) -> None:
    g = TfBuilder()
    g.add("EnsureShape", g.input("x", "float32", (None, None, 4)), name="y", shape=shape_proto((None, 3, 4)))
    g.run(tmp_path, {"x": X}, "y")
    (output,) = atcpy.InferenceSession(str(tmp_path / "model.om")).get_outputs()
    assert list(output.shape)[1:] == [3, 4]


def test_unsupported_variants_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    x, shape = g.input("x", "float32", (2, 3)), g.input("shape", "int32", (None,))
    g.add("Bitcast", x, name="wide", type=Type("int64"))
    g.add("BroadcastArgs", shape, shape, name="ranks")
    g.add("ExpandDims", x, g.const(ints(0, 1)), name="axes")
    g.add("Transpose", x, g.const(ints(0, 0)), name="twice")
    g.add("Pad", x, g.const(np.array([[0, 0], [0, -1]], np.int32)), name="negative")
    g.add("MirrorPad", x, g.const(np.array([[0, 3], [0, 0]], np.int32)), name="far", mode="SYMMETRIC")
    g.add("EnsureShape", x, name="rank", shape=shape_proto((2, 3, 1)))
    with pytest.raises(AtcError) as caught:
        g.run(tmp_path, {}, "wide", "ranks", "axes", "twice", "negative", "far", "rank")
    assert [problem.code for problem in caught.value.problems] == ["E10055"] * 2 + ["E13014"] * 5
