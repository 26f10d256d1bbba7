"""Reductions, matrix products and cumulative sums against numpy, by TensorFlow's definitions."""

from pathlib import Path

import numpy as np
import pytest

from atcpy.errors import AtcError
from tests.parsers.tensorflow.cases import Case, Const, check
from tests.parsers.tensorflow.graphs import TfBuilder, Type

RNG = np.random.default_rng(11)
X = (RNG.standard_normal((2, 3, 4)) * 3).astype(np.float32)
ALL_INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
NONE = Const([], "int32")
F = np.float32


def test_reductions(tmp_path: Path) -> None:
    functions = {"Sum": np.sum, "Mean": np.mean, "Max": np.max, "Min": np.min, "Prod": np.prod}
    cases = []
    for op, function in functions.items():
        cases += [
            Case(op, [X, Const([-1], "int32")], lambda x, _, f=function: f(x, 2)),
            Case(op, [X, Const(0, "int64")], lambda x, _, f=function: f(x, 0)),
            Case(
                op,
                [X, Const([0, -1], "int32")],
                lambda x, _, f=function: f(x, (0, 2), keepdims=True),
                {"keep_dims": True},
            ),
            Case(op, [X, Const([2, 0, 1], "int32")], lambda x, _, f=function: f(x), is_dynamic=True),
            Case(op, [X, NONE], X),
            Case(op, [F(3), NONE], F(3)),
            Case(op, [X, np.int32([])], X, {"keep_dims": True}),
            Case(op, [X, np.int32([1])], lambda x, _, f=function: f(x, 1, keepdims=True), {"keep_dims": True}),
            Case(op, [X, np.int32(-1)], lambda x, _, f=function: f(x, 2, keepdims=True), {"keep_dims": True}),
        ]
        for name in ALL_INTS:
            data = np.array([[100, 7, 3], [90, 2, 0]]).astype(name)
            if op == "Mean":
                signed = (data.astype(np.int64) - 60).astype(name) if name.startswith("int") else data
                total = signed.astype(np.int64).sum(1)
                cases.append(Case(op, [signed, Const([1], "int32")], (np.trunc(total / 3)).astype(name)))
            else:
                cases.append(
                    Case(
                        op,
                        [data, Const([1], "int32")],
                        function(data, 1, **({"dtype": name} if op in ("Sum", "Prod") else {})),
                    )
                )
    truth = X > 0
    cases += [
        Case("All", [truth, Const([1], "int32")], lambda x, _: x.all(1)),
        Case("Any", [truth, Const([1, 2], "int32")], lambda x, _: x.any((1, 2), keepdims=True), {"keep_dims": True}),
        *(Case(op, [truth, np.int32([])], truth, {"keep_dims": True}) for op in ("All", "Any")),
        Case("EuclideanNorm", [X, np.int32([])], np.abs(X), {"keep_dims": True}),
        Case("Mean", [np.int32([[7, -7]]), np.int32([])], np.int32([[7, -7]]), {"keep_dims": True}),
        Case("All", [truth[:0], Const([0], "int32")], np.ones((3, 4), bool)),
        Case("Any", [truth[:, :0], Const([1], "int32")], np.zeros((2, 4), bool)),
        Case("Any", [truth, NONE], truth),
        Case("Sum", [X[:0], Const([0], "int32")], np.zeros((3, 4), F)),
        Case("Prod", [X[:0], Const([0], "int32")], np.ones((3, 4), F)),
        Case("Max", [X[:0], Const([0], "int32")], np.full((3, 4), -np.inf, F)),
        Case("Mean", [X[:0], Const([0], "int32")], np.full((3, 4), np.nan, F)),
        Case("Mean", [np.int32([2**31 - 1] * 3), Const([0], "int32")], np.int32(2**31 - 1)),
        Case("Max", [F([[np.nan, 1], [2, 3]]), Const([1], "int32")], F([np.nan, 3])),
        Case("EuclideanNorm", [X, Const([1], "int32")], lambda x, _: np.sqrt((x * x).sum(1))),
        Case("EuclideanNorm", [X, NONE], np.abs(X)),
        Case("EuclideanNorm", [np.int32([[3, 4], [1, 1]]), Const([1], "int32")], np.int32([5, 1])),
        Case("L2Loss", [X], lambda x: np.asarray((x * x).sum() / 2, F)),
        Case("ArgMax", [X, Const(-1, "int32")], lambda x, _: x.argmax(2)),
        Case("ArgMin", [X, Const(0, "int64")], lambda x, _: x.argmin(0).astype("i4"), {"output_type": Type("int32")}),
        Case("ArgMax", [np.int8([[3, 7, 7], [0, -1, 0]]), Const(1, "int32")], np.array([1, 0])),
        Case("ArgMax", [np.array([[False, True, True]]), Const(1, "int32")], np.array([1])),
        Case("ArgMin", [np.uint8([[3, 7, 3], [9, 1, 1]]), Const(1, "int32")], np.array([0, 1]), is_dynamic=True),
    ]
    check(tmp_path, cases)


def test_computed_and_invalid_axes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AtcError, match="computed when the model runs") as caught:
        check(tmp_path, [Case("Sum", [X, np.int32([1])], X)])
    assert caught.value.code == "E10055"
    for axes in ([0, 0], [3]):
        with pytest.raises(AtcError) as caught:
            check(tmp_path, [Case("Sum", [X, Const(axes, "int32")], X)])
        assert caught.value.code == "E13014"


def test_cumulative_sums_and_products(tmp_path: Path) -> None:
    def log_sum_exp(x: np.ndarray, axis: int, *, exclusive: bool = False, reverse: bool = False) -> np.ndarray:
        x = np.moveaxis(x.astype(np.float64), axis, 0)[:: -1 if reverse else 1]
        full = np.logaddexp.accumulate(np.concatenate([np.full_like(x[:1], -np.inf), x]) if exclusive else x, 0)
        full = full[: len(x)][:: -1 if reverse else 1]
        return np.moveaxis(full, 0, axis).astype(F)

    def cumulate(function, start: int):
        def apply(x: np.ndarray, axis: object, *, exclusive: bool = False, reverse: bool = False) -> np.ndarray:
            x = np.moveaxis(x, int(np.asarray(axis)), 0)[:: -1 if reverse else 1]
            if exclusive:
                x = np.concatenate([np.full_like(x[:1], start), x[:-1]])
            full = function.accumulate(x, 0, dtype=x.dtype)[:: -1 if reverse else 1]
            return np.moveaxis(full, 0, int(np.asarray(axis)))

        return apply

    cases = []
    for op, function in {"Cumsum": cumulate(np.add, 0), "Cumprod": cumulate(np.multiply, 1)}.items():
        for attrs in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
            cases += [
                Case(op, [X, Const(axis, "int32")], function(X, axis, **attrs), attrs, tolerance=1e-5)
                for axis in (0, -1)
            ]
        cases += [
            Case(
                op,
                [np.array([100, 90, 7]).astype(name), Const(0, "int32")],
                function(np.array([100, 90, 7]).astype(name), 0),
            )
            for name in ALL_INTS
        ]
        cases += [
            Case(op, [X, np.int32(1)], lambda x, axis, f=function: f(x, axis), tolerance=1e-5),
            Case(op, [X, Const(1, "int64")], lambda x, axis, f=function: f(x, axis), is_dynamic=True, tolerance=1e-5),
            Case(op, [X[:, :0], Const(1, "int32")], X[:, :0]),
        ]
    far = F([[-np.inf, -np.inf, 1, 500], [500, 1, -600, np.inf], [1, 0, 2, 3]])
    for attrs in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
        cases += [
            Case("CumulativeLogsumexp", [X, Const(1, "int32")], log_sum_exp(X, 1, **attrs), attrs, tolerance=1e-5),
            Case(
                "CumulativeLogsumexp", [far, Const(-1, "int32")], log_sum_exp(far, -1, **attrs), attrs, tolerance=1e-5
            ),
        ]
    check(tmp_path, cases)


def test_matrix_products(tmp_path: Path) -> None:
    a, b = X[0], RNG.standard_normal((4, 5)).astype(F)
    batch = RNG.standard_normal((3, 2, 4, 5)).astype(F)
    ints = RNG.integers(-5, 5, (3, 4)).astype(np.int32)
    einsums = [
        ("ij,jk->ik", (a, b)),
        ("...ij,jk->...ik", (X, b)),
        ("bij,kj->bki", (X, b.T)),
        ("ii->i", (b[:, :4],)),
        ("ij->", (b,)),
        ("bhij,bhkj->bhik", (batch, batch)),
        ("i,j->ij", (a[0], b[0])),
        ("abc->cab", (X,)),
        ("...ij->...ji", (batch,)),
        ("bij,bij->b", (X, X)),
    ]
    cases = [
        Case(
            "Einsum",
            arrays,
            lambda *x, e=equation: np.asarray(np.einsum(e, *x)),
            {"equation": equation, "N": len(arrays)},
            tolerance=1e-5,
        )
        for equation, arrays in einsums
    ]
    close = {"tolerance": 1e-5}
    cases += [
        Case("MatMul", [a, b], np.matmul, **close),
        Case(
            "MatMul",
            [a.T.copy(), b.T.copy()],
            lambda x, y: x.T @ y.T,
            {"transpose_a": True, "transpose_b": True},
            **close,
        ),
        Case("MatMul", [a, b], np.matmul, is_dynamic=True, **close),
        Case("MatMul", [a[:0], b], np.zeros((0, 5), F)),
        Case("MatMul", [a[:, :0], b[:0]], np.zeros((3, 5), F)),
        Case("MatMul", [ints, ints], lambda x, y: x @ y.T, {"transpose_b": True}),
        Case("MatMul", [ints.astype("i8"), ints.astype("i8")], lambda x, y: x.T @ y, {"transpose_a": True}),
        Case("BatchMatMul", [batch, batch], lambda x, y: x @ np.swapaxes(y, 2, 3), {"adj_y": True}, **close),
        Case(
            "BatchMatMulV2",
            [batch, X[:, None, :, :].transpose(1, 0, 3, 2)[:, :, :, :]],
            lambda x, y: np.swapaxes(x, 2, 3) @ y,
            {"adj_x": True},
            **close,
        ),
        Case("BatchMatMulV2", [X, b], np.matmul, is_dynamic=True, **close),
        Case(
            "BatchMatMulV3",
            [ints.astype("i1"), ints.astype("i1")],
            lambda x, y: x.astype("i4") @ y.T.astype("i4"),
            {"adj_y": True, "Tout": Type("int32")},
        ),
        Case("Cross", [X[:, :, :3], X[:, :, 1:]], lambda x, y: np.cross(x, y), **close),
        Case("MatrixDeterminant", [X[:, :, :3]], lambda x: np.linalg.det(x).astype(F), **close),
    ]
    check(tmp_path, cases)


def test_half_precision(tmp_path: Path) -> None:
    half = X.astype(np.float16)
    check(
        tmp_path,
        [
            Case("Sum", [half, Const([1], "int32")], lambda x, _: x.astype("f").sum(1).astype(np.float16)),
            Case("Cumsum", [half, Const(1, "int32")], lambda x, _: x.astype("f").cumsum(1).astype(np.float16)),
            Case("Log1p", [np.abs(half)], lambda x: np.log1p(x)),
            Case("Expm1", [half], lambda x: np.expm1(x)),
            Case("FloorMod", [half, np.float16(1.5)], np.mod, tolerance=1e-2),
            Case("Max", [half, Const([0], "int32")], half.max(0)),
            Case("SegmentMax", [half, np.int32([0, 1])], half),
            Case("Softmax", [half], lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True), tolerance=5e-3),
        ],
    )


def test_values_of_unknown_rank(tmp_path: Path) -> None:
    g = TfBuilder()
    x, last = g.input("x", "float32", None), g.const(np.int32(-1))
    outputs = {
        g.add("Sum", x, last, keep_dims=True): X.sum(-1, keepdims=True),
        g.add("Max", x, last): X.max(-1),
        g.add("ArgMin", x, last): X.argmin(-1),
        g.add("Cumsum", x, last): X.cumsum(-1),
        g.add("Equal", x, g.const(X[0, 0]), incompatible_shape_error=False): X[0, 0] == X,
        g.add("Softmax", x): np.exp(X) / np.exp(X).sum(-1, keepdims=True),
    }
    every = g.add("Range", g.const(np.int32(0)), g.add("Rank", x), g.const(np.int32(1)))
    outputs |= {g.add("Sum", x, every): X.sum(), g.add("Max", x, every, keep_dims=True): X.max(keepdims=True)}
    for result, expected in zip(g.run(tmp_path, {"x": X}, *outputs), outputs.values(), strict=True):
        assert result.shape == np.shape(expected)
        np.testing.assert_allclose(result, expected, 1e-5)


def test_an_axis_computed_from_constants(tmp_path: Path) -> None:
    """As in tf.linspace."""
    g = TfBuilder()
    x = g.input("x", "float32", (None, 4))
    rank = g.add("AddV2", g.add("Rank", x), g.const(np.int32(-1)))
    axis = g.add("SelectV2", g.const(np.array(False)), g.const(np.int32(0)), rank)
    third = g.add("Cast", g.add("Sqrt", g.const(np.float32(4))), DstT=Type("int32"))
    y, z = g.run(tmp_path, {"x": X[0]}, g.add("ConcatV2", x, x, axis), g.add("ExpandDims", x, third))
    np.testing.assert_array_equal(y, np.concatenate([X[0], X[0]], 1))
    np.testing.assert_array_equal(z, X[0][..., None])


def test_complex_matrices_are_refused(tmp_path: Path) -> None:
    g = TfBuilder()
    z = g.input("z", "complex64", (2, 2))
    g.add("BatchMatMulV2", z, z, name="y", adj_x=True)
    with pytest.raises(AtcError, match="complex"):
        g.run(tmp_path, {}, "y")
